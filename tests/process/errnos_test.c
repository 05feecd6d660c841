// Each system call for communication fails with each error of its manual page, from the start or once the worker has
// joined: the worker continues without it, or names the failed call; it does not end by a signal, nor hang, and the
// other worker gets an error or its results.
#include "testing/runner.h"
#include "testing/testing.h"

#include <errno.h>
#include <gradwire.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ERRNOS = 10, AT_ONCE = 16 };

typedef struct call {
    const char *name;
    int number;
    bool at_start_alone;
    int errnos[ERRNOS];
} call;

static const call calls[] = {
    { "socket", SYS_socket,
      .errnos = { EACCES, EAFNOSUPPORT, EMFILE, ENFILE, ENOBUFS, ENOMEM, EPROTONOSUPPORT } },
    { "bind", SYS_bind, .errnos = { EACCES, EADDRINUSE, EINVAL, EADDRNOTAVAIL, ENOMEM } },
    { "listen", SYS_listen, .errnos = { EADDRINUSE, EOPNOTSUPP } },
    { "accept4", SYS_accept4,
      .errnos = { ECONNABORTED, EMFILE, ENFILE, ENOBUFS, ENOMEM, EPROTO, EPERM } },
    { "connect", SYS_connect,
      .errnos = { EACCES, EADDRINUSE, EADDRNOTAVAIL, EAGAIN, ECONNREFUSED, EINTR, ENETUNREACH,
                  ETIMEDOUT, EPERM } },
    { "getsockname", SYS_getsockname, .errnos = { ENOBUFS } },
    { "getsockopt", SYS_getsockopt, .errnos = { EINVAL, ENOPROTOOPT } },
    { "setsockopt", SYS_setsockopt, .errnos = { EINVAL, ENOPROTOOPT, ENOMEM } },
    { "sendmsg", SYS_sendmsg, .errnos = { EACCES, ECONNRESET, EMSGSIZE, ENOBUFS, ENOMEM, EPIPE } },
    { "sendto", SYS_sendto, .errnos = { ECONNRESET, ENOBUFS, ENOMEM, EPIPE } },
    { "recvmsg", SYS_recvmsg, .errnos = { ECONNREFUSED, ECONNRESET, ENOMEM } },
    { "recvfrom", SYS_recvfrom, .errnos = { ECONNREFUSED, ECONNRESET, ENOMEM } },
    { "epoll_create1", SYS_epoll_create1, .errnos = { EMFILE, ENFILE, ENOMEM } },
    // A watched descriptor needs no further memory.
    { "epoll_ctl", SYS_epoll_ctl, .at_start_alone = true, .errnos = { ENOMEM, ENOSPC, EPERM } },
    { "eventfd2", SYS_eventfd2, .errnos = { EMFILE, ENFILE, ENODEV, ENOMEM } },
    { "timerfd_create", SYS_timerfd_create, .errnos = { EMFILE, ENFILE, ENODEV, ENOMEM } },
    { "memfd_create", SYS_memfd_create, .errnos = { EMFILE, ENFILE, ENOMEM, EPERM } },
    { "ftruncate", SYS_ftruncate, .errnos = { EFBIG, EIO, EPERM } },
    { "fallocate", SYS_fallocate, .errnos = { EFBIG, EIO, ENOSPC, EOPNOTSUPP, EPERM } },
    { "fcntl", SYS_fcntl, .errnos = { EAGAIN, EPERM } },
    { "pidfd_open", SYS_pidfd_open, .errnos = { EMFILE, ENOSYS, EPERM, ESRCH } },
    { "process_vm_readv", SYS_process_vm_readv, .errnos = { EPERM, ESRCH, ENOMEM } },
};

GW_FUNCTION(errnos_echo, GW_INLINE, "any") {
    return gw_arg(s, a, 0);
}

// ---- One worker ---------------------------------------------------------------------------------

typedef struct fault {
    const call *call;
    int error;
    int rank;         // whose calls fail
    bool from_start;  // else once it has joined
    bool tcp_alone;
} fault;

static void inject(const fault *f) {
    if (!testing_forbid(f->call->number, f->error)) _exit(TESTING_EXIT_SKIPPED);
}

static void exchange(gw_scope *root, int other) {
    gw_tensor *x = gw_ones(root, GW_F32, 100000);
    for (int i = 0; i < 3 && gw_ok(root); i++) {
        gw_tensor *y = gw_tensor_of(root, gw_rpc_sync(root, other, "errnos_echo", x));
        if (gw_ok(root) && !gw_equal(root, x, y)) _exit(3);
    }
}

static void be_worker(const fault *f, int rank, const char *url, int output) {
    bool is_hit = rank == f->rank;
    if (f->tcp_alone) setenv("GW_TRANSPORT", "tcp", 1);
    if (is_hit && f->from_start) inject(f);
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .rank = rank, .world_size = 2, .init_method = url,
                .join_timeout_ms = testing_patient_ms(400), .timeout_ms = testing_patient_ms(300));
    if (is_hit && !f->from_start && gw_ok(root)) inject(f);
    if (gw_ok(root)) exchange(root, 1 - rank);
    const gw_error *e = gw_scope_error(root);
    dprintf(output, "%d %s\n", (int)e->status, e->text);
    // Not by _exit, in which the thread sanitizer reports the worker's threads as leaks.
    syscall(SYS_exit_group, 0);
}

// ---- Two workers --------------------------------------------------------------------------------

typedef struct trial {
    fault fault;
    char url[64];
    pid_t pids[2];
    int outputs[2];
} trial;

static void begin(trial *t, const fault *f) {
    snprintf(t->url, sizeof t->url, "file:///tmp/gw-errnos-XXXXXX");
    int file = mkstemp(t->url + strlen("file://"));
    assert_true(file >= 0);
    close(file);
    t->fault = *f;
    for (int rank = 0; rank < 2; rank++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        t->pids[rank] = fork();
        assert_true(t->pids[rank] >= 0);
        if (!t->pids[rank]) be_worker(f, rank, t->url, ends[1]);
        close(ends[1]);
        t->outputs[rank] = ends[0];
    }
}

// Checks the error of a worker. A mapped error contains the system's text.
static void check(const trial *t, int rank) {
    const fault *f = &t->fault;
    char text[2048];
    size_t size = 0;
    ssize_t n;
    while (size < sizeof text - 1 &&
           (n = read(t->outputs[rank], text + size, sizeof text - 1 - size)) > 0)
        size += (size_t)n;
    text[size] = '\0';
    close(t->outputs[rank]);
    int end, status = -1;
    while (waitpid(t->pids[rank], &end, 0) < 0) assert_int_equal(errno, EINTR);
    testing_note("%s of rank %d over %s fails with %s, %s: rank %d: %s", f->call->name, f->rank,
                 f->tcp_alone ? "TCP" : "any transport", strerror(f->error),
                 f->from_start ? "from the start" : "later", rank, text);
    assert_true(WIFEXITED(end));
    if (WEXITSTATUS(end) == TESTING_EXIT_SKIPPED) testing_skip("seccomp is not allowed here");
    assert_int_equal(WEXITSTATUS(end), 0);
    assert_int_equal(sscanf(text, "%d", &status), 1);
    assert_true(status == GW_OK || strlen(text) > 10);
    // Some errors have their own text: a port in use, an address of another machine.
    if (status == GW_SYSTEM) assert_non_null(strstr(text, strerror(f->error)));
    assert_int_not_equal(status, GW_UNSUPPORTED);
}

static void finish(trial *t) {
    check(t, 0);
    check(t, 1);
    unlink(t->url + strlen("file://"));
}

// There are eight ways to fail; each call and error is tested with two of them.
static void every_call_of_the_system_may_fail(void **state) {
    (void)state;
    static trial trials[AT_ONCE];
    int count = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int e = 0; e < ERRNOS && calls[i].errnos[e]; e++)
            for (int k = 0; k < 2; k++) {
                int how = e + 3 * (int)i + 5 * k;
                fault f = { &calls[i], calls[i].errnos[e], how & 1,
                            k == 0 || calls[i].at_start_alone, how & 2 };
                trial *t = &trials[count++ % AT_ONCE];
                if (count > AT_ONCE) finish(t);
                begin(t, &f);
            }
    for (int i = 0; i < AT_ONCE; i++) finish(&trials[(count + i) % AT_ONCE]);
}

GW_TESTS_WITH_LIMIT(errnos, 120, every_call_of_the_system_may_fail);
