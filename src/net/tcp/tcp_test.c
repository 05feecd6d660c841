#include "net/tcp/tcp.h"

#include "net/tls/protection.h"

#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/env_os.h"
#include "testing/stream_end.h"
#include "testing/testing.h"

#define SECOND_NS ((int64_t)1000 * 1000 * 1000)

static env *open_env(void) {
    env *e = NULL;
    gw_error error;
    assert_int_equal(env_os_open(&e, &error), GW_OK);
    return e;
}

// Two ends in one environment. The loop lock is held afterwards.
static stream_pair open_pair(void) {
    env *e = open_env();
    env_enter(e);
    stream_pair p = stream_pair_listen(e, &tcp_transport, "127.0.0.1:0");
    stream_pair_connect(&p);
    return p;
}

static void close_pair(stream_pair *p) {
    stream_pair_close(p);
    env_leave(p->env);
    env_close(p->env);
}

// A child shares its parent's descriptors, so that a stream that the parent closes stays open, and ready, in
// the kernel.
static void a_forked_child_keeps_no_closed_stream_alive(void **state) {
    (void)state;
    stream_pair p = open_pair();
    int until_done[2];
    assert_int_equal(pipe(until_done), 0);
    pid_t child = fork();
    if (child == 0) {
        close(until_done[1]);
        char byte;
        _exit(read(until_done[0], &byte, 1) == 0 ? 0 : 1);
    }
    assert_true(child > 0);
    stream_end_send(p.client, 5);
    stream_end_let_go(p.server);  // with bytes unread
    stream_end_let_go(p.client);
    listener_close(p.listener);
    p.listener = NULL;
    for (int i = 0; i < 3; i++) stream_end_let_pass(p.env, 0);  // one check each
    assert_false(p.client->closed || p.server->closed);
    close_pair(&p);
    close(until_done[0]);
    close(until_done[1]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

// ---- Bulk ---------------------------------------------------------------------------------------

typedef struct remote {
    env *env;
    listener *listener;
    char address[ADDRESS_MAX];
    stream_end *end;
} remote;

static void serve_until_closed(void *arg) {
    remote *r = arg;
    env_enter(r->env);
    stream_end_wait(r->end, stream_end_is_closed);
    env_leave(r->env);
}

static void two_environments_talk(void **state) {
    (void)state;
    remote r = { .env = open_env() };
    r.end = stream_end_open(r.env);
    r.end->echoes = true;
    gw_error error;
    env_enter(r.env);
    // Not every machine has IPv6.
    if (tcp_transport.listen(r.env, "[::1]:0", stream_end_accept, r.end, &r.listener, r.address,
                             &error))
        assert_int_equal(tcp_transport.listen(r.env, "127.0.0.1:0", stream_end_accept, r.end,
                                              &r.listener, r.address, &error),
                         GW_OK);
    assert_int_equal(env_spawn(r.env, serve_until_closed, &r, &error), GW_OK);
    env_leave(r.env);

    stream_end *mine = stream_end_open(open_env());
    env *e = mine->env;
    env_enter(e);
    assert_int_equal(stream_end_connect(mine, &tcp_transport, r.address, &error), GW_OK);
    stream_end_wait(mine, stream_end_is_open);
    for (size_t i = 1; i <= 500; i++) {
        stream_end_send(mine, 1);
        stream_end_wait_for_bytes(mine, i);
    }
    stream_end_close(mine);
    env_leave(e);
    env_close(e);
    env_close(r.env);
    mem_free(r.end);
}

// ---- Ends ---------------------------------------------------------------------------------------

static void closed_streams_leave_nothing_behind(void **state) {
    (void)state;
    stream_pair p = open_pair();
    size_t live_count = mem_live_count();
    for (int i = 0; i < 100; i++) {
        stream_end_let_go(p.client);
        stream_end_wait(p.server, stream_end_is_closed);
        stream_end_reset(p.client);
        stream_end_reset(p.server);
        stream_pair_connect(&p);
    }
    // Those closed last may still exist.
    assert_true(mem_live_count() <= live_count + 8);
    close_pair(&p);
}

// A network of its own in which every connection has one of two source ports.
static bool enter_narrow_network(void) {
    // Root needs no user namespace, which a process with threads, such as those of a sanitizer, cannot enter.
    if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET)) return false;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct ifreq loopback = { .ifr_name = "lo", .ifr_flags = IFF_UP };
    bool is_up = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &loopback) == 0;
    close(fd);
    FILE *range = fopen("/proc/sys/net/ipv4/ip_local_port_range", "w");
    if (!is_up || !range) return false;
    return fprintf(range, "40000 40001") > 0 && fclose(range) == 0;
}

// TCP connects a socket to itself if its own port happens to be the free port that it connects to.
static void a_connection_does_not_meet_itself(void **state) {
    (void)state;
    if (!enter_narrow_network()) testing_skip("a narrow network needs root, or user namespaces");
    env *e = open_env();
    stream_end *x = stream_end_open(e);
    gw_error error;
    env_enter(e);
    for (int i = 0; i < 50; i++) {
        stream_end_reset(x);
        assert_int_equal(stream_end_connect(x, &tcp_transport, "127.0.0.1:40000", &error), GW_OK);
        stream_end_wait(x, stream_end_is_closed);
        assert_false(x->opened);
        assert_int_equal(x->why.status, GW_NOT_FOUND);
    }
    env_leave(e);
    env_close(e);
    mem_free(x);
}

// ---- Cuts ---------------------------------------------------------------------------------------

static void a_test_can_cut_connections(void **state) {
    (void)state;
    stream_pair p = open_pair();
    env_os_cut_every(p.env, 10);
    int sent = 0;
    while (!p.client->closed && sent < 1000) {
        stream_end_send(p.client, 4);
        sent++;
        stream_end_let_pass(p.env, 0);
    }
    stream_end_wait(p.client, stream_end_is_closed);
    stream_end_wait(p.server, stream_end_is_closed);
    assert_true(sent >= 10 && sent < 1000);
    assert_true(p.server->received < (size_t)sent * 4);
    assert_int_equal(p.client->why.status, GW_DISCONNECTED);
    close_pair(&p);
}

// ---- Limits -------------------------------------------------------------------------------------

static void without_a_key_addresses_beyond_loopback_are_refused(void **state) {
    (void)state;
    env *e = open_env();
    listener *l = NULL;
    stream_end *x = stream_end_open(e);
    char bound[ADDRESS_MAX];
    gw_error error;
    env_enter(e);
    assert_int_equal(tcp_transport.listen(e, "0.0.0.0:0", stream_end_accept, x, &l, bound, &error),
                     GW_INVALID);
    assert_int_equal(stream_end_connect(x, &tcp_transport, "10.0.0.1:29500", &error), GW_INVALID);
    assert_string_equal(error.text, "10.0.0.1:29500: only loopback addresses (127.0.0.1, ::1, "
                                    "localhost) are allowed without a key");
    assert_int_equal(stream_end_connect(x, &tcp_transport, "127.0.0.1:0", &error), GW_INVALID);
    env_leave(e);
    env_close(e);
    mem_free(x);
}

static void with_a_key_addresses_beyond_loopback_are_allowed(void **state) {
    (void)state;
    env *e = open_env();
    listener *l = NULL;
    stream_end *x = stream_end_open(e);
    char bound[ADDRESS_MAX];
    gw_error error;
    env_enter(e);
    e->protection = &(protection){ .insecure = true };
    assert_int_equal(tcp_transport.listen(e, "0.0.0.0:0", stream_end_accept, x, &l, bound, &error),
                     GW_OK);
    listener_close(l);
    // An address of TEST-NET-3, which no machine has.
    assert_int_equal(
        tcp_transport.listen(e, "203.0.113.1:0", stream_end_accept, x, &l, bound, &error),
        GW_NOT_FOUND);
    assert_string_equal(error.text, "203.0.113.1:0: this machine does not have that address");
    env_leave(e);
    env_close(e);
    mem_free(x);
}

// With no descriptor left, new connections are refused instead of waiting, and a later one is served
// again.
static void without_descriptors_connections_are_refused(void **state) {
    (void)state;
    stream_pair p = open_pair();
    stream_end *late = stream_end_open(p.env);
    gw_error error;
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(stream_end_connect(late, &tcp_transport, p.address, &error), GW_OK);
    int free_fd = dup(0);
    close(free_fd);
    none = (struct rlimit){ (rlim_t)free_fd, before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    stream_end_wait(late, stream_end_is_closed);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);

    stream_end_reset(late);
    p.server->opened = false;
    assert_int_equal(stream_end_connect(late, &tcp_transport, p.address, &error), GW_OK);
    stream_end_wait(p.server, stream_end_is_open);
    stream_end_close(late);
    close_pair(&p);
}

static void open_and_connect(void *context) {
    (void)context;
    stream_ends_try(&tcp_transport, "127.0.0.1:0");
}

static void nothing_is_lost_without_memory(void **state) {
    (void)state;
    testing_alloc_failure_loop(open_and_connect, NULL);
}

GW_TESTS(net_tcp, a_forked_child_keeps_no_closed_stream_alive, two_environments_talk,
         closed_streams_leave_nothing_behind, a_connection_does_not_meet_itself,
         a_test_can_cut_connections, without_a_key_addresses_beyond_loopback_are_refused,
         with_a_key_addresses_beyond_loopback_are_allowed,
         without_descriptors_connections_are_refused, nothing_is_lost_without_memory);
