// Random programs that continue after losses, under faults: members of a group take steps, agree now and then, re-form
// the group when one of them is lost, and admit pending joiners. Each seed belongs to one kind, so that `make sim
// SEED=n` repeats one run.
//
// They check that an agreement returns the same on all members, also on those that are lost later; that each group has
// one next generation; that sums are those of its members; that faults explain each error; and that all remaining
// members finish.
#include "agent/state/agent.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/scope.h"
#include "testing/blame.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    SEEDS = 800,
    STEPS = 14,
    TRIES = 80,
    TABLE = 1024,
    JOINERS = 2,
};

typedef enum walk_kind {
    WALK_CALM,
    WALK_CRASHES,
    WALK_STOPS,
    WALK_PARTITIONS,
    WALK_LEAVES,
    WALK_ALL,
    WALK_KIND_COUNT
} walk_kind;

// What all members have to return from one agreement, or as one generation: |content| for |key|.
typedef struct fact {
    uint64_t key, content;
} fact;

typedef struct walk {
    uint64_t seed;
    walk_kind kind;
    sim *sim;
    int members;  // at first; the others request to join
    int count;
    uint64_t begun, ended, left;  // nodes, as bits; |left| take no more steps
    uint64_t shut_out;            // of |left|: could not open the group, since one was lost before
    int leaver, leaves_at;
    fact facts[TABLE];
    int fact_count;
    int finished, agreed, generations, admitted;
} walk;

typedef struct walks {
    walk_kind kind;
    uint64_t seeds;
    int finished, agreed, generations, admitted;
} walks;

static uint64_t choose(const walk *w, int what, uint64_t below) {
    return hash_u64(w->seed * 1000 + (uint64_t)what) % below;
}

static bool is_ghost(gw_scope *root) {
    const agent *a = root->agent;
    return sim_is_ghost(a->env);
}

// ---- Checks -------------------------------------------------------------------------------------

// False if another member has returned the same before.
static bool remember(walk *w, const char *what, uint64_t key, uint64_t content) {
    for (int i = 0; i < w->fact_count; i++) {
        if (w->facts[i].key != key) continue;
        if (w->facts[i].content != content) fail_msg("members do not get the same: %s", what);
        return false;
    }
    assert_true(w->fact_count < TABLE);
    w->facts[w->fact_count++] = (fact){ key, content };
    return true;
}

// A member that could not open the group proposes nothing, but is not lost: the others wait for it until their
// deadline.
static bool names_one_shut_out(const walk *w, const gw_error *e) {
    char name[32];
    bool is = false;
    for (int i = 0; i < w->members && !is; i++) {
        snprintf(name, sizeof name, "; w%d has not proposed", i);
        is = w->shut_out >> i & 1 && strstr(e->text, name);
    }
    return is && e->status == GW_TIMEOUT;
}

static bool is_explained(const walk *w, const gw_error *e) {
    blame_facts facts = { .sim = w->sim,
                          .count = w->count,
                          .ended = w->ended | ~w->begun,
                          .lost_most = w->kind >= WALK_STOPS };
    if (names_one_shut_out(w, e)) return true;
    if (strstr(e->text, "has withdrawn its join request") ||
        strstr(e->text, "has stopped re-forming the group") ||
        strstr(e->text, "has ended its part in the agreements"))
        return true;
    if (e->status == GW_MISMATCH && strstr(e->text, "re-forms the group"))
        return w->kind != WALK_CALM;
    if (e->status != GW_DISCONNECTED && e->status != GW_FENCED) return false;
    if (strstr(e->text, "is gone, and w")) return w->kind != WALK_CALM;
    if (strstr(e->text, "has called gw_rpc_") || strstr(e->text, "has closed the group"))
        return w->left != 0;
    return blame_explains(e, &facts, BLAME_ANY);
}

static void note_generation(walk *w, gw_scope *s, const gw_group *g, int rank) {
    uint64_t hash = 0;
    char text[128];
    for (int i = 0; i < gw_group_size(g); i++)
        hash = hash_u64(hash ^ gw_group_worker(s, g, i).incarnation);
    snprintf(text, sizeof text, "w%d, generation %d of %d members", rank, gw_group_generation(g),
             gw_group_size(g));
    w->generations += remember(w, text, hash_u64(1000000 + (uint64_t)gw_group_generation(g)), hash);
}

// ---- A member -----------------------------------------------------------------------------------

// A member that has finished stays for a while, so that a stopped member is notified that it is fenced.
typedef struct participant {
    walk *walk;
    gw_scope *root, *life;  // of its groups
    int rank, step;
    uint64_t agreements;  // in this generation
    gw_group *group;
    gw_future *late;  // a collective of the generation before, which the others do not enter; NULL
} participant;

// Now and then one member starts a collective in a generation that is about to end. It ends with the generation, also
// where that has ended before.
static void enter_alone(participant *p, gw_scope *s) {
    bool is_alone = gw_group_size(p->group) == 1;
    if (p->late || is_alone || choose(p->walk, 400 + p->step, 4) != (uint64_t)p->rank) return;
    p->late = gw_all_reduce_async(s, p->group, gw_ones(s, GW_F32, 1), GW_SUM, .key = 7,
                                  .timeout_ms = GW_NO_TIMEOUT);
    if (!gw_ok(s)) p->late = NULL;
}

static void expect_late_to_end(participant *p) {
    gw_scope *s = gw_scope_open(p->life);
    gw_future *late = p->late;
    p->late = NULL;
    if (late) gw_wait(s, late);
    gw_error e = gw_scope_close(s);
    if (!late || is_ghost(p->root)) return;
    bool is_over = e.status == GW_WRONG_STATE && strstr(e.text, "was re-formed");
    if (!is_over && !is_explained(p->walk, &e))
        fail_msg("w%d, step %d: nothing explains \"%s\" (%d)", p->rank, p->step, e.text, e.status);
}

static void enter(participant *p, gw_group *g) {
    p->group = g;
    expect_late_to_end(p);
    p->agreements = 0;
    if (gw_ok(p->life) && !is_ghost(p->root)) note_generation(p->walk, p->life, g, p->rank);
}

static bool agree(participant *p, gw_scope *s, uint64_t flags, gw_agreement *out) {
    char text[128];
    *out = gw_group_agree(s, p->group, flags);
    if (!gw_ok(s) || is_ghost(p->root)) return gw_ok(s);
    uint64_t key = hash_u64((uint64_t)gw_group_generation(p->group) * 1000 + ++p->agreements);
    uint64_t content = hash_u64(out->flags);
    for (int i = 0; i < out->missing_count; i++)
        content = hash_u64(content ^ (uint64_t)out->missing[i]);
    snprintf(text, sizeof text, "w%d, generation %d, agreement %d: flags %" PRIx64 ", %d missing",
             p->rank, gw_group_generation(p->group), (int)p->agreements, out->flags,
             out->missing_count);
    p->walk->agreed += remember(p->walk, text, key, content);
    return true;
}

// Flags of its own, so that a decision that is made again differs.
static void agree_on_something(participant *p, gw_scope *s) {
    gw_agreement a;
    uint64_t own = ~(UINT64_C(1) << p->rank);
    if (!agree(p, s, own, &a) || is_ghost(p->root)) return;
    if (a.flags & (UINT64_C(1) << p->rank)) fail_msg("the flags of w%d are missing", p->rank);
}

// All admit the pending joiners if one member has received a join request.
static void admit_pending(participant *p, gw_scope *s) {
    gw_agreement a;
    if (!agree(p, s, gw_group_pending(p->group) ? 0 : 1, &a) || a.flags) return;
    enter_alone(p, p->life);
    gw_group *next = gw_group_reform(p->life, p->group, .grow = true);
    if (!gw_ok(p->life)) return;
    p->walk->admitted += gw_group_size(next) > gw_group_size(p->group);
    enter(p, next);
}

static void take_step(participant *p, gw_scope *s) {
    int n = gw_group_size(p->group);
    gw_list *all = gw_all_gather_value(s, p->group, p->step);
    for (int i = 0; i < n && gw_ok(s); i++) {
        int step = (int)gw_int_of(s, gw_list_get(s, all, i));
        if (step > p->step) p->step = step;
    }
    gw_tensor *sum = gw_all_reduce(s, p->group, gw_full(s, GW_F32, p->step + 1, 3), GW_SUM);
    if (!gw_ok(s) || is_ghost(p->root)) return;
    assert_int_equal((int)gw_item(s, gw_sum(s, sum)), 3 * n * (p->step + 1));
    p->step++;
    if (choose(p->walk, p->step, 3) == 0) agree_on_something(p, s);
    if (gw_ok(s) && p->step < STEPS && choose(p->walk, 100 + p->step, 4) == 0) admit_pending(p, s);
    if (gw_ok(s) && choose(p->walk, 200 + p->step, 3) == 0) cluster_pause_ms(s, 10);
}

// False: this worker takes no more steps.
static bool recover(participant *p, const gw_error *e) {
    if (is_ghost(p->root)) return false;
    if (!is_explained(p->walk, e))
        fail_msg("w%d, step %d: nothing explains \"%s\" (%d)", p->rank, p->step, e->text,
                 e->status);
    if (e->status == GW_FENCED) return false;
    // Members that have not detected the loss yet may agree.
    gw_group *next = gw_group_reform(p->life, p->group);
    while (gw_scope_error(p->life)->status == GW_MISMATCH &&
           is_explained(p->walk, gw_scope_error(p->life))) {
        gw_scope_clear(p->life);
        next = gw_group_reform(p->life, p->group);
    }
    if (gw_ok(p->life)) enter(p, next);
    if (gw_ok(p->life) || is_ghost(p->root)) return gw_ok(p->life);
    if (!is_explained(p->walk, gw_scope_error(p->life)))
        fail_msg("w%d, re-forming: nothing explains \"%s\"", p->rank,
                 gw_scope_error(p->life)->text);
    return false;
}

static void go(participant *p) {
    walk *w = p->walk;
    bool continues = gw_ok(p->life);
    for (int tries = 0; continues && !is_ghost(p->root) && p->step < STEPS; tries++) {
        if (tries == TRIES) fail_msg("w%d is at step %d for ever", p->rank, p->step);
        if (w->leaver == p->rank && p->step >= w->leaves_at) {
            w->left |= UINT64_C(1) << p->rank;
            w->ended |= UINT64_C(1) << p->rank;
            if (w->seed % 2) gw_rpc_leave(p->root);
            return;
        }
        gw_scope *s = gw_scope_open(p->life);
        take_step(p, s);
        gw_error e = gw_scope_close(s);
        if (!gw_ok(p->life)) e = *gw_scope_error(p->life);
        gw_scope_clear(p->life);
        if (e.status) continues = recover(p, &e);
    }
    if (continues && !is_ghost(p->root)) w->finished++;
    gw_scope_clear(p->life);
}

static void run_member(gw_scope *root, int rank, void *context) {
    walk *w = context;
    participant p = { .walk = w, .root = root, .rank = rank };
    w->begun |= UINT64_C(1) << rank;
    gw_group *g;
    gw_scope *life = p.life = gw_scope_open(root);
    if (rank < w->members) {
        g = cluster_open_group(life, 0, w->members, "walkers", 60000);
    } else {
        cluster_pause_ms(root, 1 + (int64_t)choose(w, 300 + rank, 60));
        g = gw_group_join(life, "walkers", .timeout_ms = 1 + (int64_t)choose(w, rank, 400),
                          .collective_timeout_ms = 60000);
    }
    if (gw_ok(life)) {
        enter(&p, g);
        go(&p);
    } else if (rank < w->members && !is_ghost(root)) {
        if (!is_explained(w, gw_scope_error(life)))
            fail_msg("w%d, opening: nothing explains \"%s\"", rank, gw_scope_error(life)->text);
        w->shut_out |= UINT64_C(1) << rank;
    }
    w->left |= UINT64_C(1) << rank;
    gw_scope_clear(life);
    gw_error e = gw_scope_close(life);
    (void)e;
    if (w->kind >= WALK_STOPS && !is_ghost(root)) cluster_pause_ms(root, 60000);
    w->ended |= UINT64_C(1) << rank;
    gw_scope_clear(root);
}

// ---- Walks --------------------------------------------------------------------------------------

static void direct(sim *s, void *context) {
    ((walk *)context)->sim = s;
}

static sim_faults faults_of(const walk *w, uint64_t x) {
    sim_faults f = { .nodes = w->count, .until_ns = INT64_C(1000000) << (x % 9) };
    bool all = w->kind == WALK_ALL;
    if (w->kind == WALK_CRASHES || all) f.crashes = 1 + (int)(x / 16 % 3);
    if (w->kind == WALK_STOPS || all) f.stops = 1 + (int)(x / 64 % 2);
    if (w->kind == WALK_PARTITIONS || all) f.partitions = 1 + (int)(x / 128 % 2);
    if (!f.crashes && !f.stops && !f.partitions) f.nodes = 0;
    return f;
}

static void run_seed(uint64_t seed, void *context) {
    walks *sum = context;
    if (seed % WALK_KIND_COUNT != (uint64_t)sum->kind) return;
    walk *w = mem_calloc(sizeof *w);
    assert_non_null(w);
    uint64_t x = hash_u64(seed + 99);
    *w = (walk){ .seed = seed, .kind = sum->kind, .members = 2 + (int)(x % 3), .leaver = -1 };
    w->count = w->members + (int)(x / 8 % (JOINERS + 1));
    if (w->kind == WALK_LEAVES) {
        w->leaver = (int)(x / 32 % (uint64_t)w->members);
        w->leaves_at = (int)(x / 256 % STEPS);
    }
    sim_options network = { 0 };
    if (x / 4096 % 2) network = sim_varied(seed, x / 8192 % 2 ? 1000 : 0);
    cluster_run(seed,
                (cluster_options){ .world_size = w->count,
                                   .network = network,
                                   .faults = faults_of(w, hash_u64(x)),
                                   .fails = true,
                                   .direct = direct },
                run_member, w);
    if (w->kind == WALK_CALM && w->finished < w->members)
        fail_msg("%d of %d have finished", w->finished, w->members);
    sum->seeds++;
    sum->finished += w->finished;
    sum->agreed += w->agreed;
    sum->generations += w->generations;
    sum->admitted += w->admitted;
    mem_free(w);
}

static void walk_through(walk_kind kind) {
    walks w = { .kind = kind };
    testing_for_seeds(SEEDS, run_seed, &w);
    printf("%" PRIu64 " seeds, %d members finished, %d agreements, %d generations, %d admitted\n",
           w.seeds, w.finished, w.agreed, w.generations, w.admitted);
}

static void members_agree_and_admit_others(void **state) {
    (void)state;
    walk_through(WALK_CALM);
}

static void survivors_of_crashes_continue_alike(void **state) {
    (void)state;
    walk_through(WALK_CRASHES);
}

static void survivors_of_stops_continue_alike(void **state) {
    (void)state;
    walk_through(WALK_STOPS);
}

static void survivors_of_partitions_continue_alike(void **state) {
    (void)state;
    walk_through(WALK_PARTITIONS);
}

static void remaining_members_continue_when_one_leaves(void **state) {
    (void)state;
    walk_through(WALK_LEAVES);
}

static void survivors_continue_when_all_faults_occur_together(void **state) {
    (void)state;
    walk_through(WALK_ALL);
}

GW_TESTS_WITH_LIMIT(reform_walk_sim, 120, members_agree_and_admit_others,
                    survivors_of_crashes_continue_alike, survivors_of_stops_continue_alike,
                    survivors_of_partitions_continue_alike,
                    remaining_members_continue_when_one_leaves,
                    survivors_continue_when_all_faults_occur_together);
