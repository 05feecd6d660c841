// Turns and futures in edge cases: a call releases its turns in each way that it can end.
#include "base/log.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct turn_box {
    gw_scope *own;
    int64_t n;
} turn_box;

GW_CLASS(turn_box, turn_box_open);

static void turn_box_open(gw_scope *own, turn_box *self, const gw_args *a) {
    (void)a;
    self->own = own;
}

GW_METHOD(turn_box, add, GW_INLINE, "int") {
    return gw_value_of(self->n += gw_arg_int(s, a, 0));
}

// Enters another object in a scope that outlives this call.
GW_METHOD(turn_box, enter_for_long, GW_POOL, "rref") {
    gw_local(self->own, gw_arg_rref(s, a, 0), turn_box);
    return gw_none();
}

typedef struct job {
    char path[32], url[64];
    gw_scope *root;
    gw_rref *box;
} job;

static job open_job(void) {
    job j = { .path = "/tmp/gw-turn-XXXXXX" };
    int fd = mkstemp(j.path);
    assert_true(fd >= 0);
    close(fd);
    snprintf(j.url, sizeof j.url, "file://%s", j.path);
    j.root = gw_scope_open(NULL);
    gw_rpc_init(j.root, .world_size = 1, .init_method = j.url);
    j.box = gw_remote(j.root, 0, "turn_box");
    return j;
}

static gw_error close_job(job *j) {
    gw_rpc_shutdown(j->root);
    unlink(j->path);
    return gw_scope_close(j->root);
}

static void add_one(job *j, int64_t expected) {
    gw_scope *s = gw_scope_open(j->root);
    gw_scope_set_timeout(s, testing_patient_ms(10000));
    assert_int_equal(gw_int_of(s, gw_rpc_sync(s, j->box, "add", 1)), expected);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static gw_value enter_box(gw_scope *s, gw_value v, void *context) {
    (void)v;
    turn_box *b = gw_local(s, context, turn_box);
    return gw_value_of(b ? ++b->n : 0);
}

static void a_then_body_leaves_the_object_it_entered(void **state) {
    (void)state;
    job j = open_job();
    add_one(&j, 1);
    gw_future *f = gw_future_open(j.root);
    gw_future *then = gw_then(j.root, f, enter_box, j.box);
    gw_future_set(j.root, f, 0);
    assert_int_equal(gw_int_of(j.root, gw_wait(j.root, then)), 2);
    add_one(&j, 3);
    assert_int_equal(close_job(&j).status, GW_OK);
}

static void an_object_is_not_entered_in_a_scope_that_outlives_the_call(void **state) {
    (void)state;
    job j = open_job();
    gw_scope *s = gw_scope_open(j.root);
    gw_rref *other = gw_remote(s, 0, "turn_box");
    gw_rpc_sync(s, other, "enter_for_long", j.box);
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, GW_INVALID);
    assert_non_null(strstr(e.text, "outlives the call"));
    add_one(&j, 1);
    assert_int_equal(close_job(&j).status, GW_OK);
}

static void entering_waits_no_longer_than_the_deadline(void **state) {
    (void)state;
    job j = open_job();
    add_one(&j, 1);
    gw_scope *outer = gw_scope_open(j.root), *inner = gw_scope_open(outer);
    assert_non_null(gw_local(inner, j.box, turn_box));
    gw_scope_set_timeout(outer, 50);
    assert_null(gw_local(outer, j.box, turn_box));  // the inner scope has the turn
    assert_int_equal(gw_scope_error(outer)->status, GW_TIMEOUT);
    gw_scope_close_up(inner);
    assert_int_equal(gw_scope_close(outer).status, GW_TIMEOUT);
    add_one(&j, 2);
    assert_int_equal(close_job(&j).status, GW_OK);
}

typedef struct turn_other {
    double unlike[64];
} turn_other;

static void an_object_is_entered_with_its_own_class(void **state) {
    (void)state;
    job j = open_job();
    gw_scope *s = gw_scope_open(j.root);
    assert_null(gw_local(s, j.box, turn_other));
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, GW_INVALID);
    assert_non_null(strstr(e.text, "to a turn_box, not to a turn_other"));
    assert_int_equal(close_job(&j).status, GW_OK);
}

static void no_future_is_opened_after_shutdown(void **state) {
    (void)state;
    job j = open_job();
    add_one(&j, 1);
    gw_rpc_shutdown(j.root);
    gw_future_open(j.root);
    gw_error e = close_job(&j);
    assert_int_equal(e.status, GW_WRONG_STATE);
    assert_non_null(strstr(e.text, "a future is not possible after shutdown"));
}

static void a_reference_needs_a_scope_of_its_agent(void **state) {
    (void)state;
    job j = open_job();
    add_one(&j, 1);
    gw_scope *unrelated = gw_scope_open(NULL);
    gw_to_here(unrelated, j.box);
    assert_int_equal(gw_scope_close(unrelated).status, GW_INVALID);
    assert_int_equal(close_job(&j).status, GW_OK);
}

GW_FUNCTION(turn_never, GW_INLINE, "") {
    return gw_value_of(gw_member_lost(s, NULL, 0));
}

GW_FUNCTION(turn_echo, GW_INLINE, "any") {
    return gw_arg(s, a, 0);
}

// A call that is never answered ends at its deadline on both sides, otherwise shutdown would wait for it.
static void futures_that_never_resolve_do_not_hold_up_shutdown(void **state) {
    (void)state;
    job j = open_job();
    gw_call_options soon = GW_OPTIONS(gw_call_options, .timeout_ms = 50);
    gw_scope *s = gw_scope_open(j.root);
    gw_rpc_sync_with(s, gw_to(0), "turn_never", GW_NO_ARGS, soon);
    assert_int_equal(gw_scope_close(s).status, GW_TIMEOUT);
    s = gw_scope_open(j.root);
    gw_rpc_sync_with(s, gw_to(0), "turn_echo", GW_ARGS(gw_future_open(s)), soon);
    assert_int_equal(gw_scope_close(s).status, GW_TIMEOUT);
    assert_int_equal(close_job(&j).status, GW_OK);
}

// ---- Long bodies --------------------------------------------------------------------------------
static char logged[256];

static void keep_line(const char *line) {
    snprintf(logged, sizeof logged, "%s", line);
}

static int64_t computed_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void compute_for_ms(int ms) {
    int64_t until_ms = computed_ms() + ms + 1;
    while (computed_ms() < until_ms) continue;
}

GW_FUNCTION(turn_compute, GW_INLINE, "int") {
    compute_for_ms((int)gw_arg_int(s, a, 0));
    return gw_none();
}

// The thread does not run for this time, as when other threads have its processor.
GW_FUNCTION(turn_pause, GW_INLINE, "int") {
    poll(NULL, 0, (int)gw_arg_int(s, a, 0));
    return gw_none();
}

static gw_value compute_after(gw_scope *s, gw_value v, void *context) {
    (void)s, (void)context;
    compute_for_ms(100);
    return v;
}

static void an_inline_body_that_takes_long_is_named_once(void **state) {
    (void)state;
    log_hook = keep_line;
    job j = open_job();
    gw_rpc_sync(j.root, 0, "turn_compute", 100);
    assert_non_null(strstr(logged, "worker0: the GW_INLINE function turn_compute ran for 1"));
    gw_future *f = gw_future_open(j.root);
    gw_future *after = gw_then(j.root, f, compute_after, NULL);
    gw_future_set(j.root, f, 7);
    gw_wait(j.root, after);
    assert_non_null(
        strstr(logged, "worker0: a function that a future calls (gw_then, gw_on_done) ran for 1"));
    assert_int_equal(close_job(&j).status, GW_OK);
}

static void an_inline_body_whose_thread_is_late_is_not_named(void **state) {
    (void)state;
    log_hook = keep_line;
    job j = open_job();
    gw_rpc_sync(j.root, 0, "turn_compute", 20);
    gw_rpc_sync(j.root, 0, "turn_pause", 150);
    assert_null(strstr(logged, "turn_pause"));
    assert_int_equal(close_job(&j).status, GW_OK);
}

GW_TESTS_WITH_LIMIT(turn, 25, a_then_body_leaves_the_object_it_entered,
                    an_object_is_not_entered_in_a_scope_that_outlives_the_call,
                    entering_waits_no_longer_than_the_deadline,
                    an_object_is_entered_with_its_own_class, no_future_is_opened_after_shutdown,
                    a_reference_needs_a_scope_of_its_agent,
                    futures_that_never_resolve_do_not_hold_up_shutdown,
                    an_inline_body_that_takes_long_is_named_once,
                    an_inline_body_whose_thread_is_late_is_not_named);
