// Real processes that end without shutdown, and unauthenticated peers that connect: the others get errors that name the
// lost worker, and continue.
#include "../support/launched.h"
#include "base/limits.h"
#include "testing/testing.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gradwire.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

GW_FUNCTION(fault_hold, GW_POOL) {
    return gw_value_of_future(gw_member_lost(s, NULL, 0));
}

GW_FUNCTION(fault_echo, GW_INLINE, "any") {
    return gw_arg(s, a, 0);
}

// Recurses deeper than any stack of a thread allows, in a way that no compiler turns into a loop.
static int64_t fall(volatile int64_t *above, int64_t depth) {
    volatile int64_t here[512];
    here[depth % 512] = *above + depth;
    return depth > 1000000 ? here[0] : fall(here, depth + 1) + here[depth % 512];
}

GW_FUNCTION(fault_die, GW_POOL, "string") {
    const char *how = gw_arg_string(s, a, 0);
    volatile int64_t zero = 0;
    int *volatile nowhere = NULL;
    signal(SIGSEGV, SIG_DFL);
    signal(SIGABRT, SIG_DFL);
    signal(SIGFPE, SIG_DFL);
    struct rlimit none = { 0 };
    setrlimit(RLIMIT_CORE, &none);
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "segv")) *nowhere = 1;
    if (!strcmp(how, "divide")) return gw_value_of(7 / zero);
    if (!strcmp(how, "exit")) exit(3);
    if (!strcmp(how, "close")) gw_scope_close_up(s);
    if (!strcmp(how, "recursion")) return gw_value_of(fall(&zero, 0));
    return gw_none();
}

// The forked child returns from the body, which is an error.
GW_FUNCTION(fault_fork, GW_POOL) {
    pid_t pid = fork();
    if (pid == 0) return gw_value_of(7);
    int status = 0;
    waitpid(pid, &status, 0);
    return gw_value_of(WIFEXITED(status) ? WEXITSTATUS(status) : 0);
}

// ---- Workers that are processes -----------------------------------------------------------------
typedef void worker_main(gw_scope *root);

static pid_t start(const char *url, int rank, int world_size, worker_main *main_of_it) {
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid) return pid;
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .rank = rank, .world_size = world_size, .init_method = url);
    if (main_of_it && gw_ok(root)) main_of_it(root);
    gw_rpc_shutdown(root);
    _exit(gw_exit_code(gw_scope_close(root)));
}

static gw_scope *join(const char *url, int world_size) {
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .rank = 0, .world_size = world_size, .init_method = url);
    assert_string_equal(gw_scope_error(root)->text, "");
    return root;
}

static int end_of(pid_t pid) {
    int status;
    while (waitpid(pid, &status, 0) < 0) assert_int_equal(errno, EINTR);
    return status;
}

static path file_url(path folder) {
    path url;
    snprintf(url.text, sizeof url.text, "file://%.200s/store", folder.text);
    return url;
}

static void assert_lost(gw_scope *s, const char *name) {
    testing_note("%s: \"%s\"", name, gw_scope_error(s)->text);
    assert_int_equal(gw_scope_error(s)->status, GW_DISCONNECTED);
    assert_non_null(strstr(gw_scope_error(s)->text, name));
    gw_scope_clear(s);
}

static void leave(gw_scope *root) {
    gw_rpc_shutdown(root);
    assert_int_equal(gw_exit_code(gw_scope_close(root)), 0);
}

static void a_function_that_ends_its_worker_is_named(void **state) {
    (void)state;
    static const char *const hows[] = { "abort", "segv", "divide", "exit", "recursion" };
    enum { HOWS = sizeof hows / sizeof hows[0] };
    path folder = make_folder(), url = file_url(folder);
    pid_t pids[HOWS + 1];
    for (int rank = 1; rank <= HOWS; rank++) pids[rank] = start(url.text, rank, HOWS + 1, NULL);
    gw_scope *root = join(url.text, HOWS + 1);
    for (int rank = 1; rank <= HOWS; rank++) {
        char name[16];
        snprintf(name, sizeof name, "worker%d", rank);
        gw_rpc_sync(root, rank, "fault_die", hows[rank - 1]);
        assert_int_equal(gw_scope_error(root)->outcome, GW_MAY_HAVE_RUN);
        assert_lost(root, name);
        assert_true(end_of(pids[rank]) != 0);
    }
    leave(root);
    remove_folder(folder);
}

// ---- Ends without shutdown ----------------------------------------------------------------------
// Each of the two workers has a pending call to the other.
static void exit_in_the_middle(gw_scope *root) {
    gw_rpc_async(root, 0, "fault_hold");
    gw_rpc_sync(root, 0, "fault_echo", 1);
    exit(0);
}

static void crash(void) {
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
}

static void crash_at_exit(gw_scope *root) {
    atexit(crash);
    exit_in_the_middle(root);
}

static void a_worker_that_returns_from_main_or_crashes_at_exit_is_lost(void **state) {
    (void)state;
    path folder = make_folder(), url = file_url(folder);
    pid_t exits = start(url.text, 1, 3, exit_in_the_middle);
    pid_t crashes = start(url.text, 2, 3, crash_at_exit);
    gw_scope *root = join(url.text, 3);
    gw_future *one = gw_rpc_async(root, 1, "fault_hold");
    gw_future *two = gw_rpc_async(root, 2, "fault_hold");
    gw_wait(root, one);
    assert_lost(root, "worker1");
    gw_wait(root, two);
    assert_lost(root, "worker2");
    // No abort, no core: the exit code is that of the program.
    assert_int_equal(end_of(exits), 0);
    int status = end_of(crashes);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    leave(root);
    remove_folder(folder);
}

// The child shares the connections: otherwise it would send a second reply, and a healthy worker would be lost.
static void a_forked_body_that_returns_disturbs_no_other_worker(void **state) {
    (void)state;
    path folder = make_folder(), url = file_url(folder);
    pid_t other = start(url.text, 1, 2, NULL);
    gw_scope *root = join(url.text, 2);
    for (int i = 0; i < 3; i++)
        assert_int_equal(gw_int_of(root, gw_rpc_sync(root, 1, "fault_fork")), 1);
    gw_rpc_sync(root, 1, "fault_die", "close");
    assert_string_equal(gw_scope_error(root)->text,
                        "worker1: fault_die: a body must not close the scope given to it: the "
                        "library closes that scope");
    gw_scope_clear(root);
    assert_int_equal(gw_int_of(root, gw_rpc_sync(root, 1, "fault_echo", 5)), 5);
    leave(root);
    assert_int_equal(end_of(other), 0);
    remove_folder(folder);
}

// ---- Unauthenticated peers ----------------------------------------------------------------------
static int connect_to(int port) {
    struct sockaddr_in a = { .sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

static bool is_closed(int fd) {
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
}

// Ten thousand connections in turn, and as many at once as the worker accepts.
static void silent_connections_do_not_disturb_members(void **state) {
    (void)state;
    enum { AT_ONCE = 500 };
    int count = testing_scaled(10000), fds[AT_ONCE], open_count = 0, port = testing_free_port(),
        connected_count = 0;
    char url[64];
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", port);
    pid_t other = start(url, 1, 2, NULL);
    gw_scope *root = join(url, 2);
    memset(fds, -1, sizeof fds);
    for (int i = 0; i < count; i++) {
        int *fd = &fds[i % AT_ONCE];
        if (*fd >= 0) close(*fd);
        *fd = connect_to(port);
        connected_count += *fd >= 0;
        if (i % 100) continue;
        assert_int_equal(gw_int_of(root, gw_rpc_sync(root, 1, "fault_echo", i)), i);
        assert_true(gw_ok(root));
    }
    for (int i = 0; i < 100; i++)
        assert_int_equal(gw_int_of(root, gw_rpc_sync(root, 1, "fault_echo", i)), i);
    for (int i = 0; i < AT_ONCE; i++) {
        open_count += fds[i] >= 0 && !is_closed(fds[i]);
        if (fds[i] >= 0) close(fds[i]);
    }
    testing_note("%d of %d peers have connected, %d connections are open", connected_count, count,
                 open_count);
    assert_int_equal(connected_count, count);
    assert_true(open_count <= 2 * LIMIT_HANDSHAKE_COUNT);  // the last ones
    leave(root);
    assert_int_equal(end_of(other), 0);
}

static void a_duplicate_is_refused_and_the_first_continues(void **state) {
    (void)state;
#ifdef __SANITIZE_THREAD__
    testing_skip("the thread sanitizer forbids threads in the fork of a process with threads");
#endif
    path folder = make_folder(), url = file_url(folder);
    pid_t first = start(url.text, 1, 2, NULL);
    gw_scope *root = join(url.text, 2);
    assert_int_equal(gw_int_of(root, gw_rpc_sync(root, 1, "fault_echo", 1)), 1);
    for (int i = 0; i < 5; i++) {
        pid_t second = start(url.text, 1, 2, NULL);
        if (i % 2) {
            kill(second, SIGKILL);
            end_of(second);
        } else {
            int status = end_of(second);
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
        }
        assert_int_equal(gw_int_of(root, gw_rpc_sync(root, 1, "fault_echo", i)), i);
    }
    leave(root);
    assert_int_equal(end_of(first), 0);
    remove_folder(folder);
}

// ---- Remains of dead jobs -----------------------------------------------------------------------
static int joined[2];

static void hold_on(gw_scope *root) {
    if (write(joined[1], "!", 1) != 1) _exit(3);
    gw_rpc_sync(root, 1 - gw_rpc_self(root).rank, "fault_hold");
}

// The store's file contains the taken ranks. A new job fails at once, with the names of the workers that took them, and
// needs another file.
static void the_file_of_a_dead_job_is_not_joined_again(void **state) {
    (void)state;
    path folder = make_folder(), url = file_url(folder);
    assert_int_equal(pipe(joined), 0);
    pid_t pids[2] = { start(url.text, 0, 2, hold_on), start(url.text, 1, 2, hold_on) };
    char byte;
    for (int i = 0; i < 2; i++) assert_int_equal(read(joined[0], &byte, 1), 1);
    for (int i = 0; i < 2; i++) {
        kill(pids[i], SIGKILL);
        end_of(pids[i]);
    }
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .rank = 0, .world_size = 2, .init_method = url.text,
                .join_timeout_ms = testing_patient_ms(500));
    gw_error error = gw_scope_close(root);
    testing_note("\"%s\"", error.text);
    assert_int_equal(error.status, GW_DUPLICATE);
    assert_non_null(strstr(error.text, " is the file of a job that has ended: remove it"));
    remove_folder(folder);
}

// A worker of another job that reaches the store of this one takes no rank there, and its error names the job of the
// store.
static void two_jobs_at_one_store_are_kept_apart(void **state) {
    (void)state;
    path folder = make_folder(), url = file_url(folder);
    setenv("GW_JOB_ID", "night-7", 1);
    pid_t first = start(url.text, 0, 2, NULL);
    await_in_file(in_folder(folder, "store").text, "rank/0");
    setenv("GW_JOB_ID", "night-8", 1);
    for (int rank = 0; rank < 2; rank++) {
        gw_scope *other = gw_scope_open(NULL);
        gw_rpc_init(other, .rank = rank, .world_size = 3, .init_method = url.text);
        gw_error error = gw_scope_close(other);
        testing_note("\"%s\"", error.text);
        assert_int_equal(error.status, GW_MISMATCH);
        assert_non_null(strstr(error.text, "job \"night-7\" uses "));
        assert_non_null(strstr(error.text, "this worker is of job \"night-8\""));
    }
    setenv("GW_JOB_ID", "night-7", 1);
    pid_t second = start(url.text, 1, 2, NULL);
    assert_int_equal(end_of(second), 0);
    assert_int_equal(end_of(first), 0);
    remove_folder(folder);
}

// Without names, jobs are distinguished only by taken ranks; the first job continues.
static void jobs_without_a_name_at_one_store_get_the_taken_ranks(void **state) {
    (void)state;
    path folder = make_folder(), url = file_url(folder);
    pid_t first = start(url.text, 0, 2, NULL);
    await_in_file(in_folder(folder, "store").text, "rank/0");
    for (int world_size = 2; world_size <= 3; world_size++) {  // of the second job
        gw_scope *other = gw_scope_open(NULL);
        gw_rpc_init(other, .rank = 0, .world_size = world_size, .init_method = url.text);
        gw_error error = gw_scope_close(other);
        testing_note("\"%s\"", error.text);
        assert_int_equal(error.status, GW_DUPLICATE);
        assert_non_null(strstr(error.text, "rank 0 is taken by \"worker0\""));
    }
    pid_t second = start(url.text, 1, 2, NULL);
    assert_int_equal(end_of(second), 0);
    assert_int_equal(end_of(first), 0);
    remove_folder(folder);
}

// The founder leaves the group without a member.
static void a_group_that_is_over_is_not_waited_for(void **state) {
    (void)state;
    path folder = make_folder(), url = file_url(folder);
    gw_scope *founder = gw_scope_open(NULL);
    gw_rpc_init(founder, .job = GW_JOB_CREATE, .init_method = url.text);
    leave(founder);
    gw_scope *late = gw_scope_open(NULL);
    gw_rpc_init(late, .job = GW_JOB_JOIN, .init_method = url.text);
    gw_error error = gw_scope_close(late);
    testing_note("\"%s\"", error.text);
    assert_int_equal(error.status, GW_DISCONNECTED);
    assert_non_null(strstr(error.text, " has ended: it has no member"));
    gw_scope *again = gw_scope_open(NULL);
    gw_rpc_init(again, .job = GW_JOB_CREATE, .init_method = url.text);
    assert_non_null(strstr(gw_scope_close(again).text, " already, and has ended: remove the file"));
    remove_folder(folder);
}

static void wait_for(gw_scope *root, gw_watch *watch, const char *name) {
    int count = 0;
    while (gw_ok(root) && gw_rpc_workers_named(root, name, &count) && count == 0)
        gw_watch_next(root, watch);
}

static void call_each_other(gw_scope *root, gw_watch *watch, const char *other) {
    wait_for(root, watch, other);
    assert_true(!gw_ok(root) || gw_int_of(root, gw_rpc_sync(root, other, "fault_echo", 7)) == 7);
}

// Prints a line once it has joined; or once the others have joined and have answered.
static pid_t start_member(const char *url, const char *name, bool calls) {
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid) return pid;
    gw_scope *root = gw_scope_open(NULL);
    bool founds = !strcmp(name, "founder");
    gw_rpc_init(root, .name = name, .init_method = url,
                .job = founds ? GW_JOB_CREATE : GW_JOB_JOIN);
    gw_watch *watch = gw_watch_open(root);
    const char *other = !strcmp(name, "one") ? "two" : "one";
    if (calls) call_each_other(root, watch, other);
    if (calls) call_each_other(root, watch, founds ? "two" : "founder");
    if (gw_ok(root) && write(joined[1], "", 1) != 1) _exit(1);
    if (founds) pause();
    call_each_other(root, watch, other);
    wait_for(root, watch, "late");
    gw_rpc_shutdown(root);
    _exit(gw_exit_code(gw_scope_close(root)));
}

static void lose_founder(bool calls) {
    char url[64];
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", testing_free_port());
    assert_int_equal(pipe(joined), 0);
    pid_t founder = start_member(url, "founder", calls), others[2];
    others[0] = start_member(url, "one", calls);
    others[1] = start_member(url, "two", calls);
    char byte;
    for (int i = 0; i < 3; i++) assert_int_equal(read(joined[0], &byte, 1), 1);
    kill(founder, SIGKILL);
    end_of(founder);
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .name = "late", .job = GW_JOB_JOIN, .init_method = url);
    assert_string_equal(gw_scope_error(root)->text, "");
    assert_int_equal(gw_int_of(root, gw_rpc_sync(root, "two", "fault_echo", 7)), 7);
    leave(root);
    for (int i = 0; i < 2; i++) assert_int_equal(end_of(others[i]), 0);
    close(joined[0]);
    close(joined[1]);
}

// The founder is killed at the first moment at which all have joined, or when they have worked together.
static void a_group_at_an_address_outlives_its_founder(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) lose_founder(i % 2);
}

GW_TESTS(process_faults, a_group_at_an_address_outlives_its_founder,
         a_function_that_ends_its_worker_is_named,
         a_forked_body_that_returns_disturbs_no_other_worker,
         a_worker_that_returns_from_main_or_crashes_at_exit_is_lost,
         silent_connections_do_not_disturb_members, a_duplicate_is_refused_and_the_first_continues,
         the_file_of_a_dead_job_is_not_joined_again, two_jobs_at_one_store_are_kept_apart,
         jobs_without_a_name_at_one_store_get_the_taken_ranks,
         a_group_that_is_over_is_not_waited_for);
