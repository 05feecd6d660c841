// The states of an encrypted stream, as a table.
#include <assert.h>
#include <openssl/crypto.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/machine.h"
#include "base/mem.h"
#include "base/status.h"
#include "net/tls/tls_internal.h"

// How long taken bytes may wait without any of them being sent, and the stream below for a peer
// that has announced its end.
#define LINGER_NS INT64_C(5000000000)

// ---- Actions ------------------------------------------------------------------------------------

// Counts an unauthenticated peer, whatever it has sent; a client that disconnects without sending does not count.
static void count_failure(tls_stream *t) {
    if (t->has_opened || !t->has_address || t->is_counted || t->in_total == 0) return;
    backoff_fail(&t->tls->backoff, &t->address, env_now_ns(t->tls->env));
    t->is_counted = true;
}

static void destroy(tls_stream *t) {
    count_failure(t);
    SSL_free(t->ssl);
    OPENSSL_cleanse(t->psk, sizeof t->psk);
    list_remove(&t->link);
    mem_free(t->held);
    mem_free(t);
}

static void drop(tls_stream *t) {
    env_set_timer(t->tls->env, &t->timer, ENV_NEVER);
    if (t->inner) stream_close(t->inner);
    t->inner = NULL;
    if (!t->busy) destroy(t);
}

void tls_enter(tls_stream *t) {
    t->busy++;
}

void tls_leave(tls_stream *t) {
    if (--t->busy == 0 && t->state == TLS_CLOSED) destroy(t);
}

// TLS-17: received bytes stay in the stream below until the handshake begins.
static void adopt_below(tls_stream *t) {
    env *e = t->tls->env;
    int64_t now_ns = env_now_ns(e), begins_ns = now_ns;
    if (t->has_address)
        begins_ns = backoff_begin(&t->tls->backoff, &t->address, now_ns, &t->is_counted);
    t->waits = begins_ns > now_ns;
    if (t->waits) {
        env_set_timer(e, &t->timer, begins_ns);
    } else {
        tls_begin(t);
    }
}

// Allocates OpenSSL's memory for the handshake only now.
void tls_begin(tls_stream *t) {
    t->waits = false;
    t->ssl = tls_new_session(t->tls, t);
    if (t->ssl) {
        stream_adopt(t->inner, &tls_inner_events, t);
    } else {
        error_set(&t->why, GW_NO_MEMORY, "no memory for a handshake");
        tls_apply(t, TLS_SEND_FAILED);
    }
}

static void report_opened(tls_stream *t) {
    OPENSSL_cleanse(t->psk, sizeof t->psk);
    SSL_certs_clear(t->ssl);  // its copy of the private key
    t->has_opened = true;
    if (!t->is_server) t->stream.events->opened(t->stream.user);
    if (t->state == TLS_OPEN) tls_notify_writable(t);
}

static void report_end(tls_stream *t) {
    tls_enter(t);
    drop(t);
    t->stream.events->closed(t->stream.user, &t->why);
    tls_leave(t);
}

static void end_soon(tls_stream *t) {
    env_set_timer(t->tls->env, &t->timer, env_now_ns(t->tls->env));
}

static void end_later(tls_stream *t) {
    error_set(&t->why, GW_DISCONNECTED, "closed by the peer");
    env_set_timer(t->tls->env, &t->timer, env_now_ns(t->tls->env) + LINGER_NS);
}

void tls_linger_on(tls_stream *t) {
    env_set_timer(t->tls->env, &t->timer, env_now_ns(t->tls->env) + LINGER_NS);
}

static void begin_to_linger(tls_stream *t) {
    if (tls_send_end(t)) {
        tls_apply(t, TLS_FLUSHED);
    } else {
        tls_linger_on(t);
    }
}

static void nothing(tls_stream *t) {
    (void)t;
}

// ---- The table ----------------------------------------------------------------------------------
typedef MACHINE_RULE(tls_state, tls_event, tls_stream *t) rule;

// clang-format off
static const rule rules[] = {
    { TLS_CONNECTING, TLS_CONNECTED,   TLS_SHAKING,   tls_shake,       "the client speaks first" },
    { TLS_CONNECTING, TLS_ENDED,       TLS_CLOSED,    report_end,      "there is no listener, or the time to connect has passed" },
    { TLS_CONNECTING, TLS_CLOSED_HERE, TLS_CLOSED,    drop,            "its user does not need it any more" },

    { TLS_ACCEPTED,   TLS_ADOPTED,     TLS_SHAKING,   adopt_below,     "its user has set its events" },
    { TLS_ACCEPTED,   TLS_CLOSED_HERE, TLS_CLOSED,    drop,            "its user does not need it any more" },

    { TLS_SHAKING,    TLS_SHAKEN,      TLS_OPEN,      report_opened,   "the peer has the key, and is the expected worker" },
    { TLS_SHAKING,    TLS_SEND_FAILED, TLS_BREAKING,  end_soon,        "its user is notified in a turn of the loop" },
    { TLS_SHAKING,    TLS_ENDED,       TLS_CLOSED,    report_end,      "an unauthenticated peer, or another worker" },
    { TLS_SHAKING,    TLS_CLOSED_HERE, TLS_CLOSED,    drop,            "its user does not need it any more" },

    { TLS_OPEN,       TLS_SEND_FAILED, TLS_BREAKING,  end_soon,        "its user is notified in a turn of the loop" },
    { TLS_OPEN,       TLS_PEER_CLOSED, TLS_BREAKING,  end_later,       "the stream below reports the end, with the reason" },
    { TLS_OPEN,       TLS_ENDED,       TLS_CLOSED,    report_end,      "the peer has closed, or received bytes were altered" },
    { TLS_OPEN,       TLS_CLOSED_HERE, TLS_LINGERING, begin_to_linger, "bytes that were accepted for sending must still be sent" },

    { TLS_BREAKING,   TLS_SEND_FAILED, TLS_BREAKING,  nothing,         "once is enough" },
    { TLS_BREAKING,   TLS_ENDED,       TLS_CLOSED,    report_end,      "now" },
    { TLS_BREAKING,   TLS_CLOSED_HERE, TLS_CLOSED,    drop,            "its user has been notified" },

    { TLS_LINGERING,  TLS_SEND_FAILED, TLS_LINGERING, nothing,         "it ends anyway" },
    { TLS_LINGERING,  TLS_FLUSHED,     TLS_CLOSED,    drop,            "all bytes are sent, or the time to linger has passed" },
    { TLS_LINGERING,  TLS_ENDED,       TLS_CLOSED,    drop,            "the peer reads no more" },

    { TLS_CONNECTING, TLS_ABANDONED,   TLS_CLOSED,    drop,            "its worker ends, without notification" },
    { TLS_ACCEPTED,   TLS_ABANDONED,   TLS_CLOSED,    drop,            "its worker ends, without notification" },
    { TLS_SHAKING,    TLS_ABANDONED,   TLS_CLOSED,    drop,            "its worker ends, without notification" },
    { TLS_OPEN,       TLS_ABANDONED,   TLS_CLOSED,    drop,            "its worker ends, without notification" },
    { TLS_BREAKING,   TLS_ABANDONED,   TLS_CLOSED,    drop,            "its worker ends, without notification" },
    { TLS_LINGERING,  TLS_ABANDONED,   TLS_CLOSED,    drop,            "its worker ends, and cannot wait" },
};
// clang-format on

void tls_apply(tls_stream *t, tls_event event) {
    const rule *r = machine_find(rules, sizeof rules, sizeof *rules, t->state, event);
    assert(r);  // all events are local
    t->state = r->to;
    r->action(t);
}

void tls_end(tls_stream *t, gw_status status, const char *format, ...) {
    char text[GW_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    error_set(&t->why, status, "%s", text);
    tls_apply(t, TLS_ENDED);
}
