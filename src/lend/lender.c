// The lending side: offers, and leases until they are returned.
#include "lend/lending.h"

#include "base/failpoint.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "session/peers.h"
#include "tensor/arena.h"
#include "tensor/pool.h"

#include <stdio.h>
#include <string.h>

enum {
    ORPHANS_S = 1,       // until the next check whether a process has ended,
    ORPHANS_MAX_S = 64,  // each time twice as long
};

// ---- Leases -------------------------------------------------------------------------------------

static bool is_pin(lent_kind kind) {
    return kind != LENT_OWN && !has_mutation(MUTATION_LENT_REUSED);
}

static void destroy_lease(gw_handle *h) {
    lease *x = (lease *)h;
    if (is_pin(x->kind)) {
        block_unpin(x->block);
    } else {
        block_release(x->block);
    }
    process_watch_release(x->process);
    mem_give(x, sizeof *x);
}

static const handle_class lease_class = { .name = "lease", .destroy = destroy_lease };

static lease *open_lease(agent *a, lent_kind kind, uint32_t index, const segment *g) {
    lease *x = mem_take(sizeof *x);
    if (!x) return NULL;
    *x = (lease){ .agent = a, .kind = kind, .index = index, .offset = g->offset, .size = g->size };
    handle_init(&x->handle, &lease_class);
    x->block = is_pin(kind) ? block_pin(g->block) : block_retain(g->block);
    return x;
}

// ---- Offering -----------------------------------------------------------------------------------

static void decline(lend_peer *p, const char *why) {
    p->state = OFFER_ANSWERED;
    p->ways = 0;
    snprintf(p->reasons.map, sizeof p->reasons.map, "%s", why);
    snprintf(p->reasons.read, sizeof p->reasons.read, "%s", why);
}

static bool admit(agent *a) {
    lending *l = lending_of(a);
    l->is_owner = l->is_owner || arena_admit(a->incarnation);
    return l->is_owner;
}

static uint64_t find_tag(agent *a) {
    lending *l = lending_of(a);
    if (!l->tag) l->tag = process_tag_open(a->incarnation);
    return l->tag;
}

static void offer(agent *a, int to) {
    lend_peer *p = lend_peer_of(a, to);
    arena_location here = { 0 };
    int descriptor = 0;
    if (!host_id_find(&here.host)) {
        decline(p, "there is no /proc here");
        return;
    }
    if (lending_of(a)->only_reads || !arena_find(&descriptor, &here.size) || !admit(a)) {
        descriptor = 0;
        here.size = 0;
    }
    message *m = message_open(LEND_KIND_OFFER);
    if (!m) return;  // the next tensor tries again
    bytes_put_u64(&m->head, here.host.pid_namespace);
    bytes_put_u64(&m->head, here.size);
    bytes_put_u64(&m->head, find_tag(a));
    bytes_put_u32(&m->head, here.host.process);
    bytes_put_u32(&m->head, (uint32_t)descriptor);
    bytes_put_text(&m->head, here.host.boot);
    p->state = OFFER_MADE;
    failpoint("lend_offer");
    gw_error ignored;
    if (agent_send_on_loop(a, to, m, false, &ignored)) p->state = OFFER_NONE;
}

typedef struct answer {
    unsigned ways;
    uint32_t process;
    lend_reasons reasons;
} answer;

static gw_status read_answer(reader *r, answer *out, gw_error *error) {
    uint8_t maps = reader_u8(r), reads = reader_u8(r);
    out->process = reader_u32(r);
    reader_text(r, out->reasons.map, sizeof out->reasons.map);
    reader_text(r, out->reasons.read, sizeof out->reasons.read);
    if (r->failed || reader_left(r) || maps > 1 || reads > 1)
        return error_set(error, GW_PROTOCOL, "malformed answer to an offer to lend");
    out->ways = (unsigned)maps << WAY_MAP | (unsigned)reads << WAY_READ;
    return GW_OK;
}

static void use_arena(lending *l) {
    if (l->stopped) return;
    l->users++;
    arena_use(1);
}

// The first answer, or a later one of a receiver that has lost a way.
gw_status lender_answered_on_loop(agent *a, int from, reader *r, gw_error *error) {
    lend_peer *p = lend_peer_of(a, from);
    answer x;
    gw_status status = read_answer(r, &x, error);
    if (status) return status;
    bool is_first = p->state == OFFER_MADE;
    if (!is_first && (p->state != OFFER_ANSWERED || x.ways & ~p->ways))
        return error_set(error, GW_PROTOCOL,
                         "an answer to an offer to lend that this worker has not made");
    p->state = OFFER_ANSWERED;
    p->ways = x.ways;
    if (x.reasons.map[0]) memcpy(p->reasons.map, x.reasons.map, sizeof p->reasons.map);
    if (x.reasons.read[0]) memcpy(p->reasons.read, x.reasons.read, sizeof p->reasons.read);
    if (!is_first || !x.ways) return GW_OK;
    p->process = process_watch_open(x.process);
    if (x.ways & 1u << WAY_MAP) use_arena(lending_of(a));
    return GW_OK;
}

// ---- Lending ------------------------------------------------------------------------------------

static bool is_held_from(const agent *a, int to, const block *b) {
    return receiver_find(a, to, b) != NULL;
}

// A block that the arena can contain.
static bool is_ours(const block *b) {
    return b->arena_offset || (!b->external && !b->device && b->capacity >= POOL_LARGE_BYTES);
}

void lender_prepare(block *b) {
    if (arena_is_used() && is_ours(b)) pool_move_to_arena(b);
}

static bool is_on(const lending *l) {
    return !l->off && !l->is_leaving && !l->stopped;
}

// The ways in which |g| can be sent to |to| now.
static unsigned possible_ways(const agent *a, const lend_peer *p, int to, const segment *g) {
    const char *transport = a->peers ? peers_transport(a->peers, to) : NULL;
    unsigned ways = 1u << ways_of_transport(transport);
    if (p->leases.count >= LIMIT_LEASES_PER_PEER ||
        g->size > LIMIT_LENT_BYTES_PER_PEER - agent_member(a, to)->traffic.lent_bytes)
        return ways;
    unsigned reading = p->ways & 1u << WAY_READ;
    if (reading && lending_of(a)->only_reads) return reading;
    ways |= reading;
    return g->block->arena_offset ? ways | (p->ways & 1u << WAY_MAP) : ways;
}

static way choose_way(const agent *a, int to, const segment *g) {
    return ways_choose(possible_ways(a, lend_peer_of(a, to), to, g), g->size);
}

bool lender_may_lend(agent *a, int to, const segment *g) {
    if (!is_on(lending_of(a)) || g->size < LIMIT_LENT_BYTES_MIN) return false;
    return is_held_from(a, to, g->block) || choose_way(a, to, g) == WAY_MAP;
}

static lease *lend_by(agent *a, int to, uint32_t index, const segment *g, way w) {
    const held_lease *own = receiver_find(a, to, g->block);
    lent_kind kind = own ? LENT_OWN : w == WAY_MAP ? LENT_MAPPED : LENT_READ;
    lease *x = open_lease(a, kind, index, g);
    if (!x) return NULL;
    switch (kind) {
    case LENT_OWN:
        x->number = own->lease;
        x->at = g->offset;
        break;
    case LENT_MAPPED: x->at = g->block->arena_offset + g->offset; break;
    case LENT_READ: x->at = (uint64_t)(uintptr_t)block_lend(g->block, g->offset); break;
    }
    return x;
}

gw_handle *lender_lend(agent *a, int to, uint32_t index, const segment *g) {
    const lend_peer *p = lend_peer_of(a, to);
    if (!is_on(lending_of(a)) || g->size < LIMIT_LENT_BYTES_MIN || g->block->device != GW_CPU)
        return NULL;
    bool is_own = is_held_from(a, to, g->block);
    if (!is_own && p->state == OFFER_NONE) offer(a, to);
    way w = choose_way(a, to, g);
    if (!is_own && w > WAY_READ) return NULL;
    // Earlier segments of this message are not counted yet.
    if (!is_own && p->leases.count + index >= LIMIT_LEASES_PER_PEER) return NULL;
    lease *x = lend_by(a, to, index, g, w);
    return x ? &x->handle : NULL;
}

bool lender_write(gw_handle *h, void *prepared, int to, bytes *table, gw_error *error) {
    (void)prepared;
    lease *x = (lease *)h;
    agent *a = x->agent;
    lend_peer *p = lend_peer_of(a, to);
    if (x->kind != LENT_OWN) {
        if (!map_put(&p->leases, p->last_lease + 1, handle_retain(x))) {
            handle_release(x);
            error_set(error, GW_NO_MEMORY, "no memory to lend a tensor");
            return false;
        }
        x->number = ++p->last_lease;
        member_traffic *t = &agent_member(a, to)->traffic;
        t->lent_bytes += x->size;
        t->shared_sent += x->size;
        lending_of(a)->counts.lent++;
        failpoint("lend_written");
    }
    bytes_put_u32(table, x->index);
    bytes_put_u8(table, (uint8_t)x->kind);
    bytes_put_u64(table, x->number);
    bytes_put_u64(table, x->at);
    bytes_put_u64(table, x->size);
    return true;
}

static lease *take_lease(agent *a, int to, uint64_t number) {
    lease *x = map_take(&lend_peer_of(a, to)->leases, number);
    if (x) agent_member(a, to)->traffic.lent_bytes -= x->size;
    return x;
}

void lender_undo(gw_handle *h, int to, const uint8_t *written) {
    (void)written;
    lease *x = (lease *)h;
    if (x->kind == LENT_OWN) return;
    agent_member(x->agent, to)->traffic.shared_sent -= x->size;
    handle_release(take_lease(x->agent, to, x->number));
}

// ---- Returned leases ----------------------------------------------------------------------------

gw_status lender_returned_on_loop(agent *a, int from, reader *r, gw_error *error) {
    uint32_t count = reader_u32(r);
    if (r->failed || count != reader_left(r) / sizeof(uint64_t) ||
        reader_left(r) % sizeof(uint64_t))
        return error_set(error, GW_PROTOCOL, "malformed return of leases: %u leases in %zu bytes",
                         count, reader_left(r));
    while (count--) {
        uint64_t number = reader_u64(r);
        lease *x = take_lease(a, from, number);
        if (!x)
            return error_set(error, GW_PROTOCOL,
                             "malformed return of leases: lease %llu does not exist",
                             (unsigned long long)number);
        failpoint("lend_returned");
        if (!has_mutation(MUTATION_LEASE_KEPT)) handle_release(x);
    }
    return GW_OK;
}

void lender_recall_on_loop(agent *a, int rank) {
    lend_peer *p = lend_peer_of(a, rank);
    if (!p->leases.count) return;
    message *m = agent_message_on_loop(a, LEND_KIND_RECALL);
    if (!m) return;
    bytes_put_u64(&m->head, p->last_lease);
    gw_error ignored;
    agent_send_on_loop(a, rank, m, false, &ignored);
}

// ---- Lost receivers -----------------------------------------------------------------------------

static void sweep_orphans(lending *l) {
    list_node kept;
    list_init(&kept);
    for (list_node *n; (n = list_take(&l->orphans));) {
        lease *x = list_entry(n, lease, link);
        if (process_watch_has_ended(x->process)) {
            handle_release(x);
        } else {
            list_append(&kept, n);
        }
    }
    list_splice(&l->orphans, &kept);
}

static void recheck_orphans(timer *t);

static void check_orphans_in(lending *l, int seconds) {
    if (list_is_empty(&l->orphans) || l->stopped) return;
    l->orphans_wait_s = seconds < ORPHANS_MAX_S ? seconds : ORPHANS_MAX_S;
    l->orphans_timer.fire = recheck_orphans;
    env *e = l->agent->env;
    env_set_timer(e, &l->orphans_timer, env_now_ns(e) + l->orphans_wait_s * INT64_C(1000000000));
}

// A process that was lost because it did not answer may run on for long.
static void recheck_orphans(timer *t) {
    lending *l = list_entry(t, lending, orphans_timer);
    sweep_orphans(l);
    check_orphans_in(l, 2 * l->orphans_wait_s);
}

static void make_orphan(lending *l, lease *x, process_watch *process) {
    x->process = process_watch_retain(process);
    list_append(&l->orphans, &x->link);
}

void lender_lost_on_loop(agent *a, int rank) {
    lending *l = lending_of(a);
    lend_peer *p = lend_peer_of(a, rank);
    for (map_cursor e = { 0 }; map_next(&p->leases, &e);) make_orphan(l, e.value, p->process);
    map_fini(&p->leases);
    agent_member(a, rank)->traffic.lent_bytes = 0;
    process_watch_release(p->process);
    p->process = NULL;
    decline(p, "it is lost");
    sweep_orphans(l);
    check_orphans_in(l, ORPHANS_S);
}

void lender_stop_on_loop(lending *l) {
    arena_use(-l->users);
    l->users = 0;
    if (l->orphans_timer.armed) env_set_timer(l->agent->env, &l->orphans_timer, ENV_NEVER);
}

// The agent has ended, and a process that has mapped its memory may still read it.
static void abandon(lease *x) {
    bool is_mapped_there = x->kind == LENT_MAPPED && !process_watch_has_ended(x->process);
    if (is_mapped_there) block_mark_as(x->block, BLOCK_ORPHANED);
    handle_release(x);
}

void lender_free(lending *l) {
    agent *a = l->agent;
    for (int rank = 0; rank < a->member_count; rank++) {
        lend_peer *p = lend_peer_of(a, rank);
        for (map_cursor e = { 0 }; map_next(&p->leases, &e);) make_orphan(l, e.value, p->process);
        map_fini(&p->leases);
        process_watch_release(p->process);
    }
    if (l->is_owner) arena_dismiss(a->incarnation);
    process_tag_close(l->tag);  // before any lent memory is reused (LEND-12)
    for (list_node *n; (n = list_take(&l->orphans));) abandon(list_entry(n, lease, link));
}
