// The sender's side of graphs across workers.
#include "dist/graphs.h"

#include "base/mem.h"

#include <string.h>

// ---- Tracked tensors of a message ----

static void free_slot(sent_slot *at) {
    if (at->edge.kind == EDGE_NODE) node_release(at->edge.to.node);
    if (at->edge.kind == EDGE_LEAF) handle_release(at->edge.to.leaf);
    mem_free(at->sizes);
    marks_fini(&at->reach);
}

static void destroy_sent(gw_handle *h) {
    sent *t = (sent *)h;
    for (uint32_t i = 0; i < t->slot_count; i++) free_slot(&t->slots[i]);
    mem_free(t->slots);
    mem_give(t, sizeof *t);
}

static const handle_class sent_class = { "graph", destroy_sent };

gw_handle *graph_open(agent *a, uint64_t scope) {
    sent *t = mem_take(sizeof *t);
    if (!t) return NULL;
    *t = (sent){ .agent = a, .scope = scope };
    handle_init(&t->handle, &sent_class);
    return &t->handle;
}

static gw_status no_memory(gw_error *error) {
    return error_set(error, GW_NO_MEMORY, "no memory to track a tensor in a message");
}

static bool reserve_slot(sent *t) {
    if (t->slot_count < t->slot_capacity) return true;
    uint32_t capacity = t->slot_capacity ? t->slot_capacity * 2 : 1;
    sent_slot *grown = mem_realloc(t->slots, capacity * sizeof *grown);
    if (!grown) return false;
    t->slots = grown;
    t->slot_capacity = capacity;
    return true;
}

// What the message says of how far its slots reach is bounded; beyond that the initiator of a pass will ask.
static void find_reach(sent *t, sent_slot *at) {
    at->complete = reach_find(at->edge, LIMIT_REACH_NODES, false, &at->reach);
    if (t->mark_count + at->reach.count > LIMIT_MARKS) at->complete = false;
    if (!at->complete) marks_fini(&at->reach);
    t->mark_count += at->reach.count;
}

gw_status graph_add(gw_handle *graph, gw_tensor *x, uint32_t *out_slot, gw_error *error) {
    sent *t = (sent *)graph;
    if (t->slot_count == LIMIT_SLOTS)
        return error_set(error, GW_LIMIT, "more than %d tensors that need a gradient in a message",
                         LIMIT_SLOTS);
    if (!reserve_slot(t)) return no_memory(error);
    size_t size = (size_t)x->dims * sizeof(int64_t);
    sent_slot at = { .dtype = x->dtype, .dims = x->dims, .sizes = mem_alloc(size + 1) };
    if (!at.sizes) return no_memory(error);
    memcpy(at.sizes, x->sizes, size);
    at.edge = edge_retain(edge_to(x));
    find_reach(t, &at);
    *out_slot = t->slot_count;
    t->slots[t->slot_count++] = at;
    return GW_OK;
}

// ---- Sending them ----

bool graph_write_on_loop(gw_handle *graph, int to, bytes *table, gw_error *error) {
    sent *t = (sent *)graph;
    graphs *gs = t->agent->graphs;
    if (gs->sends.count >= LIMIT_SENDS) {
        error_set(error, GW_LIMIT, "%d messages with tensors that need a gradient are kept here",
                  LIMIT_SENDS);
        return false;
    }
    send *d = mem_take(sizeof *d);
    uint64_t id = gs->last_send + 1;
    if (!d || !map_put(&gs->sends, id, d)) {
        if (d) mem_give(d, sizeof *d);
        no_memory(error);
        return false;
    }
    gs->last_send = id;
    *d = (send){ .id = id, .to = to, .sent = handle_retain(t) };
    bytes_put_u64(table, id);
    bytes_put_u64(table, t->scope);
    bytes_put_u32(table, t->slot_count);
    for (uint32_t i = 0; i < t->slot_count; i++) {
        bytes_put_u8(table, t->slots[i].complete);
        marks_write(&t->slots[i].reach, table);
    }
    return true;
}

static void bury(task *t) {
    send *d = list_entry(t, send, burial);
    handle_release(d->sent);
    mem_give(d, sizeof *d);
}

send *sends_find_on_loop(agent *a, uint64_t id) {
    return map_find(&a->graphs->sends, id);
}

void sends_forget_on_loop(agent *a, uint64_t id) {
    send *d = map_take(&a->graphs->sends, id);
    if (!d) return;
    d->burial.run = bury;
    env_defer(a->env, &d->burial);
}

void graph_unwrite_on_loop(gw_handle *graph, const uint8_t *written) {
    uint64_t id;
    memcpy(&id, written, sizeof id);
    sends_forget_on_loop(((sent *)graph)->agent, id);
}

// ---- Letting go ----

gw_status sends_released_on_loop(agent *a, int from, message *m, gw_error *error) {
    reader r = reader_of(m->head.data, m->head.size);
    uint32_t count = reader_u32(&r);
    for (uint32_t i = 0; i < count && !r.failed; i++) {
        const send *d = sends_find_on_loop(a, reader_u64(&r));
        if (d && d->to == from) sends_forget_on_loop(a, d->id);
    }
    bool cut = r.failed;
    message_release(m);
    return cut ? error_set(error, GW_PROTOCOL, "sends released: cut off") : GW_OK;
}

void sends_lost_on_loop(agent *a, int rank) {
    graphs *gs = a->graphs;
    map_entry *e;
    for (size_t i = 0; (e = map_next(&gs->sends, &i));) {
        const send *d = e->value;
        if (d->to != rank) continue;
        gs->lost[gs->lost_count++ % SENDS_LOST_KEPT] = (struct lost_send){ d->id, rank };
        sends_forget_on_loop(a, d->id);
        i--;
    }
}

int sends_lost_to_on_loop(const agent *a, uint64_t id) {
    for (int i = 0; i < SENDS_LOST_KEPT; i++)
        if (a->graphs->lost[i].id == id && id) return a->graphs->lost[i].to;
    return -1;
}

void sends_close(agent *a) {
    map_entry *e;
    for (size_t i = 0; (e = map_next(&a->graphs->sends, &i));) bury(&((send *)e->value)->burial);
    map_fini(&a->graphs->sends);
    map_init(&a->graphs->sends);
}
