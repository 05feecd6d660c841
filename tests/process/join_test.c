// Joining when one of the workers has a fault: each of them soon has an error that names it.
#include "../support/launched.h"
#include "base/check.h"
#include "testing/testing.h"

#include <errno.h>
#include <gradwire.h>
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct joiner {
    gw_rpc_options options;
    gw_error error;
    gw_rpc_stats stats;
} joiner;

static void *join_and_leave(void *arg) {
    joiner *j = arg;
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init_with(root, j->options);
    j->stats = gw_rpc_get_stats(root);
    gw_rpc_shutdown(root);
    j->error = gw_scope_close(root);
    return NULL;
}

// Joins two workers at once.
static void join_two_at(joiner *a, joiner *b, const char *url) {
    a->options.init_method = b->options.init_method = url;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, join_and_leave, a), 0);
    join_and_leave(b);
    pthread_join(thread, NULL);
    testing_note("\"%s\" and \"%s\"", a->error.text, b->error.text);
}

// The same with a store in a file.
static void join_two(joiner *a, joiner *b) {
    char path[] = "/tmp/gw-join-XXXXXX", url[64];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    snprintf(url, sizeof url, "file://%s", path);
    join_two_at(a, b, url);
    unlink(path);
}

static void assert_one_of_each(const joiner *a, const joiner *b, const char *x, const char *y) {
    bool straight = strstr(a->error.text, x) && strstr(b->error.text, y);
    bool crossed = strstr(a->error.text, y) && strstr(b->error.text, x);
    assert_true(straight || crossed);
}

static void two_workers_of_one_name_both_get_the_reason(void **state) {
    (void)state;
    joiner a = { .options =
                     GW_OPTIONS(gw_rpc_options, .name = "same", .rank = 0, .world_size = 2) };
    joiner b = { .options =
                     GW_OPTIONS(gw_rpc_options, .name = "same", .rank = 1, .world_size = 2) };
    join_two(&a, &b);
    assert_one_of_each(&a, &b, "the name \"same\" is taken by rank",
                       "could not join: the name \"same\" is taken");
}

static void workers_that_disagree_about_the_job_both_get_the_reason(void **state) {
    (void)state;
    joiner a = { .options = GW_OPTIONS(gw_rpc_options, .rank = 0, .world_size = 2) };
    joiner b = { .options = GW_OPTIONS(gw_rpc_options, .rank = 1, .world_size = 3) };
    join_two(&a, &b);
    assert_one_of_each(&a, &b, "this worker has world size",
                       "could not join: this worker has world size");
    assert_int_equal(a.error.status, GW_MISMATCH);
    assert_int_equal(b.error.status, GW_MISMATCH);
}

static void the_second_of_a_rank_is_refused(void **state) {
    (void)state;
    joiner a = { .options = GW_OPTIONS(gw_rpc_options, .name = "a", .rank = 0, .world_size = 2,
                                       .join_timeout_ms = testing_patient_ms(300)) };
    joiner b = { .options = GW_OPTIONS(gw_rpc_options, .name = "b", .rank = 0, .world_size = 2,
                                       .join_timeout_ms = testing_patient_ms(300)) };
    join_two(&a, &b);
    assert_one_of_each(&a, &b, "rank 0 is taken by", "rank 1 of 2 did not join within");
}

// Opens a listening socket.
static int take_port(int *out_port) {
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *out_port = ntohs(address.sin_port);
    return fd;
}

// The store takes nothing of such a worker, and the job is formed without it.
static void a_rank_that_the_job_does_not_have_is_refused(void **state) {
    (void)state;
    char url[64];
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", testing_free_port());
    joiner a = { .options =
                     GW_OPTIONS(gw_rpc_options, .rank = 0, .world_size = 2, .init_method = url) };
    joiner b = { .options =
                     GW_OPTIONS(gw_rpc_options, .rank = 2, .world_size = 3, .init_method = url) };
    joiner c = { .options =
                     GW_OPTIONS(gw_rpc_options, .rank = 1, .world_size = 2, .init_method = url) };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, join_and_leave, &a), 0);
    join_and_leave(&b);
    assert_int_equal(b.error.status, GW_MISMATCH);
    assert_non_null(strstr(b.error.text, "this worker has world size 3, but the job has 2"));
    join_and_leave(&c);
    pthread_join(thread, NULL);
    testing_note("\"%s\" and \"%s\"", a.error.text, c.error.text);
    assert_int_equal(a.error.status, GW_OK);
    assert_int_equal(c.error.status, GW_OK);
}

static void a_port_in_use_is_named(void **state) {
    (void)state;
    char url[64], words[64];
    int port, fd = take_port(&port);
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", port);
    snprintf(words, sizeof words, "port %d is in use", port);
    joiner j = { .options = GW_OPTIONS(gw_rpc_options, .world_size = 1, .init_method = url) };
    join_and_leave(&j);
    close(fd);
    assert_int_equal(j.error.status, GW_ADDRESS_IN_USE);
    assert_non_null(strstr(j.error.text, words));
}

// ---- Beyond loopback ----------------------------------------------------------------------------

// Finds an address of this machine that other hosts can reach, as a host of a URL; false: it has none.
static bool find_outside(char out[64]) {
    struct ifaddrs *all;
    out[0] = '\0';
    if (getifaddrs(&all)) return false;
    for (const struct ifaddrs *i = all; i && !out[0]; i = i->ifa_next) {
        const struct sockaddr_in *a = (const void *)i->ifa_addr;
        if (!a || a->sin_family != AF_INET || !(i->ifa_flags & IFF_UP)) continue;
        if (ntohl(a->sin_addr.s_addr) >> 24 != 127) inet_ntop(AF_INET, &a->sin_addr, out, 64);
    }
    freeifaddrs(all);
    return out[0];
}

static const char *free_url(const char *host, char out[128]) {
    snprintf(out, 128, "tcp://%s:%d", host, testing_free_port());
    return out;
}

static void expect_insecure_differs(const gw_error *e) {
    testing_note("\"%s\"", e->text);
    assert_int_equal(e->status, GW_MISMATCH);
    assert_non_null(strstr(e->text, "insecure is set on"));
}

static void insecure_is_set_by_all_or_by_none(void **state) {
    (void)state;
    joiner a = { .options = GW_OPTIONS(gw_rpc_options, .rank = 0, .world_size = 2) };
    joiner b = { .options =
                     GW_OPTIONS(gw_rpc_options, .rank = 1, .world_size = 2, .insecure = true) };
    join_two(&a, &b);
    expect_insecure_differs(&a.error);
    expect_insecure_differs(&b.error);
}

// The same when a worker joins a running group, at an address or in a file; the members of the group continue.
static void insecure_is_set_by_a_joining_worker_as_by_the_members(void **state) {
    (void)state;
    path folder = make_folder(), file = in_folder(folder, "group");
    char url[300], port[128];
    snprintf(url, sizeof url, "file://%s", file.text);
    const char *const stores[] = { url, free_url("127.0.0.1", port) };
    for (int i = 0; i < 4; i++) {
        gw_scope *founder = gw_scope_open(NULL);
        gw_rpc_init(founder, .job = GW_JOB_CREATE, .init_method = stores[i / 2], .insecure = i % 2);
        joiner j = { .options = GW_OPTIONS(gw_rpc_options, .job = GW_JOB_JOIN,
                                           .init_method = stores[i / 2], .insecure = !(i % 2)) };
        join_and_leave(&j);
        expect_insecure_differs(&j.error);
        assert_int_equal(gw_rpc_world_size(founder), 1);
        gw_rpc_shutdown(founder);
        assert_int_equal(gw_scope_close(founder).status, GW_OK);
        unlink(file.text);
    }
    remove_folder(folder);
}

static void workers_join_at_an_address_of_the_network_with_insecure(void **state) {
    (void)state;
    char host[64], url[128];
    if (!find_outside(host)) testing_skip("this host has no address but loopback");
    joiner a = { .options = GW_OPTIONS(gw_rpc_options, .rank = 0, .world_size = 2) };
    joiner b = { .options = GW_OPTIONS(gw_rpc_options, .rank = 1, .world_size = 2) };
    join_two_at(&a, &b, free_url(host, url));
    assert_int_equal(a.error.status, GW_UNSUPPORTED);
    assert_non_null(strstr(a.error.text, "gradwire key > job.key"));
    assert_non_null(strstr(a.error.text, "127.0.0.1"));
    assert_non_null(strstr(a.error.text, "--insecure"));
    a.options.insecure = b.options.insecure = true;
    join_two_at(&a, &b, free_url(host, url));
    assert_int_equal(a.error.status, GW_OK);
    assert_int_equal(b.error.status, GW_OK);
    assert_string_equal(a.stats.protection, "nothing (insecure)");
}

static void workers_join_over_ipv6(void **state) {
    (void)state;
    char url[128];
    joiner a = { .options = GW_OPTIONS(gw_rpc_options, .rank = 0, .world_size = 2) };
    joiner b = { .options = GW_OPTIONS(gw_rpc_options, .rank = 1, .world_size = 2) };
    join_two_at(&a, &b, free_url("[::1]", url));
    assert_int_equal(a.error.status, GW_OK);
    assert_int_equal(b.error.status, GW_OK);
    assert_string_equal(b.stats.protection, "there are none");
}

// The error lists the attempts, and the result of each address of a name.
static void a_failed_join_names_the_error_of_each_address(void **state) {
    (void)state;
    char url[128];
    joiner j = { .options = GW_OPTIONS(gw_rpc_options, .rank = 1, .world_size = 2,
                                       .join_timeout_ms = testing_patient_ms(300),
                                       .init_method = free_url("127.0.0.3", url)) };
    join_and_leave(&j);
    assert_int_equal(j.error.status, GW_TIMEOUT);
    assert_non_null(strstr(j.error.text, url + strlen("tcp://")));
    assert_non_null(strstr(j.error.text, "Connection refused"));
}

// Once it looks for rank 0 it gets no descriptor any more: it ends long before its time is over.
static void a_worker_without_descriptors_for_connections_names_the_limit(void **state) {
    (void)state;
    struct rlimit before, none;
    int port, fd = take_port(&port);
    char url[64];
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", port);
    joiner j = { .options =
                     GW_OPTIONS(gw_rpc_options, .rank = 1, .world_size = 2, .init_method = url) };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, join_and_leave, &j), 0);
    int connection = accept(fd, NULL, NULL);
    assert_true(connection >= 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){ .rlim_cur = 3, .rlim_max = before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    close(connection);
    close(fd);
    pthread_join(thread, NULL);
    setrlimit(RLIMIT_NOFILE, &before);
    testing_note("\"%s\"", j.error.text);
    assert_int_equal(j.error.status, GW_SYSTEM);
    assert_non_null(strstr(j.error.text, "Too many open files (ulimit -n is 3)"));
}

// ---- Interrupted --------------------------------------------------------------------------------

static volatile sig_atomic_t handled;

static void remember_signal(int number) {
    (void)number;
    handled = 1;
}

// Sends this process SIGTERM repeatedly, so that one arrives while it joins.
static timer_t begin_signals(void) {
    struct sigaction action = { .sa_handler = remember_signal };
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGTERM };
    struct itimerspec often = { .it_interval.tv_nsec = 20000000, .it_value.tv_nsec = 20000000 };
    timer_t out;
    assert_int_equal(sigaction(SIGTERM, &action, NULL), 0);
    assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &out), 0);
    assert_int_equal(timer_settime(out, 0, &often, NULL), 0);
    return out;
}

static void interrupt(gw_rpc_options options, const char *url) {
    joiner j = { .options = options };
    j.options.init_method = url;
    testing_note("%s, rank %d", url, options.rank);
    handled = 0;
    timer_t signals = begin_signals();
    join_and_leave(&j);
    timer_delete(signals);
    testing_note("\"%s\"", j.error.text);
    assert_int_equal(j.error.status, GW_CANCELLED);
    assert_non_null(strstr(j.error.text, "joining was interrupted by SIGTERM"));
    assert_true(handled);
}

static void a_signal_interrupts_joining_at_each_wait(void **state) {
    (void)state;
    char folder[] = "/tmp/gw-join-XXXXXX", path[64], url[80], unfounded[80], free_port[64];
    snprintf(free_port, sizeof free_port, "tcp://127.0.0.1:%d", testing_free_port());
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/store", folder);
    snprintf(url, sizeof url, "file://%s", path);
    snprintf(unfounded, sizeof unfounded, "file://%s/unfounded", folder);
    interrupt(GW_OPTIONS(gw_rpc_options, .rank = 0, .world_size = 2), url);
    interrupt(GW_OPTIONS(gw_rpc_options, .rank = 0, .world_size = 2), free_port);
    interrupt(GW_OPTIONS(gw_rpc_options, .rank = 1, .world_size = 2), free_port);
    interrupt(GW_OPTIONS(gw_rpc_options, .job = GW_JOB_JOIN), free_port);
    interrupt(GW_OPTIONS(gw_rpc_options, .job = GW_JOB_JOIN), unfounded);
    unlink(path);
    snprintf(path, sizeof path, "%s/unfounded", folder);
    unlink(path);
    rmdir(folder);
}

static void a_signal_without_a_handler_ends_the_process_that_joins(void **state) {
    (void)state;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        signal(SIGINT, SIG_DFL);
        struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGINT };
        struct itimerspec once = { .it_value.tv_nsec = 50000000 };
        timer_t signals;
        if (timer_create(CLOCK_MONOTONIC, &event, &signals)) _exit(1);
        if (timer_settime(signals, 0, &once, NULL)) _exit(1);
        gw_scope *root = gw_scope_open(NULL);
        gw_rpc_init(root, .rank = 1, .world_size = 2, .init_method = "tcp://127.0.0.1:1");
        _exit(0);
    }
    int status;
    while (waitpid(pid, &status, 0) < 0) assert_int_equal(errno, EINTR);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGINT);
}

typedef struct early_end {
    gw_scope *root;
    char path[64];  // of the store
} early_end;

// Ends as soon as its rank is in the store, where it waits for the other one.
static void *end_while_it_joins(void *arg) {
    early_end *e = arg;
    await_in_file(e->path, "rank/0");
    gw_rpc_shutdown(e->root);
    return NULL;
}

static void join_and_end(const char *path) {
    char url[80];
    early_end e = { .root = gw_scope_open(NULL) };
    pthread_t other;
    snprintf(e.path, sizeof e.path, "%s", path);
    snprintf(url, sizeof url, "file://%s", path);
    check_enabled = true;
    pthread_create(&other, NULL, end_while_it_joins, &e);
    gw_rpc_init(e.root, .rank = 0, .world_size = 2, .init_method = url);
    _exit(0);
}

// A root scope belongs to one thread, also while that joins: the checked mode reports an error.
static void shutdown_while_another_thread_joins_is_an_error(void **state) {
    (void)state;
    char path[] = "/tmp/gw-join-XXXXXX", text[512] = "";
    int ends[2], status, file = mkstemp(path);
    close(file);
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        join_and_end(path);
    }
    close(ends[1]);
    assert_true(read(ends[0], text, sizeof text - 1) > 0);
    close(ends[0]);
    while (waitpid(pid, &status, 0) < 0) assert_int_equal(errno, EINTR);
    unlink(path);
    assert_non_null(strstr(text, "two threads use one scope at once"));
}

GW_TESTS(join, a_signal_interrupts_joining_at_each_wait,
         a_signal_without_a_handler_ends_the_process_that_joins,
         two_workers_of_one_name_both_get_the_reason,
         workers_that_disagree_about_the_job_both_get_the_reason,
         a_rank_that_the_job_does_not_have_is_refused, the_second_of_a_rank_is_refused,
         a_port_in_use_is_named, insecure_is_set_by_all_or_by_none,
         insecure_is_set_by_a_joining_worker_as_by_the_members,
         workers_join_at_an_address_of_the_network_with_insecure, workers_join_over_ipv6,
         a_failed_join_names_the_error_of_each_address,
         a_worker_without_descriptors_for_connections_names_the_limit,
         shutdown_while_another_thread_joins_is_an_error);
