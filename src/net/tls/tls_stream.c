// The bytes of an encrypted stream, in and out.
#include <assert.h>
#include <openssl/err.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutation.h"
#include "base/status.h"
#include "net/tls/tls_internal.h"

static tls_stream *of(const stream *s) {
    return list_entry(s, tls_stream, stream);
}

static void fail_to_send(tls_stream *t, gw_status status, const char *why) {
    error_set(&t->why, status, "%s", why);
    tls_apply(t, TLS_SEND_FAILED);
}

// ---- Below: encrypted bytes to be sent ----------------------------------------------------------

static void flush_held(tls_stream *t) {
    struct iovec part = { t->held + t->held_done, t->held_size - t->held_done };
    if (t->inner) t->held_done += stream_send(t->inner, &part, 1);
    if (t->held_done < t->held_size) return;
    mem_free(t->held);
    t->held = NULL;
    t->held_size = t->held_done = 0;
}

static bool hold(tls_stream *t, const uint8_t *data, size_t size) {
    if (size > TLS_HELD_MAX - t->held_size) return false;
    uint8_t *held = mem_realloc(t->held, t->held_size + size);
    if (!held) return false;
    memcpy(held + t->held_size, data, size);
    t->held = held;
    t->held_size += size;
    return true;
}

// Passes what OpenSSL has written to the stream below, and keeps what it does not take.
static void flush(tls_stream *t) {
    tls *shared = t->tls;
    size_t size = shared->out_size, taken = 0;
    shared->out_size = 0;
    if (size == 0 || !t->inner) return;
    if (!t->held) {
        struct iovec part = { shared->out, size };
        taken = stream_send(t->inner, &part, 1);
    }
    if (taken == size || hold(t, shared->out + taken, size - taken)) return;
    fail_to_send(t, GW_NO_MEMORY, "no memory for bytes to be sent");
}

void tls_notify_writable(tls_stream *t) {
    if (t->held || !t->wants_writable) return;
    t->wants_writable = false;
    t->stream.events->writable(t->stream.user);
}

// ---- The handshake ------------------------------------------------------------------------------

// The error of a peer that has not proved anything: its class of failure, nothing more.
static void fail_server(tls_stream *t) {
    const gw_error *refusal = &t->tls->refusal;
    if (refusal->status) {
        tls_end(t, GW_MISMATCH, "%s", refusal->text);
    } else if (t->parties.purpose) {
        tls_end(t, GW_MISMATCH, "it cannot complete the TLS handshake that it has begun");
    } else {
        tls_end(t, GW_MISMATCH, "it does not use TLS with a job key");
    }
}

// TLS-9: a server that does not have the key proves nothing by it.
static void fail_client(tls_stream *t, int code) {
    gw_status status = t->parties.purpose == TLS_STORE ? GW_MISMATCH : GW_DISCONNECTED;
    const gw_error *refusal = &t->tls->refusal;
    if (refusal->status) {
        tls_end(t, status, "%s", refusal->text);
        return;
    }
    if (tls_has_certificates(t)) {
        tls_end(t, status,
                "it does not accept the certificate of this worker: it has a key or another CA, "
                "belongs to another job, or is another worker than expected");
        return;
    }
    int reason = ERR_GET_REASON(ERR_peek_error());
    bool is_alert = code == SSL_ERROR_SSL && reason > SSL_AD_REASON_OFFSET;
    bool is_certificate = reason == SSL_R_CERTIFICATE_VERIFY_FAILED;
    tls_end(t, status,
            is_alert ? "it does not accept the key of this worker: it has another key, belongs to "
                       "another job, or is another worker than expected"
            : is_certificate || code == SSL_ERROR_NONE
                ? "it does not have the key of this job"
                : "it does not use TLS as workers of gradwire do");
}

static void fail_handshake(tls_stream *t, int code) {
    if (t->is_server) {
        fail_server(t);
    } else {
        fail_client(t, code);
    }
}

void tls_shake(tls_stream *t) {
    t->tls->refusal.status = GW_OK;
    ERR_clear_error();
    int result = SSL_do_handshake(t->ssl);
    int code = SSL_get_error(t->ssl, result);
    // TLS-4: a client continues only if the server has chosen the pre-shared key.
    bool done = result == 1 &&
                (tls_has_certificates(t) ? tls_introduce(t, &code) : SSL_session_reused(t->ssl));
    flush(t);
    if (t->state != TLS_SHAKING) return;
    if (done) {
        tls_apply(t, TLS_SHAKEN);
    } else if (code != SSL_ERROR_WANT_READ || t->in_total > LIMIT_HANDSHAKE_BYTES) {
        fail_handshake(t, code);
    }
}

// Whether the received bytes are the hello of a peer without a key.
static bool is_plain(const tls_stream *t) {
    const char *hello = t->tls->plain_hello;
    return t->is_server && t->in_size == t->in_total && hello && t->in_size >= strlen(hello) &&
           memcmp(t->in, hello, strlen(hello)) == 0;
}

static void answer_plain(tls_stream *t) {
    if (has_mutation(MUTATION_HELLO_OUTSIDE_TLS)) {
        t->is_plain = true;
        tls_apply(t, TLS_SHAKEN);
        return;
    }
    struct iovec part = { t->tls->answer, t->tls->answer_size };
    stream_send(t->inner, &part, 1);
    tls_end(t, GW_MISMATCH, "it does not encrypt the connection, but this worker has a key");
}

static void shake_on(tls_stream *t) {
    t->in_total += t->in_size;
    if (is_plain(t)) {
        answer_plain(t);
    } else {
        tls_shake(t);
    }
}

// ---- In -----------------------------------------------------------------------------------------

// Reads up to |size| bytes |into| a buffer, and returns how many; *out_code is the reason why not all.
static size_t read_some(tls_stream *t, uint8_t *into, size_t size, int *out_code) {
    size_t done = 0;
    *out_code = SSL_ERROR_NONE;
    if (has_mutation(MUTATION_HELLO_OUTSIDE_TLS) && t->is_plain) {
        done = size < t->in_size ? size : t->in_size;
        memcpy(into, t->in, done);
        t->in += done;
        t->in_size -= done;
        if (done == 0) *out_code = SSL_ERROR_WANT_READ;
        return done;
    }
    ERR_clear_error();
    while (done < size) {
        size_t n = 0;
        int result = SSL_read_ex(t->ssl, into + done, size - done, &n);
        if (result != 1) {
            *out_code = SSL_get_error(t->ssl, result);
            break;
        }
        done += n;
    }
    flush(t);  // TLS itself may have written a reply
    return done;
}

static void read_on(tls_stream *t) {
    const stream *s = &t->stream;
    while (t->state == TLS_OPEN) {
        void *into = NULL;
        size_t size = 0;
        int code;
        s->events->buffer(s->user, &into, &size);
        if (t->state != TLS_OPEN) return;
        assert(size > 0);
        size_t done = read_some(t, into, size, &code);
        if (done > 0) s->events->received(s->user, done);
        if (t->state != TLS_OPEN || code == SSL_ERROR_WANT_READ) return;
        if (code == SSL_ERROR_ZERO_RETURN) {
            tls_apply(t, TLS_PEER_CLOSED);
        } else if (code != SSL_ERROR_NONE) {
            tls_end(t, GW_DISCONNECTED, "received data was changed on the way");
        }
    }
}

// ---- Events from below --------------------------------------------------------------------------

static void on_opened(void *user) {
    tls_stream *t = user;
    tls_enter(t);
    tls_apply(t, TLS_CONNECTED);
    tls_leave(t);
}

static void on_buffer(void *user, void **into, size_t *size) {
    tls_stream *t = user;
    *into = t->tls->in;
    *size = sizeof t->tls->in;
}

static void on_received(void *user, size_t count) {
    tls_stream *t = user;
    tls_enter(t);
    t->in = t->tls->in;
    t->in_size = count;
    if (t->state == TLS_SHAKING) shake_on(t);
    if (t->state == TLS_OPEN) read_on(t);
    t->in_size = 0;  // OpenSSL has read all, or the stream has ended
    tls_leave(t);
}

static void on_writable(void *user) {
    tls_stream *t = user;
    tls_enter(t);
    if (t->held) flush_held(t);
    if (t->state == TLS_LINGERING) {
        if (t->held) {
            tls_linger_on(t);
        } else {
            tls_apply(t, TLS_FLUSHED);
        }
    } else if (t->state == TLS_OPEN) {
        tls_notify_writable(t);
    }
    tls_leave(t);
}

static void on_closed(void *user, const gw_error *why) {
    tls_stream *t = user;
    tls_enter(t);
    t->inner = NULL;
    if (t->state == TLS_SHAKING && t->has_sent_parties) {
        t->tls->refusal.status = GW_OK;
        fail_client(t, SSL_ERROR_ZERO_RETURN);  // TLS-14
    } else if (t->state == TLS_SHAKING && !t->is_server) {
        tls_end(t, why->status, "%.600s (during the TLS handshake: the peer may have no key)",
                why->text);
    } else {
        tls_end(t, why->status, "%s", why->text);
    }
    tls_leave(t);
}

const stream_events tls_inner_events = {
    .opened = on_opened,
    .buffer = on_buffer,
    .received = on_received,
    .writable = on_writable,
    .closed = on_closed,
};

// ---- Out ----------------------------------------------------------------------------------------

// The rest of the parts that are to be sent.
typedef struct cursor {
    const struct iovec *part, *end;
    size_t at;  // of *part
} cursor;

static void advance(cursor *c, size_t size) {
    while (c->part < c->end && size >= c->part->iov_len - c->at) {
        size -= c->part->iov_len - c->at;
        c->part++;
        c->at = 0;
    }
    c->at += size;
}

// The bytes of the next record, at most |most|: in place, or joined in |into|.
static size_t next_record(const cursor *c, size_t most, uint8_t *into, const uint8_t **out) {
    size_t at = c->at, size = 0, left = c->part->iov_len - at;
    *out = (const uint8_t *)c->part->iov_base + at;
    if (left >= most) return most;
    if (c->part + 1 == c->end) return left;
    for (const struct iovec *p = c->part; p < c->end && size < most; p++, at = 0) {
        size_t some = p->iov_len - at;
        if (some > most - size) some = most - size;
        memcpy(into + size, (const uint8_t *)p->iov_base + at, some);
        size += some;
    }
    *out = into;
    return size;
}

static bool encrypt(tls_stream *t, const uint8_t *data, size_t size) {
    size_t wrote = 0;
    ERR_clear_error();
    if (SSL_write_ex(t->ssl, data, size, &wrote) != 1 || wrote != size) {
        fail_to_send(t, GW_NO_MEMORY, "OpenSSL cannot encrypt: out of memory");
        return false;
    }
    t->out_total += size;
    if (t->out_total < t->tls->rekey_bytes) return true;
    t->out_total = 0;
    SSL_key_update(t->ssl, SSL_KEY_UPDATE_NOT_REQUESTED);  // before the next record
    return true;
}

// A record can be read only when all of it has arrived, and later bytes cannot overtake encrypted ones.
// So on a slow link records become small, and fewer of them are queued.
static void choose_batch(tls_stream *t) {
    if (t->held) {
        if (t->batch > TLS_BATCH_MIN) t->batch /= 2;
    } else if (t->batch < TLS_BATCH_MAX) {
        t->batch *= 2;
    }
}

// A record must be written whole once it is begun, so there is room for all records of a batch.
static size_t send_records(tls_stream *t, cursor *c) {
    size_t taken = 0, most = t->batch < RECORD_BYTES ? t->batch : RECORD_BYTES;
    while (taken + most <= t->batch && c->part < c->end) {
        const uint8_t *data;
        size_t size = next_record(c, most, t->tls->record, &data);
        if (!encrypt(t, data, size)) break;
        advance(c, size);
        taken += size;
    }
    flush(t);
    choose_batch(t);
    return taken;
}

// The few bytes of TLS itself do not count.
static bool is_full(const tls_stream *t) {
    return t->held_size - t->held_done > 1024;
}

static size_t send_parts(stream *s, const struct iovec *parts, int count) {
    tls_stream *t = of(s);
    size_t taken = 0;
    assert(env_held(t->tls->env));
    if (has_mutation(MUTATION_HELLO_OUTSIDE_TLS) && t->is_plain && t->inner)
        return stream_send(t->inner, parts, count);
    cursor c = { parts, parts + count, 0 };
    advance(&c, 0);  // past empty ones
    while (c.part < c.end && t->state == TLS_OPEN && !is_full(t)) taken += send_records(t, &c);
    if (c.part < c.end) t->wants_writable = true;
    return taken;
}

bool tls_send_end(tls_stream *t) {
    ERR_clear_error();
    if (!t->is_plain) SSL_shutdown(t->ssl);
    flush(t);
    return !t->held;
}

// ---- Life ---------------------------------------------------------------------------------------

static void adopt(stream *s) {
    tls_apply(of(s), TLS_ADOPTED);
}

static void close_stream(stream *s) {
    tls_stream *t = of(s);
    assert(env_held(t->tls->env));
    tls_apply(t, TLS_CLOSED_HERE);
}

// Whether the client has disconnected while its handshake is delayed.
static bool peer_has_left(const tls_stream *t) {
    return t->inner->class->has_hung_up && t->inner->class->has_hung_up(t->inner);
}

static void timer_is_due(timer *due) {
    tls_stream *t = list_entry(due, tls_stream, timer);
    if (t->waits && peer_has_left(t)) {
        tls_end(t, GW_DISCONNECTED, "it disconnected while this worker delayed the TLS handshake");
        return;
    }
    if (t->waits) {
        tls_begin(t);
        return;
    }
    tls_apply(t, t->state == TLS_LINGERING ? TLS_FLUSHED : TLS_ENDED);
}

static tls_stream *new_stream(tls *shared, const transport *transport, bool is_server) {
    tls_stream *t = mem_calloc(sizeof *t);
    if (!t) return NULL;
    t->class = (stream_class){
        .transport = transport, .adopt = adopt, .send = send_parts, .close = close_stream
    };
    t->stream.class = &t->class;
    t->tls = shared;
    t->is_server = is_server;
    t->state = is_server ? TLS_ACCEPTED : TLS_CONNECTING;
    t->batch = TLS_BATCH_MAX;
    t->timer.fire = timer_is_due;
    if (!is_server) t->ssl = tls_new_session(shared, t);
    if (t->ssl || is_server) {
        list_append(&shared->streams, &t->link);
        return t;
    }
    mem_free(t);
    return NULL;
}

static bool set_parties(tls_stream *t, const party *server) {
    const protection *p = t->tls->protection;
    t->parties = (tls_parties){ .purpose = server ? TLS_SESSION : TLS_STORE, .client = p->self };
    memcpy(t->parties.job, p->job, sizeof p->job);
    t->parties.server = server ? *server : (party){ .rank = PARTY_RANK_UNKNOWN };
    if (tls_has_certificates(t)) return true;
    return tls_identity_seal(&p->secret->keys[0], &t->parties, &t->identity, t->psk);
}

gw_status tls_connect(tls *shared, const route *r, const party *server, const stream_events *events,
                      void *user, stream **out, gw_error *error) {
    tls_stream *t = new_stream(shared, r->transport, false);
    if (!t) return error_set(error, GW_NO_MEMORY, "no memory for a connection");
    t->stream.events = events;
    t->stream.user = user;
    gw_status status = GW_OK;
    if (!set_parties(t, server))
        status = error_set(error, GW_NO_MEMORY, "no memory for a connection's key");
    if (!status)
        status =
            r->transport->connect(shared->env, r->address, &tls_inner_events, t, &t->inner, error);
    if (status) {
        t->inner = NULL;
        tls_apply(t, TLS_CLOSED_HERE);
    } else {
        *out = &t->stream;
    }
    return status;
}

bool tls_admits(tls *t, const uint8_t bytes[16]) {
    backoff_address a;
    memcpy(a.bytes, bytes, sizeof a.bytes);
    return !backoff_is_full(&t->backoff, &a, env_now_ns(t->env));
}

stream *tls_accept(tls *shared, stream *inner) {
    tls_stream *t = new_stream(shared, inner->class->transport, true);
    if (!t) {
        stream_close(inner);
        return NULL;
    }
    t->inner = inner;
    t->has_address =
        inner->class->peer_address && inner->class->peer_address(inner, t->address.bytes);
    return &t->stream;
}

const tls_parties *tls_parties_of(const stream *s) {
    return &of(s)->parties;
}
