#include "session/peers.h"

#include "base/failpoint.h"
#include "base/mem.h"
#include "base/status.h"
#include "session/peers_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

gw_status peers_open(peers_options options, const char *listen_addresses, peers **out,
                     char out_addresses[ADDRESSES_MAX], gw_error *error) {
    peers *p = mem_calloc(sizeof *p);
    if (!p) return error_set(error, GW_NO_MEMORY, "no memory for an agent");
    p->options = options;
    list_init(&p->pending);
    list_init(&p->dirty);
    for (int i = 0; options.env->transports[i]; i++)
        p->stats.over[p->stats.transport_count++].name = options.env->transports[i]->name;
    gw_status status = GW_OK;
    p->staging = mem_alloc(STAGING_BYTES);
    if (!p->staging) status = error_set(error, GW_NO_MEMORY, "no memory for an agent");
    if (!status)
        status = listeners_open(options.env, listen_addresses, pending_accepted, p, &p->listeners,
                                out_addresses, error);
    if (status) {
        mem_free(p->staging);
        mem_free(p);
        return status;
    }
    *out = p;
    return GW_OK;
}

gw_status peers_listen_also(peers *p, const char *address, gw_error *error) {
    return listeners_add(p->options.env, address, pending_accepted, p, &p->listeners, error);
}

void peers_close(peers *p) {
    if (!p) return;
    assert(!p->in_event);
    listeners_close(&p->listeners);
    pending_close_all(p);
    for (int i = 0; i < p->rank_limit; i++)
        if (p->by_rank[i]) peer_close(p->by_rank[i]);
    peers_end_traffic(p);
    mem_free(p->by_rank);
    mem_free(p->staging);
    mem_free(p);
}

peer *peer_find(const peers *p, uint32_t rank) {
    return rank < (uint32_t)p->rank_limit ? p->by_rank[rank] : NULL;
}

void peers_set_rank(peers *p, int rank) {
    p->options.rank = rank;
    pending_rank_known(p);
}

static bool make_room_for(peers *p, int rank) {
    if (rank < p->rank_limit) return true;
    int limit = p->rank_limit ? p->rank_limit * 2 : 8;
    if (limit <= rank) limit = rank + 1;
    peer **by_rank = mem_realloc(p->by_rank, (size_t)limit * sizeof(peer *));
    if (!by_rank) return false;
    memset(by_rank + p->rank_limit, 0, (size_t)(limit - p->rank_limit) * sizeof(peer *));
    p->by_rank = by_rank;
    p->rank_limit = limit;
    return true;
}

gw_status peers_add(peers *p, int rank, uint64_t incarnation, const char *name,
                    const char *addresses, gw_error *error) {
    if (rank < 0 || rank >= LIMIT_WORKERS)
        return error_set(error, GW_LIMIT, "rank %d is too large: a job has at most %d workers",
                         rank, LIMIT_WORKERS);
    if (rank == p->options.rank || peer_find(p, (uint32_t)rank))
        return error_set(error, GW_DUPLICATE, "rank %d is taken: %s cannot have it", rank, name);
    peer *x = make_room_for(p, rank) ? peer_open(p, rank, incarnation, name, addresses) : NULL;
    if (!x) return error_set(error, GW_NO_MEMORY, "no memory for %s", name);
    p->by_rank[rank] = x;
    pending_added(p, x);
    return GW_OK;
}

gw_status peers_send(peers *p, int rank, message *m, bool flush, gw_error *error) {
    peer *x = peer_find(p, (uint32_t)rank);
    if (x && p->is_ending) {
        message_release(m);
        return error_set(error, GW_DISCONNECTED, "this worker has left");
    }
    if (!x || x->state == PEER_LOST) {
        message_release(m);
        if (x && error) *error = *error_kept(x->why);
        return x ? error_kept(x->why)->status
                 : error_set(error, GW_NOT_FOUND, "no worker has rank %d", rank);
    }
    gw_status status = session_queue(&x->session, m, error);
    if (status) {
        if (error) error_prefix(error, x->name);
        return status;
    }
    p->stats.messages_sent++;
    if (x->session.unacked_bytes > x->traffic.queued_bytes_max)
        x->traffic.queued_bytes_max = x->session.unacked_bytes;
    peer_update_busy(x);
    if (x->state == PEER_CONNECTED && flush) {
        peer_flush(x);
    } else {
        peer_apply(x, PEER_WANTED);
    }
    return GW_OK;
}

uint64_t peers_last_message(const peers *p, int rank) {
    const peer *x = peer_find(p, (uint32_t)rank);
    return x ? x->session.last_id : 0;
}

bool peers_has_sent(const peers *p, int rank, uint64_t id) {
    const peer *x = peer_find(p, (uint32_t)rank);
    return x && session_has_sent(&x->session, id);
}

bool peers_withdraw(peers *p, int rank, uint64_t id, uint8_t kind) {
    peer *x = peer_find(p, (uint32_t)rank);
    return x && x->state != PEER_LOST && session_withdraw(&x->session, id, kind);
}

peers_backlog peers_get_backlog(const peers *p, int rank) {
    const peer *x = peer_find(p, (uint32_t)rank);
    if (!x) return (peers_backlog){ 0 };
    const session *s = &x->session;
    return (peers_backlog){ .all = s->unacked_bytes,
                            .stream = s->unacked_bytes - s->unacked_bulk_bytes,
                            .later_bulk = session_later_bulk_bytes(s) };
}

void peers_await_writable(peers *p, int rank) {
    peer *x = peer_find(p, (uint32_t)rank);
    if (x && x->state != PEER_LOST) x->awaits_room_below = x->session.unacked_bytes;
}

void peers_lose(peers *p, int rank, const gw_error *why) {
    peer *x = peer_find(p, (uint32_t)rank);
    if (!x || x->state == PEER_LOST) return;
    error_keep(&x->why, why);
    peer_apply(x, PEER_DEAD);
}

void peers_note_left(peers *p, int rank) {
    peer *x = peer_find(p, (uint32_t)rank);
    if (x) x->session.has_close = true;
}

void peers_expect_loss(peers *p, int rank) {
    peer *x = peer_find(p, (uint32_t)rank);
    if (x) x->is_expected_lost = true;
}

void peers_disable_timeout(peers *p) {
    p->is_patient = true;
}

bool peers_has_left(const peers *p, int rank) {
    const peer *x = peer_find(p, (uint32_t)rank);
    return x && x->state == PEER_LOST && x->session.has_close;
}

void peers_ping(peers *p, int rank) {
    peer *x = peer_find(p, (uint32_t)rank);
    if (!x || !x->is_busy) return;
    x->session.ping_wanted = true;
    peer_flush(x);
}

void peers_send_goodbye(peers *p) {
    p->is_ending = true;
    listeners_close(&p->listeners);
    for (int i = 0; i < p->rank_limit; i++) {
        peer *x = p->by_rank[i];
        if (!x) continue;
        x->session.close_wanted = x->state == PEER_CONNECTED;
        peer_flush(x);
        peer_update_busy(x);
    }
}

uint64_t peers_received_count(const peers *p, int rank) {
    const peer *x = peer_find(p, (uint32_t)rank);
    return x ? x->received_count : 0;
}

bool peers_is_connected(const peers *p, int rank) {
    const peer *x = peer_find(p, (uint32_t)rank);
    return x && x->state == PEER_CONNECTED;
}

bool peers_is_drained(const peers *p) {
    return p->busy_count == 0;
}

int peers_find_busy(const peers *p) {
    for (int i = 0; i < p->rank_limit; i++)
        if (p->by_rank[i] && p->by_rank[i]->is_busy) return i;
    return -1;
}

const char *peers_name(const peers *p, int rank) {
    return p->by_rank[rank]->name;
}

int peers_find_unreachable(const peers *p, int64_t for_ns) {
    int64_t until_ns = env_now_ns(p->options.env) - for_ns;
    for (int i = 0; i < p->rank_limit; i++) {
        const peer *x = p->by_rank[i];
        if (x && x->is_busy && peer_fails_since_ns(x) <= until_ns) return i;
    }
    return -1;
}

void peers_on_drained(peers *p, waiter *w) {
    p->drained = w;
    if (!w) return;
    if (p->busy_count == 0) {
        p->drained = NULL;
        env_wake(p->options.env, w);
        return;
    }
    for (int i = 0; i < p->rank_limit; i++) {
        peer *x = p->by_rank[i];
        if (!x || !x->is_busy) continue;
        x->session.ping_wanted = true;
        peer_flush(x);
    }
}

peers_stats peers_get_stats(const peers *p) {
    peers_stats out = p->stats;
    for (int i = 0; i < p->rank_limit; i++) {
        const peer *x = p->by_rank[i];
        if (x && x->state == PEER_CONNECTED) out.over[x->over - p->stats.over].workers++;
    }
    return out;
}

peer_traffic peers_get_traffic(const peers *p, int rank) {
    const peer *x = peer_find(p, (uint32_t)rank);
    if (!x) return (peer_traffic){ 0 };
    peer_traffic out = x->traffic;
    out.queued_bytes = x->state == PEER_LOST ? 0 : x->session.unacked_bytes;
    return out;
}

const char *peers_transport(const peers *p, int rank) {
    const peer *x = peer_find(p, (uint32_t)rank);
    return x && x->state == PEER_CONNECTED ? x->over->name : NULL;
}

static bool is_offered(const peer *x, const transport *t) {
    for (int i = 0; i < x->routes.given_count; i++)
        if (x->routes.given[i].transport == t) return true;
    return false;
}

const char *peers_why_not_better(const peers *p, int rank, char out[PEERS_REASON_BYTES]) {
    const peer *x = peer_find(p, (uint32_t)rank);
    const transport *best = p->options.env->transports[0];
    out[0] = '\0';
    if (!x || x->state != PEER_CONNECTED || x->over == p->stats.over) return out;
    if (!is_offered(x, best))
        snprintf(out, PEERS_REASON_BYTES,
                 "%s: turned off on that worker, by GW_TRANSPORT or its addresses", best->name);
    else
        snprintf(out, PEERS_REASON_BYTES, "%s: %.280s", best->name,
                 x->routes.before
                     ? error_kept(x->routes.before)->text
                     : "the other worker has opened the connection: see its log for the reason");
    return out;
}

void peers_serve_store(peers *p, void (*take)(void *user, connection *c), void *user) {
    p->take_store = take;
    p->store_user = user;
}

// ---- Sending and receiving ----------------------------------------------------------------------

#define MS ((int64_t)1000000)

// ---- Sending ------------------------------------------------------------------------------------
#ifdef GW_MUTATIONS
enum { KIND_OF_REPLIES = 2 };  // docs/protocol/calls.md

// A process that is halted here has sent half of a reply. Returns how many bytes were taken.
static size_t send_half_of_reply(peer *x, const struct iovec *parts) {
    const list_node *unacked = &x->session.unacked;
    if (list_is_empty(unacked) ||
        list_entry(unacked->previous, message, link)->kind != KIND_OF_REPLIES ||
        !failpoint_is_due("during_reply"))
        return 0;
    struct iovec half = { parts[0].iov_base, parts[0].iov_len / 2 };
    size_t taken = connection_send(x->connection, &half, 1);
    failpoint_halt();
    session_sent(&x->session, taken);
    return taken;
}
#else
#define send_half_of_reply(x, parts) ((size_t)0)
#endif

// A connection that takes all bytes is left after this many: other peers have frames to send too, and
// urgent frames that were queued meanwhile are sent before the rest.
enum { FLUSH_BYTES_MAX = 4 * 1024 * 1024 };

static bool defer_flush(peers *p);

static bool flush_later(peer *x) {
    if (!defer_flush(x->peers)) return false;
    list_append(&x->peers->dirty, &x->dirty);
    return true;
}

void peer_flush(peer *x) {
    size_t total = 0;
    list_remove(&x->dirty);
    if (x->state != PEER_CONNECTED || x->is_blocked) return;
    while (session_fill(&x->session)) {
        if (total >= FLUSH_BYTES_MAX && flush_later(x)) return;
        int count;
        const struct iovec *parts = session_parts(&x->session, &count);
        size_t size = 0;
        for (int i = 0; i < count; i++) size += parts[i].iov_len;
        size -= send_half_of_reply(x, parts);
        connection_be_patient(x->connection, !x->session.is_urgent);
        size_t taken = connection_send(x->connection, parts, count);
        x->over->bytes_sent += taken;
        x->traffic.bytes_sent += taken;
        session_sent(&x->session, taken);
        total += taken;
        if (taken < size) {
            x->is_blocked = true;
            return;
        }
    }
    if (x->peers->is_ending) peer_update_busy(x);
}

static void flush_dirty(peers *p) {
    list_node all;
    list_init(&all);
    list_splice(&all, &p->dirty);
    for (list_node *l; (l = list_take(&all));) peer_flush(list_entry(l, peer, dirty));
}

// Messages that are sent without flushing leave together at the end of the turn. Inside an event of a
// connection that is the end of the event, with the loop lock held; elsewhere it takes a task,
// which runs without the loop lock and may find that the peers are closed.
typedef struct flush_task {
    task task;
    env *env;
    peers *peers;  // NULL: closed meanwhile
} flush_task;

static void run_flush(task *t) {
    flush_task *f = (flush_task *)t;
    env *e = f->env;
    env_enter(e);
    if (f->peers) {
        f->peers->task = NULL;
        flush_dirty(f->peers);
    }
    env_leave(e);
    mem_give(f, sizeof *f);
}

// False without memory.
static bool defer_flush(peers *p) {
    if (p->task) return true;
    flush_task *f = mem_take(sizeof *f);
    if (!f) return false;
    *f = (flush_task){ .task.run = run_flush, .env = p->options.env, .peers = p };
    p->task = f;
    env_defer(p->options.env, &f->task);
    return true;
}

void peers_make_dirty(peer *x) {
    if (x->state != PEER_CONNECTED) return;
    if (!list_has(&x->dirty)) list_append(&x->peers->dirty, &x->dirty);
    if (!x->peers->in_event && !defer_flush(x->peers)) flush_dirty(x->peers);
}

void peers_begin_event(peers *p) {
    assert(!p->in_event);
    p->in_event = true;
}

void peers_end_event(peers *p) {
    p->in_event = false;
    flush_dirty(p);
}

void peers_end_traffic(peers *p) {
    if (p->task) p->task->peers = NULL;
}

// ---- Busy or drained ----------------------------------------------------------------------------
static void wake_drained(peers *p) {
    if (p->busy_count > 0 || !p->drained) return;
    env_wake(p->options.env, p->drained);
    p->drained = NULL;
}

void peer_notify_room(peer *x) {
    peers *p = x->peers;
    if (x->session.unacked_bytes >= x->awaits_room_below) return;
    x->awaits_room_below = 0;
    if (p->options.room) p->options.room(p->options.user, x->rank);
}

// While this worker leaves: whether |x|, which had a connection, has not been sent the goodbye yet.
static bool awaits_goodbye(const peer *x) {
    if (x->state == PEER_CONNECTED) return session_has_unsent_close(&x->session);
    return x->state != PEER_LOST && x->state != PEER_QUIET && x->connected_ns;
}

void peer_update_busy(peer *x) {
    bool is_busy = x->peers->is_ending ? awaits_goodbye(x) : !list_is_empty(&x->session.unacked);
    if (is_busy == x->is_busy) return;
    x->is_busy = is_busy;
    x->peers->busy_count += is_busy ? 1 : -1;
    wake_drained(x->peers);
}

// ---- Receiving ----------------------------------------------------------------------------------
void peer_message(void *user, message *m) {
    peer *x = user;
    peers *p = x->peers;
    p->stats.messages_received++;
    p->options.received(p->options.user, x->rank, m);
}

void peer_ack_is_due(timer *t) {
    peer *x = (peer *)((char *)t - offsetof(peer, ack));
    if (x->session.owed_frames == 0) return;
    x->session.ack_wanted = true;
    peer_flush(x);
}

static void see_to_acks(peer *x) {
    session *s = &x->session;
    if (session_owes_ack_now(s)) {
        peers_make_dirty(x);
    } else if (s->owed_frames > 0 && !x->ack.armed) {
        env *e = x->peers->options.env;
        env_set_timer(e, &x->ack, env_now_ns(e) + SESSION_ACK_MS * MS);
    }
}

static void on_feed_failed(peer *x, gw_status status, const gw_error *error) {
    if (status == GW_DISCONNECTED || status == GW_NO_MEMORY) {
        error_keep(&x->why, error);
        peer_apply(x, x->session.close_is_out ? PEER_ENDED : PEER_BROKEN);
    } else {
        peer_fail(x, status, "broke the protocol: %s", error->text);
    }
}

static bool on_buffer(void *user, void **into, size_t *size) {
    peer *x = user;
    return session_buffer(&x->session, into, size);
}

static void on_received(void *user, const void *data, size_t count) {
    peer *x = user;
    peers *p = x->peers;
    peers_begin_event(p);
    x->over->bytes_received += count;
    x->traffic.bytes_received += count;
    x->received_count++;
    gw_error error;
    gw_status status = session_feed(&x->session, data, count, &error);
    if (status) {
        on_feed_failed(x, status, &error);
    } else if (x->session.has_close) {
        peer_lose(x, GW_LOSS_LEFT, "has left");
    } else if (x->state == PEER_CONNECTED) {
        peer_update_busy(x);
        see_to_acks(x);
        if (session_awaits_acks(&x->session)) peers_make_dirty(x);
        peer_notify_room(x);
    }
    peers_end_event(p);
}

static void on_writable(void *user) {
    peer *x = user;
    x->is_blocked = false;
    peer_flush(x);
}

static void on_closed(void *user, const gw_error *why) {
    peer *x = user;
    error_keep(&x->why, why);
    peer_apply(x, x->session.close_is_out ? PEER_ENDED : PEER_BROKEN);
}

const connection_events peer_connection_events = {
    .buffer = on_buffer,
    .received = on_received,
    .writable = on_writable,
    .closed = on_closed,
};
