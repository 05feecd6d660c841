// Which peers are admitted by which. A door is a worker that accepts connections; a visitor is any client that
// connects; a wire is a connection between them that records and may change all bytes.
#include "net/tls/tls.h"

#include "net/tls/backoff.h"
#include "net/tcp/tcp.h"
#include "testing/doors.h"
#include "testing/testing.h"

#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>

// ---- Wires --------------------------------------------------------------------------------------
typedef struct wire_end {
    struct wire *wire;
    struct wire_end *other;
    stream *stream;  // NULL: it has closed
    bool is_open;
    uint8_t bytes[16384];
    size_t size, passed;
} wire_end;

// One connection, forwarded to |target|, every byte kept.
typedef struct wire {
    listener *listener;
    char address[ADDRESS_MAX], target[ADDRESS_MAX];
    wire_end client, server;
    size_t damage_at;  // a byte of the client's that is changed; 0: none
} wire;

static void pass_on(wire_end *from) {
    wire_end *to = from->other;
    if (!to->is_open || !to->stream) return;
    struct iovec part = { from->bytes + from->passed, from->size - from->passed };
    from->passed += stream_send(to->stream, &part, 1);
    assert_int_equal(from->passed, from->size);
}

static void on_wire_opened(void *user) {
    wire_end *x = user;
    x->is_open = true;
    pass_on(x->other);
}

static void on_wire_buffer(void *user, void **into, size_t *size) {
    wire_end *x = user;
    *into = x->bytes + x->size;
    *size = sizeof x->bytes - x->size;
}

static void on_wire_received(void *user, size_t count) {
    wire_end *x = user;
    size_t at = x->size, damage = x->wire->damage_at;
    x->size += count;
    if (x == &x->wire->client && damage >= at && damage < x->size && damage) x->bytes[damage] ^= 1;
    pass_on(x);
}

static void on_wire_closed(void *user, const gw_error *why) {
    wire_end *x = user;
    (void)why;
    x->stream = NULL;
    if (x->other->stream) stream_close(x->other->stream);
    x->other->stream = NULL;
}

static void on_writable(void *user) {
    (void)user;
}

static const stream_events wire_events = { .opened = on_wire_opened,
                                           .buffer = on_wire_buffer,
                                           .received = on_wire_received,
                                           .writable = on_writable,
                                           .closed = on_wire_closed };

static void on_wire_accepted(void *user, stream *s) {
    wire *w = user;
    gw_error error;
    w->client.stream = s;
    w->client.is_open = true;
    stream_adopt(s, &wire_events, &w->client);
    assert_int_equal(tcp_transport.connect(doors_env, w->target, &wire_events, &w->server,
                                           &w->server.stream, &error),
                     GW_OK);
}

static void open_wire(wire *w, const char *target) {
    gw_error error;
    *w = (wire){ .client = { .wire = w, .other = &w->server },
                 .server = { .wire = w, .other = &w->client } };
    snprintf(w->target, sizeof w->target, "%s", target);
    assert_int_equal(tcp_transport.listen(doors_env, "127.0.0.1:0", on_wire_accepted, w,
                                          &w->listener, w->address, &error),
                     GW_OK);
}

static void close_wire(wire *w) {
    listener_close(w->listener);
    if (w->client.stream) stream_close(w->client.stream);
    if (w->server.stream) stream_close(w->server.stream);
}

// ---- Members ------------------------------------------------------------------------------------

static void a_member_is_admitted(void **state) {
    (void)state;
    door d;
    visitor v, s;
    wire w;
    doors_open_env();
    door_open(&d, encrypted_worker("a", 2));
    open_wire(&w, d.address);
    visitor_connect(&v, encrypted_worker("a", 1), w.address, &d.self.self);
    doors_until(&d.admitted, 1);
    assert_int_equal(d.last.from_incarnation, 1);
    assert_int_equal(d.last.to_rank, 2);
    connection_send_handshake(d.inside[0], &(handshake){ .kind = HANDSHAKE_WELCOME });
    while (v.received_size == 0)
        doors_until(&v.closed, 0), env_wait(doors_env, &(waiter){ 0 }, env_now_ns(doors_env));
    assert_memory_equal(v.received, HANDSHAKE_MAGIC, 8);
    // The hello of either is not readable on the wire.
    assert_null(memmem(w.client.bytes, w.client.size, HANDSHAKE_MAGIC, 8));
    assert_null(memmem(w.server.bytes, w.server.size, HANDSHAKE_MAGIC, 8));
    visitor_connect(&s, encrypted_worker("a", 3), d.address, NULL);
    doors_until(&d.admitted, 2);
    assert_int_equal(d.last.kind, HANDSHAKE_STORE);
    assert_int_equal(d.refused, 0);
    visitor_leave(&v);
    visitor_leave(&s);
    close_wire(&w);
    door_close(&d);
    doors_close_env();
}

static void two_keys_are_taken_while_one_replaces_the_other(void **state) {
    (void)state;
    static const struct {
        const char *visitor, *door;
        bool enters;
    } rows[] = {
        { "a", "a", true },  { "a", "ab", true },  { "ab", "a", true }, { "ab", "ab", true },
        { "b", "ab", true }, { "ba", "ab", true }, { "ba", "b", true }, { "b", "b", true },
        { "a", "b", false }, { "ab", "b", false },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        door d;
        visitor v;
        doors_open_env();
        door_open(&d, encrypted_worker(rows[i].door, 2));
        visitor_connect(&v, encrypted_worker(rows[i].visitor, 1), d.address, &d.self.self);
        doors_until(rows[i].enters ? &d.admitted : &v.closed, 1);
        assert_int_equal(d.admitted, rows[i].enters);
        visitor_leave(&v);
        door_close(&d);
        doors_close_env();
    }
}

static void a_key_that_was_removed_opens_nothing(void **state) {
    (void)state;
    doors_open_env();
    const char *const keys[] = { "a", "ab", "b" };
    for (int i = 0; i < 3; i++) {
        door d;
        visitor v;
        door_open(&d, encrypted_worker(keys[i], 2));
        visitor_connect(&v, encrypted_worker("a", 1), d.address, &d.self.self);
        while (!d.admitted && !v.closed)
            env_wait(doors_env, &(waiter){ 0 }, env_now_ns(doors_env) + 1000000);
        assert_int_equal(d.admitted, i < 2);
        visitor_leave(&v);
        door_close(&d);
    }
    doors_close_env();
}

// ---- Unauthenticated peers ----------------------------------------------------------------------

// The visitor is refused, and the log of the door has |words|; |answer| is what it received.
static void refuse_visitor(protection self, const party *to, const char *words, uint8_t answer[64],
                           size_t *out_size) {
    door d;
    visitor v;
    wire w;
    doors_open_env();
    door_open(&d, encrypted_worker("a", 2));
    open_wire(&w, d.address);
    visitor_connect(&v, self, w.address, to ? to : &d.self.self);
    doors_until(&v.closed, 1);
    doors_until(&d.refused, 1);
    assert_int_equal(d.admitted, 0);
    assert_int_equal(v.opened, 0);
    if (!strstr(d.why.text, words)) fail_msg("\"%s\" should contain \"%s\"", d.why.text, words);
    if (!strstr(v.why.text, "it does not accept the key of this worker"))
        fail_msg("\"%s\" should report that the key was not taken", v.why.text);
    assert_int_equal(v.why.status, GW_DISCONNECTED);
    assert_true(w.server.size <= 64);
    memcpy(answer, w.server.bytes, w.server.size);
    *out_size = w.server.size;
    visitor_leave(&v);
    close_wire(&w);
    door_close(&d);
    doors_close_env();
}

// "If anything of this is not so, the handshake ends with the alert, whatever it was."
static void all_refusals_are_alike(void **state) {
    (void)state;
    uint8_t answers[5][64] = { 0 };
    size_t sizes[5];
    const party other = { .name = "w3", .rank = 3, .incarnation = 3 };
    refuse_visitor(encrypted_worker("b", 1), NULL, "it has another key", answers[0], &sizes[0]);
    protection guess = encrypted_worker("b", 1);
    memset(guess.secret->keys[0].id, 'a', SECRET_ID_BYTES);  // the id of the right key
    refuse_visitor(guess, NULL, "it has another key", answers[1], &sizes[1]);
    refuse_visitor(encrypted_worker("a", 1), &other,
                   "has connected to this worker, but expects w3 (rank 3)", answers[2], &sizes[2]);
    protection tuesday = encrypted_worker("a", 1);
    snprintf(tuesday.job, sizeof tuesday.job, "tuesday");
    refuse_visitor(tuesday, NULL, "it belongs to job \"tuesday\"", answers[3], &sizes[3]);
    refuse_visitor(encrypted_worker("a", 2), NULL,
                   "the peer has sent this worker's own first message back", answers[4], &sizes[4]);
    for (int i = 1; i < 5; i++) {
        assert_int_equal(sizes[i], sizes[0]);
        assert_memory_equal(answers[i], answers[0], sizes[0]);
    }
}

// Whatever the number of failures from its address; only the delay depends on them.
static void a_member_is_admitted_after_unauthenticated_peers(void **state) {
    (void)state;
    door d;
    visitor v;
    doors_open_env();
    door_open(&d, encrypted_worker("a", 2));
    for (int i = 0; i < 3 * BACKOFF_FREE; i++) {
        visitor_connect(&v, encrypted_worker("b", 1), d.address, &d.self.self);
        doors_until(&v.closed, 1);
        visitor_leave(&v);
    }
    assert_int_equal(d.admitted, 0);
    visitor_connect(&v, encrypted_worker("a", 1), d.address, &d.self.self);
    doors_until(&d.admitted, 1);
    visitor_leave(&v);
    door_close(&d);
    doors_close_env();
}

static void a_store_that_does_not_take_the_key_is_a_mismatch(void **state) {
    (void)state;
    door d;
    visitor v;
    doors_open_env();
    door_open(&d, encrypted_worker("a", 2));
    visitor_connect(&v, encrypted_worker("b", 1), d.address, NULL);
    doors_until(&v.closed, 1);
    assert_int_equal(v.why.status, GW_MISMATCH);
    visitor_leave(&v);
    door_close(&d);
    doors_close_env();
}

static void a_hello_in_plain_text_is_answered_by_a_refusal(void **state) {
    (void)state;
    door d;
    visitor v;
    handshake h;
    gw_error error;
    doors_open_env();
    door_open(&d, encrypted_worker("a", 2));
    visitor_connect_plain(&v, d.address);
    const party me = { .rank = 1, .incarnation = 1 };
    v.hello = visitor_hello(&me, &d.self.self);
    while (!v.closed && !d.admitted)
        env_wait(doors_env, &(waiter){ 0 }, env_now_ns(doors_env) + 1000000);
    assert_int_equal(d.admitted, 0);
    assert_string_equal(d.why.text,
                        "it does not encrypt the connection, but this worker has a key");
    assert_int_equal(handshake_decode(v.received, v.received_size, &h, &error), GW_OK);
    assert_int_equal(h.kind, HANDSHAKE_REFUSAL);
    assert_int_equal(h.reason, REFUSED_PLAIN);
    assert_non_null(strstr(
        h.text, "connections of this job are encrypted: all workers need the key file of the job"));
    visitor_leave(&v);
    door_close(&d);
    doors_close_env();
}

// A worker without a key sends nothing, as to any unauthenticated peer.
static void a_client_with_a_key_sends_nothing_to_a_server_without_one(void **state) {
    (void)state;
    door d;
    visitor v;
    wire w;
    doors_open_env();
    door_open(&d, encrypted_worker("a", 2));
    connection_unprotect(doors_env, &d.self);
    open_wire(&w, d.address);
    visitor_connect(&v, encrypted_worker("a", 1), w.address, &d.self.self);
    doors_until(&d.refused, 1);
    assert_int_equal(d.admitted, 0);
    connection_close(d.inside[0]);
    d.inside[0] = NULL;
    doors_until(&v.closed, 1);
    assert_int_equal(v.opened, 0);
    assert_non_null(strstr(v.why.text, "the peer may have no key"));
    assert_null(memmem(w.client.bytes, w.client.size, HANDSHAKE_MAGIC, 8));
    visitor_leave(&v);
    close_wire(&w);
    door_close(&d);
    doors_close_env();
}

// All bytes of a member are sent again.
static void a_handshake_that_is_repeated_opens_nothing(void **state) {
    (void)state;
    door d;
    visitor v;
    wire w;
    doors_open_env();
    door_open(&d, encrypted_worker("a", 2));
    open_wire(&w, d.address);
    visitor_connect(&v, encrypted_worker("a", 1), w.address, &d.self.self);
    doors_until(&d.admitted, 1);
    wire_end again = { .wire = &w, .other = &w.client };  // receives what the client has sent
    gw_error error;
    assert_int_equal(
        tcp_transport.connect(doors_env, d.address, &wire_events, &again, &again.stream, &error),
        GW_OK);
    w.client.other = &again;
    w.client.passed = 0;
    doors_until(&d.refused, 1);
    assert_int_equal(d.admitted, 1);
    assert_string_equal(d.why.text, "it cannot complete the TLS handshake that it has begun");
    w.client.other = &w.server;
    if (again.stream) stream_close(again.stream);
    visitor_leave(&v);
    close_wire(&w);
    door_close(&d);
    doors_close_env();
}

static void a_reflected_handshake_is_refused(void **state) {
    (void)state;
    door d;
    visitor v;
    wire w;
    const party other = { .name = "w1", .rank = 1, .incarnation = 1 };
    doors_open_env();
    door_open(&d, encrypted_worker("a", 2));
    open_wire(&w, d.address);
    // Worker 2 connects to worker 1, and the wire leads back to worker 2.
    visitor_connect(&v, encrypted_worker("a", 2), w.address, &other);
    while (!v.closed && !v.opened)
        env_wait(doors_env, &(waiter){ 0 }, env_now_ns(doors_env) + 1000000);
    assert_int_equal(v.opened, 0);
    assert_int_equal(d.admitted, 0);
    visitor_leave(&v);
    close_wire(&w);
    door_close(&d);
    doors_close_env();
}

static void the_hello_must_name_the_same_workers(void **state) {
    (void)state;
    handshake lies[5];
    const party me = { .rank = 1, .incarnation = 1 }, door_is = { .rank = 2, .incarnation = 2 };
    for (int i = 0; i < 4; i++) lies[i] = visitor_hello(&me, &door_is);
    lies[0].from_rank = 3;
    lies[1].from_incarnation = 3;
    lies[2].to_rank = 3;
    lies[3].to_incarnation = 3;
    lies[4] = (handshake){ .kind = HANDSHAKE_STORE };
    for (int i = 0; i < 5; i++) {
        door d;
        visitor v;
        doors_open_env();
        door_open(&d, encrypted_worker("a", 2));
        visitor_connect(&v, encrypted_worker("a", 1), d.address, &d.self.self);
        v.hello = lies[i];
        while (!d.admitted && !d.refused)
            env_wait(doors_env, &(waiter){ 0 }, env_now_ns(doors_env) + 1000000);
        assert_int_equal(d.admitted, 0);
        assert_string_equal(d.why.text,
                            "its first message does not name w1, the worker of its key");
        visitor_leave(&v);
        door_close(&d);
        doors_close_env();
    }
}

static void a_changed_byte_ends_the_connection(void **state) {
    (void)state;
    door d;
    visitor v;
    wire w;
    size_t size = 0;
    // The last bytes of the first of these are the hello; those before belong to the handshake.
    for (size_t at = 0; at == 0 || at < size; at += at < size - 200 ? 37 : 5) {
        doors_open_env();
        door_open(&d, encrypted_worker("a", 2));
        open_wire(&w, d.address);
        w.damage_at = at;
        visitor_connect(&v, encrypted_worker("a", 1), w.address, &d.self.self);
        while (!d.admitted && !d.refused && !v.closed)
            env_wait(doors_env, &(waiter){ 0 }, env_now_ns(doors_env) + 1000000);
        if (at == 0) size = w.client.size;
        assert_int_equal(d.admitted, at == 0);
        visitor_leave(&v);
        close_wire(&w);
        door_close(&d);
        doors_close_env();
    }
}

// The beginnings of a handshake, each of which stops there for ever.
static void incomplete_handshakes_time_out(void **state) {
    (void)state;
    door d;
    visitor v;
    wire w;
    doors_open_env();
    door_open(&d, encrypted_worker("a", 2));
    open_wire(&w, d.address);
    visitor_connect(&v, encrypted_worker("a", 1), w.address, &d.self.self);
    doors_until(&d.admitted, 1);
    static uint8_t sent[16384];
    size_t size = w.client.size;
    memcpy(sent, w.client.bytes, size);
    visitor_leave(&v);
    close_wire(&w);
    enum { COUNT = 40 };
    static wire_end stopped[COUNT];
    static wire words;
    gw_error error;
    for (int i = 0; i < COUNT; i++) {
        stopped[i] = (wire_end){ .wire = &words, .other = &words.client };
        words.client =
            (wire_end){ .wire = &words, .other = &stopped[i], .size = size * (size_t)i / COUNT };
        memcpy(words.client.bytes, sent, size);
        int before = d.accepted;
        assert_int_equal(tcp_transport.connect(doors_env, d.address, &wire_events, &stopped[i],
                                               &stopped[i].stream, &error),
                         GW_OK);
        doors_until(&d.accepted, before + 1);
        connection_set_deadline(d.inside[before % 64], env_now_ns(doors_env) + 20000000);
        while (words.client.passed < words.client.size)
            env_wait(doors_env, &(waiter){ 0 }, env_now_ns(doors_env) + 1000000);
    }
    int gone = d.refused;
    doors_until(&d.refused, COUNT > gone ? COUNT : gone);
    assert_int_equal(d.admitted, 1);
    words.client.stream = NULL;
    for (int i = 0; i < COUNT; i++)
        if (stopped[i].stream) stream_close(stopped[i].stream);
    door_close(&d);
    doors_close_env();
}

// ---- A server that has no key, but a certificate ------------------------------------------------
typedef struct shop {
    SSL_CTX *context;
    SSL *ssl;
    stream *stream;
    uint8_t in[8192];
} shop;

static EVP_PKEY *make_certificate(X509 **out) {
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    assert_true(key && x);
    X509_gmtime_adj(X509_getm_notBefore(x), 0);
    X509_gmtime_adj(X509_getm_notAfter(x), 3600);
    X509_set_pubkey(x, key);
    assert_true(X509_sign(x, key, EVP_sha256()) > 0);
    *out = x;
    return key;
}

static void on_shop_buffer(void *user, void **into, size_t *size) {
    shop *s = user;
    *into = s->in;
    *size = sizeof s->in;
}

static void on_shop_received(void *user, size_t count) {
    shop *s = user;
    static uint8_t out[16384];
    BIO_write(SSL_get_rbio(s->ssl), s->in, (int)count);
    SSL_do_handshake(s->ssl);
    struct iovec part = { out, 0 };
    int size = BIO_read(SSL_get_wbio(s->ssl), out, sizeof out);
    part.iov_len = size > 0 ? (size_t)size : 0;
    stream_send(s->stream, &part, 1);
}

static void on_shop_closed(void *user, const gw_error *why) {
    (void)why;
    ((shop *)user)->stream = NULL;
}

static const stream_events shop_events = { .buffer = on_shop_buffer,
                                           .received = on_shop_received,
                                           .writable = on_writable,
                                           .closed = on_shop_closed };

static void on_shop_accepted(void *user, stream *x) {
    shop *s = user;
    s->stream = x;
    stream_adopt(x, &shop_events, s);
}

static void a_server_certificate_does_not_replace_the_key(void **state) {
    (void)state;
    visitor v;
    shop s = { .context = SSL_CTX_new(TLS_server_method()) };
    X509 *x;
    char address[ADDRESS_MAX];
    listener *l;
    gw_error error;
    doors_open_env();
    EVP_PKEY *key = make_certificate(&x);
    assert_int_equal(SSL_CTX_use_certificate(s.context, x), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(s.context, key), 1);
    s.ssl = SSL_new(s.context);
    SSL_set_bio(s.ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_accept_state(s.ssl);
    assert_int_equal(
        tcp_transport.listen(doors_env, "127.0.0.1:0", on_shop_accepted, &s, &l, address, &error),
        GW_OK);
    const party to = { .name = "w2", .rank = 2, .incarnation = 2 };
    visitor_connect(&v, encrypted_worker("a", 1), address, &to);
    doors_until(&v.closed, 1);
    assert_int_equal(v.opened, 0);
    assert_string_equal(v.why.text, "it does not have the key of this job");
    visitor_leave(&v);
    if (s.stream) stream_close(s.stream);
    listener_close(l);
    SSL_free(s.ssl);
    SSL_CTX_free(s.context);
    X509_free(x);
    EVP_PKEY_free(key);
    doors_close_env();
}

GW_TESTS(net_tls, a_member_is_admitted, a_member_is_admitted_after_unauthenticated_peers,
         two_keys_are_taken_while_one_replaces_the_other, a_key_that_was_removed_opens_nothing,
         all_refusals_are_alike, a_store_that_does_not_take_the_key_is_a_mismatch,
         a_hello_in_plain_text_is_answered_by_a_refusal,
         a_client_with_a_key_sends_nothing_to_a_server_without_one,
         a_handshake_that_is_repeated_opens_nothing, a_reflected_handshake_is_refused,
         the_hello_must_name_the_same_workers, a_changed_byte_ends_the_connection,
         incomplete_handshakes_time_out, a_server_certificate_does_not_replace_the_key);
