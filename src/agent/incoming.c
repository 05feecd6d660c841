#include "agent/incoming.h"

#include "base/mem.h"

static size_t size_of(uint32_t attachment_count) {
    return sizeof(incoming) + attachment_count * sizeof(incoming_attachment);
}

static void close_attachments(incoming *p) {
    for (uint32_t i = 0; i < p->attachment_count; i++) handle_release(p->attachments[i].handle);
}

void incoming_close(incoming *p) {
    if (!p) return;
    close_attachments(p);
    message_release(p->message);
    mem_give(p, size_of(p->attachment_count));
}

static void abandon(incoming *p) {
    for (uint32_t i = 0; i < p->attachment_count; i++)
        continuation_cancel_on_loop(&p->attachments[i].resolved);
}

void incoming_abandon_on_loop(incoming *p) {
    abandon(p);
    p->ready = NULL;
}

static void bury(task *t) {
    incoming_close(list_entry(t, incoming, burial));
}

void incoming_close_on_loop(agent *a, incoming *p) {
    incoming_abandon_on_loop(p);
    for (uint32_t i = 0; i < p->attachment_count; i++)
        if (p->attachments[i].class->abandon)
            p->attachments[i].class->abandon(p->attachments[i].handle);
    p->burial.run = bury;
    env_defer(a->env, &p->burial);
}

// ---- Taking attachments in ----

static void promise_resolved(continuation *c) {
    incoming *p = list_entry(c, incoming_attachment, resolved)->incoming;
    if (--p->missing == 0 && p->ready) p->ready(p);
}

static gw_status read_attachment(agent *a, int from, reader *table, incoming_attachment *s,
                                 gw_error *error) {
    uint8_t type = reader_u8(table);
    s->class = agent_attachment_of_type(a, type);
    if (!s->class) return error_set(error, GW_PROTOCOL, "attachments: type %d", type);
    return s->class->read(a, from, table, &s->handle, error);
}

static gw_status read_table(agent *a, int from, reader *table, uint32_t count, incoming *p,
                            gw_error *error) {
    for (uint32_t i = 0; i < count; i++) {
        incoming_attachment *s = &p->attachments[i];
        gw_status status = read_attachment(a, from, table, s, error);
        if (status) return status;
        p->attachment_count++;
        s->incoming = p;
        s->resolved.run = promise_resolved;
        if (s->class->await && s->class->await(s->handle, &s->resolved)) p->missing++;
    }
    return GW_OK;
}

static gw_status open_incoming(agent *a, int from, message *m, uint32_t attachments_at,
                               incoming **out, gw_error *error) {
    reader table = { 0 };
    uint32_t count = 0;
    if (attachments_at) {
        if (attachments_at > m->head.size)
            return error_set(error, GW_PROTOCOL, "attachments: a table behind the end");
        table = reader_of(m->head.data + attachments_at, m->head.size - attachments_at);
        count = reader_u32(&table);
        // Each takes at least that many bytes, so that nobody makes us allocate what did not come.
        if (table.failed || count > reader_left(&table) / ATTACHMENT_BYTES_MIN)
            return error_set(error, GW_PROTOCOL, "attachments: %u of them in %zu bytes", count,
                             reader_left(&table));
    }
    incoming *p = mem_take(size_of(count));
    if (!p) return error_set(error, GW_NO_MEMORY, "no memory for a message that came");
    *p = (incoming){ .message = m };
    for (uint32_t i = 0; i < count; i++) p->attachments[i] = (incoming_attachment){ 0 };
    gw_status status = read_table(a, from, &table, count, p, error);
    if (status == GW_OK) {
        *out = p;
        return GW_OK;
    }
    abandon(p);
    close_attachments(p);
    mem_give(p, size_of(count));
    return status;
}

gw_status incoming_open_on_loop(agent *a, int from, message *m, uint32_t attachments_at,
                                incoming **out, gw_error *error) {
    gw_status status = open_incoming(a, from, m, attachments_at, out, error);
    if (status) message_release(m);
    return status;
}

bool incoming_await_on_loop(incoming *p, void (*ready)(incoming *p), void *user) {
    p->user = user;
    if (!p->missing) return false;
    p->ready = ready;
    return true;
}

const gw_error *incoming_error(const incoming *p) {
    for (uint32_t i = 0; i < p->attachment_count; i++) {
        const incoming_attachment *s = &p->attachments[i];
        const gw_error *error = s->class->error ? s->class->error(s->handle) : NULL;
        if (error) return error;
    }
    return NULL;
}

// ---- Decoding ----

static gw_status decode_attachment(void *user, decoder *d, gw_kind kind, gw_value *out,
                                   gw_error *error) {
    incoming *p = user;
    uint32_t index = reader_u32(&d->in);
    if (d->in.failed || index >= p->attachment_count || p->attachments[index].class->kind != kind)
        return error_set(error, GW_PROTOCOL, "value: no attachment %u", index);
    if (!d->scope) return GW_OK;
    *out = p->attachments[index].class->give(p->attachments[index].handle, d->scope);
    if (!d->scope->error) return GW_OK;
    if (error) *error = *d->scope->error;
    return d->scope->error->status;
}

static gw_status decode_tracked(void *user, uint32_t attachment, uint32_t slot, gw_tensor *x,
                                gw_error *error) {
    incoming *p = user;
    const incoming_attachment *s =
        attachment < p->attachment_count ? &p->attachments[attachment] : NULL;
    if (!s || !s->class->link)
        return error_set(error, GW_PROTOCOL, "value: no attachment %u", attachment);
    return s->class->link(s->handle, slot, x, error);
}

decoder incoming_decoder(incoming *p, size_t at, gw_scope *s) {
    const bytes *head = &p->message->head;
    return (decoder){
        .message = p->message,
        .in = reader_of(head->data + at, head->size - at),
        .scope = s,
        .attachment = decode_attachment,
        .tracked = decode_tracked,
        .user = p,
    };
}
