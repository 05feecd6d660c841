// A process that listens at the address of a peer or of the store, and sends any bytes.
#include "base/bytes.h"
#include "base/log.h"
#include "net/handshake.h"
#include "session/peers.h"
#include "store/store_internal.h"
#include "testing/sim.h"
#include "testing/testing.h"
#include "wire/frame.h"

#include <stdio.h>
#include <string.h>

// ---- The impostor -------------------------------------------------------------------------------
// Answers the first connection with |reply|, once it has received |waits_for| bytes; and continues to
// listen.
typedef struct impostor {
    env *env;
    bytes reply;
    size_t waits_for, received;
    stream *stream;
    bool has_answered, closes_behind;
    uint8_t buffer[4096];
} impostor;

static void answer(impostor *i) {
    if (i->has_answered || i->received < i->waits_for) return;
    i->has_answered = true;
    struct iovec part = { i->reply.data, i->reply.size };
    for (int tries = 0; tries < 20 && part.iov_len > 0; tries++) {
        size_t taken = stream_send(i->stream, &part, 1);
        part.iov_base = (uint8_t *)part.iov_base + taken;
        part.iov_len -= taken;
    }
    if (!i->closes_behind) return;
    stream_close(i->stream);
    i->stream = NULL;
}

static void on_buffer(void *user, void **into, size_t *size) {
    impostor *i = user;
    *into = i->buffer;
    *size = sizeof i->buffer;
}

static void on_received(void *user, size_t count) {
    impostor *i = user;
    i->received += count;
    answer(i);
}

static void on_writable(void *user) {
    (void)user;
}

static void on_closed(void *user, const gw_error *why) {
    (void)why;
    ((impostor *)user)->stream = NULL;
}

static const stream_events events = {
    .buffer = on_buffer,
    .received = on_received,
    .writable = on_writable,
    .closed = on_closed,
};

static void on_accepted(void *user, stream *c) {
    impostor *i = user;
    if (i->stream) {
        stream_close(c);
        return;
    }
    i->stream = c;
    stream_adopt(c, &events, i);
    answer(i);
}

static void put_handshake(impostor *i, const handshake *h) {
    uint8_t raw[HANDSHAKE_MAX];
    bytes_put(&i->reply, raw, handshake_encode(raw, h));
}

static void put_frame(impostor *i, const frame *f) {
    uint8_t raw[FRAME_HEADER_BYTES];
    frame_encode(raw, f);
    bytes_put(&i->reply, raw, sizeof raw);
}

// ---- The victim ---------------------------------------------------------------------------------
typedef struct victim {
    env *env;
    peers *peers;
    waiter *waiter;
    gw_error why;
    gw_status status;
    int received;
    void (*visit)(struct victim *v);
} victim;

static const char address[] = "127.0.0.1:1001";

static void impostor_main(void *arg) {
    impostor *i = arg;
    listener *l;
    char bound[ADDRESS_MAX];
    gw_error error;
    env_enter(i->env);
    assert_int_equal(sim_transport.listen(i->env, address, on_accepted, i, &l, bound, &error),
                     GW_OK);
    waiter w = { .what = "victims", .idle = true };
    env_wait(i->env, &w, env_now_ns(i->env) + 60 * SIM_SECOND);
    listener_close(l);
    if (i->stream) stream_close(i->stream);
    env_leave(i->env);
}

static void victim_main(void *arg) {
    victim *v = arg;
    env_enter(v->env);
    waiter w = { .what = "the impostor to listen" };
    env_wait(v->env, &w, env_now_ns(v->env) + SIM_SECOND / 100);
    v->visit(v);
    env_leave(v->env);
}

static void quiet_line(const char *connection) {
    (void)connection;
}

static victim meet(impostor *i, void (*visit)(victim *v)) {
    log_hook = quiet_line;
    sim *s = sim_open(0, (sim_options){ 0 });
    victim v = { .env = sim_env(s, 0), .visit = visit };
    i->env = sim_env(s, 1);
    assert_true(sim_spawn(s, 0, victim_main, &v) && sim_spawn(s, 1, impostor_main, i));
    assert_true(sim_run(s, 100 * SIM_SECOND));
    env_close(v.env);
    env_close(i->env);
    sim_close(s);
    bytes_fini(&i->reply);
    return v;
}

static void wake(victim *v) {
    if (v->waiter) env_wake(v->env, v->waiter);
    v->waiter = NULL;
}

static void on_message(void *user, int rank, message *m) {
    (void)rank;
    ((victim *)user)->received++;
    message_release(m);
}

static void on_lost(void *user, int rank, const gw_error *why) {
    victim *v = user;
    (void)rank;
    v->why = *why;
    wake(v);
}

static void call_peer(victim *v) {
    peers_options o = { .env = v->env,
                        .rank = 0,
                        .incarnation = 100,
                        .user = v,
                        .received = on_message,
                        .lost = on_lost };
    gw_error error;
    char bound[ADDRESSES_MAX];
    assert_int_equal(peers_open(o, "127.0.0.1:1000", &v->peers, bound, &error), GW_OK);
    assert_int_equal(peers_add(v->peers, 1, 101, "p1", address, &error), GW_OK);
    assert_int_equal(peers_send(v->peers, 1, message_open(1), true, &error), GW_OK);
    waiter w = { .what = "the loss" };
    v->waiter = &w;
    env_wait(v->env, &w, ENV_NEVER);
    peers_close(v->peers);
}

static void expect_loss(impostor *i, gw_status status, const char *text) {
    victim v = meet(i, call_peer);
    assert_int_equal(v.why.status, status);
    assert_string_equal(v.why.text, text);
    assert_int_equal(v.received, 0);
}

// ---- In place of a peer -------------------------------------------------------------------------
static void it_notices_another_program(void **state) {
    (void)state;
    impostor i = { 0 };
    bytes_put(&i.reply, "220 mail.example.org ESMTP\r\n", 28);
    victim v = meet(&i, call_peer);
    assert_int_equal(v.why.status, GW_PROTOCOL);
    // How much of it is quoted depends on how much arrived at once.
    assert_non_null(
        strstr(v.why.text, "p1 (rank 1) is unreachable at 127.0.0.1:1001: it sent \"2"));
}

static void it_names_both_versions(void **state) {
    (void)state;
    impostor i = { .waits_for = 56 };
    put_handshake(
        &i, &(handshake){ .kind = HANDSHAKE_REFUSAL, .reason = REFUSED_VERSION, .text = "?" });
    i.reply.data[8] = 2;
    expect_loss(
        &i, GW_MISMATCH,
        "p1 (rank 1) is unreachable at 127.0.0.1:1001: it uses version 2 of the protocol, not 1");
}

static void a_refusal_loses_the_peer(void **state) {
    (void)state;
    static const struct {
        refusal_reason reason;
        gw_status status;
        const char *text;
    } cases[] = {
        { REFUSED_UNKNOWN, GW_FENCED,
          "the other workers have declared this worker dead: so; call gw_rpc_init on another scope "
          "to join again" },
        { REFUSED_ANOTHER, GW_DISCONNECTED, "p1 (rank 1) is gone: its process has ended" },
        { REFUSED_LOST, GW_FENCED,
          "the other workers have declared this worker dead: so; call gw_rpc_init on another scope "
          "to join again" },
        { REFUSED_VERSION, GW_MISMATCH, "p1 (rank 1) refused this worker: so" },
        { REFUSED_NO_STORE, GW_DISCONNECTED, "p1 (rank 1) refused this worker: so" },
    };
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        impostor i = { .waits_for = 56 };
        put_handshake(
            &i, &(handshake){ .kind = HANDSHAKE_REFUSAL, .reason = cases[n].reason, .text = "so" });
        expect_loss(&i, cases[n].status, cases[n].text);
    }
}

static void it_ends_with_a_peer_that_answers_nonsense(void **state) {
    (void)state;
    impostor i = { .waits_for = 56 };
    put_handshake(&i, &(handshake){ .kind = HANDSHAKE_SESSION, .connection_number = 1 });
    expect_loss(&i, GW_PROTOCOL, "p1 (rank 1) answered a hello with a hello");

    i = (impostor){ .waits_for = 56 };
    put_handshake(&i, &(handshake){ .kind = HANDSHAKE_WELCOME, .connection_number = 7 });
    expect_loss(&i, GW_PROTOCOL,
                "p1 (rank 1) has accepted connection 7, which this worker has not requested");

    i = (impostor){ .waits_for = 56 };
    put_handshake(&i,
                  &(handshake){ .kind = HANDSHAKE_WELCOME, .connection_number = 1, .received = 5 });
    expect_loss(&i, GW_PROTOCOL,
                "p1 (rank 1) broke the protocol: the peer has acknowledged frame 5, but only frame "
                "0 was sent");
}

static void it_ends_with_a_peer_that_breaks_the_protocol(void **state) {
    (void)state;
    impostor i = { .waits_for = 56 };
    put_handshake(&i, &(handshake){ .kind = HANDSHAKE_WELCOME, .connection_number = 1 });
    put_frame(&i, &(frame){ .type = FRAME_DATA, .number = 1, .body_size = 1 });
    expect_loss(&i, GW_PROTOCOL, "p1 (rank 1) broke the protocol: frame 1 continues no message");
}

static void it_tries_again_when_a_frame_is_missing(void **state) {
    (void)state;
    impostor i = { .waits_for = 56 };
    put_handshake(&i, &(handshake){ .kind = HANDSHAKE_WELCOME, .connection_number = 1 });
    put_frame(&i, &(frame){ .type = FRAME_DATA, .number = 3, .first = true, .kind = 1 });
    victim v = meet(&i, call_peer);
    assert_int_equal(v.why.status, GW_DISCONNECTED);
    assert_non_null(strstr(v.why.text, "has not answered at 127.0.0.1:1001 for 7 s"));
}

// Damaged bytes are caused by the network: the session continues over another connection, if there
// is one.
static void it_tries_again_when_bytes_are_damaged(void **state) {
    (void)state;
    impostor i = { .waits_for = 56 };
    put_handshake(&i, &(handshake){ .kind = HANDSHAKE_WELCOME, .connection_number = 1 });
    put_frame(&i, &(frame){ .type = FRAME_ACK });
    i.reply.data[32 + 20] ^= 1;
    victim v = meet(&i, call_peer);
    assert_int_equal(v.why.status, GW_DISCONNECTED);
    assert_non_null(strstr(v.why.text, "has not answered at 127.0.0.1:1001 for 7 s"));
}

static void it_does_not_wait_for_a_peer_that_never_welcomes(void **state) {
    (void)state;
    impostor i = { .waits_for = SIZE_MAX };
    victim v = meet(&i, call_peer);
    assert_int_equal(v.why.status, GW_DISCONNECTED);
    assert_non_null(strstr(v.why.text, "has not answered at 127.0.0.1:1001 for 30 s"));
}

// ---- In place of the store ----------------------------------------------------------------------
static void use_store(victim *v) {
    store *st = NULL;
    bytes value = { 0 };
    int64_t until = env_now_ns(v->env) + 20 * SIM_SECOND;
    v->status = store_open_client(v->env, address, until, &st, &v->why);
    if (!v->status) v->status = store_wait(st, "key", until, &value, &v->why);
    store_close(st);
    bytes_fini(&value);
}

static void expect_failure(impostor *i, gw_status status, const char *text) {
    victim v = meet(i, use_store);
    assert_int_equal(v.status, status);
    assert_string_equal(v.why.text, text);
}

static void it_reports_a_server_that_is_no_store(void **state) {
    (void)state;
    impostor i = { 0 };
    bytes_put(&i.reply, "HTTP/1.1 400 Bad Request\r\n", 26);
    victim v = meet(&i, use_store);
    assert_int_equal(v.status, GW_PROTOCOL);
    assert_non_null(strstr(v.why.text, "the store at 127.0.0.1:1001 cannot be used: it sent \"H"));

    i = (impostor){ .waits_for = 16 };
    put_handshake(
        &i, &(handshake){ .kind = HANDSHAKE_REFUSAL, .reason = REFUSED_VERSION, .text = "no" });
    expect_failure(&i, GW_MISMATCH, "the store at 127.0.0.1:1001 refused this worker: no");

    i = (impostor){ .waits_for = 16 };
    put_handshake(&i, &(handshake){ .kind = HANDSHAKE_STORE });
    expect_failure(&i, GW_PROTOCOL,
                   "the store at 127.0.0.1:1001 cannot be used: it answered the first message with "
                   "a first message of its own");

    i = (impostor){ .waits_for = 16, .closes_behind = true };
    put_handshake(
        &i, &(handshake){ .kind = HANDSHAKE_REFUSAL, .reason = REFUSED_NO_STORE, .text = "none" });
    v = meet(&i, use_store);
    assert_int_equal(v.status, GW_TIMEOUT);
}

static void put_record(impostor *i, store_record r) {
    store_record_encode(&i->reply, &r);
}

static void it_ends_with_a_host_that_breaks_the_protocol(void **state) {
    (void)state;
    impostor i = { .waits_for = 16 };
    put_handshake(&i, &(handshake){ .kind = HANDSHAKE_WELCOME });
    put_record(&i, (store_record){ .kind = STORE_WAIT, .request = 1, .key = "key" });
    expect_failure(
        &i, GW_PROTOCOL,
        "the store at 127.0.0.1:1001 broke the protocol: store: a request from the host");

    i = (impostor){ .waits_for = 16 };
    put_handshake(&i, &(handshake){ .kind = HANDSHAKE_WELCOME });
    bytes_put_u32(&i.reply, UINT32_MAX);
    expect_failure(&i, GW_LIMIT,
                   "the store at 127.0.0.1:1001 broke the protocol: store: a record has 4294967295 "
                   "bytes, at most 66560 are allowed");
}

static void it_ignores_unexpected_replies(void **state) {
    (void)state;
    impostor i = { .waits_for = 16 };
    put_handshake(&i, &(handshake){ .kind = HANDSHAKE_WELCOME });
    put_record(&i, (store_record){ .kind = STORE_REPLY, .request = 9, .outcome = STORE_FOUND });
    expect_failure(&i, GW_TIMEOUT, "store: no worker has set key");
}

GW_TESTS(session_impostor, it_notices_another_program, it_names_both_versions,
         a_refusal_loses_the_peer, it_ends_with_a_peer_that_answers_nonsense,
         it_ends_with_a_peer_that_breaks_the_protocol, it_tries_again_when_bytes_are_damaged,
         it_tries_again_when_a_frame_is_missing, it_does_not_wait_for_a_peer_that_never_welcomes,
         it_reports_a_server_that_is_no_store, it_ends_with_a_host_that_breaks_the_protocol,
         it_ignores_unexpected_replies);
