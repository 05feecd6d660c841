// Faults of members of a group, by their role, their place in a collective, a pass or a step, and the fault. The others
// get one error that names them, in time; no weights of theirs have changed; and the remaining members continue
// together.
#include "agent/state/agent.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/scope.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <stdio.h>
#include <string.h>

enum { MEMBERS = 5, ROOT = 2, LARGE = 60000, SMALL = 8, SEEDS = 360, T_DEAD_S = 8, AWAY_S = 40 };

typedef enum place {
    BEFORE_ENTERING,  // the others have
    HAS_ENTERED,      // the others have not
    IN_THE_DATA,
    OWN_PART_DONE,  // of a broadcast: what it sends has been sent, or it has its result
    BETWEEN_BUCKETS,
    REDUCING,  // it has contributed all its gradients, and the others have not
    SHARDED_STEP,
    AGREES,
    REFORMS,
    PLACES
} place;

typedef enum fault {
    KILLED,
    STOPPED,
    PARTED,
    FENCED,  // it receives from the others, and they do not receive from it
    CANCELS,
    DEADLINE,
    SCOPE_FAILS,
    NO_MEMORY,
    FAULTS
} fault;

// The leader, the root of broadcasts, two other members, which have a slice of large values, and all but one.
static const unsigned victims_of[] = { 1 << 0, 1 << ROOT, 1 << 1, 1 << 3, 0x1e };
enum { ALL_BUT_ONE = 4, WHO = 5 };

static struct scene {
    uint64_t seed;
    sim *sim;
    place place;
    fault fault;
    unsigned victims;  // as bits
    int64_t hit_ns, delay_ns;
    char abort[GW_ERROR_TEXT_MAX];  // the text of the abort
    uint64_t agreed;                // 0: nothing yet
    uint64_t continued, failed;     // members, as bits
} now;

static bool is_victim(int rank) {
    return now.victims >> rank & 1;
}

static bool is_loss(void) {
    return now.fault <= FENCED;
}

// One allocation of the thread of the victim's program, which handles messages while it waits.
static _Thread_local long allocations = -1;

static int fail_when_due(size_t size) {
    (void)size;
    if (allocations < 0) return 0;
    long first = (long)(now.delay_ns / 1000) % 100;
    return allocations++ == first;
}

// ---- Faults -------------------------------------------------------------------------------------

static void end_absence(sim *s, void *arg) {
    (void)arg;
    for (int i = 0; i < MEMBERS; i++)
        if (is_victim(i) && sim_is_stopped(s, i)) sim_continue(s, i);
    sim_heal(s);
}

static void hit(sim *s, void *arg) {
    (void)arg;
    now.hit_ns = sim_now_ns(s);
    for (int i = 0; i < MEMBERS; i++) {
        if (!is_victim(i)) continue;
        if (now.fault == KILLED) sim_crash(s, i);
        if (now.fault == STOPPED) sim_stop(s, i);
        for (int k = 0; k < MEMBERS && (now.fault == PARTED || now.fault == FENCED); k++)
            if (k != i) sim_partition(s, i, k, true, now.fault == PARTED);
    }
    if (now.fault != KILLED)
        assert_true(sim_at(s, now.hit_ns + AWAY_S * SIM_SECOND, end_absence, NULL));
}

// Called by each victim at its place; the first call makes the fault occur, after |delay_ns|.
static void arrive(gw_scope *s) {
    if (now.fault == NO_MEMORY && allocations < 0) allocations = 0;
    if (now.hit_ns) return;
    now.hit_ns = env_now_ns(s->env);
    if (is_loss()) assert_true(sim_at(now.sim, sim_now_ns(now.sim) + now.delay_ns, hit, NULL));
}

typedef struct participant {
    int rank;
    gw_group *group;
    gw_module *model;
    gw_tensor *weight, *before;
    gw_optimizer *opt;
} participant;

// ---- Checks -------------------------------------------------------------------------------------

static bool names_a_victim(const char *text) {
    for (int i = 0; i < MEMBERS; i++) {
        const char name[] = { 'w', (char)('0' + i), '\0' };
        if (is_victim(i) && strstr(text, name)) return true;
    }
    return false;
}

// All but one are lost: the last one may be fenced itself.
static bool is_alone(void) {
    return now.victims == victims_of[ALL_BUT_ONE];
}

static void check_loss(const participant *p, const gw_error *e, int64_t took_ns) {
    bool named = e->status == GW_DISCONNECTED && names_a_victim(e->text);
    if (is_victim(p->rank) || is_alone())
        named = named || e->status == GW_FENCED || e->status == GW_DISCONNECTED;
    // The deadline of a stopped member has passed when it continues.
    if (is_victim(p->rank) && now.fault == STOPPED) named = named || e->status == GW_TIMEOUT;
    if (!named) fail_msg("w%d, place %d, fault %d: %s", p->rank, now.place, now.fault, e->text);
    if (!is_victim(p->rank) && !is_alone()) assert_true(took_ns < T_DEAD_S * SIM_SECOND);
}

// ---- Actions of members -------------------------------------------------------------------------

// The bucket of the other leaf has set out by then.
static gw_tensor *on_gradient(gw_scope *s, gw_tensor *grad, void *context) {
    (void)grad;
    participant *p = context;
    if (now.place != BETWEEN_BUCKETS || !is_victim(p->rank)) return NULL;
    arrive(s);
    if (now.fault == SCOPE_FAILS) gw_fail(s, GW_INVALID, "this is wrong on purpose");
    return NULL;
}

static void wait_or_cancel(gw_scope *s, const participant *p, gw_future *f) {
    if (is_victim(p->rank)) arrive(s);
    if (is_victim(p->rank) && now.fault == CANCELS) gw_cancel(s, f);
    gw_tensor *sum = gw_tensor_of(s, gw_wait(s, f));
    double most = gw_item(s, gw_max(s, sum)), least = gw_item(s, gw_min(s, sum));
    double expected = now.place == OWN_PART_DONE ? 1 : MEMBERS;
    if (gw_ok(s)) assert_true(most == expected && least == expected);
}

static void reduce(gw_scope *s, const participant *p, int64_t numbers) {
    wait_or_cancel(s, p, gw_all_reduce_async(s, p->group, gw_ones(s, GW_F32, numbers), GW_SUM));
}

static void walk(gw_scope *s, participant *p) {
    gw_tensor *x = gw_module_call(s, p->model, gw_ones(s, GW_F32, 1, 4));
    gw_register_hook(s, p->weight, on_gradient, p);
    if (is_victim(p->rank) && now.place == REDUCING) arrive(s);
    gw_backward(s, gw_sum(s, x));
}

static void step(gw_scope *s, participant *p) {
    gw_set_grad(s, p->weight, gw_ones(s, GW_F32, 4, 4));
    if (is_victim(p->rank)) arrive(s);
    gw_optimizer_step(s, p->opt);
}

// The same for all that live.
static void agree(gw_scope *s, const participant *p) {
    uint64_t own = UINT64_C(1) << p->rank;
    if (is_victim(p->rank)) arrive(s);
    gw_agreement a = gw_group_agree(s, p->group, ~own);
    if (!gw_ok(s) || is_victim(p->rank) || sim_is_ghost(s->env)) return;
    if (now.agreed && now.agreed != a.flags) fail_msg("w%d has agreed on something else", p->rank);
    now.agreed = a.flags;
    assert_true(!(a.flags & own));
}

// The survivors re-form the group until one generation has all of them, and no others.
static void reform(gw_scope *root, gw_scope *s, participant *p) {
    if (is_victim(p->rank)) arrive(s);
    gw_group *next = gw_group_reform(s, p->group);
    for (int tries = 0; is_loss() && !is_victim(p->rank) && tries < MEMBERS; tries++) {
        gw_barrier(s, next);
        gw_barrier(s, next);
        if (gw_ok(s) || is_alone()) break;
        check_loss(p, gw_scope_error(s), 0);
        gw_scope_clear(s);
        next = gw_group_reform(s, next);
    }
    if (gw_ok(s)) p->group = gw_keep(root, next);
}

static void act(gw_scope *root, gw_scope *s, participant *p) {
    bool victim = is_victim(p->rank), together = now.place == AGREES || now.place == REFORMS;
    bool is_late = victim == (now.place == BEFORE_ENTERING) && !(together && is_loss());
    if (victim && now.fault == DEADLINE) gw_scope_set_timeout(s, 100);
    if (victim && now.place == BEFORE_ENTERING) arrive(s);
    if (is_late && now.place != IN_THE_DATA && now.place != BETWEEN_BUCKETS)
        cluster_pause_ms(s, is_loss() ? 5 : 1000);
    if (victim && now.fault == SCOPE_FAILS && now.place != BETWEEN_BUCKETS)
        gw_fail(s, GW_INVALID, "this is wrong on purpose");
    switch (now.place) {
    case BETWEEN_BUCKETS:
    case REDUCING: walk(s, p); break;
    case SHARDED_STEP: step(s, p); break;
    case AGREES: agree(s, p); break;
    case REFORMS: reform(root, s, p); break;
    case OWN_PART_DONE:
        wait_or_cancel(s, p,
                       gw_broadcast_async(
                           s, p->group, p->rank == ROOT ? gw_ones(s, GW_F32, LARGE) : NULL, ROOT));
        break;
    default: reduce(s, p, now.place == IN_THE_DATA ? LARGE : SMALL);
    }
}

// The text of an abort is the same for all members.
static void check_abort(const participant *p, const gw_error *e) {
    static const gw_status expected[] = { [CANCELS] = GW_CANCELLED,
                                          [DEADLINE] = GW_TIMEOUT,
                                          [SCOPE_FAILS] = GW_INVALID,
                                          [NO_MEMORY] = GW_NO_MEMORY };
    const char *at = strstr(e->text, "group \"");
    // If a member has no memory to begin a pass, the others get an error when it is late, or leaves.
    bool is_pass = now.place == REDUCING || now.place == BETWEEN_BUCKETS;
    if (now.fault == NO_MEMORY && is_pass)
        if (e->status == GW_TIMEOUT || e->status == GW_DISCONNECTED) return;
    if (e->status != expected[now.fault])
        fail_msg("w%d, place %d, fault %d: %s", p->rank, now.place, now.fault, e->text);
    if (!at || !(strstr(at, ": collective ") || strstr(at, ": agreement "))) return;  // its own
    if (!now.abort[0]) snprintf(now.abort, sizeof now.abort, "%s", at);
    assert_string_equal(now.abort, at);
}

static void check_unchanged(gw_scope *s, const participant *p, bool failed) {
    gw_no_grad(s);
    bool same = gw_equal(s, p->weight, p->before);
    if (failed && !same) fail_msg("w%d has stepped, and it has failed", p->rank);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

// The survivors of a loss open a group without the lost members; after other faults all members continue.
static void continue_together(gw_scope *root, const participant *p) {
    gw_scope *s = gw_scope_open(root);
    if (now.place == REFORMS && is_loss()) {  // it has
        assert_int_equal(gw_group_size(p->group), MEMBERS - 1);
        gw_scope_close_up(s);
        return;
    }
    gw_worker rest[MEMBERS];
    int count = 0;
    for (int i = 0; i < MEMBERS && is_loss(); i++)
        if (!is_victim(i)) rest[count++] = gw_group_worker(s, p->group, i);
    if (is_loss()) gw_barrier(s, p->group);
    if (is_loss()) assert_false(gw_ok(s));
    gw_scope_clear(s);
    gw_group *g = is_loss() ? gw_group_open(s, rest, count) : p->group;
    gw_tensor *sum = gw_all_reduce(s, g, gw_ones(s, GW_F32, LARGE), GW_SUM);
    double is = gw_item(s, gw_mean(s, sum));
    if (!gw_ok(s))
        fail_msg("w%d, place %d, fault %d, afterwards: %s", p->rank, now.place, now.fault,
                 gw_scope_error(s)->text);
    assert_true(is == (is_loss() ? count : MEMBERS));
    gw_scope_close_up(s);
}

// A member without memory may break the group: then it is broken for all.
static void try_to_continue(gw_scope *root, const participant *p) {
    if (now.place == REFORMS && is_victim(p->rank)) return;  // the others may be without it
    gw_scope *s = gw_scope_open(root);
    gw_barrier(s, p->group);  // it may have missed an abort
    gw_scope_clear(s);
    gw_barrier(s, p->group);
    *(gw_ok(s) ? &now.continued : &now.failed) |= UINT64_C(1) << p->rank;
    gw_scope_clear(s);
    gw_scope_close_up(s);
}

// ---- A run --------------------------------------------------------------------------------------

static void open_participant(gw_scope *root, participant *p) {
    p->group = gw_group_world(root, .timeout_ms = 20000);
    p->model = gw_nn_linear(root, 4, 4);
    if (now.place == BETWEEN_BUCKETS || now.place == REDUCING)
        gw_ddp_open(root, p->model, .first_bucket_bytes = 1, .bucket_bytes = 1);
    p->weight = gw_module_parameter_get(root, p->model, "weight");
    p->opt = gw_adam(root, gw_parameters(root, p->model), .lr = 0.1);
    if (now.place == SHARDED_STEP) gw_optimizer_shard(root, p->opt);
    gw_barrier(root, p->group);
    cluster_pause_ms(root, 500);  // until all members have completed it
    gw_scope *s = gw_scope_open(root);
    gw_no_grad(s);
    p->before = gw_keep(root, gw_clone(s, p->weight));
    gw_scope_close_up(s);
}

static void play(gw_scope *root, int rank, void *context) {
    (void)context;
    participant p = { .rank = rank };
    open_participant(root, &p);
    if (!gw_ok(root)) fail_msg("%s", gw_scope_error(root)->text);
    gw_scope *s = gw_scope_open(root);
    act(root, s, &p);
    allocations = -1;
    int64_t took_ns = env_now_ns(root->env) - now.hit_ns;
    gw_error e = gw_scope_close(s);
    bool is_gone = sim_is_ghost(root->env);
    if (!is_gone && e.status) is_loss() ? check_loss(&p, &e, took_ns) : check_abort(&p, &e);
    // The others may have received all that they need of a victim.
    bool must_fail =
        now.place == BEFORE_ENTERING && now.fault != NO_MEMORY && !is_victim(rank) && !is_alone();
    if (!is_gone && !e.status && must_fail)
        fail_msg("w%d, place %d, fault %d: nothing failed", rank, now.place, now.fault);
    s = gw_scope_open(root);
    if (!is_gone) check_unchanged(s, &p, e.status != GW_OK);
    gw_scope_clear(s);
    gw_scope_close_up(s);
    cluster_pause_ms(root, 1000);
    if (now.fault == NO_MEMORY)
        try_to_continue(root, &p);
    else if (is_loss() ? !is_victim(rank) && !is_alone() : !is_gone)
        continue_together(root, &p);
    gw_scope_clear(root);
}

static void direct(sim *s, void *context) {
    (void)context;
    now.sim = s;
}

// A member can cancel only where it waits for a future, and fail only where its code runs.
static bool makes_sense(void) {
    if (now.fault == CANCELS) return now.place >= HAS_ENTERED && now.place <= IN_THE_DATA;
    if (now.fault == DEADLINE)
        return now.place == HAS_ENTERED || now.place == REDUCING || now.place >= SHARDED_STEP;
    if (now.fault == SCOPE_FAILS)
        return now.place != OWN_PART_DONE && now.place != REDUCING && now.place != IN_THE_DATA;
    return true;
}

static void run_one(uint64_t seed, void *context) {
    fault first = *(fault *)context;
    fault behind = first == KILLED ? CANCELS : first == CANCELS ? NO_MEMORY : FAULTS;
    uint64_t x = hash_u64(seed);
    now = (struct scene){ .seed = seed, .delay_ns = (int64_t)(1 + x / 4096 % 400) * 1000 };
    now.place = (place)(seed % PLACES);
    now.fault = (fault)(first + (int)(seed / PLACES % (uint64_t)(behind - first)));
    uint64_t cells = (uint64_t)PLACES * (uint64_t)(behind - first);
    now.victims = victims_of[seed / cells % WHO];
    if (!is_loss() && is_alone()) now.victims = 1 << 2;
    if (!makes_sense()) return;
    cluster_run(seed, (cluster_options){ .world_size = MEMBERS, .fails = true, .direct = direct },
                play, NULL);
    if (now.continued && now.failed) fail_msg("%d, %d: some continue", now.place, now.fault);
}

static void run_from(fault first) {
    testing_for_seeds(SEEDS, run_one, &first);
}

static void members_that_are_lost_are_named_wherever_they_are(void **state) {
    (void)state;
    run_from(KILLED);
}

static void a_member_without_memory_keeps_no_other_waiting(void **state) {
    (void)state;
    mem_fail_hook = fail_when_due;
    run_from(NO_MEMORY);
    mem_fail_hook = NULL;
}

static void members_that_give_up_are_named_wherever_they_are(void **state) {
    (void)state;
    run_from(CANCELS);
}

GW_TESTS_WITH_LIMIT(group_faults_sim, 120, members_that_are_lost_are_named_wherever_they_are,
                    members_that_give_up_are_named_wherever_they_are,
                    a_member_without_memory_keeps_no_other_waiting);
