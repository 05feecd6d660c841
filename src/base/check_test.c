// The mistakes that the checked mode detects, each in a process of its own.
#include "base/check.h"

#include "base/log.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

// The output of |mistake| when it ends its process; "" if it continues.
static const char *error_text_of(void (*mistake)(void)) {
    static char text[1024];
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        check_enabled = true;
        mistake();
        _exit(0);
    }
    close(ends[1]);
    ssize_t size = read(ends[0], text, sizeof text - 1);
    text[size > 0 ? size : 0] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WIFSIGNALED(status) ? WTERMSIG(status) : 0, size > 0 ? SIGABRT : 0);
    return text;
}

static void close_twice(void) {
    gw_scope *s = gw_scope_open(NULL);
    gw_scope_close_up(s);
    gw_scope_close_up(s);
}

static void close_with_parent(void) {
    gw_scope *s = gw_scope_open(NULL), *inner = gw_scope_open(s);
    gw_scope_close_up(s);
    gw_scope_close_up(inner);
}

static void compute_after_close(void) {
    gw_scope *s = gw_scope_open(NULL);
    gw_scope_close_up(s);
    gw_ones(s, GW_F32, 2);
}

static void use_a_tensor_after_close(void) {
    gw_scope *s = gw_scope_open(NULL), *inner = gw_scope_open(s);
    gw_tensor *x = gw_ones(inner, GW_F32, 2);
    gw_scope_close_up(inner);
    gw_add(s, x, 1);
}

static void a_closed_scope_is_used_no_more(void **state) {
    (void)state;
    assert_string_equal(error_text_of(close_twice),
                        "gradwire: GW_CHECK: gw_scope_close_up: the scope, or a scope around it, "
                        "was closed before\n");
    assert_non_null(
        strstr(error_text_of(close_with_parent),
               "gw_scope_close_up: the scope, or a scope around it, was closed before"));
    assert_non_null(strstr(error_text_of(compute_after_close),
                           "an operation: the scope, or a scope around it, was closed before"));
    assert_string_equal(error_text_of(use_a_tensor_after_close),
                        "gradwire: GW_CHECK: an operand was dropped, or the scope that held the "
                        "operand is closed\n");
}

static void write_late(void) {
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *w = gw_requires_grad(s, gw_ones(s, GW_F32, 3)), *x = gw_ones(s, GW_F32, 3);
    float *kept = gw_data_for_write(s, x);
    gw_tensor *loss = gw_sum(s, gw_mul(s, w, x));
    kept[0] = 7;  // the pass will multiply by it
    gw_backward(s, loss);
    gw_scope_close_up(s);
}

static void write_in_time(void) {
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *w = gw_requires_grad(s, gw_ones(s, GW_F32, 3)), *x = gw_ones(s, GW_F32, 3);
    for (int i = 0; i < 3; i++) {
        ((float *)gw_data_for_write(s, x))[0] = 7;
        gw_backward(s, gw_sum(s, gw_mul(s, w, x)));
        if (!gw_ok(s)) _exit(1);
    }
    gw_scope_close_up(s);
}

static void a_kept_pointer_is_not_written_to(void **state) {
    (void)state;
    assert_non_null(
        strstr(error_text_of(write_late),
               "the program has written through a pointer of gw_data_for_write after the next "
               "operation, while a backward pass or a message needed the old values"));
    assert_string_equal(error_text_of(write_in_time), "");
}

static void *compute(void *arg) {
    gw_scope *s = arg;
    for (int i = 0; i < 10000; i++) gw_ones(s, GW_F32, 10000);
    return NULL;
}

static void share_a_scope(void) {
    gw_scope *s = gw_scope_open(NULL);
    pthread_t other;
    pthread_create(&other, NULL, compute, s);
    compute(s);
}

static void hand_a_scope_over(void) {
    gw_scope *s = gw_scope_open(NULL);
    pthread_t other;
    gw_ones(s, GW_F32, 2);
    pthread_create(&other, NULL, compute, s);
    pthread_join(other, NULL);
    gw_ones(s, GW_F32, 2);
    gw_scope_close_up(s);
}

static void a_scope_is_in_one_thread_at_a_time(void **state) {
    (void)state;
    assert_non_null(strstr(error_text_of(share_a_scope), "two threads use one scope at once"));
    assert_string_equal(error_text_of(hand_a_scope_over), "");
}

GW_TESTS(base_check, a_closed_scope_is_used_no_more, a_kept_pointer_is_not_written_to,
         a_scope_is_in_one_thread_at_a_time);
