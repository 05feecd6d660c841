// Processes that programs start: invalid requests, and the report of an end. The program is that of the tests, which
// lists one test, or none, and ends. tests/process/worker_process_test.c has workers that join.
#include <gradwire.h>

#include "testing/testing.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

static gw_scope *open_alone(void) {
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .name = "parent", .rank = 0, .world_size = 1,
                .init_method = "tcp://127.0.0.1:0");
    assert_true(gw_ok(root));
    return root;
}

static void close_alone(gw_scope *root) {
    gw_rpc_shutdown(root);
    assert_int_equal(gw_scope_close(root).status, GW_OK);
}

static const char *const list_none[] = { "--list", "no_such_test", NULL };

static void an_invalid_worker_is_refused(void **state) {
    (void)state;
    gw_scope *root = open_alone();
    static const char *const names[] = { "", "two words", NULL };
    for (int i = 0; i < 3; i++) {
        gw_scope *s = gw_scope_open(root);
        gw_process *p = gw_process_start(s, names[i], list_none);
        gw_process_kill(p);
        assert_int_equal(gw_process_id(p), 0);
        gw_wait(s, gw_process_ended(p));
        assert_int_equal(gw_scope_close(s).status, GW_INVALID);
    }
    gw_scope *s = gw_scope_open(root);
    gw_process_start(s, "worker1", NULL);
    assert_int_equal(gw_scope_close(s).status, GW_INVALID);
    close_alone(root);
    s = gw_scope_open(NULL);
    gw_process_start(s, "worker1", list_none);
    assert_int_equal(gw_scope_close(s).status, GW_WRONG_STATE);
}

static void its_end_is_reported_also_after_shutdown(void **state) {
    (void)state;
    gw_scope *root = open_alone();
    gw_process *p = gw_process_start(root, "worker1", list_none);
    gw_rpc_shutdown(root);
    assert_true(gw_process_id(p) > 0);
    gw_int_of(root, gw_wait(root, gw_process_ended(p)));
    assert_non_null(gw_future_error(gw_process_joined(p)));
    gw_process_kill(p);
    close_alone(root);
}

static void it_ends_with_its_scope(void **state) {
    (void)state;
    gw_scope *root = open_alone();
    gw_scope *s = gw_scope_open(root);
    int inner = gw_process_id(gw_process_start(s, "worker1", list_none));
    int outer = gw_process_id(gw_process_start(root, "worker2", list_none));
    gw_scope_close_up(s);
    assert_true(kill(inner, 0) != 0 && errno == ESRCH);
    close_alone(root);
    assert_true(kill(outer, 0) != 0 && errno == ESRCH);
}

static void start_one(void *context) {
    (void)context;
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .name = "parent", .rank = 0, .world_size = 1,
                .init_method = "tcp://127.0.0.1:0");
    gw_process_start(root, "worker1", list_none);
    gw_error e = gw_scope_close(root);
    (void)e;
}

static void without_memory_nothing_is_left(void **state) {
    (void)state;
    testing_alloc_failure_loop(start_one, NULL);
}

GW_TESTS(future_process, an_invalid_worker_is_refused, its_end_is_reported_also_after_shutdown,
         it_ends_with_its_scope, without_memory_nothing_is_left);
