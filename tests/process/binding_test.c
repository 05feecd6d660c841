// What bindings of other languages do: threads of their own reply to calls, children of fork, signals of the program.
#include "testing/testing.h"

#include <gradwire.h>
#include <gradwire/binding.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// ---- A queue of calls that threads of the program complete --------------------------------------

typedef struct request {
    gw_future *reply;
    int64_t n;
} request;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    request items[256];
    int count;
    bool has_ended;
} queue = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void put(request r) {
    pthread_mutex_lock(&queue.lock);
    queue.items[queue.count++] = r;
    pthread_cond_signal(&queue.changed);
    pthread_mutex_unlock(&queue.lock);
}

static bool take(request *out) {
    pthread_mutex_lock(&queue.lock);
    while (!queue.count && !queue.has_ended) pthread_cond_wait(&queue.changed, &queue.lock);
    bool has = queue.count > 0;
    if (has) *out = queue.items[--queue.count];
    pthread_mutex_unlock(&queue.lock);
    return has;
}

static int count_queued(void) {
    pthread_mutex_lock(&queue.lock);
    int count = queue.count;
    pthread_mutex_unlock(&queue.lock);
    return count;
}

static void end_queue(void) {
    pthread_mutex_lock(&queue.lock);
    queue.has_ended = true;
    pthread_cond_broadcast(&queue.changed);
    pthread_mutex_unlock(&queue.lock);
}

GW_FUNCTION(binding_queue, GW_INLINE, "int") {
    gw_future *f = gw_future_open(s);
    put((request){ gw_retain(f), gw_arg_int(s, a, 0) });
    return gw_value_of(f);
}

// Less than 0: an error, with a value.
static void reply(gw_scope *root, request r) {
    gw_scope *s = gw_scope_open_of(root);
    if (r.n < 0) gw_fail_with_value(s, GW_REMOTE, gw_value_of(r.n), "%d is negative", (int)r.n);
    gw_future_set(s, r.reply, 2 * r.n);
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, r.n < 0 ? GW_REMOTE : GW_OK);
    gw_release(r.reply);
}

static void *reply_to_all(void *root) {
    for (request r; take(&r);) reply(root, r);
    return NULL;
}

enum { THREADS = 3, CALLS = 200 };

static gw_scope *open_alone(void) {
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .name = "alone", .world_size = 1, .init_method = "tcp://127.0.0.1:0",
                .threads = 1);
    assert_string_equal(gw_scope_error(root)->text, "");
    return root;
}

static void close_alone(gw_scope *root) {
    gw_rpc_shutdown(root);
    assert_string_equal(gw_scope_close(root).text, "");
}

static void threads_of_the_program_reply_to_calls(void **state) {
    (void)state;
    gw_scope *root = open_alone();
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, reply_to_all, root), 0);
    gw_scope *s = gw_scope_open(root);
    gw_future *fs[CALLS];
    for (int i = 0; i < CALLS; i++) fs[i] = gw_rpc_async(s, "alone", "binding_queue", i);
    for (int i = 0; i < CALLS; i++) assert_int_equal(gw_int_of(s, gw_wait(s, fs[i])), 2 * i);
    gw_rpc_sync(s, "alone", "binding_queue", -5);
    assert_string_equal(gw_scope_error(s)->text, "alone: binding_queue: -5 is negative");
    assert_int_equal(gw_error_value(s, gw_scope_error(s)).as.integer, -5);
    gw_scope_clear(s);
    gw_scope_close_up(s);
    end_queue();
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    close_alone(root);
}

static void a_reply_after_the_end_of_its_call_has_no_effect(void **state) {
    (void)state;
    gw_scope *root = open_alone(), *s = gw_scope_open(root);
    gw_rpc_sync_with(s, gw_to("alone"), "binding_queue", GW_ARGS(1),
                     GW_OPTIONS(gw_call_options, .timeout_ms = 20));
    assert_int_equal(gw_scope_error(s)->status, GW_TIMEOUT);
    gw_scope_clear(s);
    gw_future *cancelled = gw_rpc_async(s, "alone", "binding_queue", 2);
    while (count_queued() < 2) gw_rpc_sync(s, "alone", "gw.add", gw_ones(s, GW_F32), 1.0);
    gw_cancel(s, cancelled);
    for (request r; count_queued() && take(&r);) reply(root, r);
    assert_int_equal(gw_future_error(cancelled)->status, GW_CANCELLED);

    gw_future *forgotten = gw_rpc_async(s, "alone", "binding_queue", 3);
    while (!count_queued()) gw_rpc_sync(s, "alone", "gw.add", gw_ones(s, GW_F32), 1.0);
    request r;
    assert_true(take(&r));
    gw_release(r.reply);
    gw_wait(s, forgotten);
    assert_int_equal(gw_scope_error(s)->status, GW_WRONG_STATE);
    gw_scope_clear(s);
    gw_scope_close_up(s);
    close_alone(root);
}

// ---- fork ---------------------------------------------------------------------------------------

typedef struct handles {
    gw_scope *root, *s, *attached;
    gw_future *retained;
    gw_tensor *tensor;
    gw_rref *rref;
} handles;

static bool fails_as_forked(gw_scope *s) {
    const gw_error *e = gw_scope_error(s);
    bool fails = e->status == GW_WRONG_STATE && strstr(e->text, "which was forked");
    gw_scope_clear(s);
    return fails;
}

static bool does_nothing_in_child(const handles *h) {
    gw_rpc_sync(h->s, "alone", "binding_queue", 1);
    bool ok = gw_rpc_is_forked() && fails_as_forked(h->s);
    gw_scope *own = gw_scope_open_of(h->root);
    gw_rpc_async(own, "alone", "binding_queue", 1);
    ok = ok && fails_as_forked(own);
    gw_future_open(own);
    ok = ok && fails_as_forked(own);
    gw_rpc_serve(own);
    ok = ok && fails_as_forked(own);
    ok = ok && gw_item(own, gw_sum(own, gw_ones(own, GW_F32, 4))) == 4;
    gw_release(h->retained);
    gw_release(h->tensor);
    gw_release(h->rref);
    gw_scope_close_up(own);
    gw_scope_close_up(h->attached);
    gw_scope_close_up(h->s);
    return gw_scope_close(h->root).status == GW_OK && ok;
}

static void a_forked_process_ends_without_effect_on_its_parent(void **state) {
    (void)state;
    gw_scope *root = open_alone();
    handles h = { root, gw_scope_open(root), gw_scope_open_of(root), NULL, NULL, NULL };
    h.retained = gw_retain(gw_rpc_async(h.s, "alone", "binding_queue", 21));
    h.rref = gw_retain(gw_remote(h.s, "alone", "gw.add", gw_ones(h.s, GW_F32), 1.0));
    h.tensor = gw_retain(gw_to_here(h.s, h.rref));
    assert_false(gw_rpc_is_forked());
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) exit(does_nothing_in_child(&h) ? 3 : 1);  // with the functions of atexit
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    request r;
    assert_true(take(&r));
    reply(root, r);
    assert_int_equal(gw_int_of(h.s, gw_wait(h.s, h.retained)), 42);
    assert_float_equal(gw_item(h.s, gw_to_here(h.s, h.rref)), 2, 0);
    gw_release(h.retained);
    gw_release(h.tensor);
    gw_release(h.rref);
    gw_scope_close_up(h.s);
    gw_scope_close_up(h.attached);
    close_alone(root);
}

// ---- Signals ------------------------------------------------------------------------------------

static _Atomic bool is_tripped, wait_has_ended;
static pthread_t handled_on;
static int polls;

static void trip(int number) {
    (void)number;
    handled_on = pthread_self();
    is_tripped = true;
}

static bool poll(void *context) {
    assert_ptr_equal(context, &polls);
    polls++;
    return is_tripped;
}

static void *interrupt_soon(void *main) {
    while (!wait_has_ended) {
        pthread_kill(*(pthread_t *)main, SIGINT);
        sched_yield();
    }
    return NULL;
}

static void a_signal_of_the_program_ends_a_wait(void **state) {
    (void)state;
    struct sigaction action = { .sa_handler = trip }, after;
    sigemptyset(&action.sa_mask);
    assert_int_equal(sigaction(SIGINT, &action, NULL), 0);
    gw_scope *root = open_alone(), *s = gw_scope_open(root);
    gw_scope_set_interrupt(s, poll, &polls);
    pthread_t sender, self = pthread_self();
    assert_int_equal(pthread_create(&sender, NULL, interrupt_soon, &self), 0);
    gw_future *f = gw_future_open(s);
    gw_wait(s, f);
    wait_has_ended = true;
    assert_int_equal(gw_scope_error(s)->status, GW_CANCELLED);
    gw_scope_clear(s);
    assert_int_equal(pthread_join(sender, NULL), 0);
    assert_true(is_tripped && polls > 0 && pthread_equal(handled_on, self));
    assert_false(gw_future_done(f));
    gw_scope_close_up(s);
    close_alone(root);
    assert_int_equal(sigaction(SIGINT, NULL, &after), 0);
    assert_true(after.sa_handler == trip && !(after.sa_flags & SA_RESTART));
}

static void *handle_here(void *unused) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    while (!wait_has_ended) {
        kill(getpid(), SIGINT);
        sched_yield();
    }
    return unused;
}

// As a thread of another library may: the waiting thread does not notice, and its function is called all the same.
static void a_signal_that_another_thread_handles_ends_a_wait(void **state) {
    (void)state;
    struct sigaction action = { .sa_handler = trip };
    sigset_t set;
    sigemptyset(&action.sa_mask);
    assert_int_equal(sigaction(SIGINT, &action, NULL), 0);
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    gw_scope *root = open_alone(), *s = gw_scope_open(root);
    gw_scope_set_interrupt(s, poll, &polls);
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, handle_here, NULL), 0);
    gw_wait(s, gw_future_open(s));
    wait_has_ended = true;
    assert_int_equal(gw_scope_error(s)->status, GW_CANCELLED);
    gw_scope_clear(s);
    assert_true(pthread_equal(handled_on, other));
    assert_int_equal(pthread_join(other, NULL), 0);
    gw_scope_close_up(s);
    close_alone(root);
}

static const int all_signals[] = { SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGALRM, SIGPIPE,  SIGCHLD,
                                   SIGUSR1, SIGUSR2, SIGURG,  SIGIO,   SIGPROF, SIGVTALRM };
enum { SIGNALS = sizeof all_signals / sizeof all_signals[0] };

// The library's threads block all signals, so a signal to the process runs its handler on a thread of the program.
static void the_library_changes_no_handler(void **state) {
    (void)state;
    struct sigaction before[SIGNALS], during;
    sigset_t blocked_before, blocked_after;
    for (int i = 0; i < SIGNALS; i++)
        assert_int_equal(sigaction(all_signals[i], NULL, &before[i]), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &blocked_before);
    gw_scope *root = open_alone();
    gw_rpc_sync(root, "alone", "gw.add", gw_ones(root, GW_F32), 1.0);
    for (int i = 0; i < SIGNALS; i++) {
        assert_int_equal(sigaction(all_signals[i], NULL, &during), 0);
        assert_true(during.sa_handler == before[i].sa_handler &&
                    during.sa_flags == before[i].sa_flags);
    }
    pthread_sigmask(SIG_SETMASK, NULL, &blocked_after);
    for (int i = 0; i < SIGNALS; i++)
        assert_int_equal(sigismember(&blocked_before, all_signals[i]),
                         sigismember(&blocked_after, all_signals[i]));
    struct sigaction action = { .sa_handler = trip };
    sigemptyset(&action.sa_mask);
    assert_int_equal(sigaction(SIGUSR2, &action, NULL), 0);
    assert_int_equal(kill(getpid(), SIGUSR2), 0);
    while (!is_tripped) gw_rpc_get_stats(root);
    assert_true(pthread_equal(handled_on, pthread_self()));
    close_alone(root);
}

GW_TESTS(binding, threads_of_the_program_reply_to_calls,
         a_reply_after_the_end_of_its_call_has_no_effect,
         a_forked_process_ends_without_effect_on_its_parent, a_signal_of_the_program_ends_a_wait,
         a_signal_that_another_thread_handles_ends_a_wait, the_library_changes_no_handler);
