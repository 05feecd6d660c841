// Calls over TCP: several agents in one process, several processes, many threads.
#include "testing/testing.h"

#include <gradwire.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

GW_FUNCTION(tcp_echo, GW_INLINE, "any") {
    return gw_arg(s, a, 0);
}

GW_FUNCTION(tcp_nest, GW_POOL, "int") {
    int64_t depth = gw_arg_int(s, a, 0);
    if (depth == 0) return gw_value_of(0);
    int next = (gw_rpc_self(s).rank + 1) % gw_rpc_world_size(s);
    return gw_value_of(1 + gw_int_of(s, gw_rpc_sync(s, next, "tcp_nest", depth - 1)));
}

typedef struct tcp_sum {
    int64_t sum;
} tcp_sum;

GW_CLASS(tcp_sum, tcp_sum_open);

static void tcp_sum_open(gw_scope *own, tcp_sum *self, const gw_args *a) {
    (void)own;
    (void)self;
    (void)a;
}

GW_METHOD(tcp_sum, add, GW_INLINE, "int") {
    return gw_value_of(self->sum += gw_arg_int(s, a, 0));
}

// ---- Agents of one process ----------------------------------------------------------------------

typedef struct peer {
    int rank, world_size;
    const char *url;
    const char *name;
    const gw_registry *registry;
    void (*main)(gw_scope *root, int rank);
    gw_error error;
    pthread_t thread;
} peer;

static void *run_peer(void *arg) {
    peer *p = arg;
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .name = p->name, .rank = p->rank, .world_size = p->world_size,
                .init_method = p->url, .registry = p->registry);
    if (gw_ok(root) && p->main) p->main(root, p->rank);
    gw_rpc_shutdown(root);
    p->error = gw_scope_close(root);
    return NULL;
}

static void run_peers(peer *peers, int count) {
    for (int i = 0; i < count; i++)
        assert_int_equal(pthread_create(&peers[i].thread, NULL, run_peer, &peers[i]), 0);
    for (int i = 0; i < count; i++) assert_int_equal(pthread_join(peers[i].thread, NULL), 0);
}

// A directory that remove_directory removes.
static char directory[64];

static const char *file_url(void) {
    static char url[128];
    snprintf(directory, sizeof directory, "/tmp/gradwire-test-XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(url, sizeof url, "file://%s/store", directory);
    return url;
}

static void remove_directory(void) {
    char path[128];
    snprintf(path, sizeof path, "%s/store", directory);
    unlink(path);
    assert_int_equal(rmdir(directory), 0);
}

static void exchange(gw_scope *root, int rank) {
    int other = 1 - rank;
    gw_tensor *x = gw_randn(root, GW_F32, 400, 300);
    assert_true(gw_equal(root, x, gw_tensor_of(root, gw_rpc_sync(root, other, "tcp_echo", x))));
    assert_int_equal(gw_int_of(root, gw_rpc_sync(root, other, "tcp_nest", 40)), 40);
    gw_rref *sum = gw_remote(root, other, "tcp_sum");
    for (int i = 1; i <= 100; i++) gw_rpc_async(root, sum, "add", i);
    assert_int_equal(gw_int_of(root, gw_rpc_sync(root, sum, "add", 0)), 5050);
    assert_true(gw_ok(root));
}

static void it_joins_two_agents_of_one_process_through_a_file(void **state) {
    (void)state;
    const char *url = file_url();
    peer peers[] = { { .rank = 0, .world_size = 2, .url = url, .main = exchange },
                     { .rank = 1, .world_size = 2, .url = url, .main = exchange } };
    run_peers(peers, 2);
    assert_string_equal(peers[0].error.text, "");
    assert_string_equal(peers[1].error.text, "");
    remove_directory();
}

static void a_second_agent_at_an_address_gets_the_name_of_the_first(void **state) {
    (void)state;
    gw_scope *first = gw_scope_open(NULL), *second = gw_scope_open(NULL);
    gw_rpc_init(first, .name = "one", .rank = 0, .world_size = 1,
                .init_method = "tcp://127.0.0.1:29655");
    assert_string_equal(gw_scope_error(first)->text, "");
    gw_rpc_init(second, .name = "two", .rank = 0, .world_size = 1,
                .init_method = "tcp://127.0.0.1:29655");
    gw_error error = gw_scope_close(second);
    assert_int_equal(error.status, GW_ADDRESS_IN_USE);
    assert_non_null(strstr(error.text, "this process has an agent already"));
    gw_rpc_shutdown(first);
    assert_string_equal(gw_scope_close(first).text, "");
}

// Joining probes for workers that are not present yet, which must not count as an error.
static void a_healthy_program_has_no_errors_to_abort_at(void **state) {
    assert_int_equal(setenv("GW_ABORT_ON_ERROR", "1", 1), 0);
    it_joins_two_agents_of_one_process_through_a_file(state);
    assert_int_equal(unsetenv("GW_ABORT_ON_ERROR"), 0);
}

static void meet_until_one_leaves(gw_scope *root, int rank) {
    gw_worker all[3];
    for (int i = 0; i < 3; i++) all[i] = gw_rpc_worker(root, i);
    for (int round = 0; rank < 2 && gw_ok(root); round++) {
        gw_rpc_barrier(root, all, round < 2 ? 2 : 3);
        if (round < 2) assert_true(gw_ok(root));
    }
    if (rank == 2) return;
    assert_string_equal(gw_scope_error(root)->text,
                        "one: gw.barrier: three has called gw_rpc_shutdown");
    assert_int_equal(gw_scope_error(root)->status, GW_DISCONNECTED);
    gw_scope_clear(root);
    gw_rpc_barrier(root, all, 2);
}

static void a_barrier_ends_when_a_worker_leaves_instead(void **state) {
    (void)state;
    const char *url = file_url(), *names[] = { "one", "two", "three" };
    peer peers[3];
    for (int i = 0; i < 3; i++)
        peers[i] = (peer){
            .rank = i, .world_size = 3, .url = url, .name = names[i], .main = meet_until_one_leaves
        };
    run_peers(peers, 3);
    for (int i = 0; i < 3; i++) assert_string_equal(peers[i].error.text, "");
    remove_directory();
}

static _Atomic uint64_t reconnect_count;

static void exchange_over_cuts(gw_scope *root, int rank) {
    exchange(root, rank);
    reconnect_count += gw_rpc_get_stats(root).reconnects;
}

static void it_continues_over_connections_that_break_repeatedly(void **state) {
    (void)state;
    assert_int_equal(setenv("GW_TEST_CUT_EVERY", "15", 1), 0);
    const char *url = file_url();
    peer peers[] = { { .rank = 0, .world_size = 2, .url = url, .main = exchange_over_cuts },
                     { .rank = 1, .world_size = 2, .url = url, .main = exchange_over_cuts } };
    run_peers(peers, 2);
    assert_string_equal(peers[0].error.text, "");
    assert_string_equal(peers[1].error.text, "");
    assert_true(reconnect_count >= 5);  // they were cut repeatedly
    remove_directory();
}

enum { NESTED_AT_ONCE = 2000 };

// More calls than threads wait for calls that are queued behind them.
static void nest_at_once(gw_scope *root, int rank) {
    gw_future *fs[NESTED_AT_ONCE];
    for (int i = 0; i < NESTED_AT_ONCE; i++) fs[i] = gw_rpc_async(root, 1 - rank, "tcp_nest", 2);
    gw_wait_all(root, fs, NESTED_AT_ONCE);
}

static void it_nests_more_calls_than_there_are_threads(void **state) {
    (void)state;
    const char *url = file_url();
    peer peers[] = { { .rank = 0, .world_size = 2, .url = url, .main = nest_at_once },
                     { .rank = 1, .world_size = 2, .url = url, .main = nest_at_once } };
    run_peers(peers, 2);
    assert_string_equal(peers[0].error.text, "");
    assert_string_equal(peers[1].error.text, "");
    remove_directory();
}

// ---- Separate registries ------------------------------------------------------------------------

static gw_value return_left(gw_scope *s, const gw_args *a) {
    (void)s;
    (void)a;
    return gw_value_of("left");
}

static gw_value return_right(gw_scope *s, const gw_args *a) {
    (void)s;
    (void)a;
    return gw_value_of("right");
}

static void call_both(gw_scope *root, int rank) {
    (void)rank;
    assert_string_equal(gw_string_of(root, gw_rpc_sync(root, "a", "side")), "left");
    assert_string_equal(gw_string_of(root, gw_rpc_sync(root, "b", "side")), "right");
    gw_rpc_sync(root, "a", "only_right");
    assert_string_equal(
        gw_scope_error(root)->text,
        "a has no function only_right; is its object linked? (gradwire/function.h)");
    gw_scope_clear(root);
    gw_rpc_sync(root, "b", "tcp_echo", 1);
    assert_string_equal(gw_scope_error(root)->text,
                        "b has no function tcp_echo; is its object linked? (gradwire/function.h)");
    gw_scope_clear(root);
    assert_true(gw_item(root, gw_tensor_of(root, gw_rpc_sync(root, "b", "gw.sum",
                                                             gw_ones(root, GW_F32, 4)))) == 4);
}

static void it_serves_different_functions_from_two_registries(void **state) {
    (void)state;
    const char *url = file_url();
    gw_scope *s = gw_scope_open(NULL);
    gw_registry *left = gw_registry_open(s), *right = gw_registry_open(s);
    gw_registry_add_function(s, left, "side", GW_INLINE, "", return_left);
    gw_registry_add_function(s, right, "side", GW_INLINE, "", return_right);
    gw_registry_add_function(s, right, "only_right", GW_POOL, "", return_right);
    peer peers[] = { { .rank = 0,
                       .world_size = 2,
                       .url = url,
                       .name = "a",
                       .registry = left,
                       .main = call_both },
                     { .rank = 1,
                       .world_size = 2,
                       .url = url,
                       .name = "b",
                       .registry = right,
                       .main = call_both } };
    run_peers(peers, 2);
    assert_string_equal(peers[0].error.text, "");
    assert_string_equal(peers[1].error.text, "");
    gw_registry_add_function(s, left, "late", GW_INLINE, "", return_left);
    assert_int_equal(gw_scope_error(s)->status, GW_WRONG_STATE);
    gw_scope_clear(s);
    assert_int_equal(gw_exit_code(gw_scope_close(s)), 0);
    remove_directory();
}

// ---- Threads ------------------------------------------------------------------------------------

enum { THREADS = 8, CALLS = 200 };

static void *call_many(void *arg) {
    gw_scope *s = arg;
    gw_future *fs[CALLS];
    int rank = gw_rpc_self(s).rank;
    for (int i = 0; i < CALLS; i++) fs[i] = gw_rpc_async(s, 1 - rank, "tcp_echo", i);
    for (int i = 0; i < CALLS; i++) assert_int_equal(gw_int_of(s, gw_wait(s, fs[i])), i);
    for (int i = 0; i < CALLS; i++) {
        gw_scope *t = gw_scope_open(s);
        assert_int_equal(gw_int_of(t, gw_rpc_sync(t, i % 2, "tcp_nest", i % 4)), i % 4);
        gw_scope_close_up(t);
    }
    assert_true(gw_ok(s));
    return NULL;
}

static void call_from_threads(gw_scope *root, int rank) {
    (void)rank;
    pthread_t threads[THREADS];
    gw_scope *scopes[THREADS];
    for (int i = 0; i < THREADS; i++) {
        scopes[i] = gw_scope_open(root);
        pthread_create(&threads[i], NULL, call_many, scopes[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        gw_scope_close_up(scopes[i]);
    }
}

static void it_serves_many_threads_of_one_agent(void **state) {
    (void)state;
    const char *url = file_url();
    peer peers[] = { { .rank = 0, .world_size = 2, .url = url, .main = call_from_threads },
                     { .rank = 1, .world_size = 2, .url = url, .main = call_from_threads } };
    run_peers(peers, 2);
    assert_string_equal(peers[0].error.text, "");
    assert_string_equal(peers[1].error.text, "");
    remove_directory();
}

// ---- Processes ----------------------------------------------------------------------------------

// A port that is most likely free.
static int run_process(int rank, int world_size, const char *url) {
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .rank = rank, .world_size = world_size, .init_method = url);
    for (int to = 0; to < world_size && gw_ok(root); to++) {
        if (gw_int_of(root, gw_rpc_sync(root, to, "tcp_nest", 10)) != 10)
            gw_fail(root, GW_REMOTE, "a wrong number");
    }
    gw_rpc_shutdown(root);
    return gw_exit_code(gw_scope_close(root));
}

static void it_runs_as_several_processes(void **state) {
    (void)state;
    enum { WORLD_SIZE = 4 };
    char url[64];
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", testing_free_port());
    pid_t children[WORLD_SIZE];
    for (int rank = 0; rank < WORLD_SIZE; rank++) {
        children[rank] = fork();
        assert_true(children[rank] >= 0);
        if (children[rank] == 0) _exit(run_process(rank, WORLD_SIZE, url));
    }
    for (int rank = 0; rank < WORLD_SIZE; rank++) {
        int status;
        assert_int_equal(waitpid(children[rank], &status, 0), children[rank]);
        assert_int_equal(status, 0);
    }
}

GW_FUNCTION(tcp_exit, GW_POOL) {
    _exit(3);
    return gw_none();
}

// The others lose the worker if it ends in a function, by a signal, or by returning from main without shutdown.
static void it_survives_workers_that_end(void **state) {
    (void)state;
    char url[64];
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", testing_free_port());
    pid_t children[4] = { 0 };
    for (int rank = 1; rank < 4; rank++) {
        children[rank] = fork();
        assert_true(children[rank] >= 0);
        if (children[rank]) continue;
        gw_scope *root = gw_scope_open(NULL);
        gw_rpc_init(root, .rank = rank, .world_size = 4, .init_method = url);
        if (rank == 2) pause();
        if (rank == 1) gw_rpc_shutdown(root);
        exit(0);  // with the agent open
    }
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .rank = 0, .world_size = 4, .init_method = url);
    assert_true(gw_ok(root));
    gw_rpc_sync(root, 1, "tcp_exit");
    assert_int_equal(gw_scope_error(root)->status, GW_DISCONNECTED);
    assert_int_equal(gw_scope_error(root)->outcome, GW_MAY_HAVE_RUN);
    gw_scope_clear(root);
    gw_rref *r = gw_remote(root, 2, "tcp_echo", 1);
    gw_future *f = gw_rpc_async(root, 2, "tcp_echo", gw_future_open(root));
    assert_int_equal(gw_int_of(root, gw_to_here_value(root, r)), 1);
    assert_int_equal(kill(children[2], SIGKILL), 0);
    gw_wait(root, f);
    assert_int_equal(gw_scope_error(root)->status, GW_DISCONNECTED);
    gw_scope_clear(root);
    gw_to_here_value(root, r);
    assert_int_equal(gw_scope_error(root)->status, GW_REF_LOST);
    gw_scope_clear(root);
    waitpid(children[3], NULL, 0);
    gw_rpc_sync(root, 3, "tcp_echo", 1);
    assert_int_equal(gw_scope_error(root)->status, GW_DISCONNECTED);
    gw_scope_clear(root);
    gw_rpc_shutdown(root);
    assert_int_equal(gw_exit_code(gw_scope_close(root)), 0);
    for (int rank = 1; rank < 3; rank++) waitpid(children[rank], NULL, 0);
}

// ---- A process made by fork ---------------------------------------------------------------------

static bool has_fork_error(gw_scope *s) {
    const gw_error *e = gw_scope_error(s);
    bool all_failed = e->status == GW_WRONG_STATE &&
                      strstr(e->text, "belongs to the parent of this process, which was forked");
    gw_scope_clear(s);
    return all_failed;
}

static int call_in_child(gw_scope *root, gw_future *f, gw_rref *r) {
    gw_scope *s = gw_scope_open(root);
    bool all_failed = true;
    gw_rpc_sync(s, 1, "tcp_echo", 1);
    all_failed = all_failed && has_fork_error(s);
    gw_rpc_notify(s, 1, "tcp_echo", 1);
    all_failed = all_failed && has_fork_error(s);
    gw_wait(s, f);
    all_failed = all_failed && has_fork_error(s);
    gw_then(s, f, NULL, NULL);
    all_failed = all_failed && has_fork_error(s);
    gw_to_here_value(s, r);
    all_failed = all_failed && gw_scope_error(s)->status == GW_WRONG_STATE;
    gw_scope_clear(s);
    gw_cancel(s, f);
    gw_rpc_shutdown(root);
    all_failed = all_failed && has_fork_error(root);
    return gw_scope_close(root).status == GW_OK && all_failed ? 0 : 1;
}

static void fork_and_call(gw_scope *root, int rank) {
    if (rank != 0) return;
    gw_scope *s = gw_scope_open(root);
    gw_future *f = gw_rpc_async(s, 1, "tcp_echo", 3);
    gw_rref *r = gw_remote(s, 1, "tcp_echo", 4);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) _exit(call_in_child(root, f, r));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    // The parent's agent works as before.
    assert_int_equal(gw_int_of(s, gw_wait(s, f)), 3);
    assert_int_equal(gw_int_of(s, gw_to_here_value(s, r)), 4);
    gw_scope_close_up(s);
}

static void a_forked_process_gets_an_error_without_an_agent(void **state) {
    (void)state;
    const char *url = file_url();
    peer peers[2] = { { .rank = 0, .world_size = 2, .url = url, .main = fork_and_call },
                      { .rank = 1, .world_size = 2, .url = url, .main = fork_and_call } };
    run_peers(peers, 2);
    for (int i = 0; i < 2; i++) assert_string_equal(peers[i].error.text, "");
    remove_directory();
}

// ---- Cancelling from another thread -------------------------------------------------------------

enum { RACES = 4, ROUNDS = 300 };

GW_FUNCTION(tcp_wait, GW_POOL) {
    return gw_wait(s, gw_future_open(s));
}

typedef struct race {
    gw_scope *scope;  // of one of the two
    _Atomic(gw_future *) *slot;
    int completed, cancelled;
} race;

static void *call_and_wait(void *arg) {
    race *r = arg;
    for (int i = 0; i < testing_scaled(ROUNDS); i++) {
        gw_scope *s = gw_scope_open(r->scope);
        bool waits = i % 3 == 0;
        gw_future *f = waits ? gw_rpc_async(s, 1, "tcp_wait") : gw_rpc_async(s, 1, "tcp_echo", i);
        *r->slot = f;
        gw_wait(s, f);
        while (*r->slot) continue;  // until the other thread is done with it
        gw_error e = gw_scope_close(s);
        assert_true(e.status == GW_CANCELLED || (!e.status && !waits));
        if (e.status) {
            r->cancelled++;
        } else {
            r->completed++;
        }
    }
    return NULL;
}

static void *cancel_all(void *arg) {
    race *r = arg;
    for (int i = 0; i < testing_scaled(ROUNDS); i++) {
        gw_future *f;
        while (!(f = *r->slot)) continue;
        gw_cancel(r->scope, f);
        assert_true(gw_future_done(f));
        *r->slot = NULL;
    }
    return NULL;
}

static void race_all(gw_scope *root, int rank) {
    _Atomic(gw_future *) slots[RACES] = { NULL };
    race races[2 * RACES];
    pthread_t threads[2 * RACES];
    if (rank != 0) return;
    for (int i = 0; i < 2 * RACES; i++) {
        races[i] = (race){ .scope = gw_scope_open(root), .slot = &slots[i / 2] };
        assert_int_equal(
            pthread_create(&threads[i], NULL, i % 2 ? cancel_all : call_and_wait, &races[i]), 0);
    }
    for (int i = 0; i < 2 * RACES; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        gw_scope_close_up(races[i].scope);
    }
}

static void each_future_completes_once_whichever_thread_is_first(void **state) {
    (void)state;
    const char *url = file_url();
    peer peers[2] = { { .rank = 0, .world_size = 2, .url = url, .main = race_all },
                      { .rank = 1, .world_size = 2, .url = url, .main = race_all } };
    run_peers(peers, 2);
    for (int i = 0; i < 2; i++) assert_string_equal(peers[i].error.text, "");
    remove_directory();
}

// ---- Threads that end together ------------------------------------------------------------------

enum { ENDERS = 3, LAST_CALLS = 100 };

static void expect_end(gw_scope *s) {
    gw_status status = gw_scope_error(s)->status;
    if (status != GW_OK && status != GW_WRONG_STATE && status != GW_DISCONNECTED &&
        status != GW_REF_LOST)
        fail_msg("%s", gw_scope_error(s)->text);
    gw_scope_clear(s);
}

// Calls while another thread shuts the worker down, and then calls gw_rpc_shutdown itself.
static void *call_to_the_end(void *arg) {
    gw_scope *s = arg;
    int other = 1 - gw_rpc_self(s).rank;
    for (int i = 0; i < LAST_CALLS && gw_ok(s); i++) {
        gw_scope *t = gw_scope_open(s);
        gw_rpc_sync(t, gw_remote(t, other, "tcp_sum"), "add", i);
        gw_scope_close_up(t);
    }
    expect_end(s);
    gw_rpc_shutdown(s);
    assert_int_equal(gw_scope_error(s)->status, GW_WRONG_STATE);
    gw_scope_clear(s);
    return NULL;
}

static void end_together(gw_scope *root, int rank) {
    gw_scope *scopes[ENDERS];
    pthread_t threads[ENDERS];
    assert_int_equal(gw_int_of(root, gw_rpc_sync(root, 1 - rank, "tcp_echo", 1)), 1);
    for (int i = 0; i < ENDERS; i++) {
        scopes[i] = gw_scope_open(root);
        assert_int_equal(pthread_create(&threads[i], NULL, call_to_the_end, scopes[i]), 0);
    }
    gw_rpc_shutdown(root);
    for (int i = 0; i < ENDERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        gw_scope_close_up(scopes[i]);
    }
}

static void it_ends_while_other_threads_call_and_end(void **state) {
    (void)state;
    for (int i = 0; i < testing_scaled(20); i++) {
        const char *url = file_url();
        peer peers[2] = { { .rank = 0, .world_size = 2, .url = url, .main = end_together },
                          { .rank = 1, .world_size = 2, .url = url, .main = end_together } };
        run_peers(peers, 2);
        for (int k = 0; k < 2; k++) assert_string_equal(peers[k].error.text, "");
        remove_directory();
    }
}

GW_TESTS(rpc_tcp, it_joins_two_agents_of_one_process_through_a_file,
         a_second_agent_at_an_address_gets_the_name_of_the_first,
         a_healthy_program_has_no_errors_to_abort_at, a_barrier_ends_when_a_worker_leaves_instead,
         it_continues_over_connections_that_break_repeatedly,
         it_nests_more_calls_than_there_are_threads,
         it_serves_different_functions_from_two_registries, it_serves_many_threads_of_one_agent,
         it_runs_as_several_processes, it_survives_workers_that_end,
         a_forked_process_gets_an_error_without_an_agent,
         each_future_completes_once_whichever_thread_is_first,
         it_ends_while_other_threads_call_and_end);
