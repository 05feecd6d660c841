// Values of references as arguments: the owner sends them directly to the called worker.
#include "base/log.h"
#include "agent/state/agent.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- Functions ----------------------------------------------------------------------------------

GW_FUNCTION(chain_load, GW_POOL, "int, int") {
    return gw_value_of(gw_full(s, GW_F32, (double)gw_arg_int(s, a, 0), gw_arg_int(s, a, 1)));
}

GW_FUNCTION(chain_add, GW_INLINE, "tensor, tensor") {
    return gw_value_of(gw_add(s, gw_arg_tensor(s, a, 0), gw_arg_tensor(s, a, 1)));
}

GW_FUNCTION(chain_first, GW_INLINE, "tensor") {
    return gw_value_of(gw_item(s, gw_select(s, gw_arg_tensor(s, a, 0), 0, 0)));
}

GW_FUNCTION(chain_sum, GW_INLINE, "list") {
    double sum = 0;
    gw_list *list = gw_arg_list(s, a, 0);
    for (int i = 0; i < gw_list_count(list); i++)
        sum += gw_item(s, gw_select(s, gw_tensor_of(s, gw_list_get(s, list, i)), 0, 0));
    return gw_value_of(sum);
}

GW_FUNCTION(chain_slowly, GW_POOL, "int") {
    gw_error late = cluster_pause_ms(s, 50);
    if (late.status != GW_TIMEOUT) gw_fail(s, GW_REMOTE, "did not wait");
    return gw_value_of(gw_full(s, GW_F32, (double)gw_arg_int(s, a, 0), 3));
}

GW_FUNCTION(chain_fail, GW_POOL) {
    gw_fail(s, GW_REMOTE, "cannot make it");
    return gw_none();
}

// Returns a value that this worker does not have, without waiting for it.
GW_FUNCTION(chain_pass, GW_INLINE, "rref") {
    return gw_value_of(gw_by_value(s, gw_arg_rref(s, a, 0)));
}

GW_FUNCTION(chain_use_there, GW_POOL, "rref, int") {
    return gw_rpc_sync(s, (int)gw_arg_int(s, a, 1), "chain_first",
                       gw_by_value(s, gw_arg_rref(s, a, 0)));
}

typedef struct chain_box {
    double held;
} chain_box;

GW_CLASS(chain_box, chain_box_open);

static void chain_box_open(gw_scope *own, chain_box *self, const gw_args *a) {
    if (gw_arg_count(a)) self->held = gw_item(own, gw_select(own, gw_arg_tensor(own, a, 0), 0, 0));
}

GW_METHOD(chain_box, add, GW_INLINE, "tensor") {
    self->held += gw_item(s, gw_select(s, gw_arg_tensor(s, a, 0), 0, 0));
    return gw_value_of(self->held);
}

GW_METHOD(chain_box, held, GW_INLINE) {
    return gw_value_of(self->held);
}

static void expect(gw_scope *s, gw_status status, gw_outcome outcome, const char *text) {
    const gw_error *e = gw_scope_error(s);
    assert_string_equal(e->text, text);
    assert_int_equal(e->status, status);
    assert_int_equal(e->outcome, outcome);
    gw_scope_clear(s);
}

static void assert_no_references_left(const cluster_outcome *o, int world_size) {
    for (int rank = 0; rank < world_size; rank++) assert_int_equal(o->owned[rank], 0);
}

static double first(gw_scope *s, gw_value v) {
    return gw_item(s, gw_select(s, gw_tensor_of(s, v), 0, 0));
}

// ---- Messages -----------------------------------------------------------------------------------

enum { BIG = 50000, CHAIN = 5 };

typedef struct traffic {
    uint64_t calls, sent, received, bytes_sent, bytes_received;
} traffic;

// Counts messages of calls and references, sent and received.
static traffic count_traffic(gw_scope *s) {
    gw_rpc_stats stats = gw_rpc_get_stats(s);
    traffic t = { stats.calls_made, 0, 0, stats.bytes_sent, stats.bytes_received };
    agent *a = s->agent;
    for (int rank = 0; rank < a->member_count; rank++) {
        if (rank == a->rank) continue;
        t.sent += agent_member(a, rank)->sent;
        t.received += agent_member(a, rank)->received;
    }
    return t;
}

static void run_chain(gw_scope *s, int rank, void *context) {
    traffic *out = context;
    if (rank != 0) {
        // Serves, and counts before shutdown begins.
        cluster_sleep_ms(s, 5000);
        out[rank] = count_traffic(s);
        return;
    }
    gw_rref *ra = gw_remote(s, 1, "chain_load", 1, BIG),
            *rb = gw_remote(s, 2, "chain_load", 2, BIG);
    gw_rref *rc = gw_remote(s, 3, "chain_add", gw_by_value(s, ra), gw_by_value(s, rb));
    gw_rref *rd = gw_remote(s, 4, "chain_add", gw_by_value(s, rc), gw_by_value(s, rb));
    assert_true(gw_float_of(s, gw_rpc_sync(s, 4, "chain_first", gw_by_value(s, rd))) == 5);
    out[rank] = count_traffic(s);
    cluster_sleep_ms(s, 10000);
}

// rd = f4(f3(ra, rb), rb): one request a call, one transfer for each tensor and consumer, one
// control message for each of them and for each reference, and no value through the caller.
static void it_sends_each_tensor_once_and_not_through_the_caller(void **state) {
    (void)state;
    traffic w[CHAIN] = { 0 };
    setenv("GW_LEND", "0", 1);  // tensors are sent, so that they can be counted
    cluster_run(1, (cluster_options){ .world_size = CHAIN }, run_chain, w);
    unsetenv("GW_LEND");
    uint64_t tensor = BIG * sizeof(float);
    // five requests, and the forwards of ra, rb, rc, rb and rd; in: four times accepted, one reply
    assert_int_equal(w[0].calls, 5);
    assert_int_equal(w[0].sent, 5 + 5);
    assert_int_equal(w[0].received, 4 + 1);
    assert_true(w[0].bytes_sent < 8192 && w[0].bytes_received < 8192);
    // ra once, rb twice, rc once, each to the worker that needs it; rd stays with its owner
    assert_int_equal(w[1].sent, 1 + 1);
    assert_int_equal(w[2].sent, 1 + 2);
    assert_int_equal(w[3].sent, 1 + 1);
    assert_int_equal(w[4].sent, 1 + 1);
    assert_int_equal(w[1].received, 1 + 1);
    assert_int_equal(w[2].received, 1 + 2);
    assert_int_equal(w[3].received, 1 + 1 + 2);
    assert_int_equal(w[4].received, 2 + 1 + 2);
    assert_in_range(w[1].bytes_sent, tensor, tensor + 8192);
    assert_in_range(w[2].bytes_sent, 2 * tensor, 2 * tensor + 8192);
    assert_in_range(w[3].bytes_sent, tensor, tensor + 8192);
    assert_true(w[4].bytes_sent < 8192);
    for (int rank = 1; rank < CHAIN; rank++) assert_int_equal(w[rank].calls, 0);
}

// ---- All to all ---------------------------------------------------------------------------------

static void use(gw_scope *root, int owner, int consumer) {
    gw_scope *s = gw_scope_open(root);
    gw_rref *r = gw_remote(s, owner, "chain_load", 7, 3);
    // at once, while it is perhaps being made; and dropped before it can have arrived
    gw_future *f = gw_rpc_async(s, consumer, "chain_first", gw_by_value(s, r));
    gw_drop(s, r);
    assert_true(gw_float_of(s, gw_wait(s, f)) == 7);

    r = gw_remote(s, owner, "chain_slowly", 8);
    assert_true(gw_float_of(s, gw_rpc_sync(s, consumer, "chain_first", gw_by_value(s, r))) == 8);
    gw_rref *there = gw_remote(s, consumer, "chain_add", gw_by_value(s, r), gw_by_value(s, r));
    assert_true(first(s, gw_to_here_value(s, there)) == 16);
    gw_list *list = gw_list_open(s);
    gw_list_add(s, list, gw_by_value(s, there));
    gw_list_add(s, list, gw_by_value(s, r));
    assert_true(gw_float_of(s, gw_rpc_sync(s, consumer, "chain_sum", list)) == 24);

    // operators take the values of references, also in lists
    gw_rref *sum = gw_remote(s, consumer, "gw.add", r, there);
    assert_true(first(s, gw_to_here_value(s, sum)) == 24);
    gw_list *both = gw_list_open(s);
    gw_list_add(s, both, r);
    gw_list_add(s, both, there);
    assert_true(first(s, gw_rpc_sync(s, consumer, "gw.cat", both, 0)) == 8);

    // methods, also of a value that is still being made
    gw_rref *box = gw_remote(s, consumer, "chain_box", gw_by_value(s, r));
    assert_true(gw_float_of(s, gw_rpc_sync(s, box, "add", gw_by_value(s, there))) == 24);

    // from a body: passed on without a wait, and sent on to another worker
    assert_true(first(s, gw_rpc_sync(s, consumer, "chain_pass", r)) == 8);
    assert_true(gw_float_of(s, gw_rpc_sync(s, consumer, "chain_use_there", r, owner)) == 8);
    assert_true(gw_float_of(s, gw_rpc_sync(s, consumer, "chain_use_there", r, 0)) == 8);

    // waited for here
    gw_future *here = gw_by_value(s, r);
    assert_true(owner == 0 || !gw_future_done(here));
    assert_true(first(s, gw_wait(s, here)) == 8);
    assert_true(gw_float_of(s, gw_rpc_sync(s, consumer, "chain_first", here)) == 8);
    here = gw_to_here_async(s, r);
    assert_true(gw_float_of(s, gw_rpc_sync(s, consumer, "chain_first", here)) == 8);
    assert_true(first(s, gw_wait(s, here)) == 8);
    // never needed
    gw_by_value(s, r);
    gw_to_here_async(s, r);
    gw_scope_close_up(s);
}

static void use_all(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    for (int owner = 0; owner < 3; owner++)
        for (int consumer = 0; consumer < 3; consumer++) use(root, owner, consumer);
}

static void use_all_with_seed(uint64_t seed, void *context) {
    (void)context;
    cluster_outcome o =
        cluster_run(seed,
                    (cluster_options){ .world_size = 3,
                                       .threads = 1 + (int)(seed % 2),
                                       .network = { .delay_max_us = seed % 3 ? 20000 : 0,
                                                    .cut_per_million = seed % 2 ? 10000 : 0 } },
                    use_all, NULL);
    assert_no_references_left(&o, 3);
}

static void it_sends_the_value_to_the_called_worker(void **state) {
    (void)state;
    testing_for_seeds(40, use_all_with_seed, NULL);
}

// ---- To many, and one way -----------------------------------------------------------------------

static void use_with_all(gw_scope *root, int rank, void *context) {
    traffic *out = context;
    if (rank != 0) {
        cluster_sleep_ms(root, 5000);
        out[rank] = count_traffic(root);
        return;
    }
    gw_scope *s = gw_scope_open(root);
    gw_worker all[CHAIN];
    for (int i = 0; i < CHAIN; i++) all[i] = gw_rpc_worker(s, i);
    gw_rref *r = gw_remote(s, 2, "chain_load", 6, BIG);
    gw_list *firsts = gw_rpc_sync_all(s, all, CHAIN, "chain_first", gw_by_value(s, r));
    assert_int_equal(gw_list_count(firsts), CHAIN);
    for (int i = 0; i < CHAIN; i++) assert_true(gw_float_of(s, gw_list_get(s, firsts, i)) == 6);
    // Its arguments may be dropped as soon as it has been sent.
    gw_rref *slow = gw_remote(s, 3, "chain_slowly", 8);
    gw_future *f = gw_rpc_async_all(s, all + 1, 2, "chain_first", gw_by_value(s, slow));
    gw_drop(s, slow);
    gw_list *later = gw_list_of(s, gw_wait(s, f));
    for (int i = 0; i < 2; i++) assert_true(gw_float_of(s, gw_list_get(s, later, i)) == 8);
    gw_scope_close_up(s);
    out[rank] = count_traffic(root);
    cluster_sleep_ms(root, 10000);
}

// The owner sends the value to each worker that is called, not through the caller.
static void it_sends_the_value_directly_to_each_of_many(void **state) {
    (void)state;
    traffic w[CHAIN] = { 0 };
    cluster_outcome o =
        cluster_run(3, (cluster_options){ .world_size = CHAIN, .threads = 1 }, use_with_all, w);
    uint64_t tensor = BIG * sizeof(float);
    assert_true(w[0].bytes_sent < 8192);
    assert_in_range(w[0].bytes_received, tensor, tensor + 8192);  // it was called, too
    assert_in_range(w[2].bytes_sent, 4 * tensor, 4 * tensor + 8192);
    assert_no_references_left(&o, CHAIN);
}

static char logged[512];

static void keep_line(const char *line) {
    snprintf(logged, sizeof logged, "%s", line);
}

static void notify_with_values(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    for (int owner = 0; owner < 3; owner++) {
        gw_scope *s = gw_scope_open(root);
        gw_rref *box = gw_remote(s, 1, "chain_box"), *r = gw_remote(s, owner, "chain_slowly", 4);
        gw_rpc_notify(s, box, "add", gw_by_value(s, r));
        gw_drop(s, r);
        double held = 0;
        while (held == 0 && gw_ok(s)) held = gw_float_of(s, gw_rpc_sync(s, box, "held"));
        assert_true(held == 4);
        // The called worker logs the error; the caller gets none, unless it was its own, and detected before sending.
        char expected[128];
        logged[0] = '\0';
        gw_rpc_notify(s, 1, "chain_first", gw_by_value(s, gw_remote(s, owner, "chain_fail")));
        while (!logged[0] && gw_ok(s)) gw_rpc_sync(s, box, "held");
        snprintf(expected, sizeof expected,
                 "one-way call: w1: chain_first: w%d: chain_fail: cannot make it", owner);
        bool is_own = owner == 0 && !gw_ok(s);
        assert_string_equal(is_own ? gw_scope_error(s)->text : logged,
                            is_own ? strstr(expected, "w0") : expected);
        if (is_own) gw_scope_clear(s);
        cluster_sleep_ms(s, 1100);  // one line a second
        gw_scope_close_up(s);
    }
}

static void it_is_an_argument_of_one_way_calls(void **state) {
    (void)state;
    log_hook = keep_line;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        cluster_outcome o = cluster_run(seed, (cluster_options){ .world_size = 3, .threads = 1 },
                                        notify_with_values, NULL);
        assert_no_references_left(&o, 3);
    }
    log_hook = NULL;
}

// ---- Errors -------------------------------------------------------------------------------------

static void run_failing(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_scope *s = gw_scope_open(root);
    gw_rref *bad = gw_remote(s, 1, "chain_fail");
    gw_rpc_sync(s, 2, "chain_first", gw_by_value(s, bad));
    expect(s, GW_REMOTE, GW_NOT_DELIVERED, "w2: chain_first: w1: chain_fail: cannot make it");
    gw_rpc_sync(s, 1, "gw.add", bad, 1);
    expect(s, GW_REMOTE, GW_NOT_DELIVERED, "w1: gw.add: w1: chain_fail: cannot make it");
    gw_wait(s, gw_by_value(s, bad));
    expect(s, GW_REMOTE, GW_RAN_AND_FAILED, "w1: chain_fail: cannot make it");
    bad = gw_remote(s, 0, "chain_fail");
    gw_rpc_sync(s, 2, "chain_first", gw_by_value(s, bad));
    expect(s, GW_REMOTE, GW_NOT_DELIVERED, "w2: chain_first: w0: chain_fail: cannot make it");
    gw_rref *box = gw_remote(s, 1, "chain_box");
    gw_rpc_sync(s, 2, "chain_first", gw_by_value(s, box));
    expect(s, GW_INVALID, GW_NOT_DELIVERED,
           "w2: chain_first: w1: the reference is to a chain_box, an object, which has methods but "
           "no value");
    gw_wait(s, gw_by_value(s, box));
    expect(s, GW_INVALID, GW_NOT_DELIVERED,
           "w1: the reference is to a chain_box, an object, which has methods but no value");
    // a reference whose creation could not be requested
    bad = gw_remote(s, "w9", "chain_load", 1, 2);
    gw_rpc_sync(s, 2, "chain_first", gw_by_value(s, bad));
    expect(s, GW_NOT_FOUND, GW_NOT_DELIVERED, "w2: chain_first: w0 has no worker named \"w9\"");
    // only the program's own futures are completed by it
    gw_future_set(s, gw_by_value(s, box), 1);
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    gw_scope_clear(s);
    gw_scope_close_up(s);
}

static void it_fails_the_call_with_the_error_of_making_the_value(void **state) {
    (void)state;
    cluster_outcome o = cluster_run(2, (cluster_options){ .world_size = 3 }, run_failing, NULL);
    assert_no_references_left(&o, 3);
}

GW_TESTS(ref_by_value, it_sends_each_tensor_once_and_not_through_the_caller,
         it_sends_the_value_to_the_called_worker, it_sends_the_value_directly_to_each_of_many,
         it_is_an_argument_of_one_way_calls, it_fails_the_call_with_the_error_of_making_the_value);
