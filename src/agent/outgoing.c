#include "agent/outgoing.h"

#include "base/failpoint.h"
#include "base/mem.h"
#include "call/promise.h"
#include "agent/upward.h"

#include <string.h>

// ---- Filling ----

static bool add_attachment(outgoing *s, shipped attachment) {
    if (s->attachment_count == s->attachment_capacity) {
        uint32_t capacity = s->attachment_capacity * 2;
        shipped *grown = mem_alloc(capacity * sizeof *grown);
        if (!grown) return false;
        memcpy(grown, s->attachments, s->attachment_count * sizeof *grown);
        if (s->attachments != s->kept) mem_free(s->attachments);
        s->attachments = grown;
        s->attachment_capacity = capacity;
    }
    s->attachments[s->attachment_count++] = attachment;
    return true;
}

static const agent *agent_behind(gw_value v) {
    return v.kind == GW_RREF ? reference_agent(v.as.rref) : v.as.future->agent;
}

static bool put_attachment(void *user, encoder *e, gw_value v, gw_error *error);

// The tag of a reference stands there already.
static bool put_value_behind(outgoing *s, encoder *e, gw_rref *r, gw_error *error) {
    bytes *head = &e->message->head;
    gw_future *f = by_value_open(r);
    if (!f || head->failed) {
        handle_release(f);
        error_set(error, GW_NO_MEMORY, "no memory for a reference in a message");
        return false;
    }
    head->data[head->size - 1] = GW_FUTURE;
    bool put = put_attachment(s, e, gw_value_of_future(f), error);
    handle_release(f);
    return put;
}

static bool put_attachment(void *user, encoder *e, gw_value v, gw_error *error) {
    outgoing *s = user;
    if (agent_behind(v) != s->agent) {
        error_set(error, GW_INVALID,
                  "a %s of another agent, or of a call that failed, cannot be sent",
                  gw_kind_name(v.kind));
        return false;
    }
    if (v.kind == GW_RREF && s->resolves) return put_value_behind(s, e, v.as.rref, error);
    shipped attachment = { .type = v.kind == GW_RREF ? ATTACHMENT_REFERENCE : ATTACHMENT_PROMISE,
                           .handle = handle_retain((gw_handle *)v.as.bytes) };
    if (v.kind == GW_FUTURE) attachment.forward = forward_open(v.as.future);
    if ((v.kind == GW_RREF || attachment.forward) && add_attachment(s, attachment)) {
        bytes_put_u32(&e->message->head, s->attachment_count - 1);
        return true;
    }
    forward_free(attachment.forward);
    handle_release(attachment.handle);
    error_set(error, GW_NO_MEMORY, "no memory for a %s in a message", gw_kind_name(v.kind));
    return false;
}

gw_status outgoing_init(outgoing *s, agent *a, message_kind kind, gw_error *error) {
    *s = (outgoing){ .agent = a, .attachment_capacity = SHIPMENT_ATTACHMENTS_KEPT, .graph = -1 };
    s->attachments = s->kept;
    s->message = message_open((uint8_t)kind);
    if (!s->message) return error_set(error, GW_NO_MEMORY, "no memory for a message");
    s->encoder = (encoder){ .message = s->message, .attachment = put_attachment, .user = s };
    return GW_OK;
}

static bool add_graph(outgoing *s) {
    gw_handle *graph = graph_open(s->agent, s->scope);
    if (graph && add_attachment(s, (shipped){ .type = ATTACHMENT_GRAPH, .handle = graph })) {
        s->graph = (int)s->attachment_count - 1;
        return true;
    }
    handle_release(graph);
    return false;
}

static bool put_track(void *user, encoder *e, gw_tensor *x, gw_error *error) {
    outgoing *s = user;
    uint32_t slot;
    if (s->graph < 0 && !add_graph(s)) {
        error_set(error, GW_NO_MEMORY, "no memory to track a tensor in a message");
        return false;
    }
    if (graph_add(s->attachments[s->graph].handle, x, &slot, error)) return false;
    bytes_put_u32(&e->message->head, (uint32_t)s->graph);
    bytes_put_u32(&e->message->head, slot);
    return true;
}

void outgoing_track(outgoing *s, uint64_t scope) {
    s->scope = scope;
    s->encoder.track = put_track;
}

static bool add_attachment_again(outgoing *s, const shipped *from) {
    shipped attachment = { .type = from->type, .handle = handle_retain(from->handle) };
    bool promise = from->forward != NULL;
    if (promise) attachment.forward = forward_open(from->forward->future);
    if ((!promise || attachment.forward) && add_attachment(s, attachment)) return true;
    forward_free(attachment.forward);
    handle_release(attachment.handle);
    return false;
}

gw_status outgoing_init_again(outgoing *s, const outgoing *from, gw_error *error) {
    const message *m = from->message;
    gw_status status = outgoing_init(s, from->agent, (message_kind)m->kind, error);
    if (status) return status;
    bytes_put(&s->message->head, m->head.data, m->head.size);
    bool all = !m->head.failed && !s->message->head.failed;
    for (uint32_t i = 0; all && i < m->segment_count; i++) {
        const segment *g = &m->segments[i];
        all = message_add_segment(s->message, g->block, g->offset, g->size);
    }
    for (uint32_t i = 0; all && i < from->attachment_count; i++)
        all = add_attachment_again(s, &from->attachments[i]);
    return all ? GW_OK : error_set(error, GW_NO_MEMORY, "no memory for a message");
}

void outgoing_fini(outgoing *s) {
    for (uint32_t i = 0; i < s->attachment_count; i++) {
        forward_free(s->attachments[i].forward);
        handle_release(s->attachments[i].handle);
    }
    if (s->attachments != s->kept) mem_free(s->attachments);
    message_release(s->message);
}

gw_status outgoing_put(outgoing *s, gw_value v, gw_error *error) {
    return encode_value(&s->encoder, v, error);
}

void outgoing_put_error(outgoing *s, const gw_error *e) {
    bytes_put_u8(&s->message->head, GW_ERROR);
    encode_error(&s->message->head, e);
}

// ---- Sending ----

static bool write_attachment(outgoing *s, shipped *attachment, int to, gw_error *error) {
    bytes *head = &s->message->head;
    attachment->written_at = head->size;
    bytes_put_u8(head, attachment->type);
    if (attachment->type == ATTACHMENT_REFERENCE)
        return reference_write_on_loop((gw_rref *)(void *)attachment->handle, to, head, error);
    if (attachment->type == ATTACHMENT_GRAPH)
        return graph_write_on_loop(attachment->handle, to, head, error);
    forward_write_on_loop(attachment->forward, to, head);
    return true;
}

static void unwrite_attachments(outgoing *s, uint32_t count, int to, const uint8_t *head) {
    for (uint32_t i = 0; i < count; i++) {
        const shipped *attachment = &s->attachments[i];
        if (attachment->type == ATTACHMENT_REFERENCE)
            reference_unwrite_on_loop((gw_rref *)(void *)attachment->handle, to,
                                      head + attachment->written_at + 1);
        if (attachment->type == ATTACHMENT_GRAPH)
            graph_unwrite_on_loop(attachment->handle, head + attachment->written_at + 1);
    }
}

static gw_status write_table(outgoing *s, int to, size_t attachments_field, gw_error *error) {
    bytes *head = &s->message->head;
    if (head->failed || head->size > UINT32_MAX)
        return error_set(error, GW_NO_MEMORY, "no memory for a message");
    uint32_t at = (uint32_t)head->size, done = 0;
    memcpy(head->data + attachments_field, &at, sizeof at);
    bytes_put_u32(head, s->attachment_count);
    gw_status status = GW_OK;
    for (; done < s->attachment_count && !status; done++)
        if (!write_attachment(s, &s->attachments[done], to, error))
            status = error ? error->status : GW_INVALID;
    if (!status && head->failed) status = error_set(error, GW_NO_MEMORY, "no memory for a message");
    if (!status) return GW_OK;
    // The last one has failed, or been written beyond what there is memory for.
    unwrite_attachments(s, head->failed ? 0 : done - 1, to, head->data);
    return status;
}

static void start_forwards(outgoing *s) {
    for (uint32_t i = 0; i < s->attachment_count; i++) {
        if (!s->attachments[i].forward) continue;
        forward_start_on_loop(s->attachments[i].forward);
        s->attachments[i].forward = NULL;
    }
}

gw_status outgoing_send_on_loop(outgoing *s, int to, size_t attachments_field, bool flush,
                                gw_error *error) {
    message *m = s->message;
    if (s->attachment_count) {
        gw_status status = write_table(s, to, attachments_field, error);
        if (status) return status;
        message_retain(m);  // to take back what it says, if it is not sent
    } else if (m->head.failed) {
        return error_set(error, GW_NO_MEMORY, "no memory for a message");
    }
    s->message = NULL;
    gw_status status = agent_send_on_loop(s->agent, to, m, flush, error);
    // What is sent for it may go the same way.
    if (!status && to != s->agent->rank) s->frame = peers_last_frame(s->agent->peers, to);
    if (s->attachment_count) {
        failpoint("fork");
        if (status) unwrite_attachments(s, s->attachment_count, to, m->head.data);
        message_release(m);
        if (!status) start_forwards(s);
    }
    return status;
}
