// Lending: offers, and leases until they come back.
#include "lend/lending.h"

#include "base/failpoint.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "tensor/arena.h"
#include "tensor/pool.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum {
    LEND_BYTES_MIN = 64 * 1024,  // below, sending is as fast
    STRAYS_S = 1,                // until it is looked again whether a process has ended
};

// ---- Leases -------------------------------------------------------------------------------------

static bool is_pin(lent_kind kind) {
    return kind != LENT_HOME && !has_mutation(MUTATION_LENT_REUSED);
}

static void destroy_lease(gw_handle *h) {
    lease *x = (lease *)h;
    if (is_pin(x->kind)) {
        block_unpin(x->block);
    } else {
        block_release(x->block);
    }
    place_unwatch(x->process);
    mem_give(x, sizeof *x);
}

static const handle_class lease_class = { "lease", destroy_lease };

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
    p->state = OFFER_DECLINED;
    snprintf(p->reason, sizeof p->reason, "%s", why);
}

static bool admit(agent *a) {
    lending *l = lending_of(a);
    l->is_owner = l->is_owner || arena_admit(a->incarnation);
    return l->is_owner;
}

static void offer(agent *a, int to) {
    lend_peer *p = lend_peer_of(a, to);
    place here = { 0 };
    int descriptor;
    if (!place_find_host(&here.host)) {
        decline(p, "there is no /proc here");
        return;
    }
    if (!arena_find(&descriptor, &here.size) || !admit(a)) {
        decline(p, "there is no memory here that could be lent");
        return;
    }
    message *m = message_open(LEND_KIND_OFFER);
    if (!m) return;  // with the next one
    bytes_put_u64(&m->head, here.host.pid_namespace);
    bytes_put_u64(&m->head, here.size);
    bytes_put_u32(&m->head, here.host.process);
    bytes_put_u32(&m->head, (uint32_t)descriptor);
    bytes_put_text(&m->head, here.host.boot);
    p->state = OFFER_MADE;
    failpoint("lend_offer");
    gw_error ignored;
    if (agent_send_on_loop(a, to, m, false, &ignored)) p->state = OFFER_NONE;
}

static gw_status read_answer(reader *r, uint8_t *accepts, uint32_t *process, char reason[128],
                             gw_error *error) {
    *accepts = reader_u8(r);
    uint8_t zero = reader_u8(r);
    *process = reader_u32(r);
    reader_text(r, reason, 128);
    if (r->failed || reader_left(r) || *accepts > 1 || zero)
        return error_set(error, GW_PROTOCOL, "answer: bytes that mean nothing");
    return GW_OK;
}

gw_status lender_answered_on_loop(agent *a, int from, reader *r, gw_error *error) {
    lend_peer *p = lend_peer_of(a, from);
    uint8_t accepts;
    uint32_t process;
    char reason[128];
    gw_status status = read_answer(r, &accepts, &process, reason, error);
    if (status) return status;
    if (p->state != OFFER_MADE) return error_set(error, GW_PROTOCOL, "answer: nothing was offered");
    lending *l = lending_of(a);
    if (!accepts) {
        decline(p, reason);
        return GW_OK;
    }
    p->state = OFFER_ACCEPTED;
    p->process = place_watch_process(process);
    if (!l->stopped) {
        l->users++;
        arena_use(1);
    }
    return GW_OK;
}

// ---- Lending ------------------------------------------------------------------------------------

static bool is_borrowed_from(const agent *a, int to, const block *b) {
    return borrower_find(a, to, b) != NULL;
}

// A block that the arena can have.
static bool is_ours(const block *b) {
    return b->place || (!b->external && !b->device && b->capacity >= POOL_LARGE_BYTES);
}

void lender_prepare(block *b) {
    if (arena_is_used() && is_ours(b)) pool_move_to_arena(b);
}

bool lender_may_lend(agent *a, int to, const segment *g) {
    const lending *l = lending_of(a);
    const lend_peer *p = lend_peer_of(a, to);
    if (l->off || l->is_leaving || l->stopped || g->size < LEND_BYTES_MIN) return false;
    if (is_borrowed_from(a, to, g->block)) return true;
    return p->state == OFFER_ACCEPTED && g->block->place &&
           p->leases.count < LIMIT_LEASES_PER_PEER &&
           g->size <= LIMIT_LENT_BYTES_PER_PEER - p->lent_bytes;
}

gw_handle *lender_lend(agent *a, int to, uint32_t index, const segment *g) {
    lend_peer *p = lend_peer_of(a, to);
    if (!lender_may_lend(a, to, g)) {
        const lending *l = lending_of(a);
        bool could = !l->off && !l->is_leaving && !l->stopped && g->size >= LEND_BYTES_MIN;
        if (could && p->state == OFFER_NONE && is_ours(g->block)) offer(a, to);
        return NULL;
    }
    const borrowed *home = borrower_find(a, to, g->block);
    // Those before it in this message are not counted yet.
    if (!home && p->leases.count + index >= LIMIT_LEASES_PER_PEER) return NULL;
    lease *x = open_lease(a, home ? LENT_HOME : LENT_PLACE, index, g);
    if (!x) return NULL;
    x->number = home ? home->lease : 0;
    x->at = home ? g->offset : g->block->place + g->offset;
    return &x->handle;
}

bool lender_write(gw_handle *h, void *prepared, int to, bytes *table, gw_error *error) {
    (void)prepared;
    lease *x = (lease *)h;
    agent *a = x->agent;
    lend_peer *p = lend_peer_of(a, to);
    if (x->kind != LENT_HOME) {
        if (!map_put(&p->leases, p->last_lease + 1, handle_retain(x))) {
            handle_release(x);
            error_set(error, GW_NO_MEMORY, "no memory to lend a tensor");
            return false;
        }
        x->number = ++p->last_lease;
        p->lent_bytes += x->size;
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

static lease *take_lease(lend_peer *p, uint64_t number) {
    lease *x = map_take(&p->leases, number);
    if (x) p->lent_bytes -= x->size;
    return x;
}

void lender_undo(gw_handle *h, int to, const uint8_t *written) {
    (void)written;
    lease *x = (lease *)h;
    if (x->kind != LENT_HOME) handle_release(take_lease(lend_peer_of(x->agent, to), x->number));
}

// ---- Coming back --------------------------------------------------------------------------------

gw_status lender_returned_on_loop(agent *a, int from, reader *r, gw_error *error) {
    lend_peer *p = lend_peer_of(a, from);
    uint32_t count = reader_u32(r);
    if (r->failed || count != reader_left(r) / sizeof(uint64_t) ||
        reader_left(r) % sizeof(uint64_t))
        return error_set(error, GW_PROTOCOL, "returns: %u leases in %zu bytes", count,
                         reader_left(r));
    while (count--) {
        uint64_t number = reader_u64(r);
        lease *x = take_lease(p, number);
        if (!x)
            return error_set(error, GW_PROTOCOL, "returns: lease %llu is not out",
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

// ---- Lost borrowers -----------------------------------------------------------------------------

static void sweep_strays(lending *l) {
    list_node kept;
    list_init(&kept);
    for (list_node *n; (n = list_take(&l->strays));) {
        lease *x = list_entry(n, lease, link);
        if (place_has_ended(x->process)) {
            handle_release(x);
        } else {
            list_append(&kept, n);
        }
    }
    list_splice(&l->strays, &kept);
}

static void look_again(timer *t) {
    sweep_strays(list_entry(t, lending, strays_timer));
}

// The process is known by one descriptor for each, since they end one by one.
static void make_stray(lending *l, lease *x, int process) {
    if (process) x->process = fcntl(process - 1, F_DUPFD_CLOEXEC, 0) + 1;
    list_append(&l->strays, &x->link);
}

void lender_lost_on_loop(agent *a, int rank) {
    lending *l = lending_of(a);
    lend_peer *p = lend_peer_of(a, rank);
    map_entry *e;
    for (size_t i = 0; (e = map_next(&p->leases, &i));) make_stray(l, e->value, p->process);
    map_fini(&p->leases);
    map_init(&p->leases);
    p->lent_bytes = 0;
    place_unwatch(p->process);
    p->process = 0;
    decline(p, "it is gone");
    sweep_strays(l);
    if (list_is_empty(&l->strays) || l->stopped) return;
    l->strays_timer.fire = look_again;
    env_set_timer(a->env, &l->strays_timer, env_now_ns(a->env) + STRAYS_S * INT64_C(1000000000));
}

void lender_stop_on_loop(lending *l) {
    arena_use(-l->users);
    l->users = 0;
    if (l->strays_timer.armed) env_set_timer(l->agent->env, &l->strays_timer, ENV_NEVER);
}

// The agent is gone, and whoever has something of it still may read it.
static void abandon(lease *x) {
    if (!place_has_ended(x->process)) x->block->is_stray = true;
    handle_release(x);
}

void lender_free(lending *l) {
    agent *a = l->agent;
    for (int rank = 0; rank < a->member_count; rank++) {
        lend_peer *p = lend_peer_of(a, rank);
        map_entry *e;
        for (size_t i = 0; (e = map_next(&p->leases, &i));) make_stray(l, e->value, p->process);
        map_fini(&p->leases);
        place_unwatch(p->process);
    }
    if (l->is_owner) arena_dismiss(a->incarnation);
    for (list_node *n; (n = list_take(&l->strays));) abandon(list_entry(n, lease, link));
}
