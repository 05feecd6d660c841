// The sender's side of graphs across workers.
#include "distributed/autograd/passes.h"

#include "base/mem.h"

#include <string.h>

// ---- Tracked tensors of a message ---------------------------------------------------------------

static void free_slot(sent_slot *at) {
    if (at->edge.kind == EDGE_NODE) node_release(at->edge.to.node);
    if (at->edge.kind == EDGE_LEAF) handle_release(at->edge.to.leaf);
    mem_free(at->sizes);
    marks_fini(&at->upstream);
}

static void destroy_sent(gw_handle *h) {
    sent *t = (sent *)h;
    for (uint32_t i = 0; i < t->slot_count; i++) free_slot(&t->slots[i]);
    mem_free(t->slots);
    mem_give(t, sizeof *t);
}

static const handle_class sent_class = { .name = "graph", .destroy = destroy_sent };

gw_handle *graph_track(agent *a, uint64_t scope) {
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

// GRAPH-4: the marks in a message are bounded. The initiator of a pass requests those beyond.
static void find_upstream(sent *t, sent_slot *at) {
    at->complete = upstream_find(at->edge, LIMIT_UPSTREAM_NODES, &at->upstream);
    if (t->mark_count + at->upstream.count > LIMIT_MARKS) at->complete = false;
    if (!at->complete) marks_fini(&at->upstream);
    t->mark_count += at->upstream.count;
}

gw_status graph_add(gw_handle *graph, gw_tensor *x, uint32_t *out_slot, gw_error *error) {
    sent *t = (sent *)graph;
    if (t->slot_count == LIMIT_SLOTS)
        return error_set(error, GW_LIMIT, "a message has more than %d tensors that need a gradient",
                         LIMIT_SLOTS);
    if (!reserve_slot(t)) return no_memory(error);
    size_t size = (size_t)x->dims * sizeof(int64_t);
    sent_slot at = {
        .dtype = x->dtype, .device = x->device, .dims = x->dims, .sizes = mem_alloc(size + 1)
    };
    if (!at.sizes) return no_memory(error);
    memcpy(at.sizes, x->sizes, size);
    at.edge = edge_retain(edge_to(x));
    find_upstream(t, &at);
    *out_slot = t->slot_count;
    t->slots[t->slot_count++] = at;
    return GW_OK;
}

// ---- Sending them -------------------------------------------------------------------------------

static bool has_room(const graphs *gs, const passes_peer *p, int to, gw_error *error) {
    if (p->send_count >= LIMIT_SENDS_PER_PEER) {
        error_set(error, GW_LIMIT,
                  "%d messages with tensors that need a gradient are kept on this worker for %s",
                  LIMIT_SENDS_PER_PEER, agent_member(gs->agent, to)->name);
    } else if (gs->sends.count >= LIMIT_SENDS) {
        error_set(error, GW_LIMIT, "%d messages with tensors that need a gradient are kept here",
                  LIMIT_SENDS);
    } else {
        return true;
    }
    return false;
}

bool graph_write(gw_handle *graph, void *prepared, int to, bytes *table, gw_error *error) {
    (void)prepared;
    sent *t = (sent *)graph;
    graphs *gs = graphs_of(t->agent);
    passes_peer *p = passes_peer_of_on_loop(t->agent, to);
    send *d = p && has_room(gs, p, to, error) ? mem_take(sizeof *d) : NULL;
    uint64_t id = gs->last_send + 1;
    if (!d || !map_put(&gs->sends, id, d)) {
        if (d) mem_give(d, sizeof *d);
        if (!p || has_room(gs, p, to, error)) no_memory(error);
        return false;
    }
    gs->last_send = id;
    p->send_count++;
    *d = (send){ .id = id, .to = to, .sent = handle_retain(t) };
    bytes_put_u64(table, id);
    bytes_put_u64(table, t->scope);
    bytes_put_u32(table, t->slot_count);
    for (uint32_t i = 0; i < t->slot_count; i++) {
        bytes_put_u8(table, t->slots[i].complete);
        marks_write(&t->slots[i].upstream, table);
    }
    return true;
}

static void free_deferred(task *t) {
    send *d = list_entry(t, send, deferred_free);
    handle_release(d->sent);
    mem_give(d, sizeof *d);
}

send *sends_find_on_loop(agent *a, uint64_t id) {
    return map_find(&graphs_of(a)->sends, id);
}

void sends_forget_on_loop(agent *a, uint64_t id) {
    send *d = map_take(&graphs_of(a)->sends, id);
    if (!d) return;
    passes_peer *p = passes_peer_find_on_loop(a, d->to);
    if (p) p->send_count--;
    d->deferred_free.run = free_deferred;
    env_defer(a->env, &d->deferred_free);
}

void graph_undo(gw_handle *graph, int to, const uint8_t *written) {
    (void)to;
    uint64_t id;
    memcpy(&id, written, sizeof id);
    sends_forget_on_loop(((sent *)graph)->agent, id);
}

// ---- Forgetting sends ---------------------------------------------------------------------------

gw_status sends_released_on_loop(agent *a, int from, message *m, gw_error *error) {
    reader r = reader_of(m->head.data, m->head.size);
    uint32_t count = reader_u32(&r);
    for (uint32_t i = 0; i < count && !r.failed; i++) {
        const send *d = sends_find_on_loop(a, reader_u64(&r));
        if (d && d->to == from) sends_forget_on_loop(a, d->id);
    }
    bool cut = r.failed;
    message_release(m);
    // Deleting a send may end receives of this worker. They are released in this iteration of the
    // loop, so that a graph that goes to and fro is freed at the pace of messages.
    receives_flush_soon_on_loop(a);
    return cut ? error_set(error, GW_PROTOCOL, "malformed sends released message: truncated")
               : GW_OK;
}

// GRAPH-5: a later pass that reaches the send fails with the loss of |with|. Without memory it
// fails with a more general error.
static void remember_lost(graphs *gs, uint64_t id, int with) {
    if (gs->lost_count == gs->lost_capacity && gs->lost_capacity < LIMIT_SENDS_LOST) {
        uint32_t capacity = gs->lost_capacity ? gs->lost_capacity * 2 : 64;
        lost_send *grown = mem_realloc(gs->lost, capacity * sizeof *grown);
        if (!grown) return;
        gs->lost = grown;
        gs->lost_capacity = capacity;
    }
    gs->lost[gs->lost_count++ % gs->lost_capacity] = (lost_send){ id, with };
}

void sends_give_up_on_loop(agent *a, uint64_t id, int with) {
    if (!sends_find_on_loop(a, id)) return;
    remember_lost(graphs_of(a), id, with);
    sends_forget_on_loop(a, id);
}

void sends_lost_on_loop(agent *a, int rank) {
    for (map_cursor e = { 0 }; map_next(&graphs_of(a)->sends, &e);) {
        const send *d = e.value;
        if (d->to != rank) continue;
        sends_give_up_on_loop(a, d->id, rank);
        e.index--;
    }
}

int sends_lost_with_on_loop(const agent *a, uint64_t id) {
    const graphs *gs = graphs_of(a);
    for (uint32_t i = 0; i < gs->lost_count && i < gs->lost_capacity; i++)
        if (gs->lost[i].id == id) return gs->lost[i].with;
    return -1;
}

// The loss may be found here before it is found by the initiator of the pass, so the error names the lost
// worker.
void sends_gone_error(const agent *a, int lost, gw_error *out) {
    if (lost < 0) {
        error_set(out, GW_WRONG_STATE,
                  "this graph continues on other workers, and a part of it is already released: by "
                  "an earlier backward pass (set .retain_graph in that pass), or because one of "
                  "these workers is gone");
        return;
    }
    const member *m = agent_member(a, lost);
    *out = agent_why_lost(m);
}

void sends_close(agent *a) {
    for (map_cursor e = { 0 }; map_next(&graphs_of(a)->sends, &e);)
        free_deferred(&((send *)e.value)->deferred_free);
    map_fini(&graphs_of(a)->sends);
}
