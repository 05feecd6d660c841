// gw_scope_open_of: scopes of any thread for the job of a root scope.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <gradwire/binding.h>
#include <pthread.h>
#include <string.h>

GW_FUNCTION(attached_echo, GW_INLINE, "any") {
    return gw_arg(s, a, 0);
}

static gw_scope *open_alone(void) {
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .name = "alone", .world_size = 1, .init_method = "tcp://127.0.0.1:0");
    assert_string_equal(gw_scope_error(root)->text, "");
    return root;
}

static void close_alone(gw_scope *root) {
    gw_rpc_shutdown(root);
    assert_string_equal(gw_scope_close(root).text, "");
}

static int64_t echo(gw_scope *s, int64_t x) {
    return gw_int_of(s, gw_rpc_sync(s, "alone", "attached_echo", x));
}

enum { THREADS = 4, ROUNDS = 100 };

static void *call_often(void *root) {
    for (int i = 0; i < ROUNDS; i++) {
        gw_scope *s = gw_scope_open_of(root);
        assert_int_equal(echo(s, i), i);
        assert_string_equal(gw_scope_close(s).text, "");
    }
    return NULL;
}

static void threads_open_scopes_while_another_uses_the_root(void **state) {
    (void)state;
    gw_scope *root = open_alone();
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, root), 0);
    for (int i = 0; i < ROUNDS; i++) {
        gw_scope *s = gw_scope_open(root);
        assert_int_equal(echo(s, i), i);
        gw_scope_close_up(s);
    }
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    close_alone(root);
}

static void *close_it(void *s) {
    assert_string_equal(gw_scope_close(s).text, "");
    return NULL;
}

static void another_thread_may_close_it(void **state) {
    (void)state;
    gw_scope *root = open_alone(), *s = gw_scope_open_of(root);
    assert_int_equal(echo(s, 3), 3);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, close_it, s), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    close_alone(root);
}

static void it_has_neither_the_error_nor_the_deadline_of_the_root(void **state) {
    (void)state;
    gw_scope *root = open_alone();
    gw_scope_set_timeout(root, 1000000);
    gw_fail(root, GW_INVALID, "wrong");
    gw_scope *s = gw_scope_open_of(root), *inner = gw_scope_open(s);
    assert_int_equal(gw_scope_time_left_ms(inner), INT64_MAX);
    assert_int_equal(echo(inner, 5), 5);
    gw_fail(inner, GW_LIMIT, "too much");
    gw_scope_close_up(inner);
    gw_error error = gw_scope_close(s);
    assert_string_equal(error.text, "alone: too much");
    assert_string_equal(gw_scope_error(root)->text, "wrong");
    gw_scope_clear(root);
    close_alone(root);
}

static void its_calls_fail_once_the_root_has_closed(void **state) {
    (void)state;
    gw_scope *root = open_alone(), *s = gw_scope_open_of(root);
    close_alone(root);
    echo(s, 1);
    gw_error error = gw_scope_close(s);
    assert_int_equal(error.status, GW_WRONG_STATE);
    assert_string_equal(
        error.text,
        "alone: the agent is closed: the scope that was given to gw_rpc_init has closed");
}

// Nothing of the agent is freed while such a scope is open.
static void it_can_be_used_after_the_root_has_closed(void **state) {
    (void)state;
    gw_scope *root = open_alone(), *s = gw_scope_open_of(root);
    gw_future *f = gw_future_open(s);
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32, 2));
    gw_tensor *sent = gw_tensor_of(s, gw_rpc_sync(s, "alone", "gw.mul", x, 3.0));
    close_alone(root);
    gw_scope *inner = gw_scope_open(s);
    gw_scope_set_timeout(inner, 1000000);
    assert_in_range(gw_scope_time_left_ms(inner), 900000, 1000000);
    assert_false(gw_cancelled(inner));
    assert_true(gw_scope_id(inner) != gw_scope_id(s));
    gw_backward(inner, gw_sum(inner, gw_mul(inner, x, 2.0)));
    assert_float_equal(gw_item(inner, gw_sum(inner, gw_grad(inner, x))), 4, 0);
    gw_wait(inner, f);
    assert_non_null(strstr(gw_scope_error(inner)->text, "alone has left the job"));
    gw_scope_clear(inner);
    gw_backward(inner, gw_sum(inner, sent));
    assert_int_equal(gw_scope_error(inner)->status, GW_WRONG_STATE);
    gw_scope_clear(inner);
    gw_future_set(inner, f, 4);
    gw_scope_clear(inner);
    gw_cancel(inner, f);
    gw_wait_any(inner, &f, 1);
    gw_scope_clear(inner);
    assert_string_equal(gw_scope_close(inner).text, "");
    assert_string_equal(gw_scope_close(s).text, "");
}

static void without_an_agent_it_is_a_root_scope(void **state) {
    (void)state;
    gw_scope *root = gw_scope_open(NULL), *s = gw_scope_open_of(root);
    assert_string_equal(gw_scope_close(root).text, "");
    assert_float_equal(gw_item(s, gw_sum(s, gw_ones(s, GW_F32, 3))), 3, 0);
    assert_string_equal(gw_scope_close(s).text, "");
}

static double draw(gw_scope *s) {
    return gw_item(s, gw_rand(s, GW_F64));
}

static void its_random_numbers_are_those_of_no_other_scope(void **state) {
    (void)state;
    gw_scope *root = open_alone(), *s = gw_scope_open_of(root), *t = gw_scope_open_of(root);
    double of_s = draw(s), of_t = draw(t), of_root = draw(root);
    assert_true(of_s != of_t && of_s != of_root);
    gw_seed(s, 7);
    gw_seed(t, 7);
    of_s = draw(s);
    assert_true(of_s == draw(t));
    assert_string_equal(gw_scope_close(s).text, "");
    assert_string_equal(gw_scope_close(t).text, "");
    close_alone(root);
}

static void open_and_fail(void *root) {
    gw_scope *s = gw_scope_open_of(root), *inner = gw_scope_open(s);
    gw_alloc(inner, 100000);
    gw_scope_close_up(inner);
    gw_error error = gw_scope_close(s);
    assert_true(!error.status || error.status == GW_NO_MEMORY);
}

// In the simulator no other thread allocates meanwhile.
static void open_without_memory(gw_scope *root, int rank, void *context) {
    (void)rank, (void)context;
    testing_alloc_failure_loop(open_and_fail, root);
}

static void without_memory_it_has_failed(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = 1 }, open_without_memory, NULL);
}

GW_TESTS(agent_attached_scope, threads_open_scopes_while_another_uses_the_root,
         another_thread_may_close_it, it_has_neither_the_error_nor_the_deadline_of_the_root,
         its_calls_fail_once_the_root_has_closed, it_can_be_used_after_the_root_has_closed,
         without_an_agent_it_is_a_root_scope, its_random_numbers_are_those_of_no_other_scope,
         without_memory_it_has_failed);
