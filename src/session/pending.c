// Guests: accepted connections, until they have said who they are. They may be anybody's, so that each costs little, none
// stays long, and there are only so many.
#include "session/peers_internal.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

#define MS ((int64_t)1000000)

typedef struct guest {
    peers *peers;
    line *line;
    list_node link;
    bool waits;  // has said |said|, and its rank, or this worker's own, is not known here yet
    hello said;
} guest;

_Static_assert(sizeof(guest) + sizeof(line) <= LIMIT_HELLO_BYTES, "a stranger costs no more");

static void forget(guest *g) {
    list_remove(&g->link);
    g->peers->guest_count--;
    mem_free(g);
}

static void dismiss(guest *g) {
    line_close(g->line);
    forget(g);
}

void refuse(line *l, refusal_reason reason, uint64_t connection, const char *format, ...) {
    hello h = { .kind = HELLO_REFUSAL, .reason = reason, .connection = connection };
    va_list args;
    va_start(args, format);
    vsnprintf(h.text, sizeof h.text, format, args);
    va_end(args);
    line_say(l, &h);
    line_close(l);
}

// ---- Hellos -------------------------------------------------------------------------------------------------------
// Answers a hello from a rank that is known here.
static void introduce(line *l, peer *x, const hello *h) {
    if (h->from_incarnation == x->incarnation) {
        peer_accept(x, l, h);
        return;
    }
    log_line("refused a second process that says it is rank %d (%s)", x->rank, x->name);
    refuse(l, REFUSED_UNKNOWN, 0, "rank %d is taken by another process, %s", x->rank, x->name);
}

static void on_session_hello(guest *g, const hello *h) {
    peers *p = g->peers;
    const peers_options *o = &p->options;
    line *l = g->line;
    if (o->rank < 0 && h->to_incarnation == o->incarnation) {
        g->said = *h;
        g->waits = true;
    } else if (h->to_rank != (uint32_t)o->rank || h->to_incarnation != o->incarnation) {
        forget(g);
        refuse(l, REFUSED_ANOTHER, 0, "this is another process, rank %d", o->rank);
    } else if (h->from_rank >= LIMIT_WORKERS || h->from_rank == (uint32_t)o->rank ||
               h->connection == 0) {
        forget(g);
        refuse(l, REFUSED_UNKNOWN, 0, "rank %u cannot be the caller's", h->from_rank);
    } else if (!peer_find(p, h->from_rank)) {
        g->said = *h;
        g->waits = true;
    } else {
        forget(g);
        introduce(l, peer_find(p, h->from_rank), h);
    }
}

static void on_store_hello(guest *g) {
    peers *p = g->peers;
    line *l = g->line;
    forget(g);
    if (p->store_hello) {
        p->store_hello(p->store_user, l);
    } else {
        refuse(l, REFUSED_NO_STORE, 0, "rank %d does not host the store", p->options.rank);
    }
}

static void on_heard(void *user, const hello *h, const gw_error *bad) {
    guest *g = user;
    peers *p = g->peers;
    peers_begin_event(p);
    if (h && h->kind == HELLO_SESSION) {
        on_session_hello(g, h);
    } else if (h && h->kind == HELLO_STORE) {
        on_store_hello(g);
    } else {
        log_line("closed a connection: %s",
                 bad && !h ? bad->text : "it answered before it was asked");
        if (!h && bad->status == GW_MISMATCH) {
            line *l = g->line;
            forget(g);
            refuse(l, REFUSED_VERSION, 0, "%s", bad->text);
        } else {
            dismiss(g);
        }
    }
    peers_end_event(p);
}

static void on_closed(void *user, const gw_error *why) {
    guest *g = user;
    if (why->status == GW_TIMEOUT && !g->waits)
        log_line("closed a connection: %s within %d s", why->text, LIMIT_HELLO_MS / 1000);
    dismiss(g);
}

static const line_events guest_events = {
    .heard = on_heard,
    .closed = on_closed,
};

// ---- Coming and going ---------------------------------------------------------------------------------------------
// Whoever was silent longest has had its chance; a member says its hello at once.
static void make_room(peers *p) {
    if (p->guest_count < LIMIT_HELLO_COUNT) return;
    guest *oldest = NULL;
    list_each(l, &p->guests) {
        guest *g = list_entry(l, guest, link);
        if (!oldest || (oldest->waits && !g->waits)) oldest = g;
    }
    dismiss(oldest);
}

void guests_accepted(void *user, conn *c) {
    peers *p = user;
    make_room(p);
    guest *g = mem_calloc(sizeof *g);
    if (!g) {
        conn_close(p->options.env, c);
        return;
    }
    g->peers = p;
    g->line = line_accept(p->options.env, c, p->staging, &guest_events, g);
    if (!g->line) {
        mem_free(g);
        return;
    }
    line_set_deadline(g->line, env_now_ns(p->options.env) + LIMIT_HELLO_MS * MS);
    list_append(&p->guests, &g->link);
    p->guest_count++;
}

void guests_added(peers *p, peer *x) {
    list_each(l, &p->guests) {
        guest *g = list_entry(l, guest, link);
        if (!g->waits || g->said.from_rank != (uint32_t)x->rank) continue;
        hello said = g->said;
        line *waiting = g->line;
        forget(g);
        introduce(waiting, x, &said);
    }
}

void guests_rank_known(peers *p) {
    list_each(l, &p->guests) {
        guest *g = list_entry(l, guest, link);
        hello said = g->said;
        if (!g->waits) continue;
        g->waits = false;
        on_session_hello(g, &said);
    }
}

void guests_close_all(peers *p) {
    while (!list_is_empty(&p->guests)) dismiss(list_entry(p->guests.next, guest, link));
}
