// Accumulated gradients of the initiator's passes on this worker, for functions that are called in the initiator's
// scope.
#include "distributed/autograd/accumulated.h"

#include "autograd/grads.h"
#include "autograd/sum.h"
#include "base/mem.h"
#include "reference/references.h"
#include "base/value.h"
#include "distributed/autograd/gradients.h"
#include <gradwire/dist.h>

#include <string.h>

// The context of the call whose scope is |s|; NULL if |s| is no scope of a call.
static const context *call_of(gw_scope *s) {
    const context *c = s->agent ? context_of(s) : NULL;
    return c && c->serves && c->scope == s ? c : NULL;
}

static accumulated accumulated_of(const context *c) {
    return (accumulated){ c->agent, c->caller, c->caller_scope };
}

static bool has_passes(const agent *a) {
    env_enter(a->env);
    bool any = !list_is_empty(&graphs_of(a)->passes);
    env_leave(a->env);
    return any;
}

static void import(gw_scope *s) {
    const context *c = call_of(s);
    if (!c || !has_passes(c->agent)) return;
    accumulated_import(accumulated_of(c), s);
}

static bool has_pass(const gw_scope *s) {
    const context *c = call_of((gw_scope *)s);
    return c && c->has_pass;
}

const remote_grads gradients_remote = { .import = import, .has_pass = has_pass };

void gradients_keep(gw_scope *s) {
    const context *c = call_of(s);
    grad_pairs sum;
    if (!c || !gw_ok(s)) return;
    if (!accumulated_take(s, &sum) || !accumulated_exchange(accumulated_of(c), &sum))
        scope_fail(s, GW_NO_MEMORY, "no memory for gradients");
    grad_pairs_fini(&sum);
}

// ---- Built-in functions -------------------------------------------------------------------------

static gw_value serve_grad(gw_scope *s, const gw_args *args) {
    gw_value v = gw_rref_local_value(s, gw_arg_rref(s, args, 0));
    // A value that is not made yet has no gradient.
    if (scope_error(s)->status == GW_WOULD_BLOCK) {
        gw_scope_clear(s);
        v = gw_value_of_tensor(gw_zeros(s, GW_F32));
    }
    gw_tensor *x = gw_tensor_of(s, v);
    return gw_value_of_tensor(gw_grad(s, x));
}

typedef struct requested_marks {
    uint32_t count;
    sent **sents;  // one count each
    edge *edges;   // of their slots
} requested_marks;

static bool fail_gone(gw_scope *s, int lost) {
    gw_error error;
    sends_gone_error(s->agent, lost, &error);
    return scope_fail_with(s, &error);
}

static bool take_requested(gw_scope *s, gw_value v, requested_marks *requested) {
    agent *a = s->agent;
    size_t count = v.size / sizeof(mark);
    if (!gw_ok(s)) return false;
    if (v.size % sizeof(mark) || count > LIMIT_PASS_MARKS)
        return scope_fail_of(s, "gw.marks", GW_INVALID, "malformed marks: %zu bytes", v.size);
    requested->sents = gw_alloc(s, (count + 1) * sizeof(sent *));
    requested->edges = gw_alloc(s, (count + 1) * sizeof(edge));
    bool all = requested->sents && requested->edges;
    int lost = -1;
    env_enter(a->env);
    for (size_t i = 0; all && i < count; i++) {
        mark m;
        memcpy(&m, (const char *)v.as.bytes + i * sizeof m, sizeof m);
        const send *d = sends_find_on_loop(a, m.send);
        all = d && m.slot < d->sent->slot_count;
        if (!all) lost = sends_lost_with_on_loop(a, m.send);
        if (!all) break;
        requested->edges[i] = d->sent->slots[m.slot].edge;
        requested->sents[requested->count++] = handle_retain(d->sent);
    }
    env_leave(a->env);
    return all || (gw_ok(s) && fail_gone(s, lost));
}

static uint8_t *put_marks(uint8_t *at, const marks *m) {
    size_t size = m->count * sizeof(mark);
    memcpy(at, &m->count, sizeof m->count);
    if (size) memcpy(at + sizeof m->count, m->items, size);
    return at + sizeof m->count + size;
}

static gw_value serve_marks(gw_scope *s, const gw_args *args) {
    requested_marks requested = { 0 };
    marks all = { 0 }, open = { 0 };
    bool ok = take_requested(s, gw_arg(s, args, 0), &requested);
    if (ok && !upstream_find_next(requested.edges, requested.count, &all, &open)) {
        scope_fail(s, GW_NO_MEMORY, "no memory for marks");
        ok = false;
    }
    for (uint32_t i = 0; i < requested.count; i++) handle_release(requested.sents[i]);
    size_t size = 2 * sizeof(uint32_t) + ((size_t)all.count + open.count) * sizeof(mark);
    uint8_t *answer = ok ? gw_alloc(s, size) : NULL;
    if (answer) put_marks(put_marks(answer, &all), &open);
    marks_fini(&all);
    marks_fini(&open);
    return answer ? gw_value_of_bytes(answer, size) : gw_none();
}

const function gradient_functions[] = {
    { .name = (char *)"gw.marks",
      .where = GW_INLINE,
      .signature = TAKES(1 << GW_BYTES),
      .body = serve_marks },
    { .name = (char *)"gw.grad",
      .where = GW_INLINE,
      .signature = TAKES(1 << GW_RREF),
      .body = serve_grad },
    { 0 },
};

gw_tensor *gw_rref_grad(gw_scope *s, gw_rref *parameter) {
    // gw_rref_owner fails |s| if the reference is unusable.
    gw_rref_owner(s, parameter);
    if (!gw_ok(s)) return tensor_poison_of(s);
    if (gw_rref_is_owner(parameter)) {
        gw_tensor *x = gw_tensor_of(s, gw_rref_local_value(s, parameter));
        return gw_ok(s) ? gw_grad(s, x) : tensor_poison_of(s);
    }
    gw_value v = gw_value_of_rref(parameter);
    return gw_tensor_of(s, gw_rpc_sync_with(s, gw_to_rank(reference_owner(parameter)), "gw.grad",
                                            (gw_values){ 1, &v }, GW_OPTIONS(gw_call_options)));
}
