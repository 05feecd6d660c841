#include "testing/stream_end.h"

#include "base/mem.h"
#include "net/env_os.h"
#include "testing/testing.h"

enum { WAIT_S = 1000 };

static const int64_t second_ns = (int64_t)1000 * 1000 * 1000;

static void wake(stream_end *x) {
    if (x->waiter && !x->waiter->woken) env_wake(x->env, x->waiter);
}

static void expect_alive(const stream_end *x) {
    assert_true(env_held(x->env));
    assert_false(x->closed || x->gone);
}

void stream_end_let_go(stream_end *x) {
    stream_close(x->stream);
    x->gone = true;
    wake(x);
}

static void end_at(stream_end *x, end_moment now) {
    if (x->closes == now) stream_end_let_go(x);
}

// ---- Bytes --------------------------------------------------------------------------------------
char stream_end_byte(size_t at) {
    return (char)(at * 7 + at / 251);
}

// In two parts, as headers and bodies are.
static void send_on(stream_end *x) {
    char bytes[16 * 1024];
    while (x->sent < x->to_send) {
        size_t size = x->to_send - x->sent;
        if (size > sizeof bytes) size = sizeof bytes;
        for (size_t i = 0; i < size; i++) bytes[i] = stream_end_byte(x->sent + i);
        struct iovec parts[2] = { { bytes, size / 3 }, { bytes + size / 3, size - size / 3 } };
        size_t taken = stream_send(x->stream, parts, 2);
        assert_true(taken <= size);
        x->sent += taken;
        if (taken < size) {
            x->partial_count++;
            return;
        }
    }
}

void stream_end_send(stream_end *x, size_t size) {
    x->to_send += size;
    send_on(x);
}

// ---- Events -------------------------------------------------------------------------------------
static void on_opened(void *user) {
    stream_end *x = user;
    expect_alive(x);
    assert_false(x->opened);
    x->opened = true;
    send_on(x);
    end_at(x, END_WHEN_OPENED);
    wake(x);
}

static void on_buffer(void *user, void **into, size_t *size) {
    stream_end *x = user;
    expect_alive(x);
    *into = x->buffer;
    *size = x->bite ? x->bite : sizeof x->buffer;
    end_at(x, END_WHEN_OFFERED);
}

static void on_received(void *user, size_t count) {
    stream_end *x = user;
    expect_alive(x);
    assert_in_range(count, 1, x->bite ? x->bite : sizeof x->buffer);
    for (size_t i = 0; i < count; i++)
        if (x->buffer[i] != stream_end_byte(x->received + i)) fail_msg("byte %zu", x->received + i);
    x->received += count;
    x->piece_count++;
    x->last_ns = env_now_ns(x->env);
    if (x->echoes)
        assert_int_equal(stream_send(x->stream, &(struct iovec){ x->buffer, count }, 1), count);
    end_at(x, END_WHEN_RECEIVED);
    wake(x);
}

static void on_writable(void *user) {
    stream_end *x = user;
    expect_alive(x);
    x->writable_count++;
    end_at(x, END_WHEN_WRITABLE);
    if (!x->gone) send_on(x);
    wake(x);
}

static void on_closed(void *user, const gw_error *why) {
    stream_end *x = user;
    expect_alive(x);
    x->closed = true;
    x->why = *why;
    wake(x);
}

const stream_events stream_end_events = { .opened = on_opened,
                                          .buffer = on_buffer,
                                          .received = on_received,
                                          .writable = on_writable,
                                          .closed = on_closed };

// ---- Life ---------------------------------------------------------------------------------------
stream_end *stream_end_open(env *e) {
    stream_end *x = mem_calloc(sizeof *x);
    assert_non_null(x);
    x->env = e;
    return x;
}

void stream_end_close(stream_end *x) {
    if (x->stream && !x->closed && !x->gone) stream_end_let_go(x);
    mem_free(x);
}

void stream_end_reset(stream_end *x) {
    *x = (stream_end){ .env = x->env };
}

void stream_end_accept(void *end, stream *s) {
    stream_end *x = end;
    x->stream = s;
    stream_adopt(s, &stream_end_events, x);
    on_opened(x);
}

gw_status stream_end_connect(stream_end *x, const transport *t, const char *address,
                             gw_error *error) {
    gw_status status = t->connect(x->env, address, &stream_end_events, x, &x->stream, error);
    assert_false(x->opened || x->closed);  // never from inside
    return status;
}

// ---- Waiting ------------------------------------------------------------------------------------
static void wait_once(stream_end *x, int64_t until_ns) {
    waiter w = { .what = "an event of a stream" };
    x->waiter = &w;
    bool woken = env_wait(x->env, &w, until_ns);
    x->waiter = NULL;
    assert_true(woken);
}

void stream_end_wait(stream_end *x, bool (*done)(const stream_end *x)) {
    int64_t until_ns = env_now_ns(x->env) + WAIT_S * second_ns;
    while (!done(x)) wait_once(x, until_ns);
}

void stream_end_wait_for_bytes(stream_end *x, size_t size) {
    int64_t until_ns = env_now_ns(x->env) + WAIT_S * second_ns;
    while (x->received < size) wait_once(x, until_ns);
    assert_int_equal(x->received, size);
}

bool stream_end_is_open(const stream_end *x) {
    return x->opened;
}

bool stream_end_is_closed(const stream_end *x) {
    return x->closed;
}

bool stream_end_is_gone(const stream_end *x) {
    return x->gone;
}

bool stream_end_has_sent(const stream_end *x) {
    return x->sent == x->to_send;
}

void stream_end_let_pass(env *e, int64_t ns) {
    waiter w = { .what = "some time to pass" };
    env_wait(e, &w, env_now_ns(e) + ns);
}

// ---- Pairs --------------------------------------------------------------------------------------
stream_pair stream_pair_listen(env *e, const transport *t, const char *address) {
    gw_error error;
    stream_pair p = {
        .env = e, .transport = t, .client = stream_end_open(e), .server = stream_end_open(e)
    };
    assert_int_equal(
        t->listen(e, address, stream_end_accept, p.server, &p.listener, p.address, &error), GW_OK);
    return p;
}

void stream_pair_connect(stream_pair *p) {
    gw_error error;
    assert_int_equal(stream_end_connect(p->client, p->transport, p->address, &error), GW_OK);
    stream_end_wait(p->client, stream_end_is_open);
    stream_end_wait(p->server, stream_end_is_open);
}

void stream_pair_close(stream_pair *p) {
    if (p->listener) listener_close(p->listener);
    stream_end_close(p->client);
    stream_end_close(p->server);
}

void stream_ends_try(const transport *t, const char *address) {
    env *e = NULL;
    gw_error error;
    if (env_os_open(&e, &error)) return;
    stream_end *server = mem_calloc(sizeof *server), *client = mem_calloc(sizeof *client);
    listener *l = NULL;
    char bound[ADDRESS_MAX];
    env_enter(e);
    if (!server || !client) goto close;
    server->env = client->env = e;
    client->to_send = 100;
    server->echoes = true;
    if (t->listen(e, address, stream_end_accept, server, &l, bound, &error)) goto close;
    if (stream_end_connect(client, t, bound, &error)) goto close;
    int64_t until_ns = env_now_ns(e) + WAIT_S * second_ns;
    while (!client->closed && client->received < 100) wait_once(client, until_ns);
close:
    env_leave(e);
    env_close(e);
    mem_free(client);
    mem_free(server);
}
