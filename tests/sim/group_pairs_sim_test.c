// Which calls of members are one collective when a member's call has failed, in the simulator: each call contributes a
// value of its own, so a sum that is OK shows whether the same calls were added (GRP-6).
#include "base/map.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>

enum { UNDER_WAY = 5, AFTER = 4, STEPS = 5 };

typedef enum mistake {
    CANCELS,
    OTHER_SHAPE,
    REFUSED,
    SCOPE_FAILED,
    SHORT_DEADLINE,
    LATE,
    MISTAKES
} mistake;

typedef enum scopes {
    OWN_SCOPES,   // each call has one, which is closed after the wait for its future
    ONE_CLEARED,  // all calls are made in one, which is cleared after each error
    ONE_KEPT,     // the same, and it stays failed
    SCOPE_FORMS
} scopes;

typedef enum futures { WAITED_AT_ONCE, WAITED_LATER, DROPPED, FUTURE_FORMS } futures;

typedef struct pairs {
    int members, who, at;
    mistake mistake;
    scopes scopes;
    futures futures;
    uint64_t seed;
} pairs;

static const char *const mistakes[] = { "cancels",
                                        "calls it with another shape",
                                        "refuses",
                                        "calls it in a failed scope",
                                        "has a short deadline",
                                        "is late" };

static void describe(const pairs *p) {
    testing_note("seed %d; %d members, w%d %s call %d; scopes %d, futures %d", (int)p->seed,
                 p->members, p->who, mistakes[p->mistake], p->at, (int)p->scopes, (int)p->futures);
}

static void check_sum(const pairs *p, gw_scope *s, int rank, int call, gw_value v) {
    double sum = gw_item(s, gw_tensor_of(s, v));
    if (gw_ok(s) && sum != p->members * call)
        fail_msg("w%d, call %d: the sum is %g for %d", rank, call, sum, p->members * call);
}

// Call |call|, of which every member contributes |call|.
static gw_future *start(const pairs *p, gw_scope *s, gw_group *g, int rank, int call) {
    bool is_wrong = rank == p->who && call == p->at;
    gw_tensor *x = gw_full(s, GW_F32, call, 1);
    if (is_wrong && p->mistake == OTHER_SHAPE) x = gw_full(s, GW_F32, call, 2);
    if (is_wrong && p->mistake == SCOPE_FAILED) gw_fail(s, GW_INVALID, "this is wrong on purpose");
    if (is_wrong && p->mistake == LATE) cluster_pause_ms(s, 30000);
    gw_reduce_op op = is_wrong && p->mistake == REFUSED ? (gw_reduce_op)77 : GW_SUM;
    int64_t timeout_ms = is_wrong && p->mistake == SHORT_DEADLINE ? 1 : 20000;
    gw_future *f = gw_all_reduce_async(s, g, x, op, .timeout_ms = timeout_ms);
    if (is_wrong && p->mistake == CANCELS) gw_cancel(s, f);
    return f;
}

static void look(const pairs *p, gw_scope *s, int rank, int call, gw_future *f) {
    gw_value v = gw_wait(s, f);
    if (gw_ok(s)) check_sum(p, s, rank, call, v);
}

static void clear(const pairs *p, gw_scope *s) {
    if (p->scopes == ONE_CLEARED) gw_scope_clear(s);
}

static void call_under_way(const pairs *p, gw_scope *root, gw_group *g, int rank) {
    gw_scope *one = gw_scope_open(root), *own[UNDER_WAY];
    gw_future *all[UNDER_WAY];
    for (int i = 0; i < UNDER_WAY; i++) {
        own[i] = p->scopes == OWN_SCOPES ? gw_scope_open(root) : one;
        all[i] = start(p, own[i], g, rank, i + 1);
        if (p->futures == WAITED_AT_ONCE && gw_ok(own[i])) look(p, own[i], rank, i + 1, all[i]);
        if (p->futures == DROPPED && gw_ok(own[i])) gw_drop(own[i], all[i]);
        clear(p, own[i]);
    }
    for (int i = 0; i < UNDER_WAY; i++) {
        if (p->futures == WAITED_LATER && gw_ok(own[i])) look(p, own[i], rank, i + 1, all[i]);
        clear(p, own[i]);
        if (p->scopes == OWN_SCOPES) (void)!gw_scope_close(own[i]).status;
    }
    (void)!gw_scope_close(one).status;
}

// All members make the same calls, also after errors.
static void call_on(gw_scope *root, int rank, void *context) {
    const pairs *p = context;
    gw_group *g = gw_group_world(root, .timeout_ms = 20000);
    call_under_way(p, root, g, rank);
    bool ok = false;
    for (int call = UNDER_WAY + 1; call <= UNDER_WAY + AFTER; call++) {
        gw_scope *s = gw_scope_open(root);
        look(p, s, rank, call, gw_all_reduce_async(s, g, gw_full(s, GW_F32, call, 1), GW_SUM));
        gw_error e = gw_scope_close(s);
        ok = !e.status;
        if (!ok) testing_note("seed %d; w%d, call %d: %s", (int)p->seed, rank, call, e.text);
    }
    if (!ok) fail_msg("w%d: the last call has failed", rank);
}

// Members leave a step at its first error, and continue with the next one.
static void step_on(gw_scope *root, int rank, void *context) {
    const pairs *p = context;
    gw_group *g = gw_group_world(root, .timeout_ms = 20000);
    bool ok = false;
    for (int step = 0; step < STEPS; step++) {
        gw_scope *s = gw_scope_open(root);
        gw_future *all[UNDER_WAY];
        int first = step * UNDER_WAY + 1, count = 0;
        for (; count < UNDER_WAY && gw_ok(s); count++) {
            all[count] = start(p, s, g, rank, first + count);
            if (p->futures == WAITED_AT_ONCE && gw_ok(s))
                look(p, s, rank, first + count, all[count]);
        }
        for (int i = 0; i < count && p->futures == WAITED_LATER && gw_ok(s); i++)
            look(p, s, rank, first + i, all[i]);
        gw_error e = gw_scope_close(s);
        ok = !e.status;
        if (!ok) testing_note("seed %d; w%d, step %d: %s", (int)p->seed, rank, step, e.text);
    }
    if (!ok) fail_msg("w%d: the last step has failed", rank);
}

static void run(const pairs *p, cluster_main *play) {
    describe(p);
    cluster_run(p->seed,
                (cluster_options){ .world_size = p->members, .network = sim_varied(p->seed, 0) },
                play, (void *)p);
}

static pairs choose(uint64_t seed) {
    uint64_t x = hash_u64(seed);
    pairs p = { .members = 2 + (int)(x % 3), .seed = seed };
    p.who = (int)(x / 16 % (uint64_t)p.members);
    p.at = 1 + (int)(x / 256 % UNDER_WAY);
    p.mistake = (mistake)(x / 4096 % MISTAKES);
    p.scopes = (scopes)(x / 65536 % SCOPE_FORMS);
    p.futures = (futures)(x / 1048576 % FUTURE_FORMS);
    return p;
}

static void call_with(uint64_t seed, void *context) {
    (void)context;
    pairs p = choose(seed);
    run(&p, call_on);
}

static void step_with(uint64_t seed, void *context) {
    (void)context;
    pairs p = choose(seed);
    if (p.futures == DROPPED) p.futures = WAITED_LATER;
    p.at += UNDER_WAY;
    run(&p, step_on);
}

// More calls in a failed scope than are reported one by one, and a member that cancels one of them.
static void call_often(gw_scope *root, int rank, void *context) {
    uint64_t seed = *(const uint64_t *)context, x = hash_u64(seed);
    gw_group *g = gw_group_world(root, .timeout_ms = 20000);
    gw_scope *s = gw_scope_open(root);
    int count = 300 + (int)(x % 600), cancelled = (int)(x / 1024 % (uint64_t)count);
    if (rank == 0 && x / 65536 % 2) cluster_pause_ms(s, 100);
    if (rank == 0) gw_fail(s, GW_INVALID, "this is wrong on purpose");
    for (int i = 0; i < count; i++) {
        gw_tensor *both[] = { gw_full(s, GW_F32, i, 1), gw_full(s, GW_F32, i, 1) };
        gw_future *f = seed % 2 ? gw_all_reduce_async(s, g, both[0], GW_SUM)
                                : gw_all_reduce_coalesced_async(s, g, both, 2, GW_SUM);
        if (rank == 1 && i == cancelled) gw_cancel(s, f);
    }
    (void)!gw_scope_close(s).status;
    const pairs p = { .members = 3 };
    for (int call = 1; call <= AFTER; call++) {
        s = gw_scope_open(root);
        look(&p, s, rank, call, gw_all_reduce_async(s, g, gw_full(s, GW_F32, call, 1), GW_SUM));
        gw_error e = gw_scope_close(s);
        // The group ends if a scope was left whose calls lie too far back.
        if (e.status && e.status != GW_LIMIT) fail_msg("w%d, call %d: %s", rank, call, e.text);
    }
}

static void call_often_with(uint64_t seed, void *context) {
    (void)context;
    cluster_run(seed, (cluster_options){ .world_size = 3 }, call_often, &seed);
}

static void many_calls_in_a_failed_scope_are_counted(void **state) {
    (void)state;
    testing_for_seeds(40, call_often_with, NULL);
}

static void the_same_calls_are_added_wherever_one_has_failed(void **state) {
    (void)state;
    testing_for_seeds(1500, call_with, NULL);
}

static void the_same_steps_are_added_wherever_one_has_failed(void **state) {
    (void)state;
    testing_for_seeds(800, step_with, NULL);
}

GW_TESTS(group_pairs_sim, the_same_calls_are_added_wherever_one_has_failed,
         the_same_steps_are_added_wherever_one_has_failed,
         many_calls_in_a_failed_scope_are_counted);
