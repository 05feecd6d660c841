// References, promises and objects over several workers in the simulator.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <string.h>

// ---- Functions ----------------------------------------------------------------------------------

GW_FUNCTION(ref_make, GW_POOL, "int") {
    return gw_value_of(gw_full(s, GW_F32, (double)gw_arg_int(s, a, 0), 3));
}

GW_FUNCTION(ref_fail, GW_POOL) {
    gw_fail(s, GW_REMOTE, "cannot make it");
    return gw_none();
}

GW_FUNCTION(ref_first_of, GW_POOL, "rref") {
    return gw_value_of(gw_item(s, gw_select(s, gw_to_here(s, gw_arg_rref(s, a, 0)), 0, 0)));
}

// Passes the reference on: to the next worker, or home.
GW_FUNCTION(ref_pass_on, GW_POOL, "rref, int") {
    return gw_rpc_sync(s, (int)gw_arg_int(s, a, 1), "ref_first_of", gw_arg_rref(s, a, 0));
}

GW_FUNCTION(ref_return, GW_INLINE, "rref") {
    return gw_arg(s, a, 0);
}

GW_FUNCTION(ref_ignore, GW_INLINE, "...") {
    return gw_none();
}

GW_FUNCTION(ref_own, GW_INLINE, "float") {
    return gw_value_of(gw_rref_open(s, gw_full(s, GW_F32, gw_arg_float(s, a, 0), 3)));
}

GW_FUNCTION(ref_add, GW_INLINE, "int, int") {
    return gw_value_of(gw_arg_int(s, a, 0) + gw_arg_int(s, a, 1));
}

GW_FUNCTION(ref_add_slowly, GW_POOL, "int, int") {
    gw_error late = cluster_pause_ms(s, 20);
    if (late.status != GW_TIMEOUT) gw_fail(s, GW_REMOTE, "did not wait");
    return gw_value_of(gw_arg_int(s, a, 0) + gw_arg_int(s, a, 1));
}

GW_FUNCTION(ref_sum_list, GW_INLINE, "list") {
    int64_t sum = 0;
    gw_list *list = gw_arg_list(s, a, 0);
    for (int i = 0; i < gw_list_count(list); i++) sum += gw_int_of(s, gw_list_get(s, list, i));
    return gw_value_of(sum);
}

static void assert_no_references_left(const cluster_outcome *o, int world_size) {
    for (int rank = 0; rank < world_size; rank++) assert_int_equal(o->owned[rank], 0);
}

static void expect(gw_scope *s, gw_status status, gw_outcome outcome, const char *text) {
    const gw_error *e = gw_scope_error(s);
    assert_string_equal(e->text, text);
    assert_int_equal(e->status, status);
    assert_int_equal(e->outcome, outcome);
    gw_scope_clear(s);
}

// ---- Sharing ------------------------------------------------------------------------------------

// References between any makers, owners and holders: each read gets the value, and in the end no
// references are left.
static void share(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_scope *s = gw_scope_open(root);
    gw_rref *on_1 = gw_remote(s, 1, "ref_make", 5), *on_0 = gw_remote(s, 0, "ref_make", 6);
    gw_rref *mine = gw_rref_open(s, gw_full(s, GW_F32, 7.0, 3));
    assert_false(gw_rref_is_owner(on_1));
    assert_true(gw_rref_is_owner(on_0) && gw_rref_is_owner(mine));
    assert_int_equal(gw_rref_owner(s, on_1).rank, 1);

    // creator and owner; to the owner; from the owner; to a third; home from a third
    assert_true(gw_item(s, gw_select(s, gw_to_here(s, on_1), 0, 0)) == 5);
    assert_true(gw_rref_is_confirmed(on_1));
    assert_true(gw_float_of(s, gw_rpc_sync(s, 1, "ref_first_of", on_1)) == 5);
    assert_true(gw_float_of(s, gw_rpc_sync(s, 1, "ref_first_of", mine)) == 7);
    assert_true(gw_float_of(s, gw_rpc_sync(s, 2, "ref_first_of", on_0)) == 6);
    assert_true(gw_float_of(s, gw_rpc_sync(s, 2, "ref_first_of", on_1)) == 5);
    assert_true(gw_float_of(s, gw_rpc_sync(s, 2, "ref_pass_on", on_1, 1)) == 5);
    assert_true(gw_float_of(s, gw_rpc_sync(s, 2, "ref_pass_on", mine, 0)) == 7);
    assert_true(gw_float_of(s, gw_rpc_sync(s, 0, "ref_first_of", on_1)) == 5);
    // before it is made, and before its owner has received the request
    gw_rref *new = gw_remote(s, 1, "ref_make", 8);
    assert_true(gw_float_of(s, gw_rpc_sync(s, 2, "ref_first_of", new)) == 8);
    // as results
    gw_rref *back = gw_rref_of(s, gw_rpc_sync(s, 2, "ref_return", new));
    assert_true(gw_item(s, gw_select(s, gw_to_here(s, back), 0, 0)) == 8);
    gw_rref *home = gw_rref_of(s, gw_rpc_sync(s, 2, "ref_return", mine));
    assert_true(gw_rref_is_owner(home));
    gw_rref *theirs = gw_rref_of(s, gw_rpc_sync(s, 2, "ref_own", 9.0));
    assert_true(gw_item(s, gw_select(s, gw_to_here(s, theirs), 0, 0)) == 9);
    // unread: in a reply that is not waited for, and in arguments that the body does not read
    gw_rpc_async(s, 2, "ref_return", on_1);
    gw_rpc_async(s, 2, "ref_own", 10.0);
    gw_rpc_sync(s, 2, "ref_ignore", on_1, mine, new);
    gw_rpc_sync(s, 1, "nothing_of_that_name", on_1, mine, new);
    expect(s, GW_NOT_FOUND, GW_NOT_DELIVERED,
           "w1 has no function nothing_of_that_name; is its object linked? (gradwire/function.h)");
    assert_true(gw_ok(s));
    gw_scope_close_up(s);
}

static void share_with_seed(uint64_t seed, void *context) {
    (void)context;
    cluster_outcome o =
        cluster_run(seed,
                    (cluster_options){ .world_size = 3,
                                       .threads = 1 + (int)(seed % 3),
                                       .network = { .delay_max_us = 3000,
                                                    .cut_per_million = seed % 2 ? 20000 : 0 } },
                    share, NULL);
    assert_no_references_left(&o, 3);
}

static void it_keeps_a_value_while_references_exist(void **state) {
    (void)state;
    testing_for_seeds(200, share_with_seed, NULL);
}

static void pass_around(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_rref *r = gw_remote(root, 1, "ref_make", 3);
    for (int i = 0; i < 300; i++) {
        gw_scope *s = gw_scope_open(root);
        gw_rref *back = gw_rref_of(s, gw_rpc_sync(s, 1 + i % 3, "ref_return", r));
        gw_set(root, &r, back);
        gw_scope_close_up(s);
    }
    assert_true(gw_item(root, gw_select(root, gw_to_here(root, r), 0, 0)) == 3);
}

static void it_counts_references_sent_back_and_forth(void **state) {
    (void)state;
    cluster_outcome o = cluster_run(1, (cluster_options){ .world_size = 4 }, pass_around, NULL);
    assert_no_references_left(&o, 4);
}

static void fail_to_make(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_scope *s = gw_scope_open(root);
    gw_rref *r = gw_remote(s, 1, "ref_fail");
    gw_to_here(s, r);
    expect(s, GW_REMOTE, GW_RAN_AND_FAILED, "w1: ref_fail: cannot make it");
    gw_rpc_sync(s, r, "method");
    expect(s, GW_REMOTE, GW_NOT_DELIVERED, "w1: method: w1: ref_fail: cannot make it");
    gw_rpc_sync(s, 2, "ref_first_of", r);
    assert_int_equal(gw_scope_error(s)->status, GW_REMOTE);
    gw_scope_clear(s);
    r = gw_remote(s, 1, "nothing_of_that_name");
    gw_to_here(s, r);
    expect(s, GW_NOT_FOUND, GW_NOT_DELIVERED,
           "w1 has no function or class nothing_of_that_name; is its object linked? "
           "(gradwire/function.h)");
    r = gw_remote(s, "w9", "ref_make", 1);
    assert_true(gw_ok(s));
    gw_to_here(s, r);
    expect(s, GW_NOT_FOUND, GW_NOT_DELIVERED, "w0 has no worker named \"w9\"");
    gw_rpc_sync(s, 1, "ref_first_of", r);
    expect(s, GW_NOT_FOUND, GW_NOT_DELIVERED, "w0 has no worker named \"w9\"");
    r = gw_remote(s, 0, "ref_fail");
    gw_to_here(s, r);
    expect(s, GW_REMOTE, GW_RAN_AND_FAILED, "w0: ref_fail: cannot make it");
    r = gw_remote(s, 1, "ref_make", 1);
    gw_rpc_sync(s, r, "method");
    expect(s, GW_INVALID, GW_NOT_DELIVERED,
           "w1: method: the reference is to a value, not to an object with methods");
    gw_local_with(s, r, "ref_box");
    expect(s, GW_INVALID, GW_OUTCOME_NONE, "the reference is to a value of w1, not of w0");
    gw_scope_close_up(s);
}

static void it_delivers_the_error_of_making_a_value_to_every_use(void **state) {
    (void)state;
    cluster_outcome o = cluster_run(2, (cluster_options){ .world_size = 3 }, fail_to_make, NULL);
    assert_no_references_left(&o, 3);
}

// ---- Promises -----------------------------------------------------------------------------------

// A chain: worker 1 makes values, and 2 and 3 get them straight from it.
static void promise(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_scope *s = gw_scope_open(root);
    gw_future *a = gw_rpc_async(s, 1, "ref_add_slowly", 1, 2);
    gw_future *b = gw_rpc_async(s, 2, "ref_add", a, 10);
    gw_future *c = gw_rpc_async(s, 3, "ref_add_slowly", a, b);
    gw_future *d = gw_rpc_async(s, 0, "ref_add", c, c);
    gw_list *list = gw_list_open(s);
    gw_list_add(s, list, a);
    gw_list_add(s, list, 5);
    gw_list_add(s, list, d);
    assert_int_equal(gw_int_of(s, gw_rpc_sync(s, 2, "ref_sum_list", list)), 3 + 5 + 32);
    assert_int_equal(gw_int_of(s, gw_wait(s, d)), 32);
    // a resolved one is sent as its value
    assert_int_equal(gw_int_of(s, gw_rpc_sync(s, 1, "ref_add", d, a)), 35);
    // to its producer, and to be kept
    gw_future *e = gw_rpc_async(s, 1, "ref_add_slowly", 4, 5);
    gw_rref *r = gw_remote(s, 1, "ref_add", e, 1);
    assert_int_equal(gw_int_of(s, gw_to_here_value(s, r)), 10);
    // made by the program
    gw_future *own = gw_future_open(s);
    gw_future *f = gw_rpc_async(s, 3, "ref_add", own, own);
    gw_future_set(s, own, 21);
    assert_int_equal(gw_int_of(s, gw_wait(s, f)), 42);
    gw_scope_close_up(s);
}

static void promise_with_seed(uint64_t seed, void *context) {
    (void)context;
    cluster_outcome o =
        cluster_run(seed,
                    (cluster_options){ .world_size = 4,
                                       .threads = 1,
                                       .network = { .delay_max_us = seed % 3 ? 30000 : 0,
                                                    .cut_per_million = seed % 2 ? 20000 : 0 } },
                    promise, NULL);
    assert_no_references_left(&o, 4);
}

static void it_sends_promised_values_directly_to_their_consumers(void **state) {
    (void)state;
    testing_for_seeds(200, promise_with_seed, NULL);
}

static void promise_once(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_future *a = gw_rpc_async(s, 1, "ref_add_slowly", 1, 2);
    gw_future *b = gw_rpc_async(s, 2, "ref_add", a, 10);
    assert_int_equal(gw_int_of(s, gw_wait(s, b)), 13);
}

static void it_counts_five_messages_for_a_promise(void **state) {
    (void)state;
    cluster_outcome o = cluster_run(3, (cluster_options){ .world_size = 3 }, promise_once, NULL);
    // two requests and a forward out; two replies in; and the value from 1 to 2
    assert_int_equal(o.stats[0].messages_sent, 3);
    assert_in_range(o.stats[0].messages_received, 2, 4);
    assert_int_equal(o.stats[0].calls_made, 2);
}

static void promise_failing(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_future *a = gw_rpc_async(s, 1, "ref_fail");
    gw_future *b = gw_rpc_async(s, 2, "ref_add", a, 10);
    gw_future *c = gw_rpc_async(s, 3, "ref_add", b, 10);
    gw_wait(s, c);
    expect(s, GW_REMOTE, GW_NOT_DELIVERED,
           "w3: ref_add: w2: ref_add: w1: ref_fail: cannot make it");
    gw_wait(s, b);
    expect(s, GW_REMOTE, GW_NOT_DELIVERED, "w2: ref_add: w1: ref_fail: cannot make it");
    // A promise whose value is never made ends at the deadline.
    gw_future *never = gw_future_open(s);
    gw_call_options quick = GW_OPTIONS(gw_call_options, .timeout_ms = 100);
    gw_rpc_sync_with(s, gw_to(1), "ref_add", GW_ARGS(never, 1), quick);
    assert_int_equal(gw_scope_error(s)->status, GW_TIMEOUT);
    gw_scope_clear(s);
    gw_future_fail(s, never, GW_CANCELLED, "not needed");
    assert_true(gw_ok(s));
}

static void it_fails_a_call_whose_promise_fails_without_running_it(void **state) {
    (void)state;
    cluster_run(4, (cluster_options){ .world_size = 4 }, promise_failing, NULL);
}

// ---- Objects ------------------------------------------------------------------------------------

typedef struct ref_box {
    gw_scope *own;
    gw_tensor *total;
    int64_t inside, closed_as;
} ref_box;

static int boxes_closed;

GW_CLASS(ref_box, ref_box_open, ref_box_close, "float");

static void ref_box_open(gw_scope *own, ref_box *self, const gw_args *a) {
    self->own = own;
    self->total = gw_full(own, GW_F64, gw_arg_float(own, a, 0), 1);
    if (gw_arg_float(own, a, 0) < 0) gw_fail(own, GW_REMOTE, "less than nothing");
}

static void ref_box_close(ref_box *self) {
    assert_int_equal(self->inside, 0);
    boxes_closed++;
}

GW_METHOD(ref_box, add, GW_INLINE, "float") {
    gw_set(self->own, &self->total, gw_add(s, self->total, gw_arg_float(s, a, 0)));
    return gw_value_of(self->total);
}

// The method has the turn, except while it waits.
GW_METHOD(ref_box, visit, GW_POOL, "int") {
    assert_int_equal(self->inside, 0);
    self->inside++;
    assert_int_equal(self->inside, 1);
    self->inside--;
    gw_value v = gw_rpc_sync(s, (int)gw_arg_int(s, a, 0), "ref_add_slowly", 1, 1);
    assert_int_equal(self->inside, 0);
    return v;
}

GW_METHOD(ref_box, total_of, GW_INLINE) {
    return gw_value_of(gw_item(s, self->total));
}

// Waits through the object's own scope, which releases the turn as well.
GW_METHOD(ref_box, wait_for_more, GW_POOL) {
    gw_rpc_sync(self->own, gw_rpc_self(s).rank, "ref_add_slowly", 1, 1);
    // It has the turn again.
    double after = gw_item(s, self->total);
    for (int i = 0; i < 200; i++) gw_rpc_get_stats(s);
    assert_true(gw_item(s, self->total) == after);
    return gw_none();
}

GW_METHOD(ref_box, spoil, GW_INLINE) {
    gw_add(self->own, gw_ones(self->own, GW_F32, 2), gw_ones(self->own, GW_F32, 3));
    return gw_none();
}

static void use_objects(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank == 0) boxes_closed = 0;
    if (rank != 0) return;
    gw_scope *s = gw_scope_open(root);
    gw_rref *box = gw_remote(s, 1, "ref_box", 1.0), *here = gw_remote(s, 0, "ref_box", 2.0);
    assert_true(gw_item(s, gw_tensor_of(s, gw_rpc_sync(s, box, "add", 4.0))) == 5);
    gw_future *fs[10];
    for (int i = 0; i < 5; i++) {
        fs[2 * i] = gw_rpc_async(s, box, "visit", 2);
        fs[2 * i + 1] = gw_rpc_async(s, here, "visit", 1);
    }
    gw_wait_all(s, fs, 10);
    gw_future *more = gw_rpc_async(s, box, "wait_for_more");
    gw_rpc_sync(s, box, "add", 1.0);
    assert_false(gw_future_done(more));
    for (int i = 0; i < 200; i++) gw_rpc_async(s, box, "add", i % 2 ? 1.0 : -1.0);
    while (!gw_future_done(more)) {
        gw_rpc_sync(s, box, "add", 1.0);
        gw_rpc_sync(s, box, "add", -1.0);
    }
    gw_wait(s, more);
    gw_rpc_sync(s, box, "ad", 1.0);
    expect(s, GW_NOT_FOUND, GW_NOT_DELIVERED, "w1 has no method ref_box.ad");
    gw_rpc_sync(s, box, "add", "x");
    expect(s, GW_INVALID, GW_NOT_DELIVERED, "w1: ref_box.add: argument 0 is string, not float");
    gw_rpc_sync(s, box, "spoil");
    expect(s, GW_INVALID, GW_RAN_AND_FAILED,
           "w1: ref_box.spoil: gw.add: 2 and 3 do not broadcast: counted from the last dimension, "
           "sizes must be equal or 1");
    assert_true(gw_float_of(s, gw_rpc_sync(s, box, "total_of")) == 6);
    gw_rref *kept = gw_remote(s, box, "add", 1.0);
    assert_true(gw_item(s, gw_to_here(s, kept)) == 7);
    gw_rref *bad = gw_remote(s, 1, "ref_box", -1.0);
    gw_rpc_sync(s, bad, "add", 1.0);
    expect(s, GW_REMOTE, GW_NOT_DELIVERED, "w1: add: w1: ref_box: less than nothing");
    gw_rpc_sync(s, 1, "ref_box", 1.0);
    expect(s, GW_INVALID, GW_NOT_DELIVERED,
           "w1: ref_box: it is a class, not a function: gw_remote opens an object of it");
    gw_to_here(s, box);
    expect(s, GW_INVALID, GW_NOT_DELIVERED,
           "w1: the reference is to a ref_box, an object, which has methods but no value");
    assert_true(gw_ok(s));
    gw_scope_close_up(s);
}

static void use_objects_with_seed(uint64_t seed, void *context) {
    (void)context;
    cluster_outcome o =
        cluster_run(seed, (cluster_options){ .world_size = 3, .threads = 1 + (int)(seed % 2) },
                    use_objects, NULL);
    assert_no_references_left(&o, 3);
    assert_int_equal(boxes_closed, 2);
}

static void one_method_of_an_object_runs_at_a_time(void **state) {
    (void)state;
    testing_for_seeds(50, use_objects_with_seed, NULL);
}

static void enter_locally(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_rref *box = gw_remote(root, 0, "ref_box", 1.0), *other = gw_remote(root, 0, "ref_box", 2.0);
    gw_scope *s = gw_scope_open(root);
    ref_box *self = gw_local(s, box, ref_box);
    assert_non_null(self);
    assert_ptr_equal(gw_local(s, box, ref_box), self);
    gw_future *f = gw_rpc_async(s, box, "add", 1.0);
    gw_rpc_get_stats(s);
    assert_true(gw_item(s, self->total) == 1);
    assert_false(gw_future_done(f));
    ref_box *two = gw_local(s, other, ref_box);
    assert_true(gw_item(s, two->total) == 2);
    // While it waits the other method has its turn.
    gw_rpc_sync(s, 1, "ref_add_slowly", 1, 1);
    assert_true(gw_future_done(f));
    assert_true(gw_item(s, self->total) == 2);
    gw_rpc_sync(s, other, "visit", 1);
    gw_scope_close_up(s);
    assert_true(gw_float_of(root, gw_rpc_sync(root, box, "total_of")) == 2);
}

static void local_code_can_enter_an_object(void **state) {
    (void)state;
    cluster_outcome o = cluster_run(5, (cluster_options){ .world_size = 2 }, enter_locally, NULL);
    // The root scope holds its handles until it closes.
    assert_int_equal(o.owned[0], 2);
    assert_int_equal(o.owned[1], 0);
}

GW_TESTS(ref_sim, it_keeps_a_value_while_references_exist, it_counts_references_sent_back_and_forth,
         it_delivers_the_error_of_making_a_value_to_every_use,
         it_sends_promised_values_directly_to_their_consumers,
         it_counts_five_messages_for_a_promise,
         it_fails_a_call_whose_promise_fails_without_running_it,
         one_method_of_an_object_runs_at_a_time, local_code_can_enter_an_object);
