#include "base/process_lock.h"

#include "testing/testing.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static int children, children_before;

static void count_child(void) {
    children++;
}

PROCESS_LOCK(inner, PROCESS_LOCK_LEAF, count_child);
PROCESS_LOCK(outer, PROCESS_LOCK_MOVE, NULL);

enum { FORKS = 30, THREADS = 3 };

static _Atomic bool is_over;
static int64_t left, right;  // equal while |inner| is free

static void change(void) {
    process_lock_take(&outer);
    process_lock_take(&inner);
    left++;
    sched_yield();
    right++;
    process_lock_release(&inner);
    process_lock_release(&outer);
}

static void *change_often(void *unused) {
    while (!is_over) change();
    return unused;
}

// The exit code of a process that fork makes, and in which |run| returns true.
static int run_in_child(bool (*run)(void)) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) _exit(run() ? 3 : 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void begin(pthread_t threads[THREADS], void *(*run)(void *)) {
    is_over = false;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, NULL), 0);
}

static void end(pthread_t threads[THREADS]) {
    is_over = true;
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static bool is_free_and_whole(void) {
    bool is_free = !pthread_mutex_trylock(&outer.mutex) && !pthread_mutex_trylock(&inner.mutex);
    return is_free && left == right && children == children_before + 1;
}

static void a_child_finds_locks_free_and_their_data_whole(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    children_before = children;  // this process may be a child of the one that runs tests
    begin(threads, change_often);
    for (int i = 0; i < FORKS; i++) assert_int_equal(run_in_child(is_free_and_whole), 3);
    end(threads);
    assert_int_equal(children, children_before);
    assert_int_equal(left, right);
}

GW_TESTS(base_process_lock, a_child_finds_locks_free_and_their_data_whole);
