// Connections to the store of a job without a key that do not join: any process of this machine can open
// them. They keep no worker from joining, and the store's host logs which limit has closed them.
#include "../support/launched.h"
#include "testing/testing.h"

#include <arpa/inet.h>
#include <gradwire.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SILENT = 1000, DESCRIPTORS = 1024 };

// Returns once a process listens on |port|.
static int connect_to(int port) {
    struct sockaddr_in a = { .sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    for (;;) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fd >= 0);
        if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0) return fd;
        close(fd);
    }
}

static void limit_descriptors(rlim_t count) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max < count) testing_skip("too few descriptors");
    limit.rlim_cur = count;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

// Members of a group leave once both have met.
static void await_both(gw_scope *root) {
    gw_watch *w = gw_watch_open(root);
    while (gw_ok(root) && gw_rpc_world_size(root) < 2) gw_watch_next(root, w);
}

// Rank 0 hosts the store. Without a world size it founds a group, which the other one joins.
static pid_t start(int rank, int world_size, int port, const char *log) {
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid) return pid;
    char url[64];
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", port);
    limit_descriptors(DESCRIPTORS);
    if (log && !freopen(log, "a", stderr)) _exit(99);
    gw_scope *root = gw_scope_open(NULL);
    if (world_size) {
        gw_rpc_init(root, .rank = rank, .world_size = world_size, .init_method = url);
    } else {
        gw_rpc_init(root, .name = rank ? "joiner" : "founder", .init_method = url,
                    .job = rank ? GW_JOB_JOIN : GW_JOB_CREATE);
    }
    if (!world_size) await_both(root);
    gw_rpc_shutdown(root);
    _exit(gw_exit_code(gw_scope_close(root)));
}

// ---- What they send -----------------------------------------------------------------------------
#define HELLO 'G', 'R', 'A', 'D', 'W', 'I', 'R', 'E', 1, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0
#define REQUEST 1, 0, 0, 0, 0, 0, 0, 0
#define TOKEN 2, 0, 0, 0, 0, 0, 0, 0
#define WAIT(...) 14, 0, 0, 0, 2, REQUEST, 1, 0, 0, 0, __VA_ARGS__

typedef struct hostile {
    uint8_t says[80];
    size_t size;
    size_t repeat_count;  // of the bytes after the hello
    const char *limit;    // that the host names; NULL: it closes them in another way
} hostile;

#define NEW "(LIMIT_STORE_NEW_CLIENTS, here 256)"

static const hostile silent = { { HELLO }, 20, 1, NEW }, mute = { { 0 }, 0, 1, NULL },
                     waits = { { HELLO, WAIT('k') }, 38, 1, NEW },
                     waits_a_lot = { { HELLO, WAIT('k') }, 38, 1000, NEW },
                     stops = { { HELLO, 14, 0, 0, 0, 2, 1, 0 }, 27, 1, NEW },
                     // 60,000 bytes of a value are to follow, and some do
    begins_a_lot = { { HELLO, 0x60, 0xea, 0, 0, 1, REQUEST, TOKEN, 1, 0, 0, 0, 'k' }, 46, 1, NEW },
                     sets = { { HELLO, 23, 0, 0, 0, 1, REQUEST, TOKEN, 1, 0, 0, 0, 'k', 'v',
                                WAIT('k') },
                              65,
                              1,
                              NEW };

static void say(int fd, const hostile *h) {
    size_t hello = h->size < 20 ? h->size : 20;
    if (send(fd, h->says, hello, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return;
    for (size_t i = 0; i < h->repeat_count; i++)
        if (send(fd, h->says + hello, h->size - hello, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return;
}

static void open_all(int port, const hostile *h, int fds[SILENT]) {
    for (int i = 0; i < SILENT; i++) {
        fds[i] = connect_to(port);
        say(fds[i], h);
    }
}

// Opens them again and again until it is killed; the host may refuse.
static pid_t start_hostile(int port, const hostile *h) {
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int fds[SILENT];
    open_all(port, h, fds);
    for (int i = 0;; i = (i + 1) % SILENT) {
        close(fds[i]);
        fds[i] = connect_to(port);
        say(fds[i], h);
    }
}

static void expect_success(pid_t pid) {
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void join_during(int world_size, const hostile *h, bool again) {
    path folder = make_folder(), log = in_folder(folder, "log");
    int port = testing_free_port(), fds[SILENT];
    pid_t host = start(0, world_size, port, log.text), opens = -1;
    limit_descriptors(SILENT + 100);
    if (again) opens = start_hostile(port, h);
    if (again) await_in_file(log.text, h->limit);
    if (!again) open_all(port, h, fds);
    pid_t joining = start(1, world_size, port, NULL);
    expect_success(joining);
    expect_success(host);
    if (h->limit) await_in_file(log.text, h->limit);
    if (again) kill(opens, SIGKILL);
    if (again) waitpid(opens, NULL, 0);
    for (int i = 0; i < SILENT && !again; i++) close(fds[i]);
    remove_folder(folder);
}

static void silent_clients_prevent_no_joining(void **state) {
    (void)state;
    join_during(2, &silent, false);
    join_during(2, &mute, false);
}

static void clients_that_only_wait_prevent_no_joining(void **state) {
    (void)state;
    join_during(2, &waits, false);
    join_during(2, &waits_a_lot, false);
}

static void clients_that_stop_in_a_record_prevent_no_joining(void **state) {
    (void)state;
    join_during(2, &stops, false);
    join_during(2, &begins_a_lot, false);
}

static void clients_that_set_other_keys_prevent_no_joining(void **state) {
    (void)state;
    join_during(2, &sets, false);
    join_during(0, &sets, false);
}

static void clients_that_reconnect_repeatedly_prevent_no_joining(void **state) {
    (void)state;
    join_during(2, &silent, true);
    join_during(2, &sets, true);
    join_during(0, &waits, true);
}

GW_TESTS(store_clients, silent_clients_prevent_no_joining,
         clients_that_only_wait_prevent_no_joining,
         clients_that_stop_in_a_record_prevent_no_joining,
         clients_that_set_other_keys_prevent_no_joining,
         clients_that_reconnect_repeatedly_prevent_no_joining);
