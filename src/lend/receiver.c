// The receiving side of leases: memory of peers that is mapped here, and returning leases that are not used any more.
#include "lend/lending.h"

#include "base/failpoint.h"
#include "base/limits.h"
#include "base/mem.h"
#include "tensor/arena.h"

#include <string.h>

enum { RETURN_MS = 5 };

// ---- Held leases --------------------------------------------------------------------------------

// Releases one of its two holders. True for the last.
static bool release_holder(held_lease *x) {
    return --x->holders == 0;
}

static void free_held(held_lease *x) {
    agent *a = x->agent;
    mapping_release(x->mapping);
    mem_give(x, sizeof *x);
    agent_release(a);
}

// With the lock.
static void add_returned(lend_peer *p, held_lease *x) {
    x->is_returned = true;
    x->holders++;
    list_append(&p->returned, &x->returned_link);
}

static void give_back_all(timer *t) {
    lending *l = list_entry(t, lending, returns_timer);
    atomic_store(&l->returns_awaited, false);
    for (int rank = 0; rank < l->agent->member_count; rank++)
        receiver_give_back_on_loop(l->agent, rank);
}

// Sends the returns soon, if no message goes there before. On other threads with |env_users| counted.
static void await_returns(lending *l) {
    agent *a = l->agent;
    if (atomic_exchange(&l->returns_awaited, true)) return;
    env_enter(a->env);
    if (!l->stopped) {
        l->returns_timer.fire = give_back_all;
        env_set_timer(a->env, &l->returns_timer, env_now_ns(a->env) + RETURN_MS * INT64_C(1000000));
    }
    env_leave(a->env);
}

static void leave_env(lending *l) {
    pthread_mutex_lock(&l->lock);
    l->env_users--;
    pthread_mutex_unlock(&l->lock);
}

void receiver_end(held_lease *x) {
    lending *l = lending_of(x->agent);
    lend_peer *p = lend_peer_of(x->agent, x->from);
    pthread_mutex_lock(&l->lock);
    list_remove(&x->link);
    if (!x->is_returned && !l->stopped) add_returned(p, x);
    bool is_last = release_holder(x), enters_env = !is_last && !l->stopped;
    l->env_users += enters_env;
    pthread_mutex_unlock(&l->lock);
    if (is_last) free_held(x);
    if (!enters_env) return;
    await_returns(l);
    leave_env(l);
}

static bool is_env_in_use(lending *l) {
    pthread_mutex_lock(&l->lock);
    bool is_in_use = l->env_users > 0;
    pthread_mutex_unlock(&l->lock);
    return is_in_use;
}

void receiver_close(lending *l) {
    env *e = l->agent->env;
    while (is_env_in_use(l)) {
        waiter w = { .what = "ends of lent memory" };
        env_enter(e);
        env_wait(e, &w, env_now_ns(e) + 1000000);
        env_leave(e);
    }
}

// Its block has ended, on any thread, perhaps of another agent. The thread holds no loop lock.
static void on_block_end(void *context) {
    receiver_end(context);
}

const held_lease *receiver_find(const agent *a, int from, const block *b) {
    if (!b->is_mapped || b->deleter != on_block_end) return NULL;
    const held_lease *x = b->context;
    return x->agent == a && x->from == from && !x->is_returned ? x : NULL;
}

// ---- Returning ----------------------------------------------------------------------------------

enum { RETURNS_MAX = (AGENT_SMALL_BYTES - sizeof(uint32_t)) / sizeof(uint64_t) };

// Takes some leases to be returned out of the list, and returns how many.
static uint32_t take_returned(lending *l, lend_peer *p, held_lease *out[RETURNS_MAX]) {
    uint32_t count = 0;
    pthread_mutex_lock(&l->lock);
    for (list_node *n; count < RETURNS_MAX && (n = list_take(&p->returned));)
        out[count++] = list_entry(n, held_lease, returned_link);
    pthread_mutex_unlock(&l->lock);
    return count;
}

static void forget_returned(lending *l, lend_peer *p, held_lease *const sent[], uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        pthread_mutex_lock(&l->lock);
        bool is_last = release_holder(sent[i]);
        pthread_mutex_unlock(&l->lock);
        p->held_count--;
        l->counts.held_now--;
        if (is_last) free_held(sent[i]);
    }
}

static bool send_returned(agent *a, int rank, held_lease *const returned[], uint32_t count) {
    message *m = agent_message_on_loop(a, LEND_KIND_RETURNS);
    if (!m) return false;
    bytes_put_u32(&m->head, count);
    for (uint32_t i = 0; i < count; i++) bytes_put_u64(&m->head, returned[i]->lease);
    failpoint("lend_returning");
    gw_error ignored;
    return agent_send_on_loop(a, rank, m, false, &ignored) == GW_OK || agent_member(a, rank)->lost;
}

static void put_back(lending *l, lend_peer *p, held_lease *const returned[], uint32_t count) {
    pthread_mutex_lock(&l->lock);
    for (uint32_t i = count; i-- > 0;) list_prepend(&p->returned, &returned[i]->returned_link);
    pthread_mutex_unlock(&l->lock);
}

void receiver_give_back_on_loop(agent *a, int rank) {
    lending *l = lending_of(a);
    lend_peer *p = lend_peer_of(a, rank);
    held_lease *returned[RETURNS_MAX];
    if (!p->held_count) return;
    for (uint32_t count; (count = take_returned(l, p, returned));) {
        bool sent =
            agent_member(a, rank)->lost || l->stopped || send_returned(a, rank, returned, count);
        if (!sent) {
            put_back(l, p, returned, count);
            await_returns(l);
            return;
        }
        forget_returned(l, p, returned, count);
    }
}

// ---- Copying memory in use ----------------------------------------------------------------------

// Without memory for a copy the lease stays.
static void keep(lending *l, lend_peer *p, uint64_t last) {
    pthread_mutex_lock(&l->lock);
    list_each(n, &p->held) {
        held_lease *x = list_entry(n, held_lease, link);
        if (x->lease > last || x->is_returned || !mapping_keep(x->mapping, x->at, x->size))
            continue;
        add_returned(p, x);
    }
    pthread_mutex_unlock(&l->lock);
}

void receiver_keep_on_loop(agent *a, int rank, uint64_t last) {
    lend_peer *p = lend_peer_of(a, rank);
    if (!p->held_count) return;
    p->has_kept = true;
    keep(lending_of(a), p, last);
    receiver_give_back_on_loop(a, rank);
}

// Copying takes long, so it is done without the loop lock.
static void keep_of_lost(task *t) {
    lending *l = list_entry(t, lending, keeping);
    agent *a = l->agent;
    env_enter(a->env);
    l->keeps = false;
    int count = a->member_count;
    env_leave(a->env);
    for (int rank = 0; rank < count; rank++) {
        env_enter(a->env);
        bool is_lost = agent_member(a, rank)->lost && lend_peer_of(a, rank)->held_count;
        env_leave(a->env);
        if (!is_lost) continue;
        keep(l, lend_peer_of(a, rank), UINT64_MAX);
        env_enter(a->env);
        receiver_give_back_on_loop(a, rank);
        env_leave(a->env);
    }
    agent_release(a);
}

static void forget_mapping(lend_peer *p) {
    mapping_release(p->mapping);
    p->mapping = NULL;
}

void receiver_lost_on_loop(agent *a, int rank) {
    lending *l = lending_of(a);
    lend_peer *p = lend_peer_of(a, rank);
    forget_mapping(p);
    remote_read_forget_on_loop(a, rank);
    receiver_give_back_on_loop(a, rank);
    if (!p->held_count || l->keeps) return;
    agent_retain(a);
    l->keeps = true;
    l->keeping.run = keep_of_lost;
    env_defer(a->env, &l->keeping);
}

void receiver_stop_on_loop(lending *l) {
    agent *a = l->agent;
    if (l->returns_timer.armed) env_set_timer(a->env, &l->returns_timer, ENV_NEVER);
    for (int rank = 0; rank < a->member_count; rank++) {
        receiver_keep_on_loop(a, rank, UINT64_MAX);
        forget_mapping(lend_peer_of(a, rank));
        remote_read_forget_on_loop(a, rank);
    }
    // Leases that end later are not returned, and unsent returns do not hold the agent any more.
    pthread_mutex_lock(&l->lock);
    l->stopped = true;
    pthread_mutex_unlock(&l->lock);
    for (int rank = 0; rank < a->member_count; rank++) receiver_give_back_on_loop(a, rank);
}

// No lease is held any more: it would hold the agent.
void receiver_free(lending *l) {
    for (int rank = 0; rank < l->agent->member_count; rank++) {
        forget_mapping(lend_peer_of(l->agent, rank));
        remote_read_forget_on_loop(l->agent, rank);
    }
}

// ---- Answering an offer -------------------------------------------------------------------------

typedef struct offer_fields {
    arena_location arena;
    uint64_t tag;
} offer_fields;

static gw_status read_offer(reader *r, offer_fields *out, gw_error *error) {
    arena_location *p = &out->arena;
    *out = (offer_fields){ .arena.host.pid_namespace = reader_u64(r) };
    p->size = reader_u64(r);
    out->tag = reader_u64(r);
    p->host.process = reader_u32(r);
    p->descriptor = reader_u32(r);
    reader_text(r, p->host.boot, sizeof p->host.boot);
    if (r->failed || reader_left(r))
        return error_set(error, GW_PROTOCOL, "malformed offer to lend");
    if (p->size > LIMIT_ARENA_BYTES)
        return error_set(
            error, GW_LIMIT,
            "malformed offer to lend: an arena of %llu bytes, at most 1 TiB are allowed",
            (unsigned long long)p->size);
    return GW_OK;
}

static void decline(lend_reasons *why, const char *format, const char *detail) {
    reason_set(why->map, sizeof why->map, format, detail);
    memcpy(why->read, why->map, sizeof why->read);
}

// Each way is tried, whatever the result of the other.
static void try_ways(agent *a, int from, const offer_fields *x, lend_reasons *why) {
    lend_peer *p = lend_peer_of(a, from);
    uint64_t incarnation = agent_member(a, from)->worker.incarnation;
    if (lending_of(a)->only_reads)
        reason_set(why->map, sizeof why->map, "turned off by GW_LEND=pull");
    else
        p->mapping = mapping_open(&x->arena, incarnation, why->map, sizeof why->map);
    p->source = source_open(&x->arena.host, x->tag, incarnation, why->read, sizeof why->read);
}

void receiver_answer_on_loop(agent *a, int to, const lend_reasons *why) {
    const lend_peer *p = lend_peer_of(a, to);
    message *m = agent_message_on_loop(a, LEND_KIND_ANSWER);
    if (!m) return;  // then the peer never lends to this worker
    host_id own;
    host_id_find(&own);
    bytes_put_u8(&m->head, p->mapping != NULL);
    bytes_put_u8(&m->head, p->source != NULL);
    bytes_put_u32(&m->head, own.process);
    bytes_put_text(&m->head, why->map);
    bytes_put_text(&m->head, why->read);
    failpoint("lend_answer");
    gw_error ignored;
    agent_send_on_loop(a, to, m, false, &ignored);
}

gw_status receiver_offered_on_loop(agent *a, int from, reader *r, gw_error *error) {
    lending *l = lending_of(a);
    lend_peer *p = lend_peer_of(a, from);
    offer_fields x;
    gw_status status = read_offer(r, &x, error);
    if (status) return status;
    if (p->was_offered)
        return error_set(error, GW_PROTOCOL, "a second offer to lend of the same worker");
    p->was_offered = true;
    lend_reasons why = { 0 };
    if (l->off)
        decline(&why, "turned off there by %s", l->off);
    else if (l->is_leaving || l->stopped)
        decline(&why, "%s", "it leaves the job");
    else
        try_ways(a, from, &x, &why);
    receiver_answer_on_loop(a, from, &why);
    return GW_OK;
}

// ---- Receiving segments -------------------------------------------------------------------------

typedef struct arrival {
    gw_handle handle;
    uint32_t index;
    segment segment;  // one count
} arrival;

static void destroy_arrival(gw_handle *h) {
    arrival *x = (arrival *)h;
    block_release(x->segment.block);
    mem_give(x, sizeof *x);
}

static const handle_class arrival_class = { .name = "lent segment", .destroy = destroy_arrival };

bool lent_entry_take(reader *r, lent_entry *out) {
    out->index = reader_u32(r);
    out->kind = reader_u8(r);
    out->lease = reader_u64(r);
    out->at = reader_u64(r);
    out->size = reader_u64(r);
    return !r->failed;
}

bool receiver_skip(const agent *a, reader *table) {
    lent_entry ignored;
    (void)a;
    lent_entry_take(table, &ignored);
    return false;
}

static gw_status check_entry(const lent_entry *e, gw_error *error) {
    if (e->size == 0)
        return error_set(error, GW_PROTOCOL, "lent tensor: segment %u is empty", e->index);
    if (e->size > LIMIT_TENSOR_BYTES)
        return error_set(error, GW_PROTOCOL,
                         "lent tensor: segment %u has %llu bytes, at most 4 GiB are allowed",
                         e->index, (unsigned long long)e->size);
    return GW_OK;
}

static bool is_within(uint64_t at, uint64_t size, uint64_t whole) {
    return at <= whole && size <= whole - at;
}

static gw_status take_own(agent *a, int from, const lent_entry *e, segment *out, gw_error *error) {
    const lease *x = map_find(&lend_peer_of(a, from)->leases, e->lease);
    if (!x)
        return error_set(error, GW_PROTOCOL, "lent tensor: lease %llu does not exist",
                         (unsigned long long)e->lease);
    if (!is_within(e->at, e->size, x->size))
        return error_set(error, GW_PROTOCOL,
                         "lent tensor: invalid place: %llu bytes at %llu of a lease of %zu bytes",
                         (unsigned long long)e->size, (unsigned long long)e->at, x->size);
    *out = (segment){ .block = block_retain(x->block),
                      .offset = x->offset + (size_t)e->at,
                      .size = (size_t)e->size,
                      .shared = true };
    lending_of(a)->counts.own_returned++;
    return GW_OK;
}

held_lease *receiver_note(agent *a, int from, const lent_entry *e, mapping *m) {
    lending *l = lending_of(a);
    lend_peer *p = lend_peer_of(a, from);
    held_lease *x = mem_take(sizeof *x);
    if (!x) return NULL;
    *x = (held_lease){ .agent = agent_retain(a),
                       .from = from,
                       .lease = e->lease,
                       .mapping = m ? mapping_retain(m) : NULL,
                       .at = m ? m->base + e->at : NULL,
                       .size = (size_t)e->size,
                       .holders = 1 };
    p->held_count++;
    l->counts.held++;
    l->counts.held_now++;
    return x;
}

void receiver_forget(held_lease *x) {
    lending *l = lending_of(x->agent);
    lend_peer_of(x->agent, x->from)->held_count--;
    l->counts.held--;
    l->counts.held_now--;
    free_held(x);
}

gw_status receiver_no_memory(gw_error *error) {
    return error_set(error, GW_NO_MEMORY, "no memory for a tensor that was lent");
}

// LEND-17. The lender may have reused pages that were copied here.
static bool renew_mapping(lend_peer *p) {
    if (!p->has_kept) return true;
    mapping *again = mapping_again(p->mapping);
    if (!again) return false;
    mapping_release(p->mapping);
    p->mapping = again;
    p->has_kept = false;
    return true;
}

// A worker that leaves returns at once leases that still arrive.
static gw_status copy_mapped(agent *a, int from, const lent_entry *e, segment *out,
                             gw_error *error) {
    block *b = block_take((size_t)e->size);
    held_lease *x = b ? receiver_note(a, from, e, NULL) : NULL;
    if (!x) {
        block_release(b);
        return receiver_no_memory(error);
    }
    block_write(b, 0, lend_peer_of(a, from)->mapping->base + e->at, (size_t)e->size);
    receiver_end(x);
    *out = (segment){ .block = b, .size = (size_t)e->size };
    return GW_OK;
}

static gw_status take_mapped(agent *a, int from, const lent_entry *e, segment *out,
                             gw_error *error) {
    lending *l = lending_of(a);
    lend_peer *p = lend_peer_of(a, from);
    if (l->stopped)
        return error_set(error, GW_DISCONNECTED, "lent tensor: %s has left the job", a->name);
    if (!p->mapping)
        return error_set(error, GW_PROTOCOL,
                         "lent tensor: the arena of the sender is not mapped on this worker");
    if (e->at < ARENA_HEADER_BYTES || !is_within(e->at, e->size, p->mapping->size))
        return error_set(error, GW_PROTOCOL,
                         "lent tensor: invalid place: %llu bytes at %llu of an arena of %zu bytes",
                         (unsigned long long)e->size, (unsigned long long)e->at, p->mapping->size);
    if (p->held_count >= LIMIT_LEASES_PER_PEER)
        return error_set(error, GW_PROTOCOL, "lent tensors: more than %d tensors of one worker",
                         LIMIT_LEASES_PER_PEER);
    if (!renew_mapping(p)) return receiver_no_memory(error);
    if (l->is_leaving) return copy_mapped(a, from, e, out, error);
    held_lease *x = receiver_note(a, from, e, p->mapping);
    if (!x) return receiver_no_memory(error);
    block *b = block_of_mapped(x->at, x->size, on_block_end, x);
    if (!b) {
        receiver_forget(x);
        return receiver_no_memory(error);
    }
    pthread_mutex_lock(&l->lock);
    list_append(&p->held, &x->link);
    pthread_mutex_unlock(&l->lock);
    *out = (segment){ .block = b, .size = x->size };
    failpoint("lend_borrowed");
    return GW_OK;
}

static gw_status take_read(agent *a, int from, const lent_entry *e, segment *out, gw_error *error) {
    block *b;
    gw_status status = remote_read_take(a, from, e, &b, error);
    if (!status) *out = (segment){ .block = b, .size = (size_t)e->size };
    return status;
}

gw_status receiver_read(agent *a, int from, reader *table, gw_handle **out, gw_error *error) {
    lent_entry e;
    segment arrived = { 0 };
    if (!lent_entry_take(table, &e))
        return error_set(error, GW_PROTOCOL, "malformed lent tensor: truncated");
    gw_status status = check_entry(&e, error);
    if (status) return status;
    arrival *x = mem_take(sizeof *x);
    if (!x) return receiver_no_memory(error);
    switch (e.kind) {
    case LENT_MAPPED: status = take_mapped(a, from, &e, &arrived, error); break;
    case LENT_OWN: status = take_own(a, from, &e, &arrived, error); break;
    case LENT_READ: status = take_read(a, from, &e, &arrived, error); break;
    default:
        status = error_set(error, GW_PROTOCOL, "malformed lent tensor: unknown kind %u", e.kind);
        break;
    }
    if (status) {
        mem_give(x, sizeof *x);
        return status;
    }
    if (e.kind != LENT_OWN) agent_member(a, from)->traffic.shared_received += e.size;
    *x = (arrival){ .index = e.index, .segment = arrived };
    handle_init(&x->handle, &arrival_class);
    *out = &x->handle;
    return GW_OK;
}

void receiver_take_in(gw_handle *h, uint32_t *out_index, segment *out) {
    arrival *x = (arrival *)h;
    *out_index = x->index;
    *out = x->segment;
    block_retain(out->block);
}

void receiver_drop(agent *a, int from, reader *table) {
    lent_entry e;
    if (!lent_entry_take(table, &e) || e.kind == LENT_OWN) return;
    if (e.kind == LENT_READ && remote_read_drop(a, from, e.lease)) return;
    message *m = agent_message_on_loop(a, LEND_KIND_RETURNS);
    if (!m) return;
    bytes_put_u32(&m->head, 1);
    bytes_put_u64(&m->head, e.lease);
    gw_error ignored;
    agent_send_on_loop(a, from, m, false, &ignored);
}
