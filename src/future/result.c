#include "future/result.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

static gw_error no_memory_error = { .status = GW_NO_MEMORY, .text = "no memory for an error" };
static result no_memory_result = { .count = 1, .error = &no_memory_error };

static result *open_result(void) {
    result *r = mem_take(sizeof *r);
    if (!r) return NULL;
    memset(r, 0, sizeof *r);
    atomic_init(&r->count, 1);
    return r;
}

result *result_of_value(gw_value v) {
    result *r = open_result();
    if (!r) return NULL;
    if (value_copy(&r->value, v)) return r;
    mem_give(r, sizeof *r);
    return NULL;
}

result *result_of_error(const gw_error *error) {
    assert(error->status != GW_OK);
    result *r = open_result();
    if (r) r->error = mem_alloc(sizeof *r->error);
    if (!r || !r->error) {
        if (r) mem_give(r, sizeof *r);
        return &no_memory_result;
    }
    *r->error = *error;
    return r;
}

result *result_of_incoming(incoming *p, size_t value_at, bool pins) {
    result *r = open_result();
    if (!r) return NULL;
    r->incoming = p;
    r->value_at = value_at;
    r->pins = pins;
    const message *m = p->message;
    for (uint32_t i = 0; pins && i < m->segment_count; i++) block_pin(m->segments[i].block);
    return r;
}

result *result_retain(result *r) {
    if (r != &no_memory_result) atomic_fetch_add_explicit(&r->count, 1, memory_order_relaxed);
    return r;
}

static void unpin_message(result *r) {
    if (!r->pins) return;
    const message *m = r->incoming->message;
    for (uint32_t i = 0; i < m->segment_count; i++) block_unpin(m->segments[i].block);
}

static void free_result(result *r) {
    if (r->incoming) {
        unpin_message(r);
        incoming_close(r->incoming);
    }
    mem_free(r->error);
    value_free(r->value);
    mem_give(r, sizeof *r);
}

static bool is_last(result *r) {
    return r != &no_memory_result &&
           atomic_fetch_sub_explicit(&r->count, 1, memory_order_acq_rel) == 1;
}

void result_release(result *r) {
    if (is_last(r)) free_result(r);
}

static void bury(task *t) {
    free_result(list_entry(t, result, burial));
}

void result_release_on_loop(agent *a, result *r) {
    if (!is_last(r)) return;
    r->burial.run = bury;
    env_defer(a->env, &r->burial);
}

// ---- Reading ----

static gw_value decode(result *r, gw_scope *s) {
    decoder d = incoming_decoder(r->incoming, r->value_at, s);
    gw_value v = gw_none();
    gw_error error = { 0 };
    if (decode_value(&d, &v, &error) && !s->error) scope_fail_with(s, &error);
    return s->error ? gw_none() : v;
}

static void *copy_into(gw_scope *s, const void *from, size_t size) {
    char *to = gw_alloc(s, size + 1);
    if (to) memcpy(to, from, size);
    return to;
}

static gw_value copy_value(gw_value v, gw_scope *s) {
    switch (v.kind) {
    case GW_STRING:
    case GW_BYTES: v.as.bytes = copy_into(s, v.as.bytes, v.size); break;
    case GW_ERROR: v.as.bytes = copy_into(s, v.as.error, sizeof *v.as.error); break;
    case GW_WORKER: {
        gw_worker *w = copy_into(s, v.as.worker, sizeof *w);
        if (w) w->name = gw_format(s, "%s", v.as.worker->name);
        v.as.worker = w;
        break;
    }
    default:
        if (value_handle(v)) gw_keep_handle(s, value_handle(v));
    }
    return s->error ? gw_none() : v;
}

gw_value result_give(result *r, gw_scope *s) {
    if (s->error) return gw_none();
    if (r->error) {
        scope_fail_with(s, r->error);
        return gw_none();
    }
    if (!r->incoming) return copy_value(r->value, s);
    return decode(r, s);
}
