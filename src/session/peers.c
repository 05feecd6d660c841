#include "session/peers_internal.h"

#include "base/mem.h"
#include "base/status.h"

#include <assert.h>
#include <string.h>

gw_status peers_open(peers_options options, const char *listen_addresses, peers **out,
                     char out_addresses[ADDRESSES_MAX], gw_error *error) {
    peers *p = mem_calloc(sizeof *p);
    if (!p) return error_set(error, GW_NO_MEMORY, "no memory for an agent");
    p->options = options;
    list_init(&p->pending);
    list_init(&p->dirty);
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

static bool make_place(peers *p, int rank) {
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
        return error_set(error, GW_LIMIT, "rank %d: at most %d workers", rank, LIMIT_WORKERS);
    if (rank == p->options.rank || peer_find(p, (uint32_t)rank))
        return error_set(error, GW_DUPLICATE, "rank %d is taken, %s cannot have it", rank, name);
    peer *x = make_place(p, rank) ? peer_open(p, rank, incarnation, name, addresses) : NULL;
    if (!x) return error_set(error, GW_NO_MEMORY, "no memory for %s", name);
    p->by_rank[rank] = x;
    pending_added(p, x);
    return GW_OK;
}

gw_status peers_send(peers *p, int rank, message *m, bool flush, gw_error *error) {
    peer *x = peer_find(p, (uint32_t)rank);
    if (!x || x->state == PEER_LOST) {
        message_release(m);
        if (x && error) *error = x->why;
        return x ? x->why.status : error_set(error, GW_NOT_FOUND, "no worker has rank %d", rank);
    }
    gw_status status = session_queue(&x->session, m, error);
    if (status) {
        if (error) error_prefix(error, x->name);
        return status;
    }
    p->stats.messages_sent++;
    peer_update_busy(x);
    if (x->state == PEER_CONNECTED && flush) {
        peer_flush(x);
    } else {
        peer_apply(x, PEER_WANTED);
    }
    return GW_OK;
}

uint64_t peers_last_frame(const peers *p, int rank) {
    const peer *x = peer_find(p, (uint32_t)rank);
    return x ? x->session.last : 0;
}

bool peers_has_sent(const peers *p, int rank, uint64_t frame) {
    const peer *x = peer_find(p, (uint32_t)rank);
    return x && session_has_sent(&x->session, frame);
}

bool peers_relabel(peers *p, int rank, uint64_t frame, uint8_t kind) {
    peer *x = peer_find(p, (uint32_t)rank);
    return x && x->state != PEER_LOST && session_relabel(&x->session, frame, kind);
}

uint64_t peers_backlog_bytes(const peers *p, int rank) {
    const peer *x = peer_find(p, (uint32_t)rank);
    return x ? x->session.unacked_bytes : 0;
}

void peers_await_writable(peers *p, int rank) {
    peer *x = peer_find(p, (uint32_t)rank);
    if (x && x->state != PEER_LOST) x->awaits_room_below = x->session.unacked_bytes;
}

void peers_lose(peers *p, int rank, const gw_error *why) {
    peer *x = peer_find(p, (uint32_t)rank);
    if (!x || x->state == PEER_LOST) return;
    x->why = *why;
    peer_apply(x, PEER_DEAD);
}

void peers_note_left(peers *p, int rank) {
    peer *x = peer_find(p, (uint32_t)rank);
    if (x) x->session.has_close = true;
}

bool peers_is_lost(const peers *p, int rank) {
    const peer *x = peer_find(p, (uint32_t)rank);
    return x && x->state == PEER_LOST;
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

uint64_t peers_heard_count(const peers *p, int rank) {
    const peer *x = peer_find(p, (uint32_t)rank);
    return x ? x->heard_count : 0;
}

bool peers_is_connected(const peers *p, int rank) {
    const peer *x = peer_find(p, (uint32_t)rank);
    return x && x->state == PEER_CONNECTED;
}

bool peers_is_drained(const peers *p) {
    return p->busy_count == 0;
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
    return p->stats;
}

void peers_serve_store(peers *p, void (*take)(void *user, connection *c), void *user) {
    p->take_store = take;
    p->store_user = user;
}

bool peers_agree(const peers *p, int rank, const char *key,
                 char out_value[LIMIT_CAPABILITY_BYTES + 1]) {
    const peer *x = peer_find(p, (uint32_t)rank);
    return x && capabilities_agree(&p->options.can, &x->can, key, out_value);
}
