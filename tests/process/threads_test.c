// Threads that cannot be created: an error at the start, and later a deadline instead of a hang.
#include "base/mem.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <pthread.h>
#include <string.h>

GW_FUNCTION(threads_nest, GW_POOL, "int") {
    int64_t depth = gw_arg_int(s, a, 0);
    if (depth == 0) return gw_value_of(0);
    return gw_value_of(1 + gw_int_of(s, gw_rpc_sync(s, gw_rpc_self(s), "threads_nest", depth - 1)));
}

// A stack larger than any address space: so creating a thread fails, and nothing else does.
static void forbid_threads(bool are_forbidden) {
    pthread_attr_t attributes;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    size_t size = are_forbidden ? (size_t)1 << 48 : (size_t)1 << 20;
    assert_int_equal(pthread_attr_setstacksize(&attributes, size), 0);
    assert_int_equal(pthread_setattr_default_np(&attributes), 0);
    pthread_attr_destroy(&attributes);
}

static gw_scope *open_alone(void) {
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .name = "alone", .world_size = 1, .init_method = "tcp://127.0.0.1:0",
                .threads = 1);
    return root;
}

static void a_worker_that_gets_no_thread_reports_it(void **state) {
    (void)state;
    if (!MEM_CACHED) testing_skip("a sanitizer chooses stacks itself");
    forbid_threads(true);
    gw_scope *root = open_alone();
    gw_error error = gw_scope_close(root);
    assert_int_equal(error.status, GW_SYSTEM);
    assert_non_null(strstr(error.text, "pthread_create"));
    forbid_threads(false);
    root = open_alone();
    assert_int_equal(gw_int_of(root, gw_rpc_sync(root, "alone", "threads_nest", 3)), 3);
    gw_rpc_shutdown(root);
    error = gw_scope_close(root);
    assert_string_equal(error.text, "");
}

static void calls_that_need_more_threads_than_there_can_be_end(void **state) {
    (void)state;
    if (!MEM_CACHED) testing_skip("a sanitizer chooses stacks itself");
    forbid_threads(false);
    gw_scope *root = open_alone();
    forbid_threads(true);
    gw_scope *s = gw_scope_open(root);
    gw_scope_set_timeout(s, 500);
    gw_rpc_sync(s, "alone", "threads_nest", 20);
    gw_error error = gw_scope_close(s);
    assert_int_equal(error.status, GW_TIMEOUT);
    // Functions that need no other thread run as before, and all functions run once threads can be created again.
    assert_float_equal(
        gw_item(root, gw_tensor_of(root, gw_rpc_sync(root, "alone", "gw.add",
                                                     gw_ones(root, GW_F32, 1), 1.0))),
        2, 0);
    forbid_threads(false);
    assert_int_equal(gw_int_of(root, gw_rpc_sync(root, "alone", "threads_nest", 20)), 20);
    gw_rpc_shutdown(root);
    error = gw_scope_close(root);
    assert_string_equal(error.text, "");
}

GW_TESTS(threads, a_worker_that_gets_no_thread_reports_it,
         calls_that_need_more_threads_than_there_can_be_end);
