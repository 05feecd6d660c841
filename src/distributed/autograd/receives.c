// The receiver's side of graphs across workers.
#include "distributed/autograd/distributed_pass.h"

#include "base/mem.h"

#include <string.h>

enum { BATCH_NS = 1000 * 1000 };  // how long a release waits, to go in one message with others

// ---- Releasing sends ----------------------------------------------------------------------------

static void free_receive(receive *r) {
    agent *a = r->agent;
    marks_fini(&r->all);
    mem_free(r->slots);
    mem_give(r, sizeof *r);
    agent_release(a);
}

static void fire(timer *t) {
    receives_flush_on_loop(list_entry(t, graphs, release_timer)->agent);
}

static void release_later_on_loop(graphs *gs, receive *r) {
    env *e = gs->agent->env;
    list_append(&gs->released, &r->link);
    gs->released_count++;
    if (gs->release_timer.armed) return;
    gs->release_timer.fire = fire;
    env_set_timer(e, &gs->release_timer, env_now_ns(e) + BATCH_NS);
}

// Whether the sender still has the send, and so needs a release.
static bool needs_release_on_loop(const receive *r) {
    const agent *a = r->agent;
    return !r->settled && a->phase != AGENT_LEFT && !agent_member(a, r->from)->lost;
}

// The last tensor, node or message that needed the receive is gone: its send is released.
static void end_receive(receive *r) {
    agent *a = r->agent;
    bool waits = false;
    if (!agent_is_closed(a)) {
        env_enter(a->env);
        waits = needs_release_on_loop(r);
        if (waits) release_later_on_loop(graphs_of(a), r);
        env_leave(a->env);
    }
    if (!waits) free_receive(r);
}

// Sends one message with all releases in |gs->released| for |rank|. False without memory.
static bool release_to_on_loop(graphs *gs, int rank) {
    message *m = agent_message_on_loop(gs->agent, KIND_SENDS_RELEASED);
    if (!m) return false;
    uint32_t count = 0;
    bytes_put_u32(&m->head, 0);
    list_each(l, &gs->released) {
        const receive *r = list_entry(l, receive, link);
        if (r->from != rank) continue;
        bytes_put_u64(&m->head, r->send);
        count++;
    }
    if (m->head.failed) {
        message_release(m);
        return false;
    }
    memcpy(m->head.data, &count, sizeof count);
    // Sending fails only if the worker is lost; then it needs no release.
    agent_send_on_loop(gs->agent, rank, m, false, NULL);
    return true;
}

static void take_out_on_loop(graphs *gs, int rank) {
    list_each(l, &gs->released) {
        receive *r = list_entry(l, receive, link);
        if (rank >= 0 && r->from != rank) continue;
        list_remove(l);
        gs->released_count--;
        free_receive(r);
    }
}

void receives_flush_on_loop(agent *a) {
    graphs *gs = graphs_of(a);
    bool stays = true;
    while (stays && gs->released_count) {
        int rank = list_entry(gs->released.next, receive, link)->from;
        bool gone = agent_member(a, rank)->lost || a->phase == AGENT_LEFT;
        stays = gone || release_to_on_loop(gs, rank);
        if (stays) take_out_on_loop(gs, rank);
    }
    if (gs->released_count)
        env_set_timer(a->env, &gs->release_timer, env_now_ns(a->env) + BATCH_NS);
    else if (gs->release_timer.armed)
        env_set_timer(a->env, &gs->release_timer, ENV_NEVER);
}

static void flush_task(task *t) {
    graphs *gs = list_entry(t, graphs, release_task);
    agent *a = gs->agent;
    env_enter(a->env);
    gs->releases_soon = false;
    receives_flush_on_loop(a);
    env_leave(a->env);
}

void receives_flush_soon_on_loop(agent *a) {
    graphs *gs = graphs_of(a);
    if (gs->releases_soon) return;
    gs->releases_soon = true;
    gs->release_task.run = flush_task;
    env_defer(a->env, &gs->release_task);
}

void receives_close_on_loop(agent *a) {
    take_out_on_loop(graphs_of(a), -1);
    if (graphs_of(a)->release_timer.armed)
        env_set_timer(a->env, &graphs_of(a)->release_timer, ENV_NEVER);
}

// ---- The node -----------------------------------------------------------------------------------

static receive *receive_behind(const node *n) {
    return (receive *)((char *)n - offsetof(receive, node));
}

static const char *name(const node *n) {
    (void)n;
    return "receive";
}

static void run(node *n, node_run *run) {
    distributed_pass_send_gradients(run->scope, receive_behind(n), run->d_outputs);
}

// After a pass has settled the receive, the sender has deleted the send, so no second pass can run.
static bool forget(node *n) {
    return receive_behind(n)->settled;
}

static void destroy(node *n) {
    end_receive(receive_behind(n));
}

static const node_class receive_class = { .run_distributed = distributed_pass_run_from,
                                          .takes_rows = true,
                                          .name = name,
                                          .run = run,
                                          .forget = forget,
                                          .destroy = destroy };

receive *receive_of(const node *n) {
    return n->class == &receive_class ? receive_behind(n) : NULL;
}

static void destroy_handle(gw_handle *h) {
    node_release(&((receive *)h)->node);
}

static const handle_class handle = { .name = "receive", .destroy = destroy_handle };

// ---- Reading ------------------------------------------------------------------------------------

static gw_status read_slot(agent *a, reader *r, receive *to, uint32_t i, gw_error *error) {
    uint8_t complete = reader_u8(r);
    if (complete > 1) return error_set(error, GW_PROTOCOL, "graph: a flag of %d", complete);
    marks upstream = { 0 };
    gw_status status = marks_read(a, r, LIMIT_MARKS, &upstream, error);
    to->slots[i].complete = complete;
    to->slots[i].upstream_count = upstream.count;
    if (!status && to->all.count + upstream.count > LIMIT_MARKS)
        status = error_set(error, GW_LIMIT, "graph: more than %d marks", LIMIT_MARKS);
    if (!status && !marks_add_all(&to->all, upstream.items, upstream.count))
        status = error_set(error, GW_NO_MEMORY, "no memory for a graph");
    marks_fini(&upstream);
    return status;
}

static gw_status read_slots(agent *a, reader *r, receive *to, gw_error *error) {
    gw_status status = GW_OK;
    for (uint32_t i = 0; i < to->slot_count && !status; i++) status = read_slot(a, r, to, i, error);
    mark *at = to->all.items;
    for (uint32_t i = 0; i < to->slot_count && !status; i++) {
        to->slots[i].upstream = at;
        if (at) at += to->slots[i].upstream_count;
    }
    return status;
}

// Releases a send for which this worker has no memory, so that the sender need not keep it.
static void release_unread_on_loop(agent *a, int from, uint64_t send) {
    message *m = agent_message_on_loop(a, KIND_SENDS_RELEASED);
    if (!m) return;
    bytes_put_u32(&m->head, 1);
    bytes_put_u64(&m->head, send);
    if (m->head.failed)
        message_release(m);
    else
        agent_send_on_loop(a, from, m, true, NULL);
}

gw_status graph_read_on_loop(agent *a, int from, reader *table, gw_handle **out, gw_error *error) {
    uint64_t send = reader_u64(table);
    reader_u64(table);  // the scope
    uint32_t count = reader_u32(table);
    if (table->failed || !send || !count || count > LIMIT_SLOTS || count > reader_left(table) / 5)
        return error_set(error, GW_PROTOCOL, "graph: fields that mean nothing");
    receive *r = mem_take(sizeof *r);
    if (!r) {
        release_unread_on_loop(a, from, send);
        return error_set(error, GW_NO_MEMORY, "no memory for a graph");
    }
    *r = (receive){ .agent = agent_retain(a), .from = from, .send = send, .slot_count = count };
    r->slots = mem_calloc(count * sizeof *r->slots);
    gw_status status = r->slots ? read_slots(a, table, r, error)
                                : error_set(error, GW_NO_MEMORY, "no memory for a graph");
    if (status) {
        free_receive(r);
        if (status == GW_NO_MEMORY) release_unread_on_loop(a, from, send);
        return status;
    }
    handle_init(&r->handle, &handle);
    r->node = (node){ .class = &receive_class, .output_count = (uint16_t)count };
    atomic_init(&r->node.count, 1);
    *out = &r->handle;
    return GW_OK;
}

bool graph_names_unknown(const agent *a, reader *table) {
    bool any = false;
    reader_u64(table);  // the send
    reader_u64(table);  // the scope
    for (uint32_t left = reader_u32(table); left && !table->failed; left--) {
        reader_u8(table);
        any |= marks_name_unknown(a, table);
    }
    return any;
}

gw_status graph_link(gw_handle *received, uint32_t slot, gw_tensor *x, gw_error *error) {
    receive *r = (receive *)received;
    if (slot >= r->slot_count)
        return error_set(error, GW_PROTOCOL, "graph: slot %u of %u", slot, r->slot_count);
    if (!x) return GW_OK;
    node_make(&r->node, (uint16_t)slot, x);
    return GW_OK;
}
