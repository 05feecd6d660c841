// Futures in the simulator: then, waiting for all, completing by hand.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <string.h>

GW_FUNCTION(future_echo, GW_INLINE, "any") {
    return gw_arg(s, a, 0);
}

GW_FUNCTION(future_fail, GW_POOL) {
    gw_fail(s, GW_REMOTE, "not today");
    return gw_none();
}

static void expect(gw_scope *s, gw_status status, const char *text) {
    assert_string_equal(gw_scope_error(s)->text, text);
    assert_int_equal(gw_scope_error(s)->status, status);
    gw_scope_clear(s);
}

static gw_value twice(gw_scope *s, gw_value v, void *context) {
    ++*(int *)context;
    return gw_value_of(2 * gw_int_of(s, v));
}

static gw_value call_again(gw_scope *s, gw_value v, void *context) {
    (void)context;
    return gw_value_of(gw_rpc_async(s, 1, "future_echo", gw_int_of(s, v) + 100));
}

static gw_value wait_inside(gw_scope *s, gw_value v, void *context) {
    (void)context;
    (void)v;
    return gw_rpc_sync(s, 1, "future_echo", 1);
}

static gw_value fail_inside(gw_scope *s, gw_value v, void *context) {
    (void)context;
    (void)v;
    gw_fail(s, GW_CANCELLED, "changed my mind");
    return gw_none();
}

static void chain(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    int runs = 0;
    gw_future *f = gw_rpc_async(s, 1, "future_echo", 4);
    gw_future *g = gw_then(s, f, twice, &runs), *h = gw_then(s, g, twice, &runs);
    assert_int_equal(gw_int_of(s, gw_wait(s, h)), 16);
    assert_int_equal(gw_int_of(s, gw_wait(s, g)), 8);
    assert_int_equal(runs, 2);
    // of one that is done, at once
    gw_future *now = gw_then(s, f, twice, &runs);
    assert_true(gw_future_done(now));
    assert_int_equal(runs, 3);
    // a future as the result
    assert_int_equal(gw_int_of(s, gw_wait(s, gw_then(s, g, call_again, NULL))), 108);
    // errors pass through
    gw_future *failed = gw_then(s, gw_rpc_async(s, 1, "future_fail"), twice, &runs);
    gw_wait(s, failed);
    expect(s, GW_REMOTE, "w1: future_fail: not today");
    assert_int_equal(runs, 3);
    gw_wait(s, gw_then(s, f, fail_inside, NULL));
    expect(s, GW_CANCELLED, "changed my mind");
    gw_wait(s, gw_then(s, f, wait_inside, NULL));
    expect(s, GW_WOULD_BLOCK,
           "a wait in a function that a future calls (gw_then, gw_on_done), which must not block: "
           "only GW_POOL functions may block");
}

static void then_receives_the_value_of_the_future(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, chain, NULL);
}

static gw_value close_inside(gw_scope *s, gw_value v, void *context) {
    (void)context;
    gw_scope_close_up(s);
    return v;
}

static void cycles(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_future *f = gw_future_open(s), *g = gw_future_open(s);
    gw_list *list = gw_list_open(s);
    gw_map *map = gw_map_open(s);
    gw_list_add(s, list, f);
    gw_map_put(s, map, "list", list);
    gw_future_set(s, f, map);
    gw_wait(s, f);
    expect(s, GW_INVALID, "a map that contains this future cannot be its value");
    // through another future
    f = gw_future_open(s);
    gw_list *of_f = gw_list_open(s), *of_g = gw_list_open(s);
    gw_list_add(s, of_f, f);
    gw_list_add(s, of_g, g);
    gw_future_set(s, g, of_f);
    gw_future_set(s, f, of_g);
    gw_wait(s, f);
    expect(s, GW_INVALID, "a list that contains this future cannot be its value");
    assert_int_equal(gw_wait(s, g).kind, GW_LIST);
}

static void no_future_can_be_its_own_value(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 1 }, cycles, NULL);
}

static void misuse(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_future *f = gw_rpc_async(s, 1, "future_echo", 1), *none[2] = { NULL };
    int count = -1;
    gw_then(s, f, NULL, NULL);
    expect(s, GW_INVALID, "the function to run after the future is NULL");
    gw_on_done(s, f, NULL, NULL);
    expect(s, GW_INVALID, "the function to run after the future is NULL");
    gw_wait_all(s, NULL, 2);
    expect(s, GW_INVALID, "gw_wait_all: 2 futures were given, but the array is NULL");
    gw_wait_all(s, none, -1);
    expect(s, GW_INVALID, "gw_wait_all: -1 futures were given");
    gw_wait_all(s, none, 2);
    expect(s, GW_INVALID, "the future is NULL");
    gw_collect_all(s, NULL, 2);
    expect(s, GW_INVALID, "gw_collect_all: 2 futures were given, but the array is NULL");
    gw_then(s, NULL, close_inside, NULL);
    expect(s, GW_INVALID, "the future is NULL");
    gw_to_here(s, NULL);
    expect(s, GW_INVALID, "the reference is NULL");
    gw_watch_next(s, NULL);
    expect(s, GW_INVALID, "gw_watch_next: the watch is NULL");
    assert_true(gw_future_done(NULL));
    gw_wait(s, gw_then(s, f, close_inside, NULL));
    expect(s, GW_WRONG_STATE,
           "a body must not close the scope given to it: the library closes that scope");
    gw_rpc_sync_with(s, gw_to(1), "future_echo", (gw_values){ 2, NULL },
                     GW_OPTIONS(gw_call_options));
    expect(s, GW_INVALID, "2 arguments were given, but their array is NULL");
    gw_rpc_sync(s, 1, (const char *)NULL);
    expect(s, GW_INVALID, "the name of the function is NULL");
    gw_rpc_sync(s, "a\nb", "future_echo", 1);
    expect(s, GW_NOT_FOUND, "w0 has no worker named \"a?b\"");
    gw_worker self = gw_rpc_self(s), unknown = { .rank = -5 };
    gw_rpc_sync(s, gw_to_workers(&self, 1), "future_echo", 1);
    expect(s, GW_INVALID, "the target has several workers, but this function calls only one");
    gw_rpc_sync(s, 1, "future_echo", &unknown);
    expect(s, GW_INVALID, "worker: no worker has rank -5");
    unknown.rank = 0;
    assert_string_equal(gw_worker_of(s, gw_rpc_sync(s, 1, "future_echo", &unknown)).name, "");
    assert_non_null(gw_rpc_workers(s, NULL));
    assert_non_null(gw_rpc_workers(s, &count));
    assert_int_equal(count, 2);
    assert_false(gw_rref_is_owner(NULL));
    assert_false(gw_rref_is_confirmed(NULL));
    gw_rref *r = gw_rref_open(s, 1);
    gw_local_with(s, r, NULL);
    expect(s, GW_INVALID, "gw_local: the name of the class is missing");
    assert_int_equal(gw_references(s, NULL, 5), 1);
}

static void errors_name_wrong_arguments(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, misuse, NULL);
}

static void complete_by_hand(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_scope *s = gw_scope_open(root);
    gw_future *f = gw_future_open(s);
    assert_false(gw_future_done(f));
    gw_future_set(s, f, "ready");
    assert_string_equal(gw_string_of(s, gw_wait(s, f)), "ready");
    gw_future_set(s, f, "again");
    expect(s, GW_WRONG_STATE, "the future is complete already");
    assert_string_equal(gw_string_of(s, gw_wait(s, f)), "ready");

    // The value of a future outlives its scope.
    gw_future *kept = gw_future_open(root);
    gw_scope *inner = gw_scope_open(s);
    gw_list *list = gw_list_open(inner);
    gw_list_add(inner, list, gw_ones(inner, GW_F32, 3));
    gw_future_set(inner, kept, list);
    gw_scope_close_up(inner);
    gw_list *back = gw_list_of(s, gw_wait(s, kept));
    assert_true(gw_item(s, gw_sum(s, gw_tensor_of(s, gw_list_get(s, back, 0)))) == 3);

    gw_future *bad = gw_future_open(s);
    gw_future_fail(s, bad, GW_LIMIT, "only %d", 3);
    gw_wait(s, bad);
    expect(s, GW_LIMIT, "only 3");

    // A failed scope completes the future with its error.
    gw_future *completed = gw_future_open(s);
    gw_fail(s, GW_INVALID, "a mistake");
    gw_future_set(s, completed, 1);
    gw_scope_clear(s);
    gw_wait(s, completed);
    expect(s, GW_INVALID, "a mistake");

    gw_future *call = gw_rpc_async(s, 1, "future_echo", 1);
    gw_future_set(s, call, 2);
    expect(s, GW_INVALID,
           "a program can complete only futures that it has opened by gw_future_open");
    gw_scope_set_timeout(s, 100);
    gw_wait(s, gw_future_open(s));
    expect(s, GW_TIMEOUT, "the scope's deadline has passed before a future resolved");
    gw_scope_close_up(s);
}

static gw_value same(gw_scope *s, gw_value v, void *context) {
    (void)s, (void)context;
    return v;
}

static void expect_ring(gw_scope *s, gw_future *f) {
    gw_wait(s, f);
    expect(s, GW_INVALID,
           "a future cannot resolve to a future that waits for it: both would wait for ever");
}

static void wait_in_rings(gw_scope *root, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_scope *s = gw_scope_open(root);
    gw_future *x = gw_future_open(s), *y = gw_future_open(s), *z = gw_future_open(s);
    gw_future *after = gw_then(s, x, same, NULL), *both[] = { after, y };
    gw_future_set(s, x, gw_collect_all(s, both, 2));
    expect_ring(s, x);
    expect_ring(s, after);
    gw_future_set(s, y, z);
    gw_future_set(s, z, y);
    expect_ring(s, y);
    expect_ring(s, z);
    // Waiting for the same future is no cycle.
    gw_future *one = gw_future_open(s), *two = gw_future_open(s);
    gw_future *of_one[] = { gw_then(s, one, same, NULL), gw_then(s, one, same, NULL) };
    gw_future_set(s, two, gw_collect_all(s, of_one, 2));
    gw_future_set(s, one, 7);
    assert_int_equal(gw_list_count(gw_list_of(s, gw_wait(s, two))), 2);
    gw_scope_close_up(s);
}

static void a_future_that_would_wait_for_itself_fails(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 2 }, wait_in_rings, NULL);
}

static void the_program_completes_a_future_once(void **state) {
    (void)state;
    cluster_run(2, (cluster_options){ .world_size = 2 }, complete_by_hand, NULL);
}

// ---- Futures that no handle can complete --------------------------------------------------------

#define ABANDONED                                                                                  \
    "the future can no longer be completed: the last handle of the program was dropped"

GW_FUNCTION(future_forget, GW_INLINE) {
    return gw_value_of(gw_future_open(s));
}

GW_FUNCTION(future_collect, GW_INLINE) {
    gw_future *f = gw_future_open(s);
    gw_future *both[] = { f, gw_member_lost(s, NULL, 0) };
    return gw_value_of(gw_collect_fail_fast(s, both, 2));
}

static gw_future *forget_in_a_scope(gw_scope *s, gw_future *(*made_of)(gw_scope *t, gw_future *f)) {
    gw_scope *t = gw_scope_open(s);
    gw_future *out = gw_keep(s, made_of(t, gw_future_open(t)));
    gw_scope_close_up(t);
    return out;
}

static gw_future *then_of(gw_scope *t, gw_future *f) {
    return gw_then(t, f, same, NULL);
}

static gw_future *all_of(gw_scope *t, gw_future *f) {
    gw_future *two[] = { gw_rpc_async(t, 1, "future_echo", 1), f };
    return gw_collect_all(t, two, 2);
}

static gw_future *first_of(gw_scope *t, gw_future *f) {
    return gw_collect_first(t, &f, 1);
}

static gw_future *follower_of(gw_scope *t, gw_future *f) {
    gw_future *out = gw_future_open(t);
    gw_future_set(t, out, f);
    return out;
}

static gw_future *call_with(gw_scope *t, gw_future *f) {
    return gw_rpc_async(t, 1, "future_echo", f);
}

static gw_future *call_to_self_with(gw_scope *t, gw_future *f) {
    return gw_rpc_async(t, 0, "future_echo", f);
}

static gw_future *kept_by_a_list(gw_scope *t, gw_future *f) {
    gw_future *out = gw_future_open(t);
    gw_list *list = gw_list_open(t);
    gw_list_add(t, list, f);
    gw_future_set(t, out, list);
    return out;
}

static void abandon(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_rpc_sync(s, 1, "future_forget");
    expect(s, GW_WRONG_STATE, "w1: future_forget: " ABANDONED);
    gw_to_here_value(s, gw_remote(s, 1, "future_forget"));
    assert_non_null(strstr(gw_scope_error(s)->text, ABANDONED));
    gw_scope_clear(s);
    gw_rpc_sync(s, 1, "future_collect");
    expect(s, GW_WRONG_STATE, "w1: future_collect: " ABANDONED);

    gw_future *(*const local[])(gw_scope * t, gw_future * f) = { then_of, all_of, first_of,
                                                                 follower_of };
    for (int i = 0; i < 4; i++) {
        gw_wait(s, forget_in_a_scope(s, local[i]));
        expect(s, GW_WRONG_STATE, ABANDONED);
    }
    gw_wait(s, forget_in_a_scope(s, call_with));
    expect(s, GW_WRONG_STATE, "w1: future_echo: " ABANDONED);
    gw_wait(s, forget_in_a_scope(s, call_to_self_with));
    expect(s, GW_WRONG_STATE, "w0: future_echo: " ABANDONED);

    // The code that finds it in a list completes it.
    gw_list *list = gw_list_of(s, gw_wait(s, forget_in_a_scope(s, kept_by_a_list)));
    gw_future *found = gw_list_get(s, list, 0).as.future, *after = then_of(s, found);
    gw_future_set(s, found, 5);
    assert_int_equal(gw_int_of(s, gw_wait(s, after)), 5);
}

static void waits_end_when_the_last_handle_that_could_complete_a_future_is_dropped(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        cluster_options o = { .world_size = 2, .timeout_ms = CLUSTER_NO_TIMEOUT };
        cluster_outcome end = cluster_run(seed, o, abandon, NULL);
        assert_true(end.took_ns < 10 * SIM_SECOND);
    }
}

// ---- One of several -----------------------------------------------------------------------------
static void wait_for_one(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank != 0) return;
    gw_future *never = gw_future_open(s), *echo = gw_rpc_async(s, 1, "future_echo", 3);
    gw_future *both[] = { never, echo };
    assert_int_equal(gw_wait_any(s, both, 2), 1);
    assert_int_equal(gw_int_of(s, gw_wait(s, gw_collect_first(s, both, 2))), 3);
    gw_future *fails[] = { gw_rpc_async(s, 1, "future_fail"), never };
    assert_int_equal(gw_wait_any(s, fails, 2), 0);
    assert_string_equal(gw_scope_error(s)->text, "");
    gw_wait(s, gw_collect_first(s, fails, 2));
    assert_int_equal(gw_scope_error(s)->status, GW_REMOTE);
    gw_scope_clear(s);

    gw_scope *brief = gw_scope_open(s);
    gw_scope_set_timeout(brief, 100);
    assert_int_equal(gw_wait_any(brief, &never, 1), -1);
    expect(brief, GW_TIMEOUT, "the scope's deadline has passed before a future resolved");
    assert_false(gw_future_done(never));
    assert_int_equal(gw_wait_any(s, NULL, 0), -1);
    expect(s, GW_INVALID, "gw_collect_first: no future was given");
    gw_scope_close_up(brief);
}

static void wait_any_returns_the_first_of_several(void **state) {
    (void)state;
    cluster_run(3, (cluster_options){ .world_size = 2 }, wait_for_one, NULL);
}

// Rank 2 ends, and all waits for the three members report it, though no worker has called rank 2.
static void wait_for_members(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank == 2) return;
    int count;
    const gw_worker *workers = gw_rpc_workers(s, &count);
    gw_future *all_arrived = gw_future_open(s), *lost = gw_member_lost(s, workers, 3);
    gw_future *either[] = { all_arrived, lost };
    assert_int_equal(gw_wait_any(s, either, 2), 1);
    assert_int_equal(gw_future_error(lost)->status, GW_DISCONNECTED);
    assert_non_null(strstr(gw_future_error(lost)->text, "w2"));
    assert_true(gw_future_done(gw_member_lost(s, workers, 3)));
    assert_false(gw_future_done(gw_member_lost(s, workers, 2)));
    gw_future_set(s, lost, 1);
    expect(s, GW_INVALID,
           "a program can complete only futures that it has opened by gw_future_open");
    gw_member_lost(s, &(gw_worker){ .rank = 7 }, 1);
    expect(s, GW_NOT_FOUND, "no worker of rank 7");
}

static void waits_for_members_end_when_one_is_lost(void **state) {
    (void)state;
    cluster_run(4, (cluster_options){ .world_size = 3, .leaves = { [2] = true } }, wait_for_members,
                NULL);
}

GW_TESTS(future_sim, then_receives_the_value_of_the_future, the_program_completes_a_future_once,
         a_future_that_would_wait_for_itself_fails, no_future_can_be_its_own_value,
         errors_name_wrong_arguments,
         waits_end_when_the_last_handle_that_could_complete_a_future_is_dropped,
         wait_any_returns_the_first_of_several, waits_for_members_end_when_one_is_lost);
