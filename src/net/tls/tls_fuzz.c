// A client sends any bytes in any pieces to a worker that has a key: it is not admitted. And
// any identity that is not sealed with the key.
#include "net/connection.h"
#include "net/env_os.h"
#include "net/tls/tls.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static env *e;
static protection self;
static tls *door;
static uint8_t plain[4096];

// ---- The stream below ---------------------------------------------------------------------------
static bool is_closed;
static size_t room;  // for bytes that are sent

static void adopt(stream *s) {
    (void)s;
}

static size_t take(stream *s, const struct iovec *parts, int count) {
    size_t size = 0;
    (void)s;
    for (int i = 0; i < count; i++) size += parts[i].iov_len;
    size = size < room ? size : room;
    room -= size;
    return size;
}

static void close_below(stream *s) {
    (void)s;
    if (is_closed) abort();
    is_closed = true;
}

static const transport below = { .name = "below" };
static const stream_class class = {
    .transport = &below, .adopt = adopt, .send = take, .close = close_below
};

// ---- The user above -----------------------------------------------------------------------------
static bool has_ended;

static void on_buffer(void *user, void **into, size_t *size) {
    (void)user;
    *into = plain;
    *size = sizeof plain;
}

static void on_received(void *user, size_t count) {
    (void)user;
    (void)count;
    abort();  // it has no key
}

static void on_writable(void *user) {
    (void)user;
    abort();
}

static void on_closed(void *user, const gw_error *why) {
    (void)user;
    if (has_ended || !why->text[0]) abort();
    has_ended = true;
}

static const stream_events events = {
    .buffer = on_buffer, .received = on_received, .writable = on_writable, .closed = on_closed
};

// ---- Inputs -------------------------------------------------------------------------------------
static void set_up(void) {
    static secret key = { .key_count = 1 };
    gw_error error;
    memset(&key.keys[0], 'k', sizeof key.keys[0]);
    self = (protection){ .secret = &key, .self = { .name = "w", .incarnation = 7 } };
    tls_options options = { .env = NULL,
                            .protection = &self,
                            .plain_hello = HANDSHAKE_MAGIC,
                            .plain_answer = "no",
                            .plain_answer_size = 2 };
    if (env_os_open(&e, &error)) abort();
    env_enter(e);
    options.env = e;
    if (tls_open(options, &door, &error)) abort();
}

static void receive(const uint8_t *data, size_t size, size_t piece) {
    stream inner = { .class = &class };
    is_closed = has_ended = false;
    stream *s = tls_accept(door, &inner);
    if (!s) abort();
    stream_adopt(s, &events, NULL);
    while (size > 0 && !has_ended) {
        void *into;
        size_t most;
        inner.events->buffer(inner.user, &into, &most);
        size_t some = size < piece ? size : piece;
        if (some > most) some = most;
        memcpy(into, data, some);
        inner.events->received(inner.user, some);
        data += some;
        size -= some;
    }
    if (!has_ended) stream_close(s);
    if (!is_closed) abort();
}

static void open_identity(const uint8_t *data, size_t size) {
    tls_parties parties;
    uint8_t psk[TLS_PSK_BYTES];
    gw_error error = { 0 };
    if (!tls_identity_open(self.secret, data, size, &parties, psk, &error)) abort();
    if (!error.text[0]) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!door) set_up();
    if (size < 2) return 0;
    room = data[1];
    if (data[0] == 0) {
        open_identity(data + 1, size - 1);
    } else {
        receive(data + 2, size - 2, data[0]);
    }
    return 0;
}
