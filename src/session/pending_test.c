// Unauthenticated connections: each is closed with one line in the log, and members are not
// disturbed.
#include "session/peers_internal.h"

#include "base/log.h"
#include "base/mem.h"
#include "testing/talk.h"
#include "testing/testing.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// ---- A raw client: bytes that this file chooses -------------------------------------------------
typedef struct raw_client {
    env *env;
    stream *stream;
    bool is_open, is_closed;
    uint8_t received[2048];
    size_t received_size;
    const uint8_t *bytes;
    size_t left;
    waiter *waiter;
} raw_client;

static void wake(raw_client *g) {
    if (g->waiter) env_wake(g->env, g->waiter);
    g->waiter = NULL;
}

static void send_more(raw_client *g) {
    if (!g->is_open || g->is_closed || g->left == 0) return;
    struct iovec part = { (void *)g->bytes, g->left };
    size_t taken = stream_send(g->stream, &part, 1);
    g->bytes += taken;
    g->left -= taken;
}

static void on_opened(void *user) {
    raw_client *g = user;
    g->is_open = true;
    send_more(g);
}

static void on_buffer(void *user, void **into, size_t *size) {
    raw_client *g = user;
    *into = g->received + g->received_size;
    *size = sizeof g->received - g->received_size;
}

static void on_received(void *user, size_t count) {
    raw_client *g = user;
    g->received_size += count;
    wake(g);
}

static void on_writable(void *user) {
    send_more(user);
}

static void on_closed(void *user, const gw_error *why) {
    raw_client *g = user;
    (void)why;
    g->is_closed = true;
    wake(g);
}

static const stream_events events = {
    .opened = on_opened,
    .buffer = on_buffer,
    .received = on_received,
    .writable = on_writable,
    .closed = on_closed,
};

static void visit(raw_client *g, env *e, const char *address, const void *bytes, size_t size) {
    gw_error error;
    *g = (raw_client){ .env = e, .bytes = bytes, .left = size };
    assert_int_equal(sim_transport.connect(e, address, &events, g, &g->stream, &error), GW_OK);
}

static void until_closed(raw_client *g) {
    while (!g->is_closed) {
        waiter w = { .what = "the end of the connection" };
        g->waiter = &w;
        env_wait(g->env, &w, ENV_NEVER);
    }
}

static void leave(raw_client *g) {
    if (!g->is_closed) stream_close(g->stream);
    g->is_closed = true;
}

// ---- The fixture --------------------------------------------------------------------------------
// Talkers 0 and 1 are members; the raw client on node 2 runs |visits|.
static int line_count;
static char last_line[1024];

static void count_line(const char *connection) {
    line_count++;
    snprintf(last_line, sizeof last_line, "%s", connection);
}

typedef struct fixture {
    talk talk;
    sim *sim;
    env *env;  // the raw client's
    void (*visits)(struct fixture *h);
    _Atomic bool is_over;
} fixture;

static fixture *the_fixture;

static bool clients_are_done(talker *x) {
    return the_fixture->is_over && x->received[1 - x->rank] >= 30;
}

// Members talk all the time, and lose neither a message nor a connection.
static void talk_meanwhile(talker *x) {
    for (int n = 0; n < 30; n++) {
        gw_error error;
        assert_int_equal(talk_send(x, 1 - x->rank, true, &error), GW_OK);
        talk_pause(x, SIM_SECOND / 100);
    }
    talk_wait(x, "the end of the raw clients", clients_are_done);
    assert_false(x->lost[1 - x->rank]);
    assert_int_equal(peers_get_stats(x->peers).reconnects, 0);
}

static void run_visits(void *arg) {
    fixture *h = arg;
    env_enter(h->env);
    h->visits(h);
    h->is_over = true;
    env_leave(h->env);
}

static void receive(uint64_t seed, void (*visits)(fixture *h)) {
    fixture h = { .visits = visits };
    the_fixture = &h;
    line_count = 0;
    log_hook = count_line;
    talk_open_sim(&h.talk, seed, (talk_options){ .count = 2, .messages = 30 }, (sim_options){ 0 });
    h.env = sim_env(h.talk.sim, 2);
    assert_true(sim_spawn(h.talk.sim, 2, run_visits, &h));
    assert_true(talk_run_with(&h.talk, talk_meanwhile));
    assert_int_equal(h.talk.talkers[0].peers->pending_count, 0);
    env_close(h.env);
    talk_close(&h.talk);
}

static const char *door(fixture *h) {
    return strstr(h->talk.talkers[0].addresses, "://") + 3;
}

// One connection that is closed with this line in the log.
static void expect_closed(fixture *h, const void *bytes, size_t size, const char *connection) {
    raw_client g;
    int before = line_count;
    visit(&g, h->env, door(h), bytes, size);
    until_closed(&g);
    assert_int_equal(line_count, before + 1);
    assert_string_equal(last_line, connection);
}

// ---- Unauthenticated clients --------------------------------------------------------------------
static void speak_other_protocols(fixture *h) {
    static const char http[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static const uint8_t tls[] = { 0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3 };
    expect_closed(h, http, sizeof http - 1,
                  "closed a connection: it sent \"GET / HTTP/1.1\\x0d\\x0a\", which is not the "
                  "protocol of gradwire");
    expect_closed(
        h, tls, sizeof tls,
        "closed a connection: it sent \"\\x16\\x03\\x01\\x02\\x00\\x01\\x00\\x01\\xfc\\x03\\x03\", "
        "which is not the protocol of gradwire");
}

static void it_closes_connections_of_other_protocols(void **state) {
    (void)state;
    receive(0, speak_other_protocols);
}

static size_t member_handshake(fixture *h, uint8_t out[HANDSHAKE_MAX]) {
    (void)h;
    return handshake_encode(out, &(handshake){ .kind = HANDSHAKE_SESSION,
                                               .from_rank = 1,
                                               .from_incarnation = 666,
                                               .to_rank = 0,
                                               .to_incarnation = 1000,
                                               .connection_number = 1 });
}

static void stop_at_every_byte(fixture *h) {
    uint8_t raw[HANDSHAKE_MAX];
    size_t size = member_handshake(h, raw);
    for (size_t part = 0; part < size; part++) {
        raw_client g;
        visit(&g, h->env, door(h), raw, part);
        waiter w = { .what = "a while" };
        env_wait(h->env, &w, env_now_ns(h->env) + SIM_SECOND / 100);
        assert_false(g.is_closed);
        leave(&g);
        assert_int_equal(line_count, 0);
    }
}

static void it_closes_connections_that_stop_at_any_byte(void **state) {
    (void)state;
    receive(0, stop_at_every_byte);
}

static void send_broken_handshakes(fixture *h) {
    uint8_t raw[HANDSHAKE_MAX];
    size_t size = member_handshake(h, raw);
    for (size_t bit = 0; bit < size * 8; bit++) {
        // A wrong version, rank or incarnation is answered; otherwise the connection is closed.
        raw_client g;
        raw[bit / 8] ^= (uint8_t)(1 << bit % 8);
        visit(&g, h->env, door(h), raw, size);
        for (int i = 0; i < 10 && !g.is_closed; i++) {
            waiter w = { .what = "an answer" };
            g.waiter = &w;
            env_wait(h->env, &w, env_now_ns(h->env) + SIM_SECOND);
        }
        assert_true(g.is_closed);
        raw[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

static void it_survives_every_flipped_bit_of_a_handshake(void **state) {
    (void)state;
    receive(0, send_broken_handshakes);
}

static void send_nothing(fixture *h) {
    raw_client g;
    int64_t before = env_now_ns(h->env);
    expect_closed(h, "", 0, "closed a connection: no hello arrived within 5 s");
    assert_true(env_now_ns(h->env) - before < 5 * SIM_SECOND + SIM_SECOND / 10);
    expect_closed(h, "GRADWI", 6, "closed a connection: its hello was not complete within 5 s");
    (void)g;
}

static void a_handshake_has_a_time_limit(void **state) {
    (void)state;
    receive(0, send_nothing);
}

static void connect_many(fixture *h) {
    enum { CROWD = 200 };
    raw_client *crowd = mem_calloc(CROWD * sizeof *crowd);
    for (int i = 0; i < CROWD; i++) {
        visit(&crowd[i], h->env, door(h), "", 0);
        waiter w = { .what = "the next one" };
        env_wait(h->env, &w, env_now_ns(h->env) + SIM_SECOND / 1000);
        assert_true(h->talk.talkers[0].peers->pending_count <= LIMIT_HANDSHAKE_COUNT);
    }
    // The first to connect were the first to be closed.
    int open = 0;
    for (int i = 0; i < CROWD; i++) open += !crowd[i].is_closed;
    assert_int_equal(open, LIMIT_HANDSHAKE_COUNT);
    assert_true(crowd[0].is_closed && !crowd[CROWD - 1].is_closed);
    for (int i = 0; i < CROWD; i++) leave(&crowd[i]);
    waiter w = { .what = "the end of the last one" };
    env_wait(h->env, &w, env_now_ns(h->env) + SIM_SECOND);
    mem_free(crowd);
}

static void the_number_of_pending_connections_is_limited(void **state) {
    (void)state;
    receive(0, connect_many);
}

// ---- Clients that speak gradwire and are not members --------------------------------------------
static void expect_refusal(fixture *h, const handshake *bytes, refusal_reason reason,
                           const char *text) {
    uint8_t raw[HANDSHAKE_MAX];
    raw_client g;
    visit(&g, h->env, door(h), raw, handshake_encode(raw, bytes));
    until_closed(&g);
    handshake answer;
    gw_error error;
    size_t size;
    uint16_t version;
    assert_int_equal(handshake_size(g.received, g.received_size, &size, &version, &error), GW_OK);
    assert_int_equal(size, g.received_size);
    assert_int_equal(handshake_decode(g.received, size, &answer, &error), GW_OK);
    assert_int_equal(answer.kind, HANDSHAKE_REFUSAL);
    assert_int_equal(answer.reason, reason);
    assert_string_equal(answer.text, text);
}

static void send_wrong_handshakes(fixture *h) {
    handshake right = { .kind = HANDSHAKE_SESSION,
                        .from_rank = 1,
                        .from_incarnation = 1001,
                        .to_rank = 0,
                        .to_incarnation = 1000,
                        .connection_number = 1 };
    handshake x = right;
    x.from_incarnation = 5;
    expect_refusal(h, &x, REFUSED_UNKNOWN, "rank 1 is taken by another process, p1");
    x = right;
    x.to_incarnation = 5;
    expect_refusal(h, &x, REFUSED_ANOTHER, "this is another process, rank 0");
    x = right;
    x.to_rank = 3;
    expect_refusal(h, &x, REFUSED_ANOTHER, "this is another process, rank 0");
    x = right;
    x.from_rank = 0;
    expect_refusal(h, &x, REFUSED_UNKNOWN,
                   "rank 0 cannot be the rank of the worker that has connected");
    x.from_rank = LIMIT_WORKERS;
    expect_refusal(h, &x, REFUSED_UNKNOWN,
                   "rank 4096 cannot be the rank of the worker that has connected");
    x = right;
    x.connection_number = 0;
    expect_refusal(h, &x, REFUSED_UNKNOWN,
                   "rank 1 cannot be the rank of the worker that has connected");
    expect_refusal(h, &(handshake){ .kind = HANDSHAKE_STORE }, REFUSED_NO_STORE,
                   "rank 0 does not host the store");
}

static void it_refuses_with_a_reason(void **state) {
    (void)state;
    receive(0, send_wrong_handshakes);
}

static void speak_another_version(fixture *h) {
    uint8_t raw[HANDSHAKE_MAX];
    size_t size = member_handshake(h, raw);
    raw[8] = 9;
    raw_client g;
    visit(&g, h->env, door(h), raw, size);
    until_closed(&g);
    assert_string_equal(last_line, "closed a connection: it uses version 9 of the protocol, not 1");
    handshake answer;
    gw_error error;
    assert_int_equal(handshake_decode(g.received, g.received_size, &answer, &error), GW_OK);
    assert_int_equal(answer.reason, REFUSED_VERSION);
    assert_string_equal(answer.text, "it uses version 9 of the protocol, not 1");
}

static void a_version_refusal_names_both_versions(void **state) {
    (void)state;
    receive(0, speak_another_version);
}

static void send_before_the_reply(fixture *h) {
    // Its rank is not added yet, so that its handshake waits; and then it sends more.
    uint8_t raw[HANDSHAKE_MAX + 1];
    size_t size = handshake_encode(raw, &(handshake){ .kind = HANDSHAKE_SESSION,
                                                      .from_rank = 7,
                                                      .from_incarnation = 7,
                                                      .to_incarnation = 1000,
                                                      .connection_number = 1 });
    raw[size] = 1;
    expect_closed(h, raw, size + 1,
                  "closed a connection: it sent data before it got the reply to its first message");
    expect_closed(h, raw, handshake_encode(raw, &(handshake){ .kind = HANDSHAKE_WELCOME }),
                  "closed a connection: its first message was a reply");
}

static void bytes_before_the_reply_close_the_connection(void **state) {
    (void)state;
    receive(0, send_before_the_reply);
}

// ---- The same by real sockets -------------------------------------------------------------------
static int connect_tcp(const char *at) {
    const char *tcp = strstr(at, "tcp://");
    assert_non_null(tcp);
    const char *port = strrchr(tcp, ':') + 1;
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)strtol(port, NULL, 10)),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

// Sends it, and receives nothing but the end.
static void expect_the_end(const char *at, const void *bytes, size_t size) {
    int fd = connect_tcp(at);
    char received[64];
    assert_int_equal(send(fd, bytes, size, MSG_NOSIGNAL), size);
    assert_true(recv(fd, received, sizeof received, 0) <= 0);
    close(fd);
}

static void *connect_by_sockets(void *arg) {
    fixture *h = arg;
    static const char http[] = "GET / HTTP/1.1\r\n\r\n";
    expect_the_end(door(h), http, sizeof http - 1);
    uint64_t random = 1;
    for (int i = 0; i < 200; i++) {
        uint8_t noise[64];
        for (size_t k = 0; k < sizeof noise; k++)
            noise[k] = (uint8_t)((random = random * 6364136223846793005u + 1) >> 40);
        if (noise[0] != 'G') expect_the_end(door(h), noise, 1 + noise[1] % 63);
    }
    uint8_t raw[HANDSHAKE_MAX];
    size_t size = member_handshake(h, raw);
    for (size_t part = 0; part < size; part++) {
        int fd = connect_tcp(door(h));
        send(fd, raw, part, MSG_NOSIGNAL);
        close(fd);
    }
    h->is_over = true;
    return NULL;
}

static void it_closes_unauthenticated_connections_over_tcp(void **state) {
    (void)state;
    fixture h = { 0 };
    pthread_t visitor;
    the_fixture = &h;
    log_hook = count_line;
    talk_open_tcp(&h.talk, (talk_options){ .count = 2, .messages = 30 }, 0);
    assert_int_equal(pthread_create(&visitor, NULL, connect_by_sockets, &h), 0);
    assert_true(talk_run_with(&h.talk, talk_meanwhile));
    pthread_join(visitor, NULL);
    talk_close(&h.talk);
}

GW_TESTS(session_pending, it_closes_connections_of_other_protocols,
         it_closes_connections_that_stop_at_any_byte, it_survives_every_flipped_bit_of_a_handshake,
         a_handshake_has_a_time_limit, the_number_of_pending_connections_is_limited,
         it_refuses_with_a_reason, a_version_refusal_names_both_versions,
         bytes_before_the_reply_close_the_connection,
         it_closes_unauthenticated_connections_over_tcp);
