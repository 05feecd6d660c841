// Large tensors in flight between two workers, and concurrent small calls: which calls wait for which, and that
// everything is received once and as it was sent, over networks that break, lose, repeat and change frames.
#include "testing/cluster.h"
#include "testing/testing.h"

#include "base/scope.h"
#include "agent/state/agent.h"
#include "call/calls.h"

#include <gradwire.h>
#include <stdlib.h>
#include <string.h>

enum { LARGE = 150000, SMALL_CALLS = 4 };  // floats: 600,000 bytes

static int log_of_calls[200], log_count;

GW_FUNCTION(interleave_take, GW_POOL, "int, tensor") {
    log_of_calls[log_count++] = (int)gw_arg_int(s, a, 0);
    return gw_value_of(gw_sum(s, gw_arg_tensor(s, a, 1)));
}

GW_FUNCTION(interleave_note, GW_POOL, "int") {
    log_of_calls[log_count++] = (int)gw_arg_int(s, a, 0);
    return gw_none();
}

GW_FUNCTION(interleave_note_inline, GW_INLINE, "int") {
    log_of_calls[log_count++] = (int)gw_arg_int(s, a, 0);
    return gw_none();
}

GW_FUNCTION(interleave_echo, GW_INLINE, "any") {
    return gw_arg(s, a, 0);
}

GW_FUNCTION(interleave_make, GW_POOL, "int") {
    return gw_value_of(gw_full(s, GW_F32, gw_arg_int(s, a, 0), LARGE));
}

typedef struct interleave_box {
    gw_scope *own;
    gw_tensor *x;
} interleave_box;

GW_CLASS(interleave_box, interleave_box_open);

static void interleave_box_open(gw_scope *own, interleave_box *self, const gw_args *a) {
    self->own = own;
    self->x = gw_keep(own, gw_arg_tensor(own, a, 0));
}

GW_METHOD(interleave_box, put, GW_POOL, "tensor") {
    gw_set(self->own, &self->x, gw_arg_tensor(s, a, 0));
    return gw_none();
}

GW_METHOD(interleave_box, sum, GW_INLINE) {
    return gw_value_of(gw_sum(s, self->x));
}

static double sum_of(gw_scope *s, gw_value v) {
    return gw_item(s, gw_sum(s, gw_tensor_of(s, v)));
}

static const sim_options slow = { .delay_max_us = 2000, .window_bytes = 16384 };

typedef struct walked {
    sim_options network;
    cluster_main *main;
    void *context;
} walked;

static void walk_one(uint64_t seed, void *context) {
    walked *w = context;
    log_count = 0;
    cluster_run(seed,
                (cluster_options){
                    .world_size = 2, .timeout_ms = CLUSTER_NO_TIMEOUT, .network = w->network },
                w->main, w->context);
}

static void walk(int seeds, sim_options network, cluster_main *main, void *context) {
    walked w = { network, main, context };
    testing_for_seeds(seeds, walk_one, &w);
}

// ---- Waits --------------------------------------------------------------------------------------

static void call_during(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_scope *s = gw_scope_open(root), *other = gw_scope_open(root);
    gw_future *f = gw_rpc_async(s, 1, "interleave_take", 1, gw_ones(s, GW_F32, LARGE));
    for (int i = 0; i < SMALL_CALLS; i++)
        assert_int_equal(gw_int_of(other, gw_rpc_sync(other, 1, "interleave_echo", i)), i);
    assert_false(gw_future_done(f));
    assert_int_equal(log_count, 0);
    assert_float_equal(sum_of(s, gw_wait(s, f)), LARGE, 0);
    gw_scope_close_up(other);
    gw_scope_close_up(s);
}

static void small_calls_do_not_wait_for_a_large_argument(void **state) {
    (void)state;
    walk(30, slow, call_during, NULL);
}

static void call_during_a_result(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_scope *s = gw_scope_open(root), *other = gw_scope_open(root);
    gw_future *f = gw_rpc_async(s, 1, "interleave_make", 3);
    int answered = 0;
    for (; !gw_future_done(f); answered++)
        assert_int_equal(gw_int_of(other, gw_rpc_sync(other, 1, "interleave_echo", answered)),
                         answered);
    assert_true(answered >= SMALL_CALLS / 2);
    assert_float_equal(sum_of(s, gw_wait(s, f)), 3.0 * LARGE, 0);
    gw_scope_close_up(other);
    gw_scope_close_up(s);
}

static void small_calls_do_not_wait_for_a_large_result(void **state) {
    (void)state;
    walk(30, slow, call_during_a_result, NULL);
}

// ---- Order --------------------------------------------------------------------------------------

// CALL-6, CALL-17: within one scope a small call does not overtake a large one, wherever it runs.
static void call_in_order(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_scope *s = gw_scope_open(root), *other = gw_scope_open(root);
    gw_tensor *x = gw_ones(s, GW_F32, LARGE);
    gw_future *fs[6];
    fs[0] = gw_rpc_async(s, 1, "interleave_note", 0);
    fs[1] = gw_rpc_async(s, 1, "interleave_take", 1, x);
    fs[2] = gw_rpc_async(s, 1, "interleave_note", 2);
    fs[3] = gw_rpc_async(s, 1, "interleave_note_inline", 3);
    fs[4] = gw_rpc_async(s, 1, "interleave_take", 4, x);
    fs[5] = gw_rpc_async(s, 1, "interleave_note_inline", 5);
    gw_rpc_sync(other, 1, "interleave_note_inline", 6);
    gw_wait_all(s, fs, 6);
    assert_true(gw_ok(s));
    gw_scope_close_up(other);
    gw_scope_close_up(s);
    int last = -1, small = -1;
    for (int i = 0; i < log_count; i++) {
        if (log_of_calls[i] == 6) {
            small = i;
        } else {
            assert_true(log_of_calls[i] > last);
            last = log_of_calls[i];
        }
    }
    assert_int_equal(log_count, 7);
    assert_in_range(small, 0, 1);
}

static void calls_of_one_scope_start_in_their_order(void **state) {
    (void)state;
    walk(60, slow, call_in_order, NULL);
}

// The large argument of a method is complete for the next method, and a reference dropped after a large request is
// released after it.
static void use_an_object(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    for (int i = 1; i <= 3; i++) {
        gw_scope *s = gw_scope_open(root);
        gw_rref *box = gw_remote(s, 1, "interleave_box", gw_full(s, GW_F32, i, LARGE));
        gw_future *first = gw_rpc_async(s, box, "sum");
        gw_future *put = gw_rpc_async(s, box, "put", gw_full(s, GW_F32, 10 * i, LARGE));
        assert_float_equal(sum_of(s, gw_rpc_sync(s, box, "sum")), 10.0 * i * LARGE, 0);
        assert_float_equal(sum_of(s, gw_wait(s, first)), (double)i * LARGE, 0);
        gw_wait(s, put);
        gw_scope_close_up(s);
    }
}

static void objects_receive_large_arguments_in_order(void **state) {
    (void)state;
    walk(40, slow, use_an_object, NULL);
}

// ---- Networks -----------------------------------------------------------------------------------

typedef struct found {
    uint64_t cuts, lost, repeated, changed;
} found;

// Large and small, both ways, through promises, references and backward passes.
static void work_together(gw_scope *root, int rank, void *context) {
    (void)context;
    int next = (rank + 1) % 3, last = (rank + 2) % 3;
    for (int i = 1; i <= 2 && gw_ok(root); i++) {
        gw_scope *s = gw_scope_open(root), *other = gw_scope_open(root);
        gw_future *made = gw_rpc_async(s, next, "interleave_make", rank + i);
        // The producer sends it directly to the consumer.
        gw_future *taken = gw_rpc_async(s, last, "interleave_take", 0, made);
        gw_rref *kept = gw_remote(s, last, "interleave_echo", gw_full(s, GW_F32, 2, LARGE));
        for (int k = 0; k < SMALL_CALLS; k++)
            assert_int_equal(gw_int_of(other, gw_rpc_sync(other, next, "interleave_echo", k)), k);
        gw_tensor *x = gw_requires_grad(s, gw_full(s, GW_F32, 3, LARGE));
        gw_tensor *loss =
            gw_tensor_of(s, gw_rpc_sync(s, next, "gw.sum", gw_mul(s, x, gw_to_here(s, kept))));
        gw_backward(s, loss);
        assert_true(gw_ok(s) && gw_ok(other));
        assert_float_equal(gw_item(s, gw_sum(s, gw_grad(s, x))), 2.0 * LARGE, 0);
        assert_float_equal(sum_of(s, gw_wait(s, taken)), (double)(rank + i) * LARGE, 0);
        assert_float_equal(sum_of(s, gw_wait(s, made)), (double)(rank + i) * LARGE, 0);
        gw_scope_close_up(other);
        gw_scope_close_up(s);
    }
}

static void work_with_seed(uint64_t seed, void *context) {
    found *f = context;
    log_count = 0;
    sim_options network = { .delay_max_us = seed % 4 == 0 ? 2000 : 200,
                            .window_bytes = seed % 2 ? 30000 : 0,
                            .cut_per_million = seed % 3 == 0 ? 20000 : 0,
                            .lose_per_million = seed % 3 == 1 ? 3000 : 0,
                            .duplicate_per_million = seed % 3 == 1 ? 10000 : 0,
                            .damage_per_million = seed % 3 == 2 ? 3000 : 0 };
    cluster_outcome o = cluster_run(
        seed,
        (cluster_options){ .world_size = 3, .timeout_ms = CLUSTER_NO_TIMEOUT, .network = network },
        work_together, NULL);
    f->cuts += o.counts.cuts;
    f->lost += o.counts.frames_lost;
    f->repeated += o.counts.frames_repeated;
    f->changed += o.counts.bits_changed;
}

static void everything_is_received_once_over_networks_that_fail(void **state) {
    (void)state;
    found f = { 0 };
    testing_for_seeds(30, work_with_seed, &f);
    if (!getenv("SEED")) assert_true(f.cuts && f.lost && f.repeated && f.changed);
}

// ---- Ends ---------------------------------------------------------------------------------------

// The scope of a cancelled call releases its position in the order at once.
static void cancel_large(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_scope *s = gw_scope_open(root), *other = gw_scope_open(root);
    gw_tensor *x = gw_ones(s, GW_F32, LARGE);
    gw_future *sent = gw_rpc_async(s, 1, "interleave_take", 1, x);
    gw_rpc_sync(other, 1, "interleave_echo", 0);  // part of it has been sent
    gw_future *queued = gw_rpc_async(s, 1, "interleave_take", 2, x);
    gw_cancel(s, sent);
    gw_cancel(s, queued);
    assert_int_equal(gw_int_of(s, gw_rpc_sync(s, 1, "interleave_echo", 7)), 7);
    assert_int_equal(gw_future_error(sent)->status, GW_CANCELLED);
    assert_int_equal(gw_future_error(queued)->status, GW_CANCELLED);
    assert_int_equal(log_count, 0);
    gw_scope_clear(other);
    gw_scope_clear(s);
    gw_scope_close_up(other);
    gw_scope_close_up(s);
}

static void a_cancelled_call_delays_no_other_call(void **state) {
    (void)state;
    walk(40, slow, cancel_large, NULL);
}

// Worker 1 ends while large tensors are in flight to it and from it.
static void lose_half(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_scope *s = gw_scope_open(root);
    gw_future *fs[4];
    for (int i = 0; i < 4; i++)
        fs[i] = i % 2 ? gw_rpc_async(s, 1, "interleave_make", i)
                      : gw_rpc_async(s, 1, "interleave_take", i, gw_ones(s, GW_F32, LARGE));
    for (int i = 0; i < 4; i++) {
        gw_scope *one = gw_scope_open(s);
        gw_wait(one, fs[i]);
        gw_error e = gw_scope_close(one);
        assert_true(e.status == GW_OK || e.status == GW_DISCONNECTED);
    }
    gw_rpc_sync(s, 2, "interleave_echo", 0);
    gw_scope_close_up(s);
}

static void lose_with_seed(uint64_t seed, void *context) {
    (void)context;
    log_count = 0;
    cluster_outcome o = cluster_run(
        seed,
        (cluster_options){
            .world_size = 3,
            .timeout_ms = CLUSTER_NO_TIMEOUT,
            .network = slow,
            .fails = true,
            .faults = { .nodes = 2, .spared = 1, .until_ns = SIM_SECOND, .crashes = 1 } },
        lose_half, NULL);
    assert_int_equal(o.errors[0].status, GW_OK);
}

static void calls_end_when_their_worker_does(void **state) {
    (void)state;
    testing_for_seeds(60, lose_with_seed, NULL);
}

GW_TESTS(interleave_sim, small_calls_do_not_wait_for_a_large_argument,
         small_calls_do_not_wait_for_a_large_result, calls_of_one_scope_start_in_their_order,
         objects_receive_large_arguments_in_order,
         everything_is_received_once_over_networks_that_fail, a_cancelled_call_delays_no_other_call,
         calls_end_when_their_worker_does);
