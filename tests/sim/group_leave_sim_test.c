// A member that leaves the job right behind a collective that it has completed, in the simulator: the collective succeeds
// on all other members, however late they call it, and the next one fails (GRP-7).
#include "base/map.h"
#include "collective/group/group.h"
#include "collective/plan/plan.h"
#include "testing/cluster.h"
#include "testing/memory_backend.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <stdio.h>
#include <string.h>

enum { LARGE_ROWS = 30000 };

typedef enum way_out {
    LEAVES,        // gw_rpc_leave
    GIVES_UP,      // gw_rpc_shutdown with a timeout
    WITHOUT_WAIT,  // gw_rpc_leave, with the collective under way, of which the future is dropped
    WAYS_OUT
} way_out;

typedef struct leaver {
    operation operation;
    plan_kind kind;
    int members, who, root, late;
    int64_t late_ms, rows;
    way_out way_out;
    bool by_backend;
    // The late member also opens the group late, and no member waits until all have opened it.
    bool opens_late;
} leaver;

static void describe(const leaver *x, uint64_t seed) {
    testing_note("seed %d: %s by %s plan, root %d, of %d members and %d rows; "
                 "w%d leaves (%d), w%d %s %d ms late",
                 (int)seed, operation_name(x->operation),
                 x->by_backend ? "backend" : plan_kind_name(x->kind), x->root, x->members,
                 (int)x->rows, x->who, (int)x->way_out, x->late, x->opens_late ? "opens it" : "is",
                 (int)x->late_ms);
}

// ---- One collective -----------------------------------------------------------------------------

// Of |x->rows| rows for each member, where each member contributes its rank + 1.
static gw_future *start(const leaver *x, gw_scope *s, gw_group *g, int rank) {
    int n = x->members;
    gw_tensor *own = gw_full(s, GW_I64, rank + 1, x->rows);
    gw_tensor *of_all = gw_full(s, GW_I64, rank + 1, n * x->rows);
    gw_list *items = gw_list_open(s);
    for (int i = 0; i < n; i++) gw_list_add(s, items, gw_full(s, GW_I64, 100 + i, x->rows));
    switch (x->operation) {
    case OPERATION_ALL_REDUCE: return gw_all_reduce_async(s, g, own, GW_SUM);
    case OPERATION_REDUCE: return gw_reduce_async(s, g, own, GW_SUM, x->root);
    case OPERATION_BROADCAST: return gw_broadcast_async(s, g, own, x->root);
    case OPERATION_ALL_GATHER: return gw_all_gather_async(s, g, own);
    case OPERATION_GATHER: return gw_gather_to_async(s, g, own, x->root);
    case OPERATION_SCATTER:
        return gw_scatter_from_async(s, g, rank == x->root ? items : NULL, x->root);
    case OPERATION_REDUCE_SCATTER: return gw_reduce_scatter_async(s, g, of_all, GW_SUM);
    case OPERATION_ALL_TO_ALL: return gw_all_to_all_async(s, g, of_all);
    default: return gw_barrier_async(s, g);
    }
}

static void expect_rows(const leaver *x, gw_scope *s, gw_tensor *t, int first, int64_t value) {
    const int64_t *at = gw_data(t);
    for (int64_t i = first * x->rows; gw_ok(s) && i < (first + 1) * x->rows; i++)
        if (at[i] != value)
            fail_msg("%lld is %lld, not %lld", (long long)i, (long long)at[i], (long long)value);
}

static void expect_of_all(const leaver *x, gw_scope *s, gw_tensor *t) {
    if (gw_ok(s)) assert_int_equal(gw_numel(t), x->members * x->rows);
    for (int i = 0; i < x->members; i++) expect_rows(x, s, t, i, i + 1);
}

static void finish(const leaver *x, gw_scope *s, int rank, gw_future *f) {
    int n = x->members, all = n * (n + 1) / 2;
    gw_value v = gw_wait(s, f);
    if (!gw_ok(s)) fail_msg("w%d: %s", rank, gw_scope_error(s)->text);
    if (x->operation == OPERATION_BARRIER) return;
    gw_tensor *t = gw_tensor_of(s, v);
    switch (x->operation) {
    case OPERATION_ALL_REDUCE:
    case OPERATION_REDUCE_SCATTER: expect_rows(x, s, t, 0, all); break;
    case OPERATION_REDUCE:
        if (rank == x->root) expect_rows(x, s, t, 0, all);
        break;
    case OPERATION_BROADCAST: expect_rows(x, s, t, 0, x->root + 1); break;
    case OPERATION_SCATTER: expect_rows(x, s, t, 0, 100 + rank); break;
    case OPERATION_GATHER:
        if (rank == x->root) expect_of_all(x, s, t);
        break;
    default: expect_of_all(x, s, t); break;
    }
}

// ---- Leaving ------------------------------------------------------------------------------------

static void go(const leaver *x, gw_scope *root) {
    if (x->way_out != GIVES_UP) {
        gw_rpc_leave(root);
        return;
    }
    gw_rpc_shutdown(root, .timeout_ms = 1);
    if (!gw_ok(root)) assert_int_equal(gw_scope_error(root)->status, GW_TIMEOUT);
    gw_scope_clear(root);
}

static void play(gw_scope *root, int rank, void *context) {
    const leaver *x = context;
    bool is_late = rank == x->late && rank != x->who && x->late_ms;
    if (is_late && x->opens_late) cluster_pause_ms(root, x->late_ms);
    gw_group *g = gw_group_world(root, .timeout_ms = 600000,
                                 .backend = x->by_backend ? memory_backend_at(root) : NULL);
    if (x->members % 2 == 0) g->place.host_size = 2;  // as if their addresses were equal
    if (!x->opens_late) gw_barrier(root, g);          // all have opened it
    if (is_late && !x->opens_late) cluster_pause_ms(root, x->late_ms);
    gw_future *f = start(x, root, g, rank);
    if (rank == x->who && x->way_out == WITHOUT_WAIT)
        gw_drop(root, f);
    else
        finish(x, root, rank, f);
    if (!gw_ok(root)) fail_msg("w%d: %s", rank, gw_scope_error(root)->text);
    if (rank == x->who) {
        go(x, root);
        return;
    }
    char name[8];
    snprintf(name, sizeof name, "w%d", x->who);
    gw_barrier(root, g);
    assert_int_equal(gw_scope_error(root)->status, GW_DISCONNECTED);
    if (!strstr(gw_scope_error(root)->text, name)) fail_msg("%s", gw_scope_error(root)->text);
    gw_scope_clear(root);
}

static leaver choose(uint64_t seed) {
    uint64_t x = hash_u64(seed);
    leaver out = { .members = 2 + (int)(x % 4) };
    do {
        x = hash_u64(x);
        out.operation = (operation)(x % OPERATION_COUNT);
        out.kind = (plan_kind)(PLAN_FLAT + (int)(x / 16 % (PLAN_BACKEND - PLAN_FLAT)));
    } while (!plan_exists(out.operation, out.kind));
    if (out.kind == PLAN_HOSTS) out.members = 4;
    x = hash_u64(x);
    out.who = (int)(x % (uint64_t)out.members);
    out.root = (int)(x / 16 % (uint64_t)out.members);
    out.late = (int)(x / 256 % (uint64_t)out.members);
    out.late_ms = (int64_t[]){ 0, 0, 20, 1000 }[x / 4096 % 4];
    out.rows = (int64_t[]){ 1, 5, 40, LARGE_ROWS }[x / 65536 % 4];
    out.way_out = (way_out)(x / 1048576 % WAYS_OUT);
    out.by_backend = x / 16777216 % 5 == 0;
    out.opens_late = !out.by_backend && x / 134217728 % 2;
    return out;
}

static void leave_with(uint64_t seed, void *context) {
    (void)context;
    leaver x = choose(seed);
    describe(&x, seed);
    plan_prefer(x.operation, x.kind);
    memory_backend_reset();
    cluster_options o = { .world_size = x.members };
    if (x.rows < LARGE_ROWS) o.network = sim_varied(seed, 0);  // some are too slow for large values
    cluster_run(seed, o, play, &x);
    plan_prefer(x.operation, PLAN_AUTO);
}

// The late member calls it in a scope that has failed. Its report may be sent to a leader that has just left.
static void refuse_late(gw_scope *root, int rank, void *context) {
    const leaver *x = context;
    gw_group *g = gw_group_world(root, .timeout_ms = 600000);
    if (x->members % 2 == 0) g->place.host_size = 2;
    gw_barrier(root, g);
    gw_scope *s = gw_scope_open(root);
    if (rank == x->late && x->late_ms) cluster_pause_ms(s, x->late_ms);
    if (rank == x->late) gw_fail(s, GW_INVALID, "this is wrong on purpose");
    gw_wait(s, start(x, s, g, rank));
    gw_error e = gw_scope_close(s);
    if (e.status && !strstr(e.text, "wrong on purpose")) fail_msg("w%d: %s", rank, e.text);
    if (rank == x->who) gw_rpc_leave(root);
}

static void refuse_late_with(uint64_t seed, void *context) {
    (void)context;
    leaver x = choose(seed);
    if (x.late == x.who) x.late = (x.who + 1) % x.members;
    x.late_ms = (int64_t)(hash_u64(seed + 1) % 6);
    x.who = seed % 2 ? 0 : x.who;
    if (x.late == x.who) x.late = 1;
    describe(&x, seed);
    plan_prefer(x.operation, x.kind);
    cluster_outcome o =
        cluster_run(seed, (cluster_options){ .world_size = x.members }, refuse_late, &x);
    plan_prefer(x.operation, PLAN_AUTO);
    assert_true(o.took_ns < 20 * SIM_SECOND);
}

static void a_report_to_a_leader_that_has_left_reaches_the_next_one(void **state) {
    (void)state;
    testing_for_seeds(1000, refuse_late_with, NULL);
}

static void a_collective_that_a_leaving_member_has_completed_succeeds(void **state) {
    (void)state;
    testing_for_seeds(1000, leave_with, NULL);
}

static void leave_without_a_group(gw_scope *root, int rank, void *context) {
    (void)context;
    cluster_pause_ms(root, rank == 2 ? 500 : 2000);
    if (rank == 2) gw_rpc_leave(root);
    if (rank == 2) return;
    for (int i = 0; i < 2; i++) {
        gw_group *g = gw_group_world(root);
        assert_true(gw_ok(root));
        assert_int_equal(gw_group_size(g), 3);
        gw_barrier(root, g);
        assert_int_equal(gw_scope_error(root)->status, GW_DISCONNECTED);
        assert_non_null(strstr(gw_scope_error(root)->text, "w2"));
        gw_scope_clear(root);
    }
}

static void leave_without_a_group_with(uint64_t seed, void *context) {
    (void)context;
    cluster_outcome o =
        cluster_run(seed, (cluster_options){ .world_size = 3 }, leave_without_a_group, NULL);
    assert_true(o.took_ns < 20 * SIM_SECOND);
}

static void the_world_opens_after_a_worker_without_a_group_has_left(void **state) {
    (void)state;
    testing_for_seeds(50, leave_without_a_group_with, NULL);
}

// ---- Several leave, amid aborts -----------------------------------------------------------------

enum { STEPS = 6, EACH_STEP = 3 };

typedef enum mistake { NONE, OTHER_SHAPE, CANCELS, REFUSED, SHORT_DEADLINE, MISTAKES } mistake;

typedef struct departures {
    int members;
    int leaves_behind[CLUSTER_WORKERS_MAX];  // a step; STEPS: it does not
    int who, wrong_step;
    mistake mistake;
    bool waits_at_once;
} departures;

static gw_future *start_step(const departures *x, gw_scope *s, gw_group *g, int rank, int step,
                             int number) {
    bool is_wrong = rank == x->who && step == x->wrong_step && number == 1;
    mistake m = is_wrong ? x->mistake : NONE;
    gw_tensor *own = gw_full(s, GW_I64, number, m == OTHER_SHAPE ? 2 : 1);
    gw_future *f = gw_all_reduce_async(s, g, own, m == REFUSED ? (gw_reduce_op)77 : GW_SUM,
                                       .timeout_ms = m == SHORT_DEADLINE ? 1 : 20000);
    if (m == CANCELS) gw_cancel(s, f);
    return f;
}

static void look(const departures *x, gw_scope *s, int rank, int step, int number, gw_future *f) {
    gw_value v = gw_wait(s, f);
    if (!gw_ok(s)) return;
    int64_t sum = gw_item_int(s, gw_tensor_of(s, v));
    if (sum != number * x->members)
        fail_msg("w%d, step %d: %d for %d", rank, step, (int)sum, number * x->members);
}

static gw_error take_step(const departures *x, gw_scope *root, gw_group *g, int rank, int step) {
    gw_scope *s = gw_scope_open(root);
    gw_future *all[EACH_STEP];
    int count = 0, first = step * EACH_STEP;
    for (; count < EACH_STEP && gw_ok(s); count++) {
        all[count] = start_step(x, s, g, rank, step, first + count);
        if (x->waits_at_once && gw_ok(s)) look(x, s, rank, step, first + count, all[count]);
    }
    for (int i = 0; i < count && !x->waits_at_once && gw_ok(s); i++)
        look(x, s, rank, step, first + i, all[i]);
    return gw_scope_close(s);
}

static void play_steps(gw_scope *root, int rank, void *context) {
    const departures *x = context;
    int first = STEPS;
    for (int i = 0; i < x->members; i++)
        if (x->leaves_behind[i] < first) first = x->leaves_behind[i];
    gw_group *g = gw_group_world(root, .timeout_ms = 20000);
    for (int step = 0; step <= x->leaves_behind[rank] && step < STEPS; step++) {
        gw_error e = take_step(x, root, g, rank, step);
        bool is_wrong = x->mistake != NONE && step == x->wrong_step;
        if (e.status && !is_wrong && step <= first)
            fail_msg("w%d, step %d: %s", rank, step, e.text);
        if (!e.status && step > first)
            fail_msg("w%d, step %d succeeds without a member", rank, step);
        // When the leader leaves, the next one takes over.
        if (strstr(e.text, "does not answer")) fail_msg("w%d, step %d: %s", rank, step, e.text);
    }
    if (x->leaves_behind[rank] < STEPS) gw_rpc_leave(root);
    gw_scope_clear(root);
}

static void leave_amid_aborts_with(uint64_t seed, void *context) {
    (void)context;
    uint64_t x = hash_u64(seed);
    departures d = { .members = 3 + (int)(x % 3), .waits_at_once = x / 8 % 2 };
    for (int i = 0; i < d.members; i++) {
        x = hash_u64(x);
        d.leaves_behind[i] = x % 2 ? STEPS : (int)(x / 16 % STEPS);
    }
    x = hash_u64(x);
    d.who = (int)(x % (uint64_t)d.members);
    d.wrong_step = (int)(x / 16 % STEPS);
    d.mistake = (mistake)(x / 256 % MISTAKES);
    testing_note("seed %d: %d members leave behind %d %d %d %d %d; w%d makes mistake %d in step %d",
                 (int)seed, d.members, d.leaves_behind[0], d.leaves_behind[1], d.leaves_behind[2],
                 d.leaves_behind[3], d.leaves_behind[4], d.who, (int)d.mistake, d.wrong_step);
    cluster_run(seed, (cluster_options){ .world_size = d.members, .network = sim_varied(seed, 0) },
                play_steps, &d);
}

static void leaders_leave_amid_aborts(void **state) {
    (void)state;
    testing_for_seeds(1000, leave_amid_aborts_with, NULL);
}

GW_TESTS(group_leave_sim, the_world_opens_after_a_worker_without_a_group_has_left,
         a_collective_that_a_leaving_member_has_completed_succeeds,
         a_report_to_a_leader_that_has_left_reaches_the_next_one, leaders_leave_amid_aborts);
