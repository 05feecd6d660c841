// The receiver's side of graphs across workers: reading them, and the node that stands for the sender.
#include "distributed/autograd/distributed_pass.h"

#include "base/mem.h"

// ---- The node -----------------------------------------------------------------------------------

static const char *name(const node *n) {
    (void)n;
    return "receive";
}

static void run(node *n, node_run *run) {
    distributed_pass_send_gradients(run->scope, receive_of(n), run->d_outputs);
}

// After a pass has settled the receive, the sender has deleted the send, so no second pass can run.
static bool forget(node *n) {
    return receive_of(n)->settled;
}

static void destroy(node *n) {
    receive_end(receive_of(n));
}

static const node_class receive_class = { .run_distributed = distributed_pass_run_from,
                                          .takes_rows = true,
                                          .name = name,
                                          .run = run,
                                          .forget = forget,
                                          .destroy = destroy };

static void destroy_handle(gw_handle *h) {
    node_release(&((receive *)h)->node);
}

static const handle_class handle = { .name = "receive", .destroy = destroy_handle };

// ---- Reading ------------------------------------------------------------------------------------

static gw_status read_slot(agent *a, reader *r, receive *to, uint32_t i, gw_error *error) {
    uint8_t complete = reader_u8(r);
    if (complete > 1)
        return error_set(error, GW_PROTOCOL, "malformed graph: a flag is %d, but must be 0 or 1",
                         complete);
    marks upstream = { 0 };
    gw_status status = marks_read(a, r, LIMIT_MARKS, &upstream, error);
    to->slots[i].complete = complete;
    to->slots[i].upstream_count = upstream.count;
    if (!status && to->all.count + upstream.count > LIMIT_MARKS)
        status = error_set(error, GW_LIMIT, "malformed graph: more than %d marks", LIMIT_MARKS);
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

static gw_status read(agent *a, int from, reader *table, gw_handle **out, gw_error *error) {
    uint64_t send = reader_u64(table);
    reader_u64(table);  // the scope
    uint32_t count = reader_u32(table);
    if (table->failed || !send || !count || count > LIMIT_SLOTS || count > reader_left(table) / 5)
        return error_set(error, GW_PROTOCOL, "malformed graph message: invalid fields");
    receive *r = mem_take(sizeof *r);
    if (!r) {
        receives_release_unread_on_loop(a, from, send);
        return error_set(error, GW_NO_MEMORY, "no memory for a graph");
    }
    *r = (receive){ .agent = agent_retain(a), .from = from, .send = send, .slot_count = count };
    r->slots = mem_calloc(count * sizeof *r->slots);
    gw_status status = r->slots ? read_slots(a, table, r, error)
                                : error_set(error, GW_NO_MEMORY, "no memory for a graph");
    if (status) {
        receive_free(r);
        if (status == GW_NO_MEMORY) receives_release_unread_on_loop(a, from, send);
        return status;
    }
    handle_init(&r->handle, &handle);
    r->node = (node){ .class = &receive_class, .output_count = (uint16_t)count };
    atomic_init(&r->node.count, 1);
    *out = &r->handle;
    return GW_OK;
}

static bool names_unknown(const agent *a, reader *table) {
    bool any = false;
    reader_u64(table);  // the send
    reader_u64(table);  // the scope
    for (uint32_t left = reader_u32(table); left && !table->failed; left--) {
        reader_u8(table);
        any |= marks_name_unknown(a, table);
    }
    return any;
}

static gw_status link(gw_handle *received, uint32_t slot, gw_tensor *x, gw_error *error) {
    receive *r = (receive *)received;
    if (slot >= r->slot_count)
        return error_set(error, GW_PROTOCOL,
                         "malformed graph: slot %u is out of range for %u slots", slot,
                         r->slot_count);
    if (!x) return GW_OK;
    node_make(&r->node, (uint16_t)slot, x);
    return GW_OK;
}

const attachment_class graph_attachment = {
    .type = 3,
    .kind = GW_NONE,
    .track = graph_track,
    .add = graph_add,
    .write = graph_write,
    .undo = graph_undo,
    .read = read,
    .names_unknown = names_unknown,
    .link = link,
};
