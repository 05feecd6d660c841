// .serve_later and gw_rpc_serve: calls wait until the program can serve them.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <string.h>

// The workers are threads of one process that run one at a time.
static bool prepared;
static int started, early, last;

static void reset(void) {
    prepared = false;
    started = early = last = 0;
}

static void note(void) {
    started++;
    early += !prepared;
}

GW_FUNCTION(later_inline, GW_INLINE, "int") {
    note();
    last = (int)gw_arg_int(s, a, 0);
    return gw_value_of(last);
}

GW_FUNCTION(later_pool, GW_POOL) {
    note();
    return gw_rpc_sync(s, gw_rpc_self(s), "later_inline", 7);
}

typedef struct later_box {
    int64_t n;
} later_box;

GW_CLASS(later_box, later_box_open, "int");

static void later_box_open(gw_scope *own, later_box *self, const gw_args *a) {
    note();
    self->n = gw_arg_int(own, a, 0);
}

GW_METHOD(later_box, add, GW_INLINE, "int") {
    note();
    return gw_value_of(self->n += gw_arg_int(s, a, 0));
}

static void prepare_and_serve(gw_scope *s) {
    cluster_sleep_ms(s, 500);
    assert_int_equal(started, 0);
    prepared = true;
    gw_rpc_serve(s);
    gw_rpc_serve(s);
}

static void call_all_kinds(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank == 1) {
        gw_future *to_self = gw_rpc_async(s, 1, "later_inline", 1);
        prepare_and_serve(s);
        assert_int_equal(gw_int_of(s, gw_wait(s, to_self)), 1);
        return;
    }
    gw_future *pooled = gw_rpc_async(s, 1, "later_pool");
    gw_future *operated = gw_rpc_async(s, 1, "gw.add", gw_ones(s, GW_F32), 1.0);
    gw_rref *box = gw_remote(s, 1, "later_box", 3);
    gw_future *added = gw_rpc_async(s, box, "add", 4);
    assert_int_equal(gw_int_of(s, gw_rpc_sync(s, 1, "later_inline", 5)), 5);
    assert_int_equal(gw_int_of(s, gw_wait(s, pooled)), 7);
    assert_float_equal(gw_item(s, gw_tensor_of(s, gw_wait(s, operated))), 2, 0);
    assert_int_equal(gw_int_of(s, gw_wait(s, added)), 7);
}

static void calls_wait_until_the_worker_serves(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        reset();
        cluster_run(seed, (cluster_options){ .world_size = 2, .serves_later = { false, true } },
                    call_all_kinds, NULL);
        assert_int_equal(early, 0);
        assert_int_equal(started, 6);
    }
}

enum { CALLS = 100 };

static void call_in_order(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank == 2) {
        prepare_and_serve(s);
        return;
    }
    gw_future *fs[CALLS];
    for (int i = 0; i < CALLS; i++) fs[i] = gw_rpc_async(s, 2, "later_inline", i);
    gw_wait_all(s, fs, CALLS);
    for (int i = 0; i < CALLS; i++) assert_int_equal(gw_int_of(s, gw_wait(s, fs[i])), i);
}

static void they_start_in_the_order_of_their_scope(void **state) {
    (void)state;
    reset();
    cluster_run(3, (cluster_options){ .world_size = 3, .serves_later = { false, false, true } },
                call_in_order, NULL);
    assert_int_equal(started, 2 * CALLS);
    assert_int_equal(last, CALLS - 1);
}

static void wait_too_long(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank == 1) {
        cluster_sleep_ms(s, 1000);
        prepared = true;
        gw_rpc_serve(s);
        return;
    }
    gw_rpc_sync_with(s, gw_to(1), "later_inline", GW_ARGS(1),
                     GW_OPTIONS(gw_call_options, .timeout_ms = 200));
    assert_int_equal(gw_scope_error(s)->status, GW_TIMEOUT);
    gw_scope_clear(s);
    gw_future *cancelled = gw_rpc_async(s, 1, "later_inline", 2);
    cluster_sleep_ms(s, 100);
    gw_cancel(s, cancelled);
    assert_int_equal(gw_int_of(s, gw_rpc_sync(s, 1, "later_inline", 3)), 3);
}

static void a_call_that_ends_before_does_not_run(void **state) {
    (void)state;
    reset();
    cluster_run(1, (cluster_options){ .world_size = 2, .serves_later = { false, true } },
                wait_too_long, NULL);
    assert_int_equal(early, 0);
    assert_int_equal(started, 1);
}

static void shut_down_without_serving(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank == 1) {
        cluster_sleep_ms(s, 200);
        prepared = true;
        return;
    }
    assert_int_equal(gw_int_of(s, gw_rpc_sync(s, 1, "later_inline", 9)), 9);
}

static void gw_rpc_shutdown_serves_them(void **state) {
    (void)state;
    reset();
    cluster_run(1, (cluster_options){ .world_size = 2, .serves_later = { false, true } },
                shut_down_without_serving, NULL);
    assert_int_equal(early, 0);
    assert_int_equal(started, 1);
}

static void end_meanwhile(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank == 1) {
        cluster_sleep_ms(s, 20000);
        gw_rpc_serve(s);
        cluster_sleep_ms(s, 100);
        assert_int_equal(started, 0);
        return;
    }
    gw_rpc_async(s, 1, "later_inline", 1);
    gw_remote(s, 1, "later_box", 1);
    cluster_sleep_ms(s, 50);
}

static void calls_of_a_worker_that_has_ended_do_not_run(void **state) {
    (void)state;
    reset();
    cluster_run(
        1,
        (cluster_options){
            .world_size = 2, .serves_later = { false, true }, .leaves = { true }, .fails = true },
        end_meanwhile, NULL);
    assert_int_equal(started, 0);
}

static void meet_before_serving(gw_scope *s, int rank, void *context) {
    (void)context;
    int count;
    const gw_worker *all = gw_rpc_workers(s, &count);
    gw_future *queued = rank ? gw_rpc_async(s, 0, "later_inline", 4) : NULL;
    gw_scope_set_timeout(s, 20000);
    gw_rpc_barrier(s, all, count);
    gw_list *names = gw_rpc_all_gather(s, all, count, rank);
    for (int i = 0; i < count; i++) assert_int_equal(gw_int_of(s, gw_list_get(s, names, i)), i);
    gw_group *world = gw_group_world(s);
    if (rank) gw_send(s, world, gw_ones(s, GW_F32, 2), 0);
    for (int i = 1; !rank && i < count; i++) gw_recv(s, world, i);
    if (!rank) gw_rref_set_name(s, gw_rref_open(s, 6), "six");
    gw_rref *six = rank ? gw_named(s, 0, "six") : NULL;
    if (rank) assert_int_equal(gw_int_of(s, gw_to_here_value(s, six)), 6);
    assert_true(gw_ok(s));
    if (!rank) prepare_and_serve(s);
    if (queued) assert_int_equal(gw_int_of(s, gw_wait(s, queued)), 4);
}

// They run no function of the program. The first worker leads all of them.
static void collectives_messages_and_names_do_not_wait(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        reset();
        cluster_run(seed, (cluster_options){ .world_size = 3, .serves_later = { true } },
                    meet_before_serving, NULL);
        assert_int_equal(early, 0);
        assert_int_equal(started, 2);
    }
}

static void without_a_job_it_is_an_error(void **state) {
    (void)state;
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_serve(root);
    gw_error e = gw_scope_close(root);
    assert_int_equal(e.status, GW_WRONG_STATE);
}

GW_TESTS(serve_later_sim, calls_wait_until_the_worker_serves,
         they_start_in_the_order_of_their_scope, a_call_that_ends_before_does_not_run,
         gw_rpc_shutdown_serves_them, collectives_messages_and_names_do_not_wait,
         calls_of_a_worker_that_has_ended_do_not_run, without_a_job_it_is_an_error);
