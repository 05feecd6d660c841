// Passes that fail: a participant or the initiator is lost in each phase, leaves in the middle, or
// is too late. In each case all workers get one named error, no worker stores anything of the pass,
// late messages change nothing, and a fresh pass works.
#include "base/scope.h"
#include "distributed/autograd/distributed_pass.h"
#include "testing/cluster.h"
#include "testing/testing.h"
#include <gradwire.h>

#include <stdio.h>
#include <string.h>

enum { WORKERS = 5, OBSERVER = 4, SIZE = 3, SEEDS = 6, DEEP = 3 * LIMIT_UPSTREAM_NODES };

typedef enum phase { FORWARD, MARK, EXECUTE, DONE, PHASE_COUNT } phase;
typedef enum way { SHUTDOWN, LEAVE, CLOSE, WAY_COUNT } way;

static const char *const phase_names[] = { "forward", "mark", "execute", "done" };

// One run at a time: bodies, hooks and the director find it here.
static struct scene {
    sim *sim;
    int victim;  // -1: none
    phase phase;
    way way;            // the way in which the victim leaves
    bool leaves;        // the victim leaves instead of crashing
    bool is_deep;       // graphs are too deep for the walk of one message
    bool has_gradient;  // the victim has received a gradient
    bool is_fresh;      // the second pass runs
    agent *agents[WORKERS];
    gw_tensor *weights[WORKERS];
    gw_error error;  // of the pass, and of the initiator's caller
    gw_error observed;
} now;

// ---- A graph that passes through workers and returns --------------------------------------------
static bool is_at(phase p) {
    return now.phase == p && now.victim >= 0 && !now.leaves && !now.is_fresh;
}

static void crash_victim(void) {
    if (!sim_is_crashed(now.sim, now.victim)) sim_crash(now.sim, now.victim);
}

static gw_tensor *crash_in_execution(gw_scope *s, gw_tensor *grad, void *context) {
    (void)s, (void)context;
    if (is_at(EXECUTE)) crash_victim();
    now.has_gradient = true;
    return grad;
}

// Multiplies by the weight of this worker, and by those of the others in |path|, bits of ranks, the
// lowest first.
GW_FUNCTION(ends_through, GW_POOL, "int, tensor") {
    int rank = gw_rpc_self(s).rank, next = 0;
    int64_t path = gw_arg_int(s, a, 0);
    gw_tensor *y = gw_mul(s, gw_arg_tensor(s, a, 1), now.weights[rank]);
    int place = now.victim > 0 ? now.victim : 2;
    if (rank == place && gw_ok(s)) gw_register_hook(s, y, crash_in_execution, NULL);
    if (rank == place && is_at(FORWARD)) crash_victim();
    for (int i = 0; now.is_deep && i < DEEP; i++) y = gw_neg(s, y);
    while (next < WORKERS && !(path >> next & 1)) next++;
    if (next == WORKERS) return gw_value_of(y);
    return gw_rpc_sync(s, next, "ends_through", path & ~(INT64_C(1) << next), y);
}

GW_FUNCTION(ends_count, GW_INLINE, "") {
    return gw_value_of(gw_grads_count(s));
}

static gw_tensor *walk_forward(gw_scope *s, gw_tensor *x, int64_t path) {
    int first = 0;
    while (!(path >> first & 1)) first++;
    return gw_sum(s, gw_tensor_of(s, gw_rpc_sync(s, first, "ends_through",
                                                 path & ~(INT64_C(1) << first), x)));
}

static double product_of(int64_t path) {
    double product = 1;
    for (int i = 0; i < WORKERS; i++)
        if (path >> i & 1) product *= i + 1;
    return product;
}

// Runs a pass through |path| and checks its gradients.
static void walk(gw_scope *s, int64_t path) {
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F64, SIZE));
    gw_backward(s, walk_forward(s, x, path));
    if (gw_ok(s)) assert_true(gw_item(s, gw_sum(s, gw_grad(s, x))) == SIZE * product_of(path));
    for (int i = 0; i < WORKERS; i++) {
        if (!(path >> i & 1)) continue;
        int64_t count = gw_int_of(s, gw_rpc_sync(s, i, "ends_count"));
        if (gw_ok(s)) assert_int_equal(count, 1);
    }
}

GW_FUNCTION(ends_train, GW_POOL, "int") {
    gw_scope *step = gw_scope_open(s);
    walk(step, gw_arg_int(s, a, 0));
    now.error = *gw_scope_error(step);
    gw_scope_close_up(step);
    return gw_none();
}

// ---- Time, and leaks ----------------------------------------------------------------------------
static void pause_until(gw_scope *s, int64_t when_s) {
    int64_t left_ms = when_s * 1000 - sim_now_ns(now.sim) / 1000000;
    cluster_pause_ms(s, left_ms > 0 ? left_ms : 1);
}

static bool is_present(int rank) {
    return now.agents[rank] && !sim_is_crashed(now.sim, rank) &&
           now.agents[rank]->phase != AGENT_LEFT;
}

static void expect_nothing_left(int rank) {
    const graphs *g = graphs_of(now.agents[rank]);
    if (g->sends.count || g->released_count || !list_is_empty(&g->passes) ||
        !list_is_empty(&g->ending))
        fail_msg("worker %d has %zu sends, %u to release, passes: %s", rank, g->sends.count,
                 g->released_count, list_is_empty(&g->passes) ? "none" : "some");
}

static void expect_names(const gw_error *e, int victim) {
    char name[8];
    snprintf(name, sizeof name, "w%d", victim);
    if (e->status != GW_DISCONNECTED || !strstr(e->text, name))
        fail_msg("the error is %s, \"%s\"", gw_status_name(e->status), e->text);
}

static void enter_barrier(gw_scope *root) {
    int count;
    const gw_worker *all = gw_rpc_workers(root, &count);
    gw_rpc_barrier(root, all, count);
}

// ---- Lost in each phase -------------------------------------------------------------------------
static bool phase_has_begun(void) {
    if (now.phase == MARK) return now.agents[0] && graphs_of(now.agents[0])->mark_calls > 0;
    for (int rank = now.victim ? now.victim : 1; rank < WORKERS; rank++) {
        if (!now.agents[rank]) return false;
        list_each(l, &graphs_of(now.agents[rank])
                          ->passes) if (list_entry(l, distributed_pass, link)->state >=
                                        DISTRIBUTED_PASS_COMPLETE) return true;
        if (now.victim) return false;
    }
    return false;
}

static void watch_for_phase(sim *s, void *arg) {
    if (sim_is_crashed(s, now.victim)) return;
    if (phase_has_begun())
        crash_victim();
    else
        assert_true(sim_at_decision(s, sim_count(s).decisions + 1, watch_for_phase, arg));
}

static void direct(sim *s, void *context) {
    (void)context;
    now.sim = s;
    if (now.victim >= 0 && !now.leaves && (now.phase == MARK || now.phase == DONE))
        assert_true(sim_at_decision(s, 1, watch_for_phase, NULL));
}

static int64_t path_of_those_left(int initiator) {
    int64_t path = 0;
    for (int i = 0; i < WORKERS; i++)
        if (i != initiator && i != OBSERVER && is_present(i)) path |= INT64_C(1) << i;
    return path;
}

static void train_anew(gw_scope *root, int rank) {
    int leader = 0;
    while (!is_present(leader)) leader++;
    if (rank != leader) return;
    now.is_fresh = true;
    gw_scope *s = gw_scope_open(root);
    walk(s, path_of_those_left(rank));
    gw_error error = gw_scope_close(s);
    assert_string_equal(error.text, "");
}

static void await_rest(gw_scope *root, int rank) {
    pause_until(root, 30);
    if (!is_present(rank)) return;
    expect_nothing_left(rank);
    pause_until(root, 31);
    train_anew(root, rank);
    pause_until(root, 60);
    if (is_present(rank)) expect_nothing_left(rank);
}

static void open_worker(gw_scope *root, int rank) {
    now.agents[rank] = root->agent;
    now.weights[rank] = gw_requires_grad(root, gw_full(root, GW_F64, rank + 1.0, SIZE));
    enter_barrier(root);
}

static void observe(gw_scope *root) {
    gw_scope *s = gw_scope_open(root);
    gw_rpc_sync(s, 0, "ends_train", 2 + 4 + 8);
    now.observed = gw_scope_close(s);
}

static void lose(gw_scope *root, int rank, void *context) {
    (void)context;
    open_worker(root, rank);
    if (rank == OBSERVER) observe(root);
    await_rest(root, rank);
}

static void open_scene(uint64_t seed, int victim, phase p) {
    memset(&now, 0, sizeof now);
    now.victim = victim;
    now.phase = p;
    now.is_deep = p == MARK;
    testing_note("seed %llu, w%d in phase %s", (unsigned long long)seed, victim, phase_names[p]);
}

static cluster_outcome run_scene(uint64_t seed, cluster_main *main) {
    cluster_options options = {
        .world_size = WORKERS, .fails = true, .direct = direct, .network = sim_varied(seed, 0)
    };
    if (now.leaves) options.leaves[now.victim] = now.way == CLOSE;
    cluster_outcome o = cluster_run(seed, options, main, NULL);
    for (int i = 0; i < WORKERS; i++)
        if (!o.crashed[i]) assert_string_equal(o.errors[i].text, "");
    return o;
}

static void lose_in(phase p) {
    for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(SEEDS); seed++) {
        for (int victim = 0; victim < OBSERVER; victim++) {
            open_scene(seed, victim, p);
            cluster_outcome o = run_scene(seed, lose);
            assert_true(o.crashed[victim]);
            expect_names(&now.observed, victim);
            if (!victim) continue;
            expect_names(&now.error, victim);
            assert_non_null(strstr(now.observed.text, now.error.text));
        }
    }
}

static void a_worker_lost_in_the_forward_is_named(void **state) {
    (void)state;
    lose_in(FORWARD);
}

static void a_worker_lost_while_marks_are_requested_is_named(void **state) {
    (void)state;
    lose_in(MARK);
}

static void a_worker_lost_while_a_pass_executes_is_named(void **state) {
    (void)state;
    lose_in(EXECUTE);
}

static void a_worker_lost_when_its_part_is_done_is_named(void **state) {
    (void)state;
    lose_in(DONE);
}

// ---- Leaving in the middle ----------------------------------------------------------------------
static void wait_for_execution(gw_scope *root) {
    env *e = root->env;
    while (!now.has_gradient) {
        waiter wait = { .what = "a pass" };
        env_enter(e);
        env_wait(e, &wait, env_now_ns(e) + 1000);
        env_leave(e);
    }
}

static void leave(gw_scope *root, int rank, void *context) {
    (void)context;
    open_worker(root, rank);
    if (rank == OBSERVER) observe(root);
    if (rank == now.victim) {
        wait_for_execution(root);
        if (now.way == SHUTDOWN) gw_rpc_shutdown(root);
        if (now.way == LEAVE) gw_rpc_leave(root);
        now.agents[rank] = NULL;
        return;
    }
    await_rest(root, rank);
}

// The victim ends while its part of a pass runs: in some of the runs before it has sent its
// gradients, in others after.
static void leave_in(way w) {
    int named_count = 0;
    for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(3 * SEEDS); seed++) {
        open_scene(seed, 1 + (int)(seed % 3), EXECUTE);
        now.leaves = true;
        now.way = w;
        run_scene(seed, leave);
        // A worker has ended its part of the pass before it leaves, but it cannot serve gradients any more.
        bool refused = now.observed.status == GW_WRONG_STATE && w == LEAVE;
        if (w == SHUTDOWN)
            assert_string_equal(now.observed.text, "");
        else if (now.observed.status && !refused)
            expect_names(&now.observed, now.victim);
        named_count += now.observed.status != GW_OK;
    }
    assert_true(w == SHUTDOWN || named_count > 0);
}

static void a_worker_that_calls_shutdown_in_a_pass_completes_it(void **state) {
    (void)state;
    leave_in(SHUTDOWN);
}

static void a_worker_that_leaves_in_a_pass_is_named_or_has_done_its_part(void **state) {
    (void)state;
    leave_in(LEAVE);
}

static void a_worker_that_closes_its_scope_in_a_pass_is_named(void **state) {
    (void)state;
    leave_in(CLOSE);
}

// ---- Too late -----------------------------------------------------------------------------------
enum { DEADLINE_MS = 300 };

// The messages of one link arrive only when the pass is over.
typedef struct held {
    int from, to;
} held;

static void expect_no_pass_anywhere(void) {
    for (int i = 0; i < WORKERS; i++) {
        assert_true(list_is_empty(&graphs_of(now.agents[i])->passes));
        assert_true(list_is_empty(&graphs_of(now.agents[i])->ending));
    }
}

static void expect_timeout(gw_error e, int64_t began_ns) {
    if (e.status != GW_TIMEOUT || !strstr(e.text, "backward: the pass has not ended on w"))
        fail_msg("the error is %s, \"%s\"", gw_status_name(e.status), e.text);
    assert_in_range(sim_now_ns(now.sim) - began_ns, DEADLINE_MS * 1000000LL,
                    DEADLINE_MS * 1010000LL);
}

static void be_late(gw_scope *root, int rank, void *context) {
    const held *h = context;
    open_worker(root, rank);
    if (rank == 0) {
        gw_scope *s = gw_scope_open(root), *hurried = gw_scope_open(s);
        gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F64, SIZE));
        gw_tensor *loss = walk_forward(s, x, 2 + 4 + 8);
        int64_t began_ns = sim_now_ns(now.sim);
        sim_partition(now.sim, h->from, h->to, true, false);
        gw_scope_set_timeout(hurried, DEADLINE_MS);
        gw_backward(hurried, loss);
        assert_null(gw_grad_find(hurried, x));
        expect_timeout(gw_scope_close(hurried), began_ns);
        sim_heal(now.sim);
        pause_until(root, sim_now_ns(now.sim) / SIM_SECOND + 5);
        expect_no_pass_anywhere();
        for (int i = 1; i < OBSERVER; i++)
            assert_int_equal(gw_int_of(s, gw_rpc_sync(s, i, "ends_count")), 0);
        gw_backward(s, loss);  // the graph is as it was
        assert_true(gw_ok(s) && gw_item(s, gw_sum(s, gw_grad(s, x))) == SIZE * product_of(14));
        for (int i = 1; i < OBSERVER; i++)
            assert_int_equal(gw_int_of(s, gw_rpc_sync(s, i, "ends_count")), 1);
        gw_scope_close_up(s);
    }
    pause_until(root, 60);
    expect_nothing_left(rank);
}

static void late_gradients_of_an_aborted_pass_change_nothing(void **state) {
    (void)state;
    // Each of these links carries a gradient or the last message of a participant.
    static const held links[] = { { 1, 0 }, { 2, 0 }, { 3, 0 }, { 3, 2 },
                                  { 2, 1 }, { 2, 3 }, { 1, 2 }, { 0, 1 } };
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(SEEDS); seed++) {
            open_scene(seed, -1, EXECUTE);
            held link = links[i];
            testing_note("seed %d, from w%d to w%d", (int)seed, link.from, link.to);
            cluster_run(seed, (cluster_options){ .world_size = WORKERS, .direct = direct }, be_late,
                        &link);
        }
    }
}

GW_TESTS(passes_ends_sim, a_worker_lost_in_the_forward_is_named,
         a_worker_lost_while_marks_are_requested_is_named,
         a_worker_lost_while_a_pass_executes_is_named, a_worker_lost_when_its_part_is_done_is_named,
         a_worker_that_calls_shutdown_in_a_pass_completes_it,
         a_worker_that_leaves_in_a_pass_is_named_or_has_done_its_part,
         a_worker_that_closes_its_scope_in_a_pass_is_named,
         late_gradients_of_an_aborted_pass_change_nothing);
