// Processes that fork makes while other threads use the library.
#include "testing/runner.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <gradwire/binding.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/launched.h"

enum { FORKS = 30, THREADS = 3 };

static _Atomic bool is_over;

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

// What takes locks of the library in any process: values of errors, rows of threads, large blocks and their addresses,
// the pool, casts and the numbers of modules.
static bool use_all(void) {
    gw_scope *s = gw_scope_open(NULL), *inside = gw_scope_open(s);
    gw_fail_with_value(inside, GW_INVALID, gw_value_of(5), "wrong");
    bool ok = gw_int_of(s, gw_error_value(s, gw_scope_error(inside))) == 5;
    gw_scope_clear(inside);
    gw_tensor *large = gw_ones(inside, GW_F32, 400000);
    ok = ok && gw_from_lendable(inside, GW_F32, gw_data(large), GW_SHAPE(400000));
    gw_module *m = gw_nn_linear(inside, 4, 4);
    gw_tensor *x = gw_requires_grad(inside, gw_ones(inside, GW_F32, 2, 4));
    gw_autocast(inside, GW_BF16);
    gw_backward(inside, gw_sum(inside, gw_module_call(inside, m, x)));
    ok = ok && gw_module_parameter_at(inside, m, 0) && gw_ok(inside);
    gw_scope_close_up(inside);
    gw_scope_close_up(s);
    return ok;
}

static void *use_often(void *unused) {
    while (!is_over) assert_true(use_all());
    return unused;
}

static void *use_once(void *out) {
    *(bool *)out = use_all();
    return NULL;
}

// With a thread of its own, which takes a row of counters and gives its memory back. ThreadSanitizer allows no thread
// there.
static bool use_with_a_thread(void) {
    pthread_t thread;
    bool ok = false;
    if (TESTING_THREAD_SANITIZER) return use_all();
    return use_all() && !pthread_create(&thread, NULL, use_once, &ok) &&
           !pthread_join(thread, NULL) && ok;
}

static void a_child_of_a_process_whose_threads_work_can_work(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    assert_true(use_all());
    begin(threads, use_often);
    for (int i = 0; i < FORKS; i++) assert_int_equal(run_in_child(use_with_a_thread), 3);
    end(threads);
}

static gw_value number(gw_scope *s, void *state, int64_t index) {
    (void)s, (void)state;
    return gw_value_of(index);
}

static gw_scope *root;
static gw_scalars *curves;
static gw_data_loader *loader;

static bool is_refused(gw_scope *s, const char *text) {
    bool is = gw_scope_error(s)->status == GW_WRONG_STATE && strstr(gw_scope_error(s)->text, text);
    gw_scope_clear(s);
    return is;
}

// It ends also where closing the scope closes what it has from its parent.
static bool cannot_use_what_is_the_parents(void) {
    gw_scope *s = gw_scope_open(root);
    gw_scalars_add(s, curves, "loss", 2, 2);
    bool ok = is_refused(s, "was forked");
    gw_data_loader_next(s, loader);
    ok = ok && is_refused(s, "was forked");
    gw_scope_close_up(s);
    gw_scope_close_up(root);
    return ok;
}

static void a_child_cannot_use_files_and_threads_of_its_parent(void **state) {
    (void)state;
    path folder = make_folder();
    root = gw_scope_open(NULL);
    curves = gw_scalars_open(root, folder.text);
    gw_scalars_add(root, curves, "loss", 1, 1);
    gw_dataset *d = gw_dataset_open(root, "numbers", 100, number, NULL);
    loader = gw_data_loader_open(root, d, .num_workers = 1);
    assert_true(gw_data_loader_next(root, loader));
    assert_int_equal(run_in_child(cannot_use_what_is_the_parents), 3);
    gw_scalars_add(root, curves, "loss", 3, 3);
    assert_true(gw_data_loader_next(root, loader));
    assert_string_equal(gw_scope_close(root).text, "");
    remove_folder(folder);
}

GW_TESTS(fork, a_child_of_a_process_whose_threads_work_can_work,
         a_child_cannot_use_files_and_threads_of_its_parent);
