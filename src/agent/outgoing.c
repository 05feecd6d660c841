#include "agent/outgoing.h"

#include "base/failpoint.h"
#include "base/mem.h"

#include <string.h>

// ---- Filling ----

static bool add_attachment(outgoing *s, outgoing_attachment attachment) {
    if (s->attachment_count == s->attachment_capacity) {
        uint32_t capacity = s->attachment_capacity * 2;
        outgoing_attachment *grown = mem_alloc(capacity * sizeof *grown);
        if (!grown) return false;
        memcpy(grown, s->attachments, s->attachment_count * sizeof *grown);
        if (s->attachments != s->inside) mem_free(s->attachments);
        s->attachments = grown;
        s->attachment_capacity = capacity;
    }
    s->attachments[s->attachment_count++] = attachment;
    return true;
}

static bool no_memory(const char *what, gw_error *error) {
    error_set(error, GW_NO_MEMORY, "no memory for a %s in a message", what);
    return false;
}

static bool put_attachment(void *user, encoder *e, gw_value v, gw_error *error);

// Its own tag stands there already.
static bool put_value_behind(outgoing *s, encoder *e, const attachment_class *class, gw_value v,
                             gw_error *error) {
    bytes *head = &e->message->head;
    gw_handle *h = class->value_behind(value_handle(v));
    if (!h || head->failed) {
        handle_release(h);
        return no_memory(gw_kind_name(v.kind), error);
    }
    head->data[head->size - 1] = GW_FUTURE;
    bool put = put_attachment(s, e, gw_value_of_future((gw_future *)(void *)h), error);
    handle_release(h);
    return put;
}

static bool add_prepared(outgoing *s, const attachment_class *class, gw_handle *h) {
    outgoing_attachment x = { .class = class, .handle = handle_retain(h) };
    bool prepared = !class->prepare || (x.prepared = class->prepare(h)) != NULL;
    if (prepared && add_attachment(s, x)) return true;
    if (x.prepared) class->discard(x.prepared);
    handle_release(h);
    return false;
}

static bool put_attachment(void *user, encoder *e, gw_value v, gw_error *error) {
    outgoing *s = user;
    const attachment_class *class = agent_attachment_of_kind(s->agent, v.kind);
    if (!class || class->agent_of(value_handle(v)) != s->agent) {
        error_set(error, GW_INVALID,
                  "a %s of another agent, or of a call that failed, cannot be sent",
                  gw_kind_name(v.kind));
        return false;
    }
    if (s->resolves && class->value_behind) return put_value_behind(s, e, class, v, error);
    if (!add_prepared(s, class, value_handle(v))) return no_memory(gw_kind_name(v.kind), error);
    bytes_put_u32(&e->message->head, s->attachment_count - 1);
    return true;
}

gw_status outgoing_init(outgoing *s, agent *a, uint8_t kind, gw_error *error) {
    *s = (outgoing){ .agent = a, .attachment_capacity = OUTGOING_ATTACHMENTS_INSIDE, .graph = -1 };
    s->attachments = s->inside;
    s->message = message_open(kind);
    if (!s->message) return error_set(error, GW_NO_MEMORY, "no memory for a message");
    s->encoder = (encoder){ .message = s->message, .attachment = put_attachment, .user = s };
    return GW_OK;
}

static bool add_graph(outgoing *s) {
    const attachment_class *class = agent_attachment_of_kind(s->agent, GW_NONE);
    gw_handle *graph = class ? class->track(s->agent, s->scope) : NULL;
    if (graph && add_attachment(s, (outgoing_attachment){ .class = class, .handle = graph })) {
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
    const outgoing_attachment *graph = &s->attachments[s->graph];
    if (graph->class->add(graph->handle, x, &slot, error)) return false;
    bytes_put_u32(&e->message->head, (uint32_t)s->graph);
    bytes_put_u32(&e->message->head, slot);
    return true;
}

void outgoing_track(outgoing *s, uint64_t scope) {
    s->scope = scope;
    s->encoder.track = put_track;
}

gw_status outgoing_init_again(outgoing *s, const outgoing *from, gw_error *error) {
    const message *m = from->message;
    gw_status status = outgoing_init(s, from->agent, m->kind, error);
    if (status) return status;
    bytes_put(&s->message->head, m->head.data, m->head.size);
    bool all = !m->head.failed && !s->message->head.failed;
    for (uint32_t i = 0; all && i < m->segment_count; i++) {
        const segment *g = &m->segments[i];
        all = message_add_segment(s->message, g->block, g->offset, g->size);
    }
    for (uint32_t i = 0; all && i < from->attachment_count; i++)
        all = add_prepared(s, from->attachments[i].class, from->attachments[i].handle);
    return all ? GW_OK : error_set(error, GW_NO_MEMORY, "no memory for a message");
}

void outgoing_fini(outgoing *s) {
    for (uint32_t i = 0; i < s->attachment_count; i++) {
        const outgoing_attachment *x = &s->attachments[i];
        if (x->prepared) x->class->discard(x->prepared);
        handle_release(x->handle);
    }
    if (s->attachments != s->inside) mem_free(s->attachments);
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

static bool write_attachment(outgoing *s, outgoing_attachment *x, int to, gw_error *error) {
    bytes *head = &s->message->head;
    x->written_at = head->size;
    bytes_put_u8(head, x->class->type);
    return x->class->write(x->handle, x->prepared, to, head, error);
}

static void undo_attachments(outgoing *s, uint32_t count, int to, const uint8_t *head) {
    for (uint32_t i = 0; i < count; i++) {
        const outgoing_attachment *x = &s->attachments[i];
        if (x->class->undo) x->class->undo(x->handle, to, head + x->written_at + 1);
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
    undo_attachments(s, head->failed ? 0 : done - 1, to, head->data);
    return status;
}

static void tell_sent(outgoing *s) {
    for (uint32_t i = 0; i < s->attachment_count; i++) {
        outgoing_attachment *x = &s->attachments[i];
        if (x->prepared) x->class->sent(x->prepared);
        x->prepared = NULL;
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
        if (status) undo_attachments(s, s->attachment_count, to, m->head.data);
        message_release(m);
        if (!status) tell_sent(s);
    }
    return status;
}
