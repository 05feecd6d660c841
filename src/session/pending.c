// Pending connections: accepted connections before their handshake. Any process may open one,
// so that each costs little, none stays long, and their number is limited.
#include "session/peers_internal.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

#define MS ((int64_t)1000000)

typedef struct pending_connection {
    peers *peers;
    connection *connection;
    list_node link;
    bool waits;  // for the rank in |hello|, or this worker's own rank, to be added
    handshake hello;
} pending_connection;

_Static_assert(sizeof(pending_connection) + sizeof(connection) <= LIMIT_HANDSHAKE_BYTES,
               "an unauthenticated peer costs no more");

static void forget(pending_connection *g) {
    list_remove(&g->link);
    g->peers->pending_count--;
    mem_free(g);
}

static void dismiss(pending_connection *g) {
    connection_close(g->connection);
    forget(g);
}

void refuse(connection *l, refusal_reason reason, uint64_t connection_number, const char *format,
            ...) {
    handshake h = { .kind = HANDSHAKE_REFUSAL,
                    .reason = reason,
                    .connection_number = connection_number };
    va_list args;
    va_start(args, format);
    vsnprintf(h.text, sizeof h.text, format, args);
    va_end(args);
    connection_send_handshake(l, &h);
    connection_close(l);
}

// ---- Handshakes ---------------------------------------------------------------------------------
// Answers a handshake from a rank that was added.
static void introduce(connection *l, peer *x, const handshake *h) {
    if (!connection_may_be(l, x->name)) {
        log_line("refused a worker that claims to be rank %d (%s), but has no certificate for this "
                 "rank and name",
                 x->rank, x->name);
        refuse(l, REFUSED_UNKNOWN, 0,
               "rank %d is %s, but the certificate of this worker is not for it", x->rank, x->name);
        return;
    }
    if (h->from_incarnation == x->incarnation) {
        peer_accept(x, l, h);
        return;
    }
    log_line("refused a second process that claims to be rank %d (%s)", x->rank, x->name);
    refuse(l, REFUSED_UNKNOWN, 0, "rank %d is taken by another process, %s", x->rank, x->name);
}

static void on_session_handshake(pending_connection *g, const handshake *h) {
    peers *p = g->peers;
    const peers_options *o = &p->options;
    connection *l = g->connection;
    if (o->rank < 0 && h->to_incarnation == o->incarnation) {
        g->hello = *h;
        g->waits = true;
    } else if (h->to_rank != (uint32_t)o->rank || h->to_incarnation != o->incarnation) {
        forget(g);
        refuse(l, REFUSED_ANOTHER, 0, "this is another process, rank %d", o->rank);
    } else if (h->from_rank >= LIMIT_WORKERS || h->from_rank == (uint32_t)o->rank ||
               h->connection_number == 0) {
        forget(g);
        refuse(l, REFUSED_UNKNOWN, 0, "rank %u cannot be the rank of the worker that has connected",
               h->from_rank);
    } else if (!peer_find(p, h->from_rank)) {
        g->hello = *h;
        g->waits = true;
    } else {
        forget(g);
        introduce(l, peer_find(p, h->from_rank), h);
    }
}

static void on_store_handshake(pending_connection *g) {
    peers *p = g->peers;
    connection *l = g->connection;
    forget(g);
    if (p->take_store) {
        p->take_store(p->store_user, l);
    } else {
        refuse(l, REFUSED_NO_STORE, 0, "rank %d does not host the store", p->options.rank);
    }
}

static void on_handshake(void *user, const handshake *h, const gw_error *bad) {
    pending_connection *g = user;
    peers *p = g->peers;
    peers_begin_event(p);
    if (h && h->kind == HANDSHAKE_SESSION) {
        on_session_handshake(g, h);
    } else if (h && h->kind == HANDSHAKE_STORE) {
        on_store_handshake(g);
    } else {
        log_line("closed a connection: %s",
                 bad && !h ? bad->text : "its first message was a reply");
        if (!h && bad->status == GW_MISMATCH) {
            connection *l = g->connection;
            forget(g);
            refuse(l, REFUSED_VERSION, 0, "%s", bad->text);
        } else {
            dismiss(g);
        }
    }
    peers_end_event(p);
}

static void on_closed(void *user, const gw_error *why) {
    pending_connection *g = user;
    if (why->status == GW_TIMEOUT && !g->waits)
        log_line("closed a connection: %s within %d s", why->text, LIMIT_HANDSHAKE_MS / 1000);
    if (why->status == GW_MISMATCH) log_line("closed a connection: %s", why->text);
    dismiss(g);
}

static const connection_events pending_events = {
    .handshake = on_handshake,
    .closed = on_closed,
};

// ---- Opening and closing ------------------------------------------------------------------------
// Drops the connection that has been silent longest: a member sends its handshake at once.
static void make_room(peers *p) {
    if (p->pending_count < LIMIT_HANDSHAKE_COUNT) return;
    pending_connection *oldest = NULL;
    list_each(l, &p->pending) {
        pending_connection *g = list_entry(l, pending_connection, link);
        if (!oldest || (oldest->waits && !g->waits)) oldest = g;
    }
    dismiss(oldest);
}

void pending_accepted(void *user, stream *s) {
    peers *p = user;
    make_room(p);
    pending_connection *g = mem_calloc(sizeof *g);
    if (!g) {
        stream_close(s);
        return;
    }
    g->peers = p;
    g->connection = connection_accept(p->options.env, s, p->staging, &pending_events, g);
    if (!g->connection) {
        mem_free(g);
        return;
    }
    connection_set_deadline(g->connection, env_now_ns(p->options.env) + LIMIT_HANDSHAKE_MS * MS);
    list_append(&p->pending, &g->link);
    p->pending_count++;
}

void pending_added(peers *p, peer *x) {
    list_each(l, &p->pending) {
        pending_connection *g = list_entry(l, pending_connection, link);
        if (!g->waits || g->hello.from_rank != (uint32_t)x->rank) continue;
        handshake hello = g->hello;
        connection *waiting = g->connection;
        forget(g);
        introduce(waiting, x, &hello);
    }
}

void pending_rank_known(peers *p) {
    list_each(l, &p->pending) {
        pending_connection *g = list_entry(l, pending_connection, link);
        handshake hello = g->hello;
        if (!g->waits) continue;
        g->waits = false;
        on_session_handshake(g, &hello);
    }
}

void pending_close_all(peers *p) {
    while (!list_is_empty(&p->pending))
        dismiss(list_entry(p->pending.next, pending_connection, link));
}
