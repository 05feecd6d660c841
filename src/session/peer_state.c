// The states of a peer, as a table. docs/protocol/connection.md is the specification.
#include "session/peers_internal.h"

#include "base/log.h"
#include "base/logged_losses.h"
#include "base/machine.h"
#include "base/mem.h"
#include "base/status.h"
#include "trace/record.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MS ((int64_t)1000000)

enum {
    RETRY_FIRST_MS = 10,
    RETRY_MAX_MS = 500,
    HIGHER_RANK_WAITS_MS = 20,
    HELD_MS = 1000,
    GOODBYE_TRIES = 10
};

static const connection_events attempt_events;

static void retry_in(peer *x, int64_t delay_ns) {
    env *e = x->peers->options.env;
    env_set_timer(e, &x->retry, env_now_ns(e) + delay_ns);
}

static void drop_connection(peer *x) {
    env_set_timer(x->peers->options.env, &x->retry, ENV_NEVER);
    connection_close(x->connection);
    x->connection = NULL;
}

static int limit_ms(const peer *x) {
    return x->connected_ns ? LIMIT_RECONNECT_MS : LIMIT_CONNECT_MS;
}

// A peer that answers a handshake is alive, however often connections to it break: the time until this worker gives
// up starts with the first failure after that. The interval between attempts grows while they achieve nothing: no
// frame, and no connection that lasted for a while.
static void note_failure(peer *x, bool was_connected) {
    int64_t now = env_now_ns(x->peers->options.env);
    uint64_t progress = x->session.received + x->session.acked;
    bool held = was_connected && now - x->connected_ns > HELD_MS * MS;
    if (held || progress != x->progress) x->tries = 0;
    x->progress = progress;
    if (x->gives_up_ns) return;
    x->gives_up_ns = now + limit_ms(x) * MS;
}

int64_t peer_fails_since_ns(const peer *x) {
    bool fails = x->gives_up_ns && x->state != PEER_CONNECTED && x->state != PEER_LOST;
    return fails ? x->gives_up_ns - limit_ms(x) * MS : ENV_NEVER;
}

// ---- Actions ------------------------------------------------------------------------------------
static void retry_now(peer *x) {
    note_failure(x, false);
    retry_in(x, 0);
}

// All addresses have failed, each with an error of its own.
static void end_round(peer *x) {
    error_keep(&x->why, error_kept(x->routes.why));
    switch (error_kept(x->why)->status) {
    case GW_NOT_FOUND: peer_lose(x, GW_LOSS_ENDED, "is gone: its process has ended"); return;
    case GW_INVALID: peer_apply(x, PEER_DEAD); return;
    case GW_PROTOCOL:
    case GW_MISMATCH:
        peer_fail(x, error_kept(x->why)->status, "is unreachable at %s: %s", x->routes.text,
                  error_kept(x->routes.why)->text);
        return;
    default: peer_apply(x, PEER_BROKEN);
    }
}

// The address of this attempt does not lead to the peer, or does not answer.
static void attempt_failed(peer *x, const gw_error *why, bool names_address) {
    if (routes_failed(&x->routes, why, names_address)) {
        peer_apply(x, PEER_ELSEWHERE);
    } else {
        end_round(x);
    }
}

// Several addresses share the time limit of one.
static int64_t attempt_is_due_ns(const peer *x) {
    int64_t due = env_now_ns(x->peers->options.env) + LIMIT_HANDSHAKE_MS * MS / x->routes.count;
    return due >= x->gives_up_ns && !x->peers->is_patient ? x->gives_up_ns : due;
}

static void connect_here(peer *x) {
    gw_error error;
    party to = { .rank = (uint32_t)x->rank, .incarnation = x->incarnation };
    snprintf(to.name, sizeof to.name, "%s", x->name);
    gw_status status =
        connection_connect(x->peers->options.env, routes_at(&x->routes), &to, x->peers->staging,
                           &attempt_events, x, &x->connection, &error);
    if (status) {
        attempt_failed(x, &error, true);
    } else {
        connection_set_deadline(x->connection, attempt_is_due_ns(x));
    }
}

static void begin_round(peer *x) {
    if (routes_begin(&x->routes)) {
        connect_here(x);
    } else {
        end_round(x);
    }
}

static void connect_elsewhere(peer *x) {
    drop_connection(x);
    connect_here(x);
}

static void send_handshake(peer *x) {
    const peers_options *o = &x->peers->options;
    x->attempt = x->connection_number + 1;
    handshake h = {
        .kind = HANDSHAKE_SESSION,
        .from_rank = (uint32_t)o->rank,
        .from_incarnation = o->incarnation,
        .to_rank = (uint32_t)x->rank,
        .to_incarnation = x->incarnation,
        .connection_number = x->attempt,
        .received = x->session.received,
    };
    connection_send_handshake(x->connection, &h);
}

static void back_off(peer *x) {
    drop_connection(x);
    note_failure(x, false);
    int64_t delay_ms = RETRY_FIRST_MS;
    for (int i = 0; i < x->tries && delay_ms < RETRY_MAX_MS; i++) delay_ms *= 2;
    if (delay_ms > RETRY_MAX_MS) delay_ms = RETRY_MAX_MS;
    x->tries++;
    // Half of the interval is random, so that two that fail together do not repeat this.
    env *e = x->peers->options.env;
    int64_t half = delay_ms * MS / 2;
    retry_in(x, half + (int64_t)(env_random_u64(e) % (uint64_t)half));
}

static void try_larger_number(peer *x) {
    drop_connection(x);
    retry_in(x, 0);
}

static gw_transport_stats *stats_of(peers *p, const transport *t) {
    int i = 0;
    while (p->options.env->transports[i] != t) i++;
    return &p->stats.over[i];
}

// Messages that an earlier connection has sent, and that the peer has not acknowledged.
static void record_resent(const peer *x) {
    uint64_t count = 0;
    if (!trace_is_on(TRACE_WIRE)) return;
    list_each(l, &x->session.unacked) count += list_entry(l, message, link)->was_sent;
    if (count) trace_record(TRACE_RESENT, -1, (uint64_t)x->rank, count, trace_name(x->name));
}

static void begin_stream(peer *x) {
    x->over = stats_of(x->peers, x->connection->transport);
    x->connected_ns = env_now_ns(x->peers->options.env);
    x->gives_up_ns = 0;
    x->is_blocked = false;
    connection_stream(x->connection, &peer_connection_events, x);
    x->session.close_wanted = x->peers->is_ending;
    record_resent(x);
    peer_update_busy(x);  // a handshake acknowledges too
    peer_notify_room(x);
    peers_make_dirty(x);
}

static void record_lost(const peer *x) {
    if (trace_is_on(TRACE_WIRE))
        trace_record_text(TRACE_RECONNECTING, -1, 0, (uint64_t)x->rank, x->name);
}

// "A closed connection is evidence that the peer has ended, so both sides ask at once."
static void reconnect_at_once(peer *x) {
    session_detach(&x->session);
    drop_connection(x);
    note_failure(x, true);
    x->peers->stats.reconnects++;
    x->traffic.reconnects++;
    record_lost(x);
    if (x->tries > 0) {
        back_off(x);  // the previous one broke before a frame was received
        return;
    }
    x->tries++;
    retry_in(x, x->rank > x->peers->options.rank ? 0 : HIGHER_RANK_WAITS_MS * MS);
}

static void replace_connection(peer *x) {
    session_detach(&x->session);
    x->peers->stats.reconnects++;
    x->traffic.reconnects++;
    record_lost(x);
}

static void bury(peer *x) {
    peers *p = x->peers;
    env_set_timer(p->options.env, &x->ack, ENV_NEVER);
    drop_connection(x);
    list_remove(&x->dirty);
    bool is_logged =
        !x->session.has_close && !x->is_expected_lost && error_kept(x->why)->status != GW_FENCED;
    if (is_logged) logged_losses_log(p->options.env, error_kept(x->why));
    session_stop(&x->session);
    peer_update_busy(x);
    p->options.lost(p->options.user, x->rank, error_kept(x->why));
}

// The peer may not have received the goodbye: then it connects again, and receives it once more.
static void hang_up(peer *x) {
    session_detach(&x->session);
    drop_connection(x);
    list_remove(&x->dirty);
    peer_update_busy(x);
}

static void nothing(peer *x) {
    (void)x;
}

// ---- The table ----------------------------------------------------------------------------------
typedef MACHINE_RULE(peer_state, peer_event, peer *x) rule;

// clang-format off
static const rule rules[] = {
    { PEER_QUIET,            PEER_WANTED,    PEER_AWAITING_RETRY,   retry_now,         "a connection is opened when first needed, in a later turn, because opening it may fail" },
    { PEER_QUIET,            PEER_ACCEPTED,  PEER_CONNECTED,        begin_stream,      "the peer had a message to send and has connected" },

    { PEER_AWAITING_RETRY,   PEER_RETRY_DUE, PEER_AWAITING_OPEN,    begin_round,       "the next attempt begins at the address that has worked last" },
    { PEER_AWAITING_RETRY,   PEER_WANTED,    PEER_AWAITING_RETRY,   nothing,           "the message is sent with the others when the peer is connected" },
    { PEER_AWAITING_RETRY,   PEER_ACCEPTED,  PEER_CONNECTED,        begin_stream,      "the peer has connected first" },

    { PEER_AWAITING_OPEN,    PEER_OPENED,    PEER_AWAITING_WELCOME, send_handshake,    "the connecting side sends first" },
    { PEER_AWAITING_OPEN,    PEER_WANTED,    PEER_AWAITING_OPEN,    nothing,           "the message is sent with the others when the peer is connected" },
    { PEER_AWAITING_OPEN,    PEER_ACCEPTED,  PEER_CONNECTED,        begin_stream,      "both connected at once: the peer's attempt wins" },
    { PEER_AWAITING_OPEN,    PEER_ELSEWHERE, PEER_AWAITING_OPEN,    connect_elsewhere, "another of its addresses may work" },
    { PEER_AWAITING_OPEN,    PEER_BROKEN,    PEER_AWAITING_RETRY,   back_off,          "no answer, but not refused either" },

    { PEER_AWAITING_WELCOME, PEER_WELCOMED,  PEER_CONNECTED,        begin_stream,      "this incarnation has answered" },
    { PEER_AWAITING_WELCOME, PEER_WANTED,    PEER_AWAITING_WELCOME, nothing,           "the message is sent with the others when the peer is connected" },
    { PEER_AWAITING_WELCOME, PEER_ACCEPTED,  PEER_CONNECTED,        begin_stream,      "both connected at once: the peer's attempt wins" },
    { PEER_AWAITING_WELCOME, PEER_STALE,     PEER_AWAITING_RETRY,   try_larger_number, "the refusal has the connection number that the next attempt must exceed" },
    { PEER_AWAITING_WELCOME, PEER_CROSSED,   PEER_AWAITING_RETRY,   back_off,          "the attempt of the peer wins; this side retries only if it does not arrive" },
    { PEER_AWAITING_WELCOME, PEER_ELSEWHERE, PEER_AWAITING_OPEN,    connect_elsewhere, "another process is at this address, or the connection broke" },
    { PEER_AWAITING_WELCOME, PEER_BROKEN,    PEER_AWAITING_RETRY,   back_off,          "the peer may not know this worker yet, or the network failed" },

    { PEER_CONNECTED,        PEER_WANTED,    PEER_CONNECTED,        peers_make_dirty,  "the message is sent at the end of the turn" },
    { PEER_CONNECTED,        PEER_ACCEPTED,  PEER_CONNECTED,        begin_stream,      "the peer has noticed the break first, and has connected again" },
    { PEER_CONNECTED,        PEER_BROKEN,    PEER_AWAITING_RETRY,   reconnect_at_once, "a closed connection does not prove that the peer has ended" },

    { PEER_CONNECTED,        PEER_ENDED,     PEER_QUIET,            hang_up,           "this worker has left, and opens no more connections" },

    { PEER_QUIET,            PEER_DEAD,      PEER_LOST,             bury,              "declared dead by membership" },
    { PEER_AWAITING_RETRY,   PEER_DEAD,      PEER_LOST,             bury,              "the time to connect has passed, or membership has declared the peer dead" },
    { PEER_AWAITING_OPEN,    PEER_DEAD,      PEER_LOST,             bury,              "the connection was refused: the process of the peer has ended" },
    { PEER_AWAITING_WELCOME, PEER_DEAD,      PEER_LOST,             bury,              "another incarnation has answered, or the peer has lost this worker" },
    { PEER_CONNECTED,        PEER_DEAD,      PEER_LOST,             bury,              "the peer has left, or has broken the protocol" },
};
// clang-format on

void peer_apply(peer *x, peer_event event) {
    const rule *r = machine_find(rules, sizeof rules, sizeof *rules, x->state, event);
    assert(r);  // all events are local: received frames become events only where a rule exists
    x->state = r->to;
    r->action(x);
}

static void failv(peer *x, gw_status status, gw_loss how, const char *format, va_list args) {
    if (x->state == PEER_LOST) return;
    char text[GW_ERROR_TEXT_MAX];
    vsnprintf(text, sizeof text, format, args);
    gw_error error;
    error_set(&error, status, "%s (rank %d) %s", x->name, x->rank, text);
    if (how) error_set_lost(&error, how, x->rank, x->incarnation, x->name);
    error_keep(&x->why, &error);
    peer_apply(x, PEER_DEAD);
}

void peer_fail(peer *x, gw_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    failv(x, status, GW_LOSS_NONE, format, args);
    va_end(args);
}

void peer_lose(peer *x, gw_loss how, const char *format, ...) {
    va_list args;
    va_start(args, format);
    failv(x, GW_DISCONNECTED, how, format, args);
    va_end(args);
}

// ---- Events of our own attempt ------------------------------------------------------------------
static void retry_is_due(timer *t) {
    peer *x = (peer *)((char *)t - offsetof(peer, retry));
    if (x->peers->is_patient || env_now_ns(x->peers->options.env) < x->gives_up_ns) {
        peer_apply(x, PEER_RETRY_DUE);
        return;
    }
    char last[GW_ERROR_TEXT_MAX];
    memcpy(last, error_kept(x->why)->text, sizeof last);
    peer_lose(x, GW_LOSS_SILENT, "has not answered at %s for %d s%s%.300s", x->routes.text,
              limit_ms(x) / 1000, *last ? ": " : "", last);
}

static void on_opened(void *user) {
    peer_apply(user, PEER_OPENED);
}

static void on_welcome(peer *x, const handshake *h) {
    if (h->connection_number != x->attempt) {
        peer_fail(x, GW_PROTOCOL,
                  "has accepted connection %llu, which this worker has not requested",
                  (unsigned long long)h->connection_number);
        return;
    }
    gw_error error;
    x->session.checks_bodies = !connection_protects(x->connection);
    gw_status status = session_resume(&x->session, h->received, &error);
    if (status == GW_PROTOCOL) {
        peer_fail(x, GW_PROTOCOL, "broke the protocol: %s", error.text);
    } else if (status) {
        error_keep(&x->why, &error);
        peer_apply(x, PEER_BROKEN);
    } else {
        x->connection_number = x->attempt;
        routes_worked(&x->routes);
        error_forget(&x->why);
        peer_apply(x, PEER_WELCOMED);
    }
}

// The peer has lost this worker. So this worker is fenced, not the peer.
static void be_fenced(peer *x, const handshake *h) {
    gw_error error;
    error_set(&error, GW_FENCED,
              "the other workers have declared this worker dead: %s; call gw_rpc_init on another "
              "scope to join again",
              h->text);
    error_keep(&x->why, &error);
    peer_apply(x, PEER_DEAD);
}

// Another process listens at this address.
static void is_another_process(peer *x, const handshake *h) {
    gw_error error;
    error_set(&error, GW_NOT_FOUND, "%s", h->text);
    attempt_failed(x, &error, false);
}

static void on_refusal(peer *x, const handshake *h) {
    if (h->connection_number > x->connection_number && h->reason <= REFUSED_CROSSED)
        x->connection_number = h->connection_number;
    switch (h->reason) {
    case REFUSED_STALE: peer_apply(x, PEER_STALE); return;
    case REFUSED_CROSSED: peer_apply(x, PEER_CROSSED); return;
    case REFUSED_UNKNOWN:
    case REFUSED_LOST: be_fenced(x, h); return;
    case REFUSED_ANOTHER: is_another_process(x, h); return;
    case REFUSED_PLAIN:
    case REFUSED_VERSION: peer_fail(x, GW_MISMATCH, "refused this worker: %s", h->text); return;
    case REFUSED_NO_STORE:
    case REFUSED_COUNT: break;
    }
    peer_fail(x, GW_DISCONNECTED, "refused this worker: %s", h->text);
}

static void on_handshake(void *user, const handshake *h, const gw_error *bad) {
    peer *x = user;
    peers *p = x->peers;
    peers_begin_event(p);
    x->received_count++;
    if (!h) {
        attempt_failed(x, bad, false);
    } else if (h->kind == HANDSHAKE_WELCOME) {
        on_welcome(x, h);
    } else if (h->kind == HANDSHAKE_REFUSAL) {
        on_refusal(x, h);
    } else {
        peer_fail(x, GW_PROTOCOL, "answered a hello with a hello");
    }
    peers_end_event(p);
}

static void on_closed(void *user, const gw_error *why) {
    attempt_failed(user, why, false);
}

static const connection_events attempt_events = {
    .opened = on_opened,
    .handshake = on_handshake,
    .closed = on_closed,
};

// ---- The peer's attempt -------------------------------------------------------------------------
// "Both sides order connection attempts by (connection number, then the lower rank of the
// connecting worker first)."
static bool is_beaten_by_ours(const peer *x, const handshake *h) {
    if (x->state != PEER_AWAITING_WELCOME) return false;
    if (x->attempt != h->connection_number) return x->attempt > h->connection_number;
    return x->peers->options.rank < x->rank;
}

// The peer connects for the first time while this worker's attempts have no answer: this may stay so.
static void log_one_way(const peer *x) {
    int64_t since_ns = x->gives_up_ns - LIMIT_CONNECT_MS * MS;
    int64_t passed_ns = env_now_ns(x->peers->options.env) - since_ns;
    if (x->connected_ns || x->state != PEER_AWAITING_OPEN || passed_ns < HELD_MS * MS) return;
    log_line("%s (rank %d) has not answered at %s for %.1f s, but has connected to this worker "
             "now: perhaps only that worker can open connections between the two",
             x->name, x->rank, x->routes.text, (double)passed_ns / 1e9);
}

void peer_accept(peer *x, connection *l, const handshake *h) {
    if (x->state == PEER_LOST) {
        refuse(l, REFUSED_LOST, 0, "%s", error_kept(x->why)->text);
        return;
    }
    if (h->connection_number <= x->connection_number) {
        refuse(l, REFUSED_STALE, x->connection_number, "connection %llu is not the newest",
               (unsigned long long)h->connection_number);
        return;
    }
    if (is_beaten_by_ours(x, h)) {
        refuse(l, REFUSED_CROSSED, x->connection_number, "our attempts cross");
        return;
    }
    if (x->state == PEER_CONNECTED) replace_connection(x);
    gw_error error;
    x->session.checks_bodies = !connection_protects(l);
    gw_status status = session_resume(&x->session, h->received, &error);
    if (status) {
        connection_close(l);
        if (status == GW_PROTOCOL) {
            peer_fail(x, GW_PROTOCOL, "broke the protocol: %s", error.text);
        } else if (x->state == PEER_CONNECTED) {
            error_keep(&x->why, &error);
            peer_apply(x, PEER_BROKEN);
        }
        return;
    }
    log_one_way(x);
    drop_connection(x);
    x->connection = l;
    x->received_count++;
    x->connection_number = h->connection_number;
    connection_send_handshake(l, &(handshake){ .kind = HANDSHAKE_WELCOME,
                                               .connection_number = h->connection_number,
                                               .received = x->session.received });
    peer_apply(x, PEER_ACCEPTED);
}

// ---- Life ---------------------------------------------------------------------------------------
peer *peer_open(peers *p, int rank, uint64_t incarnation, const char *name, const char *addresses) {
    peer *x = mem_calloc(sizeof *x);
    if (!x) return NULL;
    x->peers = p;
    x->rank = rank;
    x->incarnation = incarnation;
    x->retry.fire = retry_is_due;
    x->ack.fire = peer_ack_is_due;
    session_init(&x->session, peer_message, x);
    x->name = mem_strdup(name);
    if (routes_init(&x->routes, p->options.env, addresses) && x->name) return x;
    peer_close(x);
    return NULL;
}

// The goodbye is sent if the connection takes it now; otherwise the peer detects the end by itself.
static void send_goodbye(peer *x) {
    x->session.close_wanted = true;
    for (int i = 0; i < GOODBYE_TRIES; i++) {
        x->is_blocked = false;
        peer_flush(x);
        if (!x->is_blocked) return;
    }
}

void peer_close(peer *x) {
    env *e = x->peers->options.env;
    if (x->state == PEER_CONNECTED) send_goodbye(x);
    env_set_timer(e, &x->ack, ENV_NEVER);
    drop_connection(x);
    list_remove(&x->dirty);
    session_fini(&x->session);
    mem_free(x->name);
    routes_fini(&x->routes);
    error_forget(&x->why);
    mem_free(x);
}
