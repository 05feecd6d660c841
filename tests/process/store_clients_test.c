// Connections to the store of a job without a key that send no request: any process of this machine can open them. They
// prevent no worker from joining, and the store's host names the limit that has closed them.
#include "../support/launched.h"
#include "testing/testing.h"

#include <arpa/inet.h>
#include <gradwire.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SILENT = 1000, DESCRIPTORS = 1024 };

static int free_port(void) {
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &size), 0);
    close(fd);
    return ntohs(a.sin_port);
}

// Returns once a process listens there.
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

static pid_t start(int rank, int port, const char *log) {
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid) return pid;
    char url[64];
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", port);
    limit_descriptors(DESCRIPTORS);
    if (log && !freopen(log, "a", stderr)) _exit(99);
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .rank = rank, .world_size = 2, .init_method = url);
    gw_rpc_shutdown(root);
    _exit(gw_exit_code(gw_scope_close(root)));
}

// The first bytes of a client of the store; it sends nothing after them.
static const uint8_t hello[20] = { 'G', 'R', 'A', 'D', 'W', 'I', 'R', 'E', 1, 0, 2, 0, 4 };
// The same, and a wait for a key that is never set.
static const uint8_t hello_and_wait[38] = { 'G', 'R', 'A', 'D', 'W', 'I', 'R', 'E', 1, 0, 2, 0,  4,
                                            0,   0,   0,   0,   0,   0,   0,   14,  0, 0, 0, 2,  1,
                                            0,   0,   0,   0,   0,   0,   0,   1,   0, 0, 0, 'k' };

static void join_with_clients(const uint8_t *first, size_t size) {
    path folder = make_folder(), log = in_folder(folder, "log");
    int port = free_port(), fds[SILENT];
    pid_t host = start(0, port, log.text);
    limit_descriptors(SILENT + 100);
    for (int i = 0; i < SILENT; i++) {
        fds[i] = connect_to(port);
        assert_int_equal(send(fds[i], first, size, MSG_NOSIGNAL), size);
    }
    pid_t joining = start(1, port, NULL);
    int status;
    assert_int_equal(waitpid(joining, &status, 0), joining);
    assert_int_equal(status, 0);
    assert_int_equal(waitpid(host, &status, 0), host);
    assert_int_equal(status, 0);
    await_in_file(log.text, "at most 256 clients that have set no key");
    for (int i = 0; i < SILENT; i++) close(fds[i]);
    remove_folder(folder);
}

static void silent_clients_prevent_no_joining(void **state) {
    (void)state;
    join_with_clients(hello, sizeof hello);
}

static void clients_that_only_wait_prevent_no_joining(void **state) {
    (void)state;
    join_with_clients(hello_and_wait, sizeof hello_and_wait);
}

GW_TESTS(store_clients, silent_clients_prevent_no_joining,
         clients_that_only_wait_prevent_no_joining);
