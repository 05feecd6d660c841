#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>

#include <string.h>

typedef struct names_counter {
    int64_t n;
} names_counter;
GW_CLASS(names_counter, names_counter_open, "int");
static void names_counter_open(gw_scope *own, names_counter *self, const gw_args *a) {
    self->n = gw_arg_int(own, a, 0);
}
GW_METHOD(names_counter, add, GW_INLINE, "int") {
    return gw_value_of(self->n += gw_arg_int(s, a, 0));
}

GW_FUNCTION(names_make, GW_POOL, "string, int") {
    gw_rref *r = gw_remote(s, gw_rpc_self(s), "names_counter", gw_arg_int(s, a, 1));
    gw_rref_set_name(s, r, gw_arg_string(s, a, 0));
    return gw_none();
}

GW_FUNCTION(names_number, GW_INLINE, "") {
    return gw_value_of(gw_item(s, gw_rand(s, GW_F32, 1)));
}

// A number that is drawn after something was named.
GW_FUNCTION(names_make_and_draw, GW_POOL, "string") {
    gw_seed(s, 1);
    gw_rref_set_name(s, gw_remote(s, gw_rpc_self(s), "names_counter", 1), gw_arg_string(s, a, 0));
    return gw_rpc_sync(gw_scope_open(s), gw_rpc_self(s), "names_number");
}

static void assert_failed(gw_scope *s, gw_status status, const char *words) {
    const gw_error *e = gw_scope_error(s);
    if (!e || e->status != status || !strstr(e->text, words)) fail_msg("%s", e ? e->text : "ok");
    gw_scope_clear(s);
}

static void run(int world_size, cluster_main *main) {
    cluster_outcome o = cluster_run(1, (cluster_options){ .world_size = world_size }, main, NULL);
    for (int i = 0; i < world_size; i++) assert_int_equal(o.owned[i], 0);
}

static void find_present(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_scope *s = gw_scope_open(root);
    for (int owner = 0; owner < 2; owner++) {
        gw_rpc_sync(s, owner, "names_make", "hits", 3);
        gw_rref *hits = gw_named(s, owner, "hits");
        assert_int_equal(gw_rref_owner(s, hits).rank, owner);
        assert_int_equal(gw_int_of(s, gw_rpc_sync(s, hits, "add", 4)), 7);
        assert_int_equal(gw_int_of(s, gw_rpc_sync(s, gw_named(s, owner, "hits"), "add", 1)), 8);
    }
    gw_scope_close_up(s);
}

static void a_value_is_found_by_its_name(void **state) {
    (void)state;
    run(2, find_present);
}

// Both wait before there is anything.
static void find_later(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank == 2) return;
    if (rank == 1) {
        gw_scope_set_timeout(s, 1000);
        gw_wait(s, gw_future_open(s));
        assert_failed(s, GW_TIMEOUT, "");
        gw_scope_set_timeout(s, GW_NO_TIMEOUT);
        gw_rpc_sync(s, 2, "names_make", "hits", 5);
        return;
    }
    gw_future *both[] = { gw_rpc_async(s, 2, "gw.named", "hits"),
                          gw_rpc_async(s, 2, "gw.named", "hits") };
    for (int i = 0; i < 2; i++) {
        gw_rref *hits = gw_rref_of(s, gw_wait(s, both[i]));
        assert_int_equal(gw_int_of(s, gw_rpc_sync(s, hits, "add", 1)), 6 + i);
    }
}

static void a_lookup_before_the_name_exists_waits(void **state) {
    (void)state;
    run(3, find_later);
}

static void draw_awaited_or_not(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank == 0) gw_named(s, 2, "awaited");
    if (rank != 1) return;
    gw_scope_set_timeout(s, 1000);
    gw_wait(s, gw_future_open(s));
    assert_failed(s, GW_TIMEOUT, "");
    gw_scope_set_timeout(s, GW_NO_TIMEOUT);
    double awaited = gw_float_of(s, gw_rpc_sync(s, 2, "names_make_and_draw", "awaited"));
    double alone = gw_float_of(s, gw_rpc_sync(s, 2, "names_make_and_draw", "alone"));
    assert_true(awaited == alone && awaited > 0);
}

static void waiting_does_not_change_random_numbers(void **state) {
    (void)state;
    run(3, draw_awaited_or_not);
}

static void find_absent(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank == 1) gw_rpc_leave(root);
    if (rank != 0) return;
    gw_scope *s = gw_scope_open(root);
    gw_named(s, 1, "hits");
    const gw_error *e = gw_scope_error(s);
    assert_true(e && (e->status == GW_NOT_FOUND || e->status == GW_DISCONNECTED));
    gw_scope_clear(s);
    gw_scope *t = gw_scope_open(s);
    gw_scope_set_timeout(t, 200);
    gw_named(t, 0, "hits");
    assert_failed(t, GW_TIMEOUT, "");
    gw_scope_close_up(t);
    // The name is still to be had.
    gw_rpc_sync(s, 0, "names_make", "hits", 1);
    assert_int_equal(gw_int_of(s, gw_rpc_sync(s, gw_named(s, 0, "hits"), "add", 1)), 2);
    gw_scope_close_up(s);
}

static void waiting_ends_with_the_deadline_or_the_worker(void **state) {
    (void)state;
    run(2, find_absent);
}

static void name_wrongly(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_scope *s = gw_scope_open(root);
    gw_rref *mine = gw_rref_open(s, 1), *theirs = gw_remote(s, 1, "names_counter", 1);
    gw_rref_set_name(s, theirs, "hits");
    assert_failed(s, GW_INVALID, "only w1 can give its value the name \"hits\", not w0");
    gw_rref_set_name(s, mine, "two words");
    assert_failed(s, GW_INVALID, "\"two words\" is not a name");
    gw_rref_set_name(s, mine, NULL);
    assert_failed(s, GW_INVALID, "\"\" is not a name");
    gw_rref_set_name(s, mine, "one");
    gw_rref_set_name(s, mine, "one");
    assert_failed(s, GW_DUPLICATE, "w0 has named another value \"one\"");
    gw_named(s, 1, NULL);
    assert_failed(s, GW_INVALID, "w1: gw.named: argument 0 is none, not string");
    gw_scope_close_up(s);
}

static void mistakes_are_reported(void **state) {
    (void)state;
    run(2, name_wrongly);
}

// Many that give up leave nothing behind.
static void find_often(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    for (int i = 0; i < 100; i++) {
        gw_scope *t = gw_scope_open(s);
        gw_cancel(t, gw_rpc_async(t, 1, "gw.named", gw_format(t, "name%d", i)));
        gw_scope_clear(t);
        gw_scope_close_up(t);
    }
    gw_rpc_sync(s, 1, "names_make", "name50", 1);
    assert_int_equal(gw_int_of(s, gw_rpc_sync(s, gw_named(s, 1, "name50"), "add", 1)), 2);
}

static void a_lookup_that_times_out_is_removed(void **state) {
    (void)state;
    run(2, find_often);
}

GW_TESTS(reference_names, a_value_is_found_by_its_name, a_lookup_before_the_name_exists_waits,
         waiting_does_not_change_random_numbers, waiting_ends_with_the_deadline_or_the_worker,
         mistakes_are_reported, a_lookup_that_times_out_is_removed);
