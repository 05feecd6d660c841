#include "collective/api/shadow.h"

#include "agent/bodies/context.h"
#include "collective/group/groups_state.h"
#include "collective/run/run.h"
#include "tensor/tensor.h"

#include <gradwire/autograd.h>
#include <gradwire/ops.h>
#include <math.h>
#include <string.h>

// ---- Neutral inputs -----------------------------------------------------------------------------

// Integers of equal bytes, except that the last byte of each is |top|.
static gw_tensor *alike(gw_scope *s, gw_dtype dtype, gw_shape shape, int byte, int top) {
    size_t size = gw_dtype_size(dtype), count = 1;
    for (int i = 0; i < shape.count; i++) count *= (size_t)shape.sizes[i];
    uint8_t *bytes = gw_alloc(s, count * size + 1);
    if (!bytes) return NULL;
    memset(bytes, byte, count * size);
    for (size_t i = 0; i < count; i++) bytes[(i + 1) * size - 1] = (uint8_t)top;
    return gw_from_with(s, dtype, bytes, shape);
}

static gw_tensor *neutral_integers(gw_scope *s, gw_reduce_op op, gw_dtype dtype, gw_shape shape) {
    bool has_sign = dtype >= GW_I64 && dtype <= GW_I8;
    int ones = dtype == GW_BOOL8 ? 1 : 0xff;
    switch (op) {
    case GW_BAND: return alike(s, dtype, shape, ones, ones);
    case GW_MIN: return alike(s, dtype, shape, ones, has_sign ? 0x7f : ones);
    case GW_MAX: return alike(s, dtype, shape, 0, has_sign ? 0x80 : 0);
    default: return gw_zeros_with(s, dtype, shape);
    }
}

// The neutral element of |op|.
static gw_tensor *neutral(gw_scope *s, gw_reduce_op op, gw_dtype dtype, gw_shape shape) {
    double least = -(double)INFINITY;
    if (op == GW_PRODUCT) return gw_full_with(s, dtype, gw_value_of(1), shape);
    if (dtype > GW_BF16) return neutral_integers(s, op, dtype, shape);
    if (op != GW_MIN && op != GW_MAX) return gw_zeros_with(s, dtype, shape);
    return gw_full_with(s, dtype, gw_value_of(op == GW_MIN ? -least : least), shape);
}

// Fails |s| if only this member could contribute the values.
static bool can_shadow(gw_scope *s, const gw_group *g, const collective_signature *x) {
    operation o = (operation)x->operation;
    bool is_root = x->root == g->self && (o == OPERATION_BROADCAST || o == OPERATION_SCATTER);
    bool unknown = o == OPERATION_REDUCE_SCATTER && x->shares & 1;
    bool sums = signature_is_reduction(x) || signature_is_rows(x);
    bool is_open =
        x->dims == SIGNATURE_OPEN && (sums || (x->content == CONTENT_TENSOR && x->root < 0));
    char what[SIGNATURE_TEXT_MAX];
    signature_text(x, NULL, "", what);
    if (is_root || unknown || is_open)
        scope_fail(s, GW_INVALID, "this member has no more input, and cannot contribute to %s",
                   what);
    return gw_ok(s);
}

static const int64_t *no_shares(gw_scope *s, int count) {
    int64_t *shares = gw_alloc(s, (size_t)count * sizeof *shares);
    for (int i = 0; shares && i < count; i++) shares[i] = 0;
    return shares;
}

// Sparse by rows, with no rows: out of the rows that all members have, or out of none.
static gw_tensor *no_rows(gw_scope *s, collective_signature *x) {
    int64_t none = 0, all = x->content == CONTENT_ROWS_SUMMED ? x->sizes[0] : 0;
    x->sizes[0] = 0;
    gw_tensor *values = gw_zeros_with(s, (gw_dtype)x->dtype, (gw_shape){ x->dims, x->sizes });
    gw_tensor *indices = gw_zeros_with(s, GW_I64, (gw_shape){ 1, &none });
    x->sizes[0] = all;
    return gw_rows(s, indices, values, all);
}

static void contribute(gw_scope *s, const gw_group *g, run_request *r) {
    collective_signature *x = &r->signature;
    gw_dtype dtype = (gw_dtype)x->dtype;
    gw_shape shape = { x->dims, x->sizes };
    int64_t none = 0;
    switch ((operation)x->operation) {
    case OPERATION_ALL_REDUCE:
    case OPERATION_REDUCE:
    case OPERATION_REDUCE_SCATTER:
        r->own = neutral(s, (gw_reduce_op)x->op, dtype, shape);
        r->elements = (uint64_t)gw_numel(r->own);
        break;
    case OPERATION_ALL_TO_ALL:
        r->shares = no_shares(s, g->count);
        // fall through
    case OPERATION_ALL_GATHER:
    case OPERATION_GATHER:
        if (x->content == CONTENT_VALUES) break;
        if (signature_is_rows(x)) {
            r->own_value = gw_value_of_tensor(no_rows(s, x));
            break;
        }
        if (x->content == CONTENT_TENSORS) {
            r->own = gw_zeros_with(s, GW_F32, (gw_shape){ 1, &none });
            break;
        }
        if (x->dims) x->sizes[0] = 0;
        r->own = gw_zeros_with(s, dtype, shape);
        break;
    default: x->dims = SIGNATURE_OPEN;  // it receives a value
    }
}

// ---- Shadow collectives -------------------------------------------------------------------------

typedef struct question {
    uint64_t key, number;
    collective_signature signature;
} question;

static bool read_question(const gw_group *g, const unexpected_message *x, question *out) {
    const bytes *head = &x->incoming->message->head;
    reader in = reader_of(head->data + GROUP_HEADER_BYTES, head->size - GROUP_HEADER_BYTES);
    bool holds;
    *out = (question){ .key = x->header.key, .number = x->header.number };
    return signature_read(&in, g->count, &out->signature, &holds);
}

// Finds an enter of the next collective of its sequence. While an abort is awaited (GRP-5), or other runs have to end
// first (GRP-3), there is none.
static bool find_enter_on_loop(gw_group *g, question *out) {
    if (!g->shadows || g->broken.status || !list_is_empty(&g->waiting)) return false;
    list_each(l, &g->unexpected) {
        const unexpected_message *x = list_entry(l, unexpected_message, link);
        sequence *t = group_find_sequence_on_loop(g, x->header.key);
        if (t) call_skip_ended_on_loop(g, t);
        uint64_t next = t ? t->next : 1;
        if (x->kind != KIND_ENTER || x->header.number != next || (t && t->frozen)) continue;
        if (t && !sequence_may_enter(g, t)) continue;
        if (read_question(g, x, out)) return true;
    }
    return false;
}

static bool enter(gw_group *g, const question *q) {
    gw_scope *s = agent_scope_open(g->agent, 0, 0, ENV_NEVER);
    gw_no_grad(s);
    run_request r = { .signature = q->signature };
    r.options = GW_OPTIONS(gw_collective_options, .key = q->key, .factor = q->signature.factor);
    r.options.timeout_ms = 0;
    r.takes_gradient = true;
    r.as_list = q->signature.content == CONTENT_TENSORS || q->signature.content == CONTENT_VALUES;
    if (can_shadow(s, g, &q->signature)) contribute(s, g, &r);
    if (gw_ok(s)) run_start(s, g, &r);
    bool ok = gw_ok(s);
    if (!ok) run_enter_failed(s, s, g, q->key);
    scope_close_unread(s);
    return ok;
}

static void shadow_all(task *t) {
    gw_group *g = list_entry(t, gw_group, shadow_task);
    env *e = g->agent->env;
    question q;
    bool ok = true;
    env_enter(e);
    while (ok && find_enter_on_loop(g, &q)) {
        env_leave(e);
        ok = enter(g, &q);
        env_enter(e);
    }
    g->is_shadowing = false;
    if (g->shadow_waiter) env_wake(e, g->shadow_waiter);
    env_leave(e);
    handle_release(g);
}

// ---- Begin and end ------------------------------------------------------------------------------

void shadow_begin(agent *a, uint64_t list, bool (*is_known)(void *context, const gw_group *g),
                  void *context) {
    gw_group *g;
    env_enter(a->env);
    for (map_cursor at = { 0 }; (g = groups_next_on_loop(a, &at));) {
        if (g->list != list || g->is_own || is_known(context, g)) continue;
        g->shadows = true;
        g->shadow_task.run = shadow_all;
        shadow_enters_on_loop(g);
    }
    env_leave(a->env);
}

static void forget_aborts(gw_group *g) {
    g->main.missed = g->main.fails_next = false;
    for (map_cursor e = { 0 }; map_next(&g->sequences, &e);) {
        sequence *t = e.value;
        t->missed = t->fails_next = false;
    }
}

static gw_group *find_shadowing_on_loop(const agent *a, uint64_t list) {
    gw_group *g;
    for (map_cursor at = { 0 }; (g = groups_next_on_loop(a, &at));)
        if (g->list == list && g->shadows) return g;
    return NULL;
}

void shadow_end(agent *a, uint64_t list) {
    waiter w = { .what = "shadow collectives" };
    env_enter(a->env);
    for (gw_group *g; (g = find_shadowing_on_loop(a, list));) {
        handle_retain(g);
        g->shadow_waiter = &w;
        while (g->is_shadowing) env_wait(a->env, &w, ENV_NEVER);
        g->shadow_waiter = NULL;
        g->shadows = false;
        forget_aborts(g);
        group_release_on_loop(g);
    }
    env_leave(a->env);
}
