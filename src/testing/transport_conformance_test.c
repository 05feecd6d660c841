// Requirements on every transport, written once and run over all that are listed in |testbeds|: a new one
// is tested by being listed.
// Tests of one transport are in its room.
#include "net/env_os.h"
#include "net/shm/shm.h"
#include "net/tcp/tcp.h"
#include "testing/encrypted.h"
#include "testing/sim.h"
#include "testing/stream_end.h"
#include "testing/testing.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

enum { STREAMS = 40, BULK_OVER = 64 * 1024 };

// ---- Where it runs ------------------------------------------------------------------------------
typedef struct testbed testbed;

// A transport within an env of its kind. |body| runs with the loop lock.
typedef struct field {
    env *env;
    const transport *transport;
    const testbed *testbed;
    char elsewhere[ADDRESS_MAX];  // where no listener of this test is
} field;

struct testbed {
    const transport *transport;
    void (*run)(const testbed *p, void (*body)(field *f));
    size_t bulk_bytes;         // much, for it
    const char *elsewhere;     // where no listener of this test is; NULL: where one has been
    const char *in_use;        // the text before the number of an address that is in use
    const char *wrong[10];     // invalid addresses
    const char *not_to_reach;  // where one may listen, but not connect to
};

static void ignore_stream(void *user, stream *s) {
    (void)user;
    stream_close(s);
}

static void choose_elsewhere(field *f) {
    listener *l;
    gw_error error;
    if (f->testbed->elsewhere) {
        snprintf(f->elsewhere, sizeof f->elsewhere, "%s", f->testbed->elsewhere);
        return;
    }
    const transport *t = f->transport;
    assert_int_equal(t->listen(f->env, t->anywhere, ignore_stream, NULL, &l, f->elsewhere, &error),
                     GW_OK);
    listener_close(l);
}

// With |over| of it below, if it is the one that encrypts.
static void run_over(field *f, const transport *over, void (*body)(field *f)) {
    bool encrypts = f->transport == &encrypted_transport;
    if (encrypts) encrypted_open(f->env, over);
    choose_elsewhere(f);
    body(f);
    if (encrypts) encrypted_close();
}

static void run_in_process(const testbed *p, void (*body)(field *f)) {
    gw_error error;
    field f = { .transport = p->transport, .testbed = p };
    assert_int_equal(env_os_open(&f.env, &error), GW_OK);
    env_enter(f.env);
    run_over(&f, &tcp_transport, body);
    env_leave(f.env);
    env_close(f.env);
}

typedef struct sim_run_ {
    field field;
    void (*body)(field *f);
} sim_run_;

static void run_body(void *arg) {
    sim_run_ *r = arg;
    env_enter(r->field.env);
    run_over(&r->field, &sim_transport, r->body);
    env_leave(r->field.env);
}

static void run_in_simulator(const testbed *p, void (*body)(field *f)) {
    for (uint64_t seed = 1; seed <= (uint64_t)testing_scaled(30); seed++) {
        testing_note("over %s, seed %llu", p->transport->name, (unsigned long long)seed);
        sim_options options = sim_varied(seed, 0);
        if (options.window_bytes > BULK_OVER) options.window_bytes = BULK_OVER;
        options.rings = p->transport == &sim_rings_transport;
        sim *s = sim_open(seed, options);
        assert_non_null(s);
        sim_run_ r = { { .env = sim_env(s, 0), .transport = p->transport, .testbed = p }, body };
        assert_true(sim_spawn(s, 0, run_body, &r));
        assert_true(sim_run(s, 10000 * SIM_SECOND));
        sim_close(s);
    }
}

// With addresses of TCP, in a real process; and with those of the simulated network.
#define IN_PROCESS                                                                                 \
    .run = run_in_process, .elsewhere = "127.0.0.1:29500", .in_use = "port ",                      \
    .wrong = { "", "29500", ":29500", "localhost", "localhost:", "host:x", "host:70000" },         \
    .not_to_reach = "127.0.0.1:0"
#define IN_SIMULATOR                                                                               \
    .run = run_in_simulator, .elsewhere = "absent:29500", .in_use = "port ",                       \
    .wrong = { "", "host", "host:", ":1", "host:x", "host:70000" }, .not_to_reach = "host:0"

static const testbed testbeds[] = {
    { .transport = &tcp_transport, .bulk_bytes = (size_t)64 << 20, IN_PROCESS },
    { .transport = &shm_transport,
      .run = run_in_process,
      .bulk_bytes = (size_t)64 << 20,
      .in_use = "",
      .wrong = { "", "here", "here:", "0123456789abcdef", "0123456789abcdef:0123456789abcde",
                 "0123456789abcdef:0123456789abcdef0", "0123456789abcdeF:0123456789abcdef" },
      .not_to_reach = "here:any" },
    { .transport = &sim_transport, .bulk_bytes = 3 * BULK_OVER, IN_SIMULATOR },
    { .transport = &sim_rings_transport, .bulk_bytes = (size_t)2 << 20, IN_SIMULATOR },
    { .transport = &encrypted_transport, .bulk_bytes = (size_t)64 << 20, IN_PROCESS },
    { .transport = &encrypted_transport, .bulk_bytes = 3 * BULK_OVER, IN_SIMULATOR },
};

static void over_all(void (*body)(field *f)) {
    for (size_t i = 0; i < sizeof testbeds / sizeof testbeds[0]; i++) {
        testing_note("over %s", testbeds[i].transport->name);
        testbeds[i].run(&testbeds[i], body);
    }
}

// ---- Pairs --------------------------------------------------------------------------------------
static stream_pair listen_for(field *f) {
    return stream_pair_listen(f->env, f->transport, f->transport->anywhere);
}

static void connect_to(stream_end *x, const field *f, const char *address) {
    gw_error error;
    assert_int_equal(stream_end_connect(x, f->transport, address, &error), GW_OK);
}

static stream_pair open_pair(field *f) {
    stream_pair p = listen_for(f);
    stream_pair_connect(&p);
    return p;
}

// ---- Connecting ---------------------------------------------------------------------------------
static void connects(field *f) {
    assert_int_equal(f->transport->check(f->transport->anywhere, NULL), GW_OK);
    stream_pair p = open_pair(f);
    assert_int_equal(f->transport->check(p.address, NULL), GW_OK);
    assert_false(p.client->closed || p.server->closed);
    stream_pair_close(&p);
}

static void it_connects_two_ends(void **state) {
    (void)state;
    over_all(connects);
}

static void finds_no_listener(field *f) {
    stream_pair p = open_pair(f);
    listener_close(p.listener);
    p.listener = NULL;
    stream_end *late = stream_end_open(f->env);
    connect_to(late, f, p.address);
    stream_end_wait(late, stream_end_is_closed);
    assert_false(late->opened);
    assert_int_equal(late->why.status, GW_NOT_FOUND);
    assert_string_equal(late->why.text, "Connection refused");
    assert_false(p.client->closed || p.server->closed);  // existing ones stay
    stream_end_close(late);
    stream_pair_close(&p);
}

static void a_connection_without_listener_is_refused(void **state) {
    (void)state;
    over_all(finds_no_listener);
}

static void refuses_garbage(field *f) {
    const transport *t = f->transport;
    stream_end *x = stream_end_open(f->env);
    listener *l = NULL;
    char bound[ADDRESS_MAX], longer[400];
    gw_error error;
    memset(longer, 'x', sizeof longer);
    memcpy(longer + sizeof longer - 4, ":80", 4);
    assert_int_equal(t->check(longer, &error), GW_INVALID);
    for (int i = 0; f->testbed->wrong[i]; i++) {
        const char *wrong = f->testbed->wrong[i];
        assert_int_equal(t->check(wrong, &error), GW_INVALID);
        assert_non_null(strstr(error.text, wrong));
        assert_int_equal(t->listen(f->env, wrong, stream_end_accept, x, &l, bound, &error),
                         GW_INVALID);
        assert_int_equal(t->connect(f->env, wrong, &stream_end_events, x, &x->stream, &error),
                         GW_INVALID);
    }
    if (f->testbed->not_to_reach)
        assert_int_equal(
            t->connect(f->env, f->testbed->not_to_reach, &stream_end_events, x, &x->stream, &error),
            GW_INVALID);
    assert_null(l);
    assert_null(x->stream);
    stream_end_close(x);
}

static void it_refuses_invalid_addresses(void **state) {
    (void)state;
    over_all(refuses_garbage);
}

static void finds_it_taken(field *f) {
    char bound[ADDRESS_MAX], expected[64];
    listener *other = NULL;
    gw_error error;
    stream_pair p = listen_for(f);
    assert_int_equal(
        f->transport->listen(f->env, p.address, stream_end_accept, p.server, &other, bound, &error),
        GW_ADDRESS_IN_USE);
    snprintf(expected, sizeof expected, "%s%s is in use", f->testbed->in_use,
             strrchr(p.address, ':') + 1);
    assert_non_null(strstr(error.text, expected));
    // And it is free again when its listener has closed.
    listener_close(p.listener);
    assert_int_equal(f->transport->listen(f->env, p.address, stream_end_accept, p.server,
                                          &p.listener, bound, &error),
                     GW_OK);
    assert_string_equal(bound, p.address);
    stream_pair_close(&p);
}

static void an_address_in_use_is_reported(void **state) {
    (void)state;
    over_all(finds_it_taken);
}

static void close_at_once(void *user, stream *s) {
    (void)user;
    stream_close(s);
}

// With a listener that would accept it, and without one: neither causes an event.
static void gives_up(field *f) {
    listener *l;
    char address[ADDRESS_MAX];
    gw_error error;
    const transport *t = f->transport;
    stream_pair p = open_pair(f);
    assert_int_equal(t->listen(f->env, t->anywhere, close_at_once, NULL, &l, address, &error),
                     GW_OK);
    stream_end *late = stream_end_open(f->env), *later = stream_end_open(f->env);
    connect_to(late, f, address);
    connect_to(later, f, f->elsewhere);
    stream_end_let_go(late);
    stream_end_let_go(later);
    stream_end_send(p.client, 5);
    stream_end_wait_for_bytes(p.server, 5);
    stream_end_let_pass(f->env, SIM_SECOND / 100);
    assert_false(late->opened || late->closed || later->opened || later->closed);
    mem_free(late);
    mem_free(later);
    listener_close(l);
    stream_pair_close(&p);
}

static void a_connection_can_be_closed_before_it_is_open(void **state) {
    (void)state;
    over_all(gives_up);
}

// ---- Bytes --------------------------------------------------------------------------------------
static void goes_both_ways(field *f) {
    stream_pair p = open_pair(f);
    p.client->bite = 100;
    stream_end_send(p.client, 50000);
    stream_end_send(p.server, 20000);
    stream_end_wait_for_bytes(p.server, 50000);
    stream_end_wait_for_bytes(p.client, 20000);
    stream_end_send(p.server, 1);
    stream_end_wait_for_bytes(p.client, 20001);
    stream_pair_close(&p);
}

static void bytes_go_both_ways_in_order(void **state) {
    (void)state;
    over_all(goes_both_ways);
}

// Bytes that are sent at the first end_moment at which one may, on either side.
static void goes_at_once(field *f) {
    stream_pair p = listen_for(f);
    p.client->to_send = p.server->to_send = 10;
    connect_to(p.client, f, p.address);
    stream_end_wait(p.client, stream_end_is_open);
    stream_end_wait_for_bytes(p.client, 10);
    stream_end_wait_for_bytes(p.server, 10);
    stream_pair_close(&p);
}

static void either_end_may_send_as_soon_as_it_is_open(void **state) {
    (void)state;
    over_all(goes_at_once);
}

// The reader takes small bites, so that the stream is full most of the time.
static void holds_back(field *f) {
    stream_pair p = open_pair(f);
    size_t size = f->testbed->bulk_bytes;
    p.server->bite = 1000;
    stream_end_send(p.client, size);
    assert_true(p.client->sent < size);
    assert_int_equal(p.client->writable_count, 0);  // it is called in a turn, if at all
    stream_end_wait_for_bytes(p.server, size);
    assert_true(p.client->writable_count > 0);
    stream_end_wait(p.client, stream_end_has_sent);
    // Once everything was taken there is no event.
    int count = p.client->writable_count;
    stream_end_let_pass(f->env, SIM_SECOND / 100);
    assert_int_equal(p.client->writable_count, count);
    stream_pair_close(&p);
}

static void a_slow_reader_holds_the_sender_back(void **state) {
    (void)state;
    over_all(holds_back);
}

// More parts than one system call takes; empty ones among them.
static void gathers(field *f) {
    enum { PARTS = 3000 };
    stream_pair p = open_pair(f);
    static char bytes[2 * PARTS];
    static struct iovec parts[PARTS];
    size_t size = 0;
    for (int i = 0; i < PARTS; i++) {
        size_t part = (size_t)(i % 3);
        parts[i] = (struct iovec){ bytes + size, part };
        for (size_t k = 0; k < part; k++, size++) bytes[size] = stream_end_byte(size);
    }
    size_t taken = stream_send(p.client->stream, parts, PARTS);
    assert_in_range(taken, 1, size);
    p.client->sent = taken;
    p.client->to_send = size;
    if (taken < size) stream_end_wait(p.client, stream_end_has_sent);
    stream_end_wait_for_bytes(p.server, size);
    stream_pair_close(&p);
}

static void many_parts_go_in_order(void **state) {
    (void)state;
    over_all(gathers);
}

// ---- Many ---------------------------------------------------------------------------------------
typedef struct crowd {
    field *field;
    stream_end *servers[STREAMS];
    int count;
} crowd;

static void on_another(void *user, stream *s) {
    crowd *c = user;
    assert_true(c->count < STREAMS);
    stream_end_accept(c->servers[c->count++], s);
}

static void serves_many(field *f) {
    crowd c = { .field = f };
    stream_end *clients[STREAMS];
    listener *l;
    char address[ADDRESS_MAX];
    gw_error error;
    const transport *t = f->transport;
    assert_int_equal(t->listen(f->env, t->anywhere, on_another, &c, &l, address, &error), GW_OK);
    size_t total = 0, expected = 0;
    for (int i = 0; i < STREAMS; i++) {
        c.servers[i] = stream_end_open(f->env);
        clients[i] = stream_end_open(f->env);
        clients[i]->to_send = (size_t)(100 + i);
        expected += (size_t)(100 + i);
        connect_to(clients[i], f, address);
    }
    for (int i = 0; i < STREAMS; i++) stream_end_wait(clients[i], stream_end_has_sent);
    for (int i = 0; i < STREAMS; i++) stream_end_wait(c.servers[i], stream_end_is_open);
    for (int i = 0; i < STREAMS; i++) stream_end_let_go(clients[i]);
    for (int i = 0; i < STREAMS; i++) {
        stream_end_wait(c.servers[i], stream_end_is_closed);
        total += c.servers[i]->received;
    }
    assert_int_equal(total, expected);
    listener_close(l);
    for (int i = 0; i < STREAMS; i++) {
        stream_end_close(clients[i]);
        stream_end_close(c.servers[i]);
    }
}

static void one_listener_serves_many(void **state) {
    (void)state;
    over_all(serves_many);
}

// ---- Ends ---------------------------------------------------------------------------------------
static void ends_after_bytes(field *f) {
    stream_pair p = open_pair(f);
    stream_end_send(p.client, 5000);
    stream_end_wait(p.client, stream_end_has_sent);
    stream_end_let_go(p.client);
    stream_end_wait(p.server, stream_end_is_closed);
    assert_int_equal(p.server->received, 5000);
    assert_int_equal(p.server->why.status, GW_DISCONNECTED);
    assert_non_null(strstr(p.server->why.text, "closed by the peer"));
    assert_false(p.client->closed);
    stream_pair_close(&p);
}

static void the_peer_sees_an_end_after_all_bytes(void **state) {
    (void)state;
    over_all(ends_after_bytes);
}

// Bytes that an end does not read must not make a kernel throw away those under way to the peer.
static void ends_with_bytes_unread(field *f) {
    stream_pair p = open_pair(f);
    p.server->bite = 1;
    p.server->closes = END_WHEN_RECEIVED;
    stream_end_send(p.server, f->testbed->bulk_bytes);  // more than a stream holds
    size_t taken = p.server->sent;
    assert_true(taken < f->testbed->bulk_bytes);
    // The server reads one byte of these, and closes. The client has read nothing so far.
    stream_end_send(p.client, 10);
    assert_true(p.client->sent > 0);
    stream_end_wait(p.server, stream_end_is_gone);
    stream_end_wait(p.client, stream_end_is_closed);
    assert_true(p.client->received >= taken);
    assert_int_equal(p.client->received, p.server->sent);
    stream_pair_close(&p);
}

static void sent_bytes_arrive_though_the_sender_has_unread_bytes(void **state) {
    (void)state;
    over_all(ends_with_bytes_unread);
}

static void closes_in_events(field *f) {
    static const end_moment moments[] = { END_WHEN_OPENED, END_WHEN_OFFERED, END_WHEN_RECEIVED,
                                          END_WHEN_WRITABLE };
    for (int i = 0; i < 8; i++) {
        end_moment when = moments[i / 2];
        if (i % 2 && when == END_WHEN_OPENED) continue;  // the end that accepts has no such event
        stream_pair p = listen_for(f);
        stream_end *closing = i % 2 ? p.server : p.client, *other = i % 2 ? p.client : p.server;
        connect_to(p.client, f, p.address);
        if (when != END_WHEN_OPENED) stream_end_wait(p.client, stream_end_is_open);
        closing->closes = when;
        if (when != END_WHEN_OPENED) {
            stream_end_wait(p.server, stream_end_is_open);
            stream_end_send(when == END_WHEN_WRITABLE ? closing : other, f->testbed->bulk_bytes);
        }
        stream_end_wait(closing, stream_end_is_gone);
        if (other->stream || when != END_WHEN_OPENED) stream_end_wait(other, stream_end_is_closed);
        stream_end_let_pass(f->env,
                            SIM_SECOND / 100);  // expect_alive checks that no event follows
        assert_false(closing->closed);
        stream_pair_close(&p);
    }
}

static void a_stream_may_be_closed_in_any_of_its_events(void **state) {
    (void)state;
    over_all(closes_in_events);
}

typedef struct closing_listener {
    listener *listener;
    int accepted_count;
} closing_listener;

static void close_both(void *user, stream *s) {
    closing_listener *l = user;
    l->accepted_count++;
    stream_close(s);
    listener_close(l->listener);
}

static void closes_while_it_accepts(field *f) {
    closing_listener l = { 0 };
    char address[ADDRESS_MAX];
    gw_error error;
    stream_end *x[3];
    const transport *t = f->transport;
    assert_int_equal(t->listen(f->env, t->anywhere, close_both, &l, &l.listener, address, &error),
                     GW_OK);
    for (int i = 0; i < 3; i++) {
        x[i] = stream_end_open(f->env);
        connect_to(x[i], f, address);
    }
    for (int i = 0; i < 3; i++) stream_end_wait(x[i], stream_end_is_closed);
    assert_int_equal(l.accepted_count, 1);
    for (int i = 0; i < 3; i++) mem_free(x[i]);
}

static void a_listener_may_be_closed_while_it_accepts(void **state) {
    (void)state;
    over_all(closes_while_it_accepts);
}

// The test does not close them: the env does, as does a worker that gives up.
static void leaves_open(field *f) {
    stream_pair p = open_pair(f);
    stream_end_send(p.client, 100);
    // Events while the env closes would go to these, which are not to be freed
    // before.
    p.client->gone = p.server->gone = true;
    static stream_end *left[2];
    mem_free(left[0]);
    mem_free(left[1]);
    left[0] = p.client;
    left[1] = p.server;
}

static void an_env_closes_open_connections(void **state) {
    (void)state;
    over_all(leaves_open);
}

GW_TESTS(net_transport_conformance, it_connects_two_ends, a_connection_without_listener_is_refused,
         it_refuses_invalid_addresses, an_address_in_use_is_reported,
         a_connection_can_be_closed_before_it_is_open, bytes_go_both_ways_in_order,
         either_end_may_send_as_soon_as_it_is_open, a_slow_reader_holds_the_sender_back,
         many_parts_go_in_order, one_listener_serves_many, the_peer_sees_an_end_after_all_bytes,
         sent_bytes_arrive_though_the_sender_has_unread_bytes,
         a_stream_may_be_closed_in_any_of_its_events, a_listener_may_be_closed_while_it_accepts,
         an_env_closes_open_connections);
