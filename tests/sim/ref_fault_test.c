// References under faults: networks that break, workers that end at any moment, values that cannot
// be made.
#include "base/log.h"
#include "base/scope.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <string.h>

// ---- Functions ----------------------------------------------------------------------------------

GW_FUNCTION(fault_make, GW_POOL, "int") {
    return gw_value_of(gw_full(s, GW_I64, gw_arg_int(s, a, 0), 3));
}

static void pause_ms(gw_scope *s, int64_t ms) {
    gw_error late = cluster_pause_ms(s, ms);
    if (late.status != GW_TIMEOUT) gw_fail(s, late.status, "%s", late.text);
}

GW_FUNCTION(fault_make_slowly, GW_POOL, "int, int") {
    pause_ms(s, gw_arg_int(s, a, 1));
    if (gw_scope_time_left_ms(s) == 0) gw_fail(s, GW_TIMEOUT, "too slow");
    return gw_value_of(gw_full(s, GW_I64, gw_arg_int(s, a, 0), 3));
}

GW_FUNCTION(fault_fail_slowly, GW_POOL, "int") {
    pause_ms(s, gw_arg_int(s, a, 0));
    gw_fail(s, GW_REMOTE, "cannot make it");
    return gw_none();
}

GW_FUNCTION(fault_first, GW_INLINE, "tensor") {
    return gw_value_of(gw_item_int(s, gw_select(s, gw_arg_tensor(s, a, 0), 0, 0)));
}

GW_FUNCTION(fault_read, GW_POOL, "rref") {
    gw_tensor *x = gw_to_here(s, gw_arg_rref(s, a, 0));
    return gw_value_of(gw_item_int(s, gw_select(s, x, 0, 0)));
}

// Passes the reference to the next worker, and so on; the last one reads it.
GW_FUNCTION(fault_chain, GW_POOL, "rref, int") {
    int next = gw_rpc_self(s).rank + 1;
    if (next == gw_rpc_world_size(s))
        return gw_rpc_sync(s, next - 1, "fault_read", gw_arg(s, a, 0));
    return gw_rpc_sync(s, next, "fault_chain", gw_arg(s, a, 0), 0);
}

GW_FUNCTION(fault_return, GW_INLINE, "rref") {
    return gw_arg(s, a, 0);
}

// Keeps its argument, perhaps a reference, until a call drops it.
typedef struct fault_shelf {
    gw_scope *own;
    gw_rref *held;
    int64_t calls;  // the worker that its destructor calls; -1: none
} fault_shelf;

static int shelves_closed, shelves_answered;

GW_CLASS(fault_shelf, fault_shelf_open, fault_shelf_close, "int");

static void fault_shelf_open(gw_scope *own, fault_shelf *self, const gw_args *a) {
    self->own = own;
    self->calls = gw_arg_int(own, a, 0);
}

static void fault_shelf_close(fault_shelf *self) {
    shelves_closed++;
    if (self->calls == 100) {
        // blocks until its deadline
        gw_wait(self->own, gw_future_open(self->own));
        assert_int_equal(gw_scope_error(self->own)->status, GW_TIMEOUT);
        gw_scope_clear(self->own);
    } else if (self->calls == 200) {
        gw_fail(self->own, GW_REMOTE, "does not want to end");
    } else if (self->calls >= 0) {
        gw_tensor *x =
            gw_tensor_of(self->own, gw_rpc_sync(self->own, (int)self->calls, "fault_make", 5));
        shelves_answered += gw_item_int(self->own, gw_select(self->own, x, 0, 0)) == 5;
    }
}

GW_METHOD(fault_shelf, put, GW_INLINE, "rref") {
    gw_set(self->own, &self->held, gw_arg_rref(s, a, 0));
    return gw_none();
}

GW_METHOD(fault_shelf, get, GW_INLINE) {
    return gw_value_of(self->held);
}

// ---- Helpers ------------------------------------------------------------------------------------

static int64_t first_of(gw_scope *s, gw_rref *r) {
    return gw_item_int(s, gw_select(s, gw_to_here(s, r), 0, 0));
}

static void expect(gw_scope *s, gw_status status, const char *text) {
    assert_string_equal(gw_scope_error(s)->text, text);
    assert_int_equal(gw_scope_error(s)->status, status);
    gw_scope_clear(s);
}

static void assert_no_references_left(const cluster_outcome *o, int world_size) {
    for (int rank = 0; rank < world_size; rank++)
        if (!o->crashed[rank]) assert_int_equal(o->owned[rank], 0);
}

// ---- Bad networks (FAULT-E1) --------------------------------------------------------------------

static void share(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    for (int i = 0; i < 10; i++) {
        gw_scope *s = gw_scope_open(root);
        gw_rref *r = gw_remote(s, 1, "fault_make", i);
        assert_int_equal(gw_int_of(s, gw_rpc_sync(s, 2, "fault_read", r)), i);
        gw_rref *back = gw_rref_of(s, gw_rpc_sync(s, 2, "fault_return", r));
        gw_drop(s, r);
        assert_int_equal(first_of(s, back), i);
        assert_int_equal(gw_int_of(s, gw_rpc_sync(s, 2, "fault_first", gw_by_value(s, back))), i);
        gw_scope_close_up(s);
    }
}

static void share_with_seed(uint64_t seed, void *context) {
    (void)context;
    sim_options network = { .delay_max_us = 5000 };
    if (seed & 1) network.lose_per_million = 20000;
    if (seed & 2) network.duplicate_per_million = 20000;
    if (seed & 4) network.cut_per_million = 20000;
    cluster_outcome o =
        cluster_run(seed, (cluster_options){ .world_size = 3, .network = network }, share, NULL);
    assert_no_references_left(&o, 3);
}

static void it_frees_each_value_once_over_a_network_that_loses_and_repeats(void **state) {
    (void)state;
    testing_for_seeds(60, share_with_seed, NULL);
}

// ---- Ends at any moment (FAULT-E2) --------------------------------------------------------------

enum { PARENT = 1, OWNER = 2, CHILD = 3 };

typedef struct ending {
    sim *sim;
    int node;
    uint64_t decisions;  // from the beginning of the scenario
    uint64_t dropped;    // references
} ending;

static void end_node(sim *s, void *arg) {
    sim_crash(s, ((ending *)arg)->node);
}

static void take_sim(sim *s, void *context) {
    ((ending *)context)->sim = s;
}

// Survivors lose the values of the lost worker, and no others.
static bool is_expected(gw_scope *s) {
    gw_status status = gw_scope_error(s)->status;
    if (status == GW_OK) return true;
    if (!sim_is_ghost(s->env) && status != GW_DISCONNECTED && status != GW_REF_LOST)
        assert_string_equal(gw_scope_error(s)->text, "");
    gw_scope_clear(s);
    return false;
}

static void fork_and_end(gw_scope *root, int rank, void *context) {
    ending *e = context;
    if (rank != PARENT) return;
    assert_true(sim_at_decision(e->sim, sim_count(e->sim).decisions + e->decisions, end_node, e));
    gw_scope *s = gw_scope_open(root);
    gw_rref *r = gw_remote(s, OWNER, "fault_make", 7);
    int64_t n = gw_int_of(s, gw_rpc_sync(s, CHILD, "fault_read", r));
    if (is_expected(s)) assert_int_equal(n, 7);
    gw_rref *shelf = gw_remote(s, CHILD, "fault_shelf", -1);
    gw_rpc_sync(s, shelf, "put", r);
    is_expected(s);
    gw_value got = gw_rpc_sync(s, shelf, "get");
    gw_rref *back = is_expected(s) && got.kind == GW_RREF ? got.as.rref : r;
    if (back != r) gw_drop(s, r);
    n = first_of(s, back);
    if (is_expected(s)) assert_int_equal(n, 7);
    n = gw_int_of(s, gw_rpc_sync(s, CHILD, "fault_first", gw_by_value(s, back)));
    if (is_expected(s)) assert_int_equal(n, 7);
    gw_scope_close_up(s);
}

static void end_with_seed(uint64_t seed, void *context) {
    (void)context;
    ending e = { .node = 1 + (int)(seed % 3), .decisions = 1 + seed * 7919 % 500 };
    cluster_outcome o =
        cluster_run(seed,
                    (cluster_options){ .world_size = 4,
                                       .network = { .delay_max_us = seed % 2 ? 200 : 20000 },
                                       .direct = take_sim },
                    fork_and_end, &e);
    assert_no_references_left(&o, 4);
}

static void it_frees_or_loses_values_of_a_worker_that_ends_at_any_moment(void **state) {
    (void)state;
    testing_for_seeds(300, end_with_seed, NULL);
}

// w1 calls gw_rpc_shutdown and ends before it is notified that all have called it. Only w0 detects that at once: w2 and
// w3 answer its next wave before they detect it, and w3 still keeps the shelf for w1. With some count of dropped
// references w2 and w3 have sent w1 as many messages as they have received from it.
static void end_parent_unseen(sim *s, void *arg) {
    (void)arg;
    sim_heal(s);
    sim_partition(s, PARENT, OWNER, true, true);
    sim_partition(s, PARENT, CHILD, true, true);
    sim_crash(s, PARENT);
}

static void shelve_and_end(gw_scope *root, int rank, void *context) {
    ending *e = context;
    if (rank != PARENT) return;
    gw_rref *shelf = gw_remote(root, CHILD, "fault_shelf", -1);
    gw_rpc_sync(root, shelf, "put", gw_remote(root, OWNER, "fault_make", 7));
    for (uint64_t i = 0; i < e->dropped; i++) {
        gw_drop(root, gw_remote(root, OWNER, "fault_make", 8));
        pause_ms(root, 5);
    }
    sim_partition(e->sim, 0, PARENT, true, false);
    assert_true(sim_at(e->sim, sim_now_ns(e->sim) + 5000 * 1000, end_parent_unseen, NULL));
}

static void shelve_with_seed(uint64_t seed, void *context) {
    (void)context;
    ending e = { .dropped = seed % 4 };
    cluster_outcome o = cluster_run(seed, (cluster_options){ .world_size = 4, .direct = take_sim },
                                    shelve_and_end, &e);
    assert_true(o.crashed[PARENT]);
    assert_no_references_left(&o, 4);
}

static void no_worker_leaves_before_all_are_notified_of_a_loss(void **state) {
    (void)state;
    testing_for_seeds(12, shelve_with_seed, NULL);
}

// ---- Parted, and stopped (FAULT-E3, FAULT-E4) ---------------------------------------------------

static void part_all(sim *s, void *arg) {
    uint64_t seed = ((ending *)arg)->decisions;
    int a = 1 + (int)(seed % 3), b = 1 + (a + (int)(seed / 3 % 2)) % 3;
    sim_partition(s, a, b, true, seed % 2);
}

static void heal_all(sim *s, void *arg) {
    (void)arg;
    sim_heal(s);
}

static void fork_while_parted(gw_scope *root, int rank, void *context) {
    ending *e = context;
    if (rank != PARENT) return;
    uint64_t at = sim_count(e->sim).decisions + 1 + e->decisions * 31 % 300;
    assert_true(sim_at_decision(e->sim, at, part_all, e));
    assert_true(sim_at(e->sim, sim_now_ns(e->sim) + 3 * SIM_SECOND, heal_all, e));
    share(root, 0, NULL);
}

static void part_with_seed(uint64_t seed, void *context) {
    (void)context;
    ending e = { .decisions = seed };
    cluster_outcome o = cluster_run(seed, (cluster_options){ .world_size = 4, .direct = take_sim },
                                    fork_while_parted, &e);
    assert_no_references_left(&o, 4);
}

static void it_waits_for_a_partition_that_heals(void **state) {
    (void)state;
    testing_for_seeds(60, part_with_seed, NULL);
}

static void stop_owner(sim *s, void *arg) {
    (void)arg;
    sim_stop(s, OWNER);
}

static void continue_owner(sim *s, void *arg) {
    (void)arg;
    sim_continue(s, OWNER);
}

static void plan_stop(sim *s, void *context) {
    (void)context;
    assert_true(sim_at(s, 5 * SIM_SECOND, stop_owner, NULL));
    assert_true(sim_at(s, 25 * SIM_SECOND, continue_owner, NULL));
}

// A wrong suspicion: the others continue without the worker, and it is fenced.
static void outlive_a_stop(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(root);
    if (rank == PARENT) {
        gw_rref *theirs = gw_remote(s, OWNER, "fault_make", 7);
        gw_rref *mine = gw_rref_open(s, gw_full(s, GW_I64, 8, 3));
        gw_rref *shelf = gw_remote(s, OWNER, "fault_shelf", -1);
        gw_rpc_sync(s, shelf, "put", mine);
        gw_rpc_sync(s, CHILD, "fault_read", theirs);
        assert_int_equal(gw_scope_error(s)->status, GW_OK);
        pause_ms(s, 15000);
        gw_to_here(s, theirs);
        assert_int_equal(gw_scope_error(s)->status, GW_REF_LOST);
        gw_scope_clear(s);
        gw_rpc_sync(s, CHILD, "fault_first", gw_by_value(s, theirs));
        assert_int_equal(gw_scope_error(s)->status, GW_REF_LOST);
        gw_scope_clear(s);
        assert_int_equal(gw_int_of(s, gw_rpc_sync(s, CHILD, "fault_read", mine)), 8);
        pause_ms(s, 15000);
    } else if (rank == OWNER) {
        gw_rref *theirs = gw_remote(s, PARENT, "fault_make", 7);
        first_of(s, theirs);
        pause_ms(s, 30000);
        gw_scope_clear(s);
        gw_to_here(s, theirs);
        assert_true(gw_scope_error(s)->status == GW_FENCED ||
                    gw_scope_error(s)->status == GW_REF_LOST);
        gw_scope_clear(s);
    }
    gw_scope_close_up(s);
}

static void it_fences_a_slow_worker_that_was_declared_dead(void **state) {
    (void)state;
    cluster_outcome o =
        cluster_run(1, (cluster_options){ .world_size = 4, .direct = plan_stop, .fails = true },
                    outlive_a_stop, NULL);
    for (int rank = 0; rank < 4; rank++) {
        if (rank == OWNER) continue;
        assert_string_equal(o.errors[rank].text, "");
        assert_int_equal(o.owned[rank], 0);
    }
}

// ---- Unusual orders (FAULT-E5, FAULT-E6) --------------------------------------------------------

static void drop_at_once(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_scope *s = gw_scope_open(root);
    gw_rref *r = gw_remote(s, 1, "fault_make_slowly", 3, 50);
    gw_future *f = gw_to_here_async(s, r);
    gw_drop(s, r);
    gw_tensor *x = gw_tensor_of(s, gw_wait(s, f));
    assert_int_equal(gw_item_int(s, gw_select(s, x, 0, 0)), 3);
    // dropped by all holders while it is being made
    gw_drop(s, gw_remote(s, 1, "fault_make_slowly", 4, 50));
    gw_drop(s, gw_remote(s, 1, "fault_fail_slowly", 50));
    gw_drop(s, gw_remote(s, 1, "fault_shelf", -1));
    gw_rpc_async(s, 2, "fault_read", gw_remote(s, 1, "fault_make_slowly", 4, 50));
    gw_scope_close_up(s);
}

static void drop_with_seed(uint64_t seed, void *context) {
    (void)context;
    cluster_outcome o = cluster_run(
        seed,
        (cluster_options){ .world_size = 3, .network = { .delay_max_us = seed % 2 ? 30000 : 200 } },
        drop_at_once, NULL);
    assert_no_references_left(&o, 3);
}

static void it_completes_a_fetch_whose_reference_is_dropped_at_once(void **state) {
    (void)state;
    testing_for_seeds(40, drop_with_seed, NULL);
}

// w2 gets the reference, and fetches its value, before w1 gets the creating request, which waits
// behind other messages.
static void overtake(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_rpc_async(s, 1, "fault_first", gw_zeros(s, GW_I64, 200000));
    gw_rref *r = gw_remote(s, 1, "fault_make", 6);
    assert_int_equal(gw_int_of(s, gw_rpc_sync(s, 2, "fault_read", r)), 6);
    gw_rpc_async(s, 1, "fault_first", gw_zeros(s, GW_I64, 200000));
    gw_rref *shelf = gw_remote(s, 1, "fault_shelf", -1);
    gw_rref *also = gw_remote(s, 2, "fault_return", shelf);
    gw_rpc_sync(s, gw_rref_of(s, gw_to_here_value(s, also)), "put", r);
    gw_rpc_async(s, 1, "fault_first", gw_zeros(s, GW_I64, 200000));
    r = gw_remote(s, 1, "fault_make", 7);
    assert_int_equal(gw_int_of(s, gw_rpc_sync(s, 2, "fault_first", gw_by_value(s, r))), 7);
}

static void it_waits_for_a_creation_that_has_been_overtaken(void **state) {
    (void)state;
    cluster_outcome o = cluster_run(3, (cluster_options){ .world_size = 3 }, overtake, NULL);
    assert_no_references_left(&o, 3);
}

// ---- Numbers (FAULT-E7) -------------------------------------------------------------------------

static void fork_about(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_rref *r = gw_remote(root, 1, "fault_make", 3);
    for (int i = 0; i < 1000; i++) {
        gw_scope *s = gw_scope_open(root);
        // to oneself, to its owner, to another; and back
        gw_rref *back = gw_rref_of(s, gw_rpc_sync(s, i % 3, "fault_return", r));
        gw_set(root, &r, back);
        gw_scope_close_up(s);
    }
    assert_int_equal(first_of(root, r), 3);
    assert_int_equal(gw_int_of(root, gw_rpc_sync(root, 1, "fault_chain", r, 0)), 3);
    gw_drop(root, r);
}

static void it_forks_to_itself_to_the_owner_and_along_a_chain(void **state) {
    (void)state;
    cluster_outcome o =
        cluster_run(1, (cluster_options){ .world_size = CLUSTER_WORKERS_MAX }, fork_about, NULL);
    assert_no_references_left(&o, CLUSTER_WORKERS_MAX);
}

// ---- References in references, and cycles (FAULT-E8) --------------------------------------------

static int cycle_lines;

static void count_cycle(const char *line) {
    if (strstr(line, "still has a reference to its fault_shelf of ref_fault_test.c:"))
        cycle_lines++;
}

static void tie(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_scope *s = gw_scope_open(root);
    gw_rref *r = gw_remote(s, 1, "fault_make", 4);
    gw_rref *of_it = gw_rref_open(s, r);
    gw_rref *inner = gw_rref_of(s, gw_rref_local_value(s, of_it));
    assert_int_equal(first_of(s, inner), 4);
    gw_rref *away = gw_remote(s, 2, "fault_return", r);
    assert_int_equal(first_of(s, gw_rref_of(s, gw_to_here_value(s, away))), 4);
    gw_rref *x = gw_remote(s, 1, "fault_shelf", -1), *y = gw_remote(s, 2, "fault_shelf", -1);
    gw_rpc_sync(s, x, "put", y);
    gw_rpc_sync(s, y, "put", x);
    gw_scope_close_up(s);
}

static void it_names_references_of_a_cycle_at_shutdown(void **state) {
    (void)state;
    cycle_lines = 0;
    log_hook = count_cycle;
    cluster_run(2, (cluster_options){ .world_size = 3 }, tie, NULL);
    log_hook = NULL;
    assert_int_equal(cycle_lines, 2);
}

// ---- Values that cannot be made (FAULT-E9) ------------------------------------------------------

static void fail_to_make(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_scope *s = gw_scope_open(root);
    static const char failed[] = "w1: fault_fail_slowly: cannot make it";
    gw_rref *r = gw_remote(s, 1, "fault_fail_slowly", 100);
    // before: all of these calls wait already
    gw_future *fetch = gw_to_here_async(s, r);
    gw_future *read = gw_rpc_async(s, 2, "fault_read", r);
    gw_future *value = gw_rpc_async(s, 2, "fault_first", gw_by_value(s, r));
    gw_future *method = gw_rpc_async(s, r, "put", r);
    assert_false(gw_future_done(method));
    gw_wait(s, fetch);
    expect(s, GW_REMOTE, failed);
    gw_wait(s, read);
    expect(s, GW_REMOTE, "w2: fault_read: w1: fault_fail_slowly: cannot make it");
    gw_wait(s, value);
    expect(s, GW_REMOTE, "w2: fault_first: w1: fault_fail_slowly: cannot make it");
    gw_wait(s, method);
    expect(s, GW_REMOTE, "w1: put: w1: fault_fail_slowly: cannot make it");
    // after
    gw_to_here(s, r);
    expect(s, GW_REMOTE, failed);
    gw_rpc_sync(s, 2, "fault_first", gw_by_value(s, r));
    expect(s, GW_REMOTE, "w2: fault_first: w1: fault_fail_slowly: cannot make it");
    // too late to be made; a fetch with a shorter deadline does not fail it
    r = gw_remote_with(s, gw_to(1), "fault_make_slowly", GW_ARGS(1, 200),
                       GW_OPTIONS(gw_call_options, .timeout_ms = 50));
    gw_to_here(s, r);
    assert_int_equal(gw_scope_error(s)->status, GW_TIMEOUT);
    gw_scope_clear(s);
    r = gw_remote(s, 1, "fault_make_slowly", 1, 200);
    gw_scope *quick = gw_scope_open(s);
    gw_scope_set_timeout(quick, 50);
    gw_to_here(quick, r);
    assert_int_equal(gw_scope_close(quick).status, GW_TIMEOUT);
    assert_int_equal(first_of(s, r), 1);
    gw_scope_close_up(s);
}

static void it_fails_all_uses_with_the_error_of_making_the_value(void **state) {
    (void)state;
    cluster_outcome o = cluster_run(2, (cluster_options){ .world_size = 3 }, fail_to_make, NULL);
    assert_no_references_left(&o, 3);
}

// ---- Ends of objects (FAULT-E10) ----------------------------------------------------------------

static void end_objects(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_scope *s = gw_scope_open(root);
    gw_remote(s, 1, "fault_shelf", 0);  // its destructor calls the worker that drops it
    gw_remote(s, 1, "fault_shelf", 2);
    gw_remote(s, 1, "fault_shelf", 1);
    gw_remote(s, 1, "fault_shelf", 100);
    gw_remote(s, 1, "fault_shelf", 200);
    gw_rref *late = gw_remote(s, 1, "fault_make", 1);
    first_of(s, late);
    gw_scope_close_up(s);
    // A destructor that blocks delays no other call.
    assert_true(gw_ok(root));
    gw_scope *t = gw_scope_open(root);
    assert_int_equal(first_of(t, gw_remote(t, 1, "fault_make", 2)), 2);
    gw_scope_close_up(t);
}

static void it_ends_objects_whose_destructors_fail_block_or_call(void **state) {
    (void)state;
    shelves_closed = shelves_answered = 0;
    cluster_outcome o =
        cluster_run(4, (cluster_options){ .world_size = 3, .threads = 1, .timeout_ms = 2000 },
                    end_objects, NULL);
    assert_int_equal(shelves_closed, 5);
    assert_int_equal(shelves_answered, 3);
    assert_no_references_left(&o, 3);
}

GW_TESTS(ref_fault, it_frees_each_value_once_over_a_network_that_loses_and_repeats,
         it_frees_or_loses_values_of_a_worker_that_ends_at_any_moment,
         no_worker_leaves_before_all_are_notified_of_a_loss, it_waits_for_a_partition_that_heals,
         it_fences_a_slow_worker_that_was_declared_dead,
         it_completes_a_fetch_whose_reference_is_dropped_at_once,
         it_waits_for_a_creation_that_has_been_overtaken,
         it_forks_to_itself_to_the_owner_and_along_a_chain,
         it_names_references_of_a_cycle_at_shutdown,
         it_fails_all_uses_with_the_error_of_making_the_value,
         it_ends_objects_whose_destructors_fail_block_or_call);
