#include "agent/messages/message_io.h"

#include "base/failpoint.h"
#include "base/limits.h"
#include "base/mem.h"

#include <string.h>

// ---- Outgoing -----------------------------------------------------------------------------------

// ---- Filling ------------------------------------------------------------------------------------

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
                  "a %s cannot be sent if it belongs to another agent, or is the result of a call "
                  "that failed",
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
    const message *m = s->message;
    uint32_t before = m->segment_count;
    gw_status status = encode_value(&s->encoder, v, error);
    const attachment_class *lender = s->agent->lender;
    for (uint32_t i = before; lender && i < m->segment_count; i++)
        lender->prepare_segment(m->segments[i].block);
    return status;
}

void outgoing_put_error(outgoing *s, const gw_error *e) {
    bytes_put_u8(&s->message->head, GW_ERROR);
    encode_error(&s->message->head, e);
}

// ---- Lending ------------------------------------------------------------------------------------

uint64_t outgoing_size_on_loop(const outgoing *s, int to) {
    const message *m = s->message;
    const attachment_class *lender = to == s->agent->rank ? NULL : s->agent->lender;
    uint64_t size = m->head.size;
    for (uint32_t i = 0; i < m->segment_count; i++)
        if (!lender || !lender->may_lend(s->agent, to, &m->segments[i]))
            size += m->segments[i].size;
    return size;
}

// Segments that can be lent become attachments (LEND-4). Without memory for one the segment is sent.
static void lend_segments(outgoing *s, int to) {
    const attachment_class *lender = s->agent->lender;
    message *m = s->message;
    if (!lender || to == s->agent->rank) return;
    lender->sending(s->agent, to);
    uint32_t lent_count = 0;
    for (uint32_t i = 0; i < m->segment_count;) {
        gw_handle *h = lender->lend(s->agent, to, i + lent_count, &m->segments[i]);
        if (!h) {
            i++;
        } else if (add_attachment(s, (outgoing_attachment){ .class = lender, .handle = h })) {
            message_remove_segment(m, i);
            lent_count++;
        } else {
            handle_release(h);
            i++;
        }
    }
}

// ---- Sending ------------------------------------------------------------------------------------

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

static void notify_sent(outgoing *s) {
    for (uint32_t i = 0; i < s->attachment_count; i++) {
        outgoing_attachment *x = &s->attachments[i];
        if (x->prepared) x->class->sent(x->prepared);
        x->prepared = NULL;
    }
}

gw_status outgoing_send_on_loop(outgoing *s, int to, size_t attachments_field, bool flush,
                                gw_error *error) {
    message *m = s->message;
    lend_segments(s, to);
    if (s->attachment_count) {
        gw_status status = write_table(s, to, attachments_field, error);
        if (status) return status;
        message_retain(m);  // to undo its entries, if it is not sent
    } else if (m->head.failed) {
        return error_set(error, GW_NO_MEMORY, "no memory for a message");
    }
    s->message = NULL;
    gw_status status = agent_send_on_loop(s->agent, to, m, flush, error);
    // What is sent for it may go the same way.
    if (!status && to != s->agent->rank) s->id = peers_last_message(s->agent->peers, to);
    if (s->attachment_count) {
        failpoint("fork");
        if (status) undo_attachments(s, s->attachment_count, to, m->head.data);
        message_release(m);
        if (!status) notify_sent(s);
    }
    return status;
}

// ---- Incoming -----------------------------------------------------------------------------------

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
    p->message->completed = NULL;
    p->ready = NULL;
}

static void free_later(task *t) {
    incoming_close(list_entry(t, incoming, deferred_free));
}

void incoming_close_on_loop(agent *a, incoming *p) {
    incoming_abandon_on_loop(p);
    for (uint32_t i = 0; i < p->attachment_count; i++)
        if (p->attachments[i].class->abandon)
            p->attachments[i].class->abandon(p->attachments[i].handle);
    p->deferred_free.run = free_later;
    env_defer(a->env, &p->deferred_free);
}

// ---- Taking attachments in ----------------------------------------------------------------------

static void one_arrived(incoming *p) {
    if (--p->missing == 0 && p->ready) p->ready(p);
}

static void promise_resolved(continuation *c) {
    one_arrived(list_entry(c, incoming_attachment, resolved)->incoming);
}

static gw_status read_attachment(agent *a, int from, reader *table, incoming_attachment *s,
                                 gw_error *error) {
    uint8_t type = reader_u8(table);
    s->class = agent_attachment_of_type(a, type);
    if (!s->class)
        return error_set(error, GW_PROTOCOL, "malformed attachments: type %d does not exist", type);
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

// ---- Lent segments ------------------------------------------------------------------------------

static uint32_t count_lent(const agent *a, const incoming *p) {
    uint32_t count = 0;
    for (uint32_t i = 0; a->lender && i < p->attachment_count; i++)
        count += p->attachments[i].class == a->lender;
    return count;
}

// Puts them between those that the message has itself.
static bool merge_lent(const agent *a, incoming *p, segment *merged, uint32_t count) {
    const message *m = p->message;
    uint32_t done = 0, own = 0;
    bool fits = true;
    for (uint32_t i = 0; i < p->attachment_count; i++) {
        uint32_t index;
        segment lent;
        if (p->attachments[i].class != a->lender) continue;
        a->lender->take_in(p->attachments[i].handle, &index, &lent);
        while (done < index && own < m->segment_count) merged[done++] = m->segments[own++];
        fits = fits && (done == index || !m->segment_count);  // a request that was withdrawn
        merged[done++] = lent;
    }
    while (done < count) merged[done++] = m->segments[own++];
    return fits;
}

static gw_status take_in_lent(const agent *a, incoming *p, gw_error *error) {
    message *m = p->message;
    uint32_t lent_count = count_lent(a, p);
    if (!lent_count) return GW_OK;
    if (lent_count > LIMIT_SEGMENTS - m->segment_count)
        return error_set(error, GW_LIMIT, "message: %u large tensors, at most %d are allowed",
                         lent_count + m->segment_count, LIMIT_SEGMENTS);
    uint32_t count = lent_count + m->segment_count;
    segment *merged = mem_alloc(count * sizeof *merged);
    if (!merged) return error_set(error, GW_NO_MEMORY, "no memory for a received message");
    bool fits = merge_lent(a, p, merged, count);
    mem_free(m->segments);
    m->segments = merged;
    m->segment_count = m->segment_capacity = count;
    if (fits) return GW_OK;
    return error_set(error, GW_PROTOCOL, "malformed attachments: a lent segment without a place");
}

// The other entries are not read; segments lent in them are released as well.
static void drop_lent(agent *a, int from, reader table, uint32_t count, uint32_t done) {
    for (uint32_t i = 0; a->lender && i < count && !table.failed; i++) {
        const attachment_class *class = agent_attachment_of_type(a, reader_u8(&table));
        if (!class) return;
        if (class == a->lender && i >= done)
            class->drop(a, from, &table);
        else
            class->names_unknown(a, &table);
    }
}

static gw_status open_incoming(agent *a, int from, message *m, uint32_t attachments_at,
                               incoming **out, gw_error *error) {
    reader table = { 0 };
    uint32_t count = 0;
    if (attachments_at) {
        if (attachments_at > m->head.size)
            return error_set(
                error, GW_PROTOCOL,
                "malformed attachments: their table begins behind the end of the message");
        table = reader_of(m->head.data + attachments_at, m->head.size - attachments_at);
        count = reader_u32(&table);
        // Each takes at least that many bytes, so that a peer cannot make this worker allocate for
        // attachments that did not arrive.
        if (table.failed || count > reader_left(&table) / ATTACHMENT_BYTES_MIN)
            return error_set(error, GW_PROTOCOL, "malformed attachments: %u of them in %zu bytes",
                             count, reader_left(&table));
    }
    incoming *p = mem_take(size_of(count));
    if (!p) {
        drop_lent(a, from, table, count, 0);
        return error_set(error, GW_NO_MEMORY, "no memory for a received message");
    }
    *p = (incoming){ .message = m };
    for (uint32_t i = 0; i < count; i++) p->attachments[i] = (incoming_attachment){ 0 };
    reader again = table;
    gw_status status = read_table(a, from, &table, count, p, error);
    if (status) drop_lent(a, from, again, count, p->attachment_count);
    if (!status) status = take_in_lent(a, p, error);
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

static void segments_have_arrived(message *m) {
    incoming *p = m->completed_user;
    p->whole(p);
}

bool incoming_await_segments_on_loop(incoming *p, void (*whole)(incoming *p)) {
    message *m = p->message;
    if (!m->incomplete) return false;
    p->whole = whole;
    m->completed = segments_have_arrived;
    m->completed_user = p;
    return true;
}

void incoming_count_segments_on_loop(incoming *p) {
    if (incoming_await_segments_on_loop(p, one_arrived)) p->missing++;
}

const gw_error *incoming_error(const incoming *p) {
    for (uint32_t i = 0; i < p->attachment_count; i++) {
        const incoming_attachment *s = &p->attachments[i];
        const gw_error *error = s->class->error ? s->class->error(s->handle) : NULL;
        if (error) return error;
    }
    return NULL;
}

// ---- Decoding -----------------------------------------------------------------------------------

static gw_status decode_attachment(void *user, decoder *d, gw_kind kind, gw_value *out,
                                   gw_error *error) {
    incoming *p = user;
    uint32_t index = reader_u32(&d->in);
    if (d->in.failed || index >= p->attachment_count || p->attachments[index].class->kind != kind)
        return error_set(error, GW_PROTOCOL,
                         "malformed value: attachment %u does not exist, or is of another kind",
                         index);
    if (!d->scope) return GW_OK;
    *out = p->attachments[index].class->give(p->attachments[index].handle, d->scope);
    if (!d->scope->error) return GW_OK;
    return error_copy(error, d->scope->error);
}

static gw_status decode_tracked(void *user, uint32_t attachment, uint32_t slot, gw_tensor *x,
                                gw_error *error) {
    incoming *p = user;
    const incoming_attachment *s =
        attachment < p->attachment_count ? &p->attachments[attachment] : NULL;
    if (!s || !s->class->link)
        return error_set(error, GW_PROTOCOL,
                         "malformed value: attachment %u does not exist, or is of another kind",
                         attachment);
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
