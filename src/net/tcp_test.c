#include "net/env_os.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "testing/testing.h"

enum { SECOND_NS = 1000 * 1000 * 1000, BUFFER_SIZE = 64 * 1024 };

// One end of a stream, and what has happened to it.
typedef struct end {
    env *env;
    conn *conn;
    bool opened, closed;
    gw_error why;
    waiter *waiter;  // woken by whatever happens

    // received
    char buffer[BUFFER_SIZE];
    size_t buffer_size;  // offered for one receipt; 0: all
    size_t received_size;
    uint64_t received_sum;

    // what to do
    bool echoes, closes_when_received, closes_when_opened, discards;
    size_t to_send;  // bytes of the pattern not yet sent
    uint64_t sent_sum;
} end;

static void tell(end *x) {
    if (x->waiter && !x->waiter->woken) env_wake(x->env, x->waiter);
}

static size_t send_bytes(end *x, const void *bytes, size_t size) {
    return conn_send(x->env, x->conn, &(struct iovec){ (void *)bytes, size }, 1);
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
    if (x->closes_when_opened) conn_close(x->env, x->conn);
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
    if (x->closes_when_received) conn_close(x->env, x->conn);
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

static const conn_events end_events = { .opened = on_opened,
                                        .buffer = on_buffer,
                                        .received = on_received,
                                        .writable = on_writable,
                                        .closed = on_closed };

static void on_accepted(void *user, conn *c) {
    end *x = user;
    x->conn = c;
    x->opened = true;
    conn_adopt(x->env, c, &end_events, x);
    tell(x);
}

static env *open_env(void) {
    env *e = NULL;
    gw_error error;
    assert_int_equal(env_os_open(&e, &error), GW_OK);
    return e;
}

// Waits until |done| or five seconds have passed; the role is held.
static void wait_until(end *x, bool (*done)(const end *x)) {
    int64_t until_ns = env_now_ns(x->env) + (int64_t)30 * SECOND_NS;
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
    char address[ENV_ADDRESS_MAX];
    end *client, *server;
} pair;

static pair open_pair(void) {
    pair p = { .env = open_env(),
               .client = mem_calloc(sizeof(end)),
               .server = mem_calloc(sizeof(end)) };
    gw_error error;
    p.client->env = p.server->env = p.env;
    env_enter(p.env);
    assert_int_equal(
        env_listen(p.env, "127.0.0.1:0", on_accepted, p.server, &p.listener, p.address, &error),
        GW_OK);
    assert_int_equal(env_connect(p.env, p.address, &end_events, p.client, &p.client->conn, &error),
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

static bool has_five(const end *x) {
    return x->received_size >= 5;
}

static void bytes_go_both_ways(void **state) {
    (void)state;
    pair p = open_pair();
    p.server->echoes = true;
    assert_int_equal(send_bytes(p.client, "hello", 5), 5);
    wait_until(p.client, has_five);
    assert_memory_equal(p.client->buffer, "hello", 5);
    close_pair(&p);
}

static void the_peer_sees_an_end_after_all_bytes(void **state) {
    (void)state;
    pair p = open_pair();
    assert_int_equal(send_bytes(p.client, "hello", 5), 5);
    conn_close(p.env, p.client->conn);
    wait_until(p.server, is_closed);
    assert_int_equal(p.server->received_size, 5);
    assert_int_equal(p.server->why.status, GW_DISCONNECTED);
    assert_non_null(strstr(p.server->why.text, "127.0.0.1:"));
    assert_non_null(strstr(p.server->why.text, "closed by the peer"));
    assert_false(p.client->closed);
    close_pair(&p);
}

GW_TESTS(net_tcp, bytes_go_both_ways, the_peer_sees_an_end_after_all_bytes);
