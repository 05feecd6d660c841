#include "testing/doors.h"

#include "net/env_os.h"
#include "net/tcp/tcp.h"
#include "testing/testing.h"

#include <stdio.h>

env *doors_env;
static uint8_t staging[STAGING_BYTES];

void doors_open_env(void) {
    gw_error error;
    testing_note("seed 1");  // printed with the report of a mutation that is found here
    assert_int_equal(env_os_open(&doors_env, &error), GW_OK);
    env_enter(doors_env);
}

void doors_close_env(void) {
    env_leave(doors_env);
    env_close(doors_env);
}

void doors_until(const int *count, int wanted) {
    while (*count < wanted) {
        waiter w = { .what = "an event" };
        env_wait(doors_env, &w, env_now_ns(doors_env) + 1000000);
    }
}

// ---- Doors --------------------------------------------------------------------------------------
static door *at_door;  // the one whose protection the env has

static void forget_one(void) {
    at_door->refused++;
}

static void on_handshake(void *user, const handshake *h, const gw_error *bad) {
    (void)user;
    if (h) {
        at_door->admitted++;
        at_door->last = *h;
    } else {
        at_door->why = *bad;
        forget_one();
    }
}

static void on_inside_closed(void *user, const gw_error *why) {
    (void)user;
    at_door->why = *why;
    forget_one();
}

static const connection_events inside_events = { .handshake = on_handshake,
                                                 .closed = on_inside_closed };

static void on_accepted(void *user, stream *s) {
    door *d = user;
    connection *c = connection_accept(doors_env, s, staging, &inside_events, d);
    assert_non_null(c);
    d->inside[d->accepted++ % 64] = c;
}

void door_open(door *d, protection self) {
    gw_error error;
    *d = (door){ .self = self };
    at_door = d;
    assert_int_equal(connection_protect(doors_env, &d->self, &error), GW_OK);
    assert_int_equal(tcp_transport.listen(doors_env, "127.0.0.1:0", on_accepted, d, &d->listener,
                                          d->address, &error),
                     GW_OK);
}

void door_close(door *d) {
    listener_close(d->listener);
    for (int i = 0; i < 64; i++) connection_close(d->inside[i]);
    connection_unprotect(doors_env, &d->self);
    protection_fini(&d->self);
}

// ---- Visitors -----------------------------------------------------------------------------------
static void on_opened(void *user) {
    visitor *v = user;
    uint8_t out[HANDSHAKE_MAX];
    v->opened++;
    struct iovec part = { out, handshake_encode(out, &v->hello) };
    assert_int_equal(stream_send(v->stream, &part, 1), part.iov_len);
}

static void on_buffer(void *user, void **into, size_t *size) {
    visitor *v = user;
    *into = v->received + v->received_size;
    *size = sizeof v->received - v->received_size;
}

static void on_received(void *user, size_t count) {
    ((visitor *)user)->received_size += count;
}

static void on_writable(void *user) {
    (void)user;
}

static void on_closed(void *user, const gw_error *why) {
    visitor *v = user;
    v->closed++;
    v->why = *why;
    v->stream = NULL;
}

static const stream_events visitor_events = { .opened = on_opened,
                                              .buffer = on_buffer,
                                              .received = on_received,
                                              .writable = on_writable,
                                              .closed = on_closed };

handshake visitor_hello(const party *from, const party *to) {
    return (handshake){ .kind = HANDSHAKE_SESSION,
                        .from_rank = from->rank,
                        .from_incarnation = from->incarnation,
                        .to_rank = to->rank,
                        .to_incarnation = to->incarnation,
                        .connection_number = 1 };
}

void visitor_connect(visitor *v, protection self, const char *address, const party *to) {
    gw_error error;
    char text[ADDRESS_MAX];
    snprintf(text, sizeof text, "%s", address);
    const route r = { &tcp_transport, text };
    *v = (visitor){ .self = self };
    v->hello = to ? visitor_hello(&v->self.self, to) : (handshake){ .kind = HANDSHAKE_STORE };
    assert_int_equal(
        tls_open((tls_options){ .env = doors_env, .protection = &v->self }, &v->tls, &error),
        GW_OK);
    assert_int_equal(tls_connect(v->tls, &r, to, &visitor_events, v, &v->stream, &error), GW_OK);
}

void visitor_connect_plain(visitor *v, const char *address) {
    gw_error error;
    *v = (visitor){ 0 };
    assert_int_equal(
        tcp_transport.connect(doors_env, address, &visitor_events, v, &v->stream, &error), GW_OK);
}

void visitor_leave(visitor *v) {
    if (v->stream) stream_close(v->stream);
    tls_close(v->tls);
    protection_fini(&v->self);
}
