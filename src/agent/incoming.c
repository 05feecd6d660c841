#include "agent/incoming.h"

#include "base/mem.h"
#include "call/promise.h"
#include "future/result.h"
#include "agent/upward.h"

#include <assert.h>

static size_t size_of(uint32_t special_count) {
    return sizeof(parcel) + special_count * sizeof(parcel_special);
}

static void close_specials(parcel *p) {
    for (uint32_t i = 0; i < p->special_count; i++) handle_release(p->specials[i].handle);
}

void parcel_close(parcel *p) {
    if (!p) return;
    close_specials(p);
    message_release(p->message);
    mem_give(p, size_of(p->special_count));
}

static void abandon(parcel *p) {
    for (uint32_t i = 0; i < p->special_count; i++)
        continuation_cancel_on_loop(&p->specials[i].resolved);
}

void parcel_abandon_on_loop(parcel *p) {
    abandon(p);
    p->ready = NULL;
}

static void bury(task *t) {
    parcel_close(list_entry(t, parcel, burial));
}

void parcel_close_on_loop(agent *a, parcel *p) {
    parcel_abandon_on_loop(p);
    for (uint32_t i = 0; i < p->special_count; i++)
        if (p->specials[i].type == SPECIAL_PROMISE)
            promise_abandon_on_loop((gw_future *)(void *)p->specials[i].handle);
    p->burial.run = bury;
    env_defer(a->env, &p->burial);
}

// ---- Taking specials in ----

static void promise_resolved(continuation *c) {
    parcel *p = list_entry(c, parcel_special, resolved)->parcel;
    if (--p->missing == 0 && p->ready) p->ready(p);
}

static gw_status read_special(agent *a, int from, reader *table, parcel_special *s,
                              gw_error *error) {
    s->type = reader_u8(table);
    if (s->type == SPECIAL_REFERENCE)
        return reference_read_on_loop(a, from, table, (gw_rref **)(void *)&s->handle, error);
    if (s->type == SPECIAL_PROMISE)
        return promise_read_on_loop(a, from, table, (gw_future **)(void *)&s->handle, error);
    if (s->type == SPECIAL_GRAPH) return graph_read_on_loop(a, from, table, &s->handle, error);
    return error_set(error, GW_PROTOCOL, "specials: type %d", s->type);
}

static gw_status read_table(agent *a, int from, reader *table, uint32_t count, parcel *p,
                            gw_error *error) {
    for (uint32_t i = 0; i < count; i++) {
        parcel_special *s = &p->specials[i];
        gw_status status = read_special(a, from, table, s, error);
        if (status) return status;
        p->special_count++;
        s->parcel = p;
        s->resolved.run = promise_resolved;
        if (s->type == SPECIAL_PROMISE &&
            future_await_on_loop((gw_future *)(void *)s->handle, &s->resolved))
            p->missing++;
    }
    return GW_OK;
}

static gw_status open_parcel(agent *a, int from, message *m, uint32_t specials_at, parcel **out,
                             gw_error *error) {
    reader table = { 0 };
    uint32_t count = 0;
    if (specials_at) {
        if (specials_at > m->head.size)
            return error_set(error, GW_PROTOCOL, "specials: a table behind the end");
        table = reader_of(m->head.data + specials_at, m->head.size - specials_at);
        count = reader_u32(&table);
        // Each takes at least that many bytes, so that nobody makes us allocate what did not come.
        if (table.failed || count > reader_left(&table) / 16)
            return error_set(error, GW_PROTOCOL, "specials: %u of them in %zu bytes", count,
                             reader_left(&table));
    }
    parcel *p = mem_take(size_of(count));
    if (!p) return error_set(error, GW_NO_MEMORY, "no memory for a message that came");
    *p = (parcel){ .message = m };
    for (uint32_t i = 0; i < count; i++) p->specials[i] = (parcel_special){ 0 };
    gw_status status = read_table(a, from, &table, count, p, error);
    if (status == GW_OK) {
        *out = p;
        return GW_OK;
    }
    abandon(p);
    close_specials(p);
    mem_give(p, size_of(count));
    return status;
}

gw_status parcel_open_on_loop(agent *a, int from, message *m, uint32_t specials_at, parcel **out,
                              gw_error *error) {
    gw_status status = open_parcel(a, from, m, specials_at, out, error);
    if (status) message_release(m);
    return status;
}

bool parcel_await_on_loop(parcel *p, void (*ready)(parcel *p), void *user) {
    p->user = user;
    if (!p->missing) return false;
    p->ready = ready;
    return true;
}

const gw_error *parcel_error(const parcel *p) {
    for (uint32_t i = 0; i < p->special_count; i++) {
        if (p->specials[i].type != SPECIAL_PROMISE) continue;
        const result *r = future_result((gw_future *)(void *)p->specials[i].handle);
        if (r && result_error(r)) return result_error(r);
    }
    return NULL;
}

// ---- Decoding ----

static gw_status decode_special(void *user, decoder *d, gw_kind kind, gw_value *out,
                                gw_error *error) {
    parcel *p = user;
    uint32_t index = reader_u32(&d->in);
    uint8_t type = kind == GW_RREF ? SPECIAL_REFERENCE : SPECIAL_PROMISE;
    if (d->in.failed || index >= p->special_count || p->specials[index].type != type)
        return error_set(error, GW_PROTOCOL, "value: no special %u", index);
    if (!d->scope) return GW_OK;
    gw_handle *h = p->specials[index].handle;
    if (kind == GW_RREF) {
        *out = gw_value_of_rref((gw_rref *)(void *)gw_keep_handle(d->scope, h));
        return GW_OK;
    }
    result *r = future_result((gw_future *)(void *)h);
    assert(r);
    *out = result_give(r, d->scope);
    if (!d->scope->error) return GW_OK;
    if (error) *error = *d->scope->error;
    return d->scope->error->status;
}

static gw_status decode_tracked(void *user, uint32_t special, uint32_t slot, gw_tensor *x,
                                gw_error *error) {
    parcel *p = user;
    if (special >= p->special_count || p->specials[special].type != SPECIAL_GRAPH)
        return error_set(error, GW_PROTOCOL, "value: no special %u", special);
    return graph_link(p->specials[special].handle, slot, x, error);
}

decoder parcel_decoder(parcel *p, size_t at, gw_scope *s) {
    const bytes *head = &p->message->head;
    return (decoder){
        .message = p->message,
        .in = reader_of(head->data + at, head->size - at),
        .scope = s,
        .special = decode_special,
        .tracked = decode_tracked,
        .user = p,
    };
}
