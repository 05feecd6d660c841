// Workers whose user code computes for longer than the limit for a silent worker: no worker declares them dead.
#include "../support/launched.h"
#include "testing/testing.h"

#include <errno.h>
#include <gradwire.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LONG_S = 11 };  // a silent worker is dead after 7 s, one that seldom sends after 9

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void compute(void) {
    double until_s = now_s() + LONG_S;
    while (now_s() < until_s) continue;
}

GW_FUNCTION(alive_compute_inline, GW_INLINE) {
    compute();
    return gw_value_of(1);
}

static gw_value compute_after(gw_scope *s, gw_value v, void *context) {
    (void)s, (void)context;
    compute();
    return v;
}

GW_FUNCTION(alive_compute_after, GW_POOL) {
    gw_future *f = gw_future_open(s);
    gw_future *after = gw_then(s, f, compute_after, NULL);
    gw_future_set(s, f, 2);
    return gw_value_of(after);
}

GW_FUNCTION(alive_echo, GW_INLINE, "int") {
    return gw_arg(s, a, 0);
}

static gw_value compute_with_value(gw_scope *s, gw_value v, void *context) {
    (void)s, (void)context;
    compute();
    return v;
}

static path url_in(path folder) {
    path url;
    snprintf(url.text, sizeof url.text, "file://%.200s/store", folder.text);
    return url;
}

static pid_t start(const char *url, int rank, int world_size) {
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid) return pid;
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .rank = rank, .world_size = world_size, .init_method = url);
    gw_rpc_shutdown(root);
    _exit(gw_exit_code(gw_scope_close(root)));
}

static int end_of(pid_t pid) {
    int status;
    while (waitpid(pid, &status, 0) < 0) assert_int_equal(errno, EINTR);
    return status;
}

typedef struct job {
    path folder;
    int world_size;
    pid_t pids[8];
    gw_scope *root;  // of rank 0, which is this process
} job;

static job open_job(int world_size) {
    job j = { .folder = make_folder(), .world_size = world_size };
    path url = url_in(j.folder);
    for (int rank = 1; rank < world_size; rank++) j.pids[rank] = start(url.text, rank, world_size);
    j.root = gw_scope_open(NULL);
    gw_rpc_init(j.root, .rank = 0, .world_size = world_size, .init_method = url.text);
    return j;
}

static void assert_all_are_present(job *j) {
    assert_string_equal(gw_scope_error(j->root)->text, "");
    gw_rpc_shutdown(j->root);
    assert_int_equal(gw_exit_code(gw_scope_close(j->root)), 0);
    for (int rank = 1; rank < j->world_size; rank++) assert_int_equal(end_of(j->pids[rank]), 0);
    remove_folder(j->folder);
}

// One worker computes in a GW_INLINE body, one after a future; the other three are a quorum.
static void workers_that_compute_for_callers_are_alive(void **state) {
    (void)state;
    job j = open_job(5);
    gw_future *one = gw_rpc_async(j.root, 1, "alive_compute_inline");
    gw_future *two = gw_rpc_async(j.root, 2, "alive_compute_after");
    assert_int_equal(gw_int_of(j.root, gw_wait(j.root, one)), 1);
    assert_int_equal(gw_int_of(j.root, gw_wait(j.root, two)), 2);
    assert_all_are_present(&j);
}

static void a_worker_that_computes_after_a_reply_is_alive(void **state) {
    (void)state;
    job j = open_job(3);
    gw_future *reply = gw_rpc_async(j.root, 1, "alive_echo", 3);
    gw_future *after = gw_then(j.root, reply, compute_with_value, NULL);
    assert_int_equal(gw_int_of(j.root, gw_wait(j.root, after)), 3);
    assert_all_are_present(&j);
}

GW_TESTS_WITH_LIMIT(alive, 60, workers_that_compute_for_callers_are_alive,
                    a_worker_that_computes_after_a_reply_is_alive);
