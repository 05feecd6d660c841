#include "net/tcp.h"

#include "net/protection.h"

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
#include "testing/testing.h"

#define SECOND_NS ((int64_t)1000 * 1000 * 1000)

enum { BUFFER_SIZE = 64 * 1024 };

// One end of a stream, and what has happened to it.
typedef struct end {
    env *env;
    stream *stream;
    bool opened, closed;
    gw_error why;
    waiter *waiter;  // woken by whatever happens

    // received
    char buffer[BUFFER_SIZE];
    size_t buffer_size;  // offered for one receipt; 0: all
    size_t received_size;
    uint64_t received_sum;

    // what to do
    bool echoes, closes_when_received, closes_when_opened;
    size_t to_send;  // bytes of the pattern not yet sent
    uint64_t sent_sum;
} end;

static void tell(end *x) {
    if (x->waiter && !x->waiter->woken) env_wake(x->env, x->waiter);
}

static size_t send_bytes(end *x, const void *bytes, size_t size) {
    return stream_send(x->stream, &(struct iovec){ (void *)bytes, size }, 1);
}

static uint64_t sum_of(uint64_t sum, const char *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) sum = sum * 31 + (unsigned char)bytes[i];
    return sum;
}

static void send_pattern(end *x) {
    char bytes[BUFFER_SIZE];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(i * 7 + x->to_send);
    while (x->to_send > 0) {
        size_t size = x->to_send < sizeof bytes ? x->to_send : sizeof bytes;
        size_t taken = send_bytes(x, bytes, size);
        x->sent_sum = sum_of(x->sent_sum, bytes, taken);
        x->to_send -= taken;
        if (taken < size) return;
    }
}

static void on_opened(void *user) {
    end *x = user;
    x->opened = true;
    if (x->closes_when_opened) stream_close(x->stream);
    if (x->to_send > 0) send_pattern(x);
    tell(x);
}

static void on_buffer(void *user, void **into, size_t *size) {
    end *x = user;
    *into = x->buffer;
    *size = x->buffer_size ? x->buffer_size : sizeof x->buffer;
}

static void on_received(void *user, size_t count) {
    end *x = user;
    x->received_size += count;
    x->received_sum = sum_of(x->received_sum, x->buffer, count);
    if (x->echoes) assert_int_equal(send_bytes(x, x->buffer, count), count);
    if (x->closes_when_received) stream_close(x->stream);
    tell(x);
}

static void on_writable(void *user) {
    send_pattern(user);
}

static void on_closed(void *user, const gw_error *why) {
    end *x = user;
    assert_false(x->closed);
    x->closed = true;
    x->why = *why;
    tell(x);
}

static const stream_events end_events = { .opened = on_opened,
                                          .buffer = on_buffer,
                                          .received = on_received,
                                          .writable = on_writable,
                                          .closed = on_closed };

static void on_accepted(void *user, stream *c) {
    end *x = user;
    x->stream = c;
    x->opened = true;
    stream_adopt(c, &end_events, x);
    tell(x);
}

static env *open_env(void) {
    env *e = NULL;
    gw_error error;
    assert_int_equal(env_os_open(&e, &error), GW_OK);
    return e;
}

// The role is held.
static void wait_until(end *x, bool (*done)(const end *x)) {
    int64_t until_ns = env_now_ns(x->env) + 30 * SECOND_NS;
    while (!done(x)) {
        waiter w = { 0 };
        x->waiter = &w;
        bool woken = env_wait(x->env, &w, until_ns);
        x->waiter = NULL;
        assert_true(woken);
    }
}

static bool is_open(const end *x) {
    return x->opened;
}
static bool is_closed(const end *x) {
    return x->closed;
}

// Two ends in one environment. The role is held afterwards.
typedef struct pair {
    env *env;
    listener *listener;
    char address[ADDRESS_MAX];
    end *client, *server;
} pair;

static pair open_pair(void) {
    pair p = { .env = open_env(),
               .client = mem_calloc(sizeof(end)),
               .server = mem_calloc(sizeof(end)) };
    gw_error error;
    p.client->env = p.server->env = p.env;
    env_enter(p.env);
    assert_int_equal(tcp_transport.listen(p.env, "127.0.0.1:0", on_accepted, p.server, &p.listener,
                                          p.address, &error),
                     GW_OK);
    assert_int_equal(
        tcp_transport.connect(p.env, p.address, &end_events, p.client, &p.client->stream, &error),
        GW_OK);
    wait_until(p.client, is_open);
    wait_until(p.server, is_open);
    return p;
}

static void close_pair(pair *p) {
    env_leave(p->env);
    env_close(p->env);
    mem_free(p->client);
    mem_free(p->server);
}

// A child shares its parent's descriptors, so that what the parent closes stays open, and ready, in
// the kernel.
static void a_forked_child_keeps_no_closed_stream_alive(void **state) {
    (void)state;
    pair p = open_pair();
    int until_done[2];
    assert_int_equal(pipe(until_done), 0);
    pid_t child = fork();
    if (child == 0) {
        close(until_done[1]);
        char byte;
        _exit(read(until_done[0], &byte, 1) == 0 ? 0 : 1);
    }
    assert_true(child > 0);
    assert_int_equal(send_bytes(p.client, "hello", 5), 5);
    stream_close(p.server->stream);  // with bytes unread
    stream_close(p.client->stream);
    listener_close(p.listener);
    for (int i = 0; i < 3; i++) {
        waiter w = { 0 };
        env_wait(p.env, &w, env_now_ns(p.env));  // one look each
    }
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
    end *end;
    waiter ready;
} remote;

static void serve_until_closed(void *arg) {
    remote *r = arg;
    env_enter(r->env);
    wait_until(r->end, is_closed);
    env_leave(r->env);
}

static void two_environments_talk(void **state) {
    (void)state;
    remote r = { .env = open_env(), .end = mem_calloc(sizeof(end)) };
    r.end->env = r.env;
    r.end->echoes = true;
    gw_error error;
    env_enter(r.env);
    // Not every machine has IPv6.
    if (tcp_transport.listen(r.env, "[::1]:0", on_accepted, r.end, &r.listener, r.address, &error))
        assert_int_equal(tcp_transport.listen(r.env, "127.0.0.1:0", on_accepted, r.end, &r.listener,
                                              r.address, &error),
                         GW_OK);
    assert_int_equal(env_spawn(r.env, serve_until_closed, &r, &error), GW_OK);
    env_leave(r.env);

    end *mine = mem_calloc(sizeof *mine);
    mine->env = open_env();
    env_enter(mine->env);
    assert_int_equal(
        tcp_transport.connect(mine->env, r.address, &end_events, mine, &mine->stream, &error),
        GW_OK);
    wait_until(mine, is_open);
    for (size_t i = 1; i <= 500; i++) {
        assert_int_equal(send_bytes(mine, "x", 1), 1);
        while (mine->received_size < i) {
            waiter w = { 0 };
            mine->waiter = &w;
            assert_true(env_wait(mine->env, &w, env_now_ns(mine->env) + 30 * SECOND_NS));
            mine->waiter = NULL;
        }
    }
    stream_close(mine->stream);
    env_leave(mine->env);
    env_close(mine->env);
    env_close(r.env);
    mem_free(mine);
    mem_free(r.end);
}

// ---- Ends ---------------------------------------------------------------------------------------

static void closed_streams_leave_nothing_behind(void **state) {
    (void)state;
    pair p = open_pair();
    gw_error error;
    size_t live_count = mem_live_count();
    for (int i = 0; i < 100; i++) {
        stream_close(p.client->stream);
        wait_until(p.server, is_closed);
        *p.client = *p.server = (end){ .env = p.env };
        assert_int_equal(tcp_transport.connect(p.env, p.address, &end_events, p.client,
                                               &p.client->stream, &error),
                         GW_OK);
        wait_until(p.client, is_open);
        wait_until(p.server, is_open);
    }
    // Those closed last may still be there.
    assert_true(mem_live_count() <= live_count + 8);
    close_pair(&p);
}

typedef struct closing_listener {
    env *env;
    listener *listener;
    int accepted_count;
    waiter *waiter;
} closing_listener;

static void close_both(void *user, stream *c) {
    closing_listener *l = user;
    l->accepted_count++;
    stream_close(c);
    listener_close(l->listener);
}

static void a_listener_may_be_closed_while_it_accepts(void **state) {
    (void)state;
    closing_listener l = { .env = open_env() };
    char address[ADDRESS_MAX];
    gw_error error;
    end *x[3];
    env_enter(l.env);
    assert_int_equal(
        tcp_transport.listen(l.env, "127.0.0.1:0", close_both, &l, &l.listener, address, &error),
        GW_OK);
    for (int i = 0; i < 3; i++) {
        x[i] = mem_calloc(sizeof(end));
        x[i]->env = l.env;
        assert_int_equal(
            tcp_transport.connect(l.env, address, &end_events, x[i], &x[i]->stream, &error), GW_OK);
    }
    for (int i = 0; i < 3; i++) wait_until(x[i], is_closed);
    assert_int_equal(l.accepted_count, 1);
    env_leave(l.env);
    env_close(l.env);
    for (int i = 0; i < 3; i++) mem_free(x[i]);
}

// A network of its own in which every connection comes from one of two ports.
static bool enter_narrow_network(void) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET)) return false;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct ifreq loopback = { .ifr_name = "lo", .ifr_flags = IFF_UP };
    bool is_up = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &loopback) == 0;
    close(fd);
    FILE *range = fopen("/proc/sys/net/ipv4/ip_local_port_range", "w");
    if (!is_up || !range) return false;
    return fprintf(range, "40000 40001") > 0 && fclose(range) == 0;
}

// TCP lets a connection to a free port meet itself if it happens to come from there.
static void a_connection_does_not_meet_itself(void **state) {
    (void)state;
    if (!enter_narrow_network()) testing_skip("a narrow network needs user namespaces and ip");
    end *x = mem_calloc(sizeof *x);
    x->env = open_env();
    gw_error error;
    env_enter(x->env);
    for (int i = 0; i < 50; i++) {
        *x = (end){ .env = x->env };
        assert_int_equal(
            tcp_transport.connect(x->env, "127.0.0.1:40000", &end_events, x, &x->stream, &error),
            GW_OK);
        wait_until(x, is_closed);
        assert_false(x->opened);
        assert_int_equal(x->why.status, GW_NOT_FOUND);
    }
    env_leave(x->env);
    env_close(x->env);
    mem_free(x);
}

// ---- Cuts ---------------------------------------------------------------------------------------

static void a_test_can_cut_connections(void **state) {
    (void)state;
    pair p = open_pair();
    env_os_cut_every(p.env, 10);
    int sent = 0;
    while (!p.client->closed && sent < 1000) {
        waiter w = { 0 };
        send_bytes(p.client, "abcd", 4);
        sent++;
        p.client->waiter = &w;
        env_wait(p.env, &w, 0);
        p.client->waiter = NULL;
    }
    wait_until(p.client, is_closed);
    wait_until(p.server, is_closed);
    assert_true(sent >= 10 && sent < 1000);
    assert_true(p.server->received_size < (size_t)sent * 4);
    assert_int_equal(p.client->why.status, GW_DISCONNECTED);
    close_pair(&p);
}

// ---- Limits -------------------------------------------------------------------------------------

static void without_a_key_addresses_beyond_loopback_are_refused(void **state) {
    (void)state;
    env *e = open_env();
    listener *l = NULL;
    end x = { .env = e };
    char bound[ADDRESS_MAX];
    gw_error error;
    env_enter(e);
    assert_int_equal(tcp_transport.listen(e, "0.0.0.0:0", on_accepted, &x, &l, bound, &error),
                     GW_INVALID);
    assert_int_equal(tcp_transport.connect(e, "10.0.0.1:29500", &end_events, &x, &x.stream, &error),
                     GW_INVALID);
    assert_string_equal(error.text, "10.0.0.1:29500: only loopback addresses (127.0.0.1, ::1, "
                                    "localhost) are allowed without a key");
    assert_int_equal(tcp_transport.connect(e, "127.0.0.1:0", &end_events, &x, &x.stream, &error),
                     GW_INVALID);
    env_leave(e);
    env_close(e);
}

static void with_one_they_are_not(void **state) {
    (void)state;
    env *e = open_env();
    listener *l = NULL;
    end x = { .env = e };
    char bound[ADDRESS_MAX];
    gw_error error;
    env_enter(e);
    e->protection = &(protection){ .insecure = true };
    assert_int_equal(tcp_transport.listen(e, "0.0.0.0:0", on_accepted, &x, &l, bound, &error),
                     GW_OK);
    listener_close(l);
    // Of TEST-NET-3, which nobody has.
    assert_int_equal(tcp_transport.listen(e, "203.0.113.1:0", on_accepted, &x, &l, bound, &error),
                     GW_NOT_FOUND);
    assert_string_equal(error.text, "203.0.113.1:0: this machine does not have that address");
    env_leave(e);
    env_close(e);
}

// With no descriptor left, those who come are sent away instead of waiting, and the next is served
// again.
static void without_descriptors_connections_are_refused(void **state) {
    (void)state;
    pair p = open_pair();
    end *late = mem_calloc(sizeof *late);
    late->env = p.env;
    gw_error error;
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(
        tcp_transport.connect(p.env, p.address, &end_events, late, &late->stream, &error), GW_OK);
    int free_fd = dup(0);
    close(free_fd);
    none = (struct rlimit){ (rlim_t)free_fd, before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    wait_until(late, is_closed);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);

    *late = (end){ .env = p.env };
    p.server->opened = false;
    assert_int_equal(
        tcp_transport.connect(p.env, p.address, &end_events, late, &late->stream, &error), GW_OK);
    wait_until(p.server, is_open);
    close_pair(&p);
    mem_free(late);
}

static void open_and_connect(void *context) {
    (void)context;
    env *e = NULL;
    gw_error error;
    if (env_os_open(&e, &error)) return;
    end *server = mem_calloc(sizeof *server), *client = mem_calloc(sizeof *client);
    listener *l = NULL;
    char address[ADDRESS_MAX];
    env_enter(e);
    if (!server || !client) goto close;
    server->env = client->env = e;
    client->to_send = 100;
    server->echoes = true;
    if (tcp_transport.listen(e, "127.0.0.1:0", on_accepted, server, &l, address, &error))
        goto close;
    if (tcp_transport.connect(e, address, &end_events, client, &client->stream, &error)) goto close;
    while (!client->closed && client->received_size < 100) {
        waiter w = { 0 };
        client->waiter = &w;
        assert_true(env_wait(e, &w, env_now_ns(e) + 30 * SECOND_NS));
        client->waiter = NULL;
    }
close:
    env_leave(e);
    env_close(e);
    mem_free(client);
    mem_free(server);
}

static void nothing_is_lost_without_memory(void **state) {
    (void)state;
    testing_alloc_failure_loop(open_and_connect, NULL);
}

GW_TESTS(net_tcp, a_forked_child_keeps_no_closed_stream_alive, two_environments_talk,
         closed_streams_leave_nothing_behind, a_listener_may_be_closed_while_it_accepts,
         a_connection_does_not_meet_itself, a_test_can_cut_connections,
         without_a_key_addresses_beyond_loopback_are_refused, with_one_they_are_not,
         without_descriptors_connections_are_refused, nothing_is_lost_without_memory);
