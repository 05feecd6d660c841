#include "optim/row_update.h"

#include "base/mem.h"
#include "tensor/rows.h"
#include <gradwire/ops.h>

struct row_update {
    block *x, *state[OPTIM_STATES_MAX];  // of the rows that |grad| names; NULL: unused
};

bool row_update_check(gw_scope *s, const gw_optimizer *o, const parameter *p, const gw_tensor *grad,
                      bool *out_dense) {
    const optimizer_group *g = &o->groups[p->group];
    const option *decay = rule_option(o->rule, "weight_decay");
    const char *name = o->rule->name;
    bool is_rows = tensor_is_rows(grad);
    *out_dense = !is_rows;
    if (!is_rows && !o->rule->takes_dense) {
        scope_fail(
            s, GW_INVALID,
            "step of gw_%s: the gradient of parameter %d is dense: use gw_adam for dense gradients",
            name, p->number);
    } else if (is_rows && !o->rule->takes_rows) {
        scope_fail(s, GW_INVALID,
                   "step of gw_%s: the gradient of parameter %d is sparse by rows: use gw_sgd, "
                   "gw_adagrad or gw_sparse_adam for it",
                   name, p->number);
    } else if (is_rows && decay && option_get(decay, g) != 0) {
        scope_fail(s, GW_INVALID,
                   "step of gw_%s: weight_decay changes all rows, and the gradient of parameter %d "
                   "has only some: set weight_decay to 0",
                   name, p->number);
    } else if (is_rows) {
        // A parameter with momentum changes without a gradient, too.
        const option *momentum = rule_option(o->rule, "momentum");
        *out_dense = momentum && option_get(momentum, g) != 0;
    }
    return gw_ok(s);
}

bool row_update_reserve(gw_scope *s, const gw_optimizer *o, parameter *p) {
    gw_tensor *once = p->grad->coalesced ? NULL : rows_coalesce(s, p->grad);
    if (!gw_ok(s)) return false;
    if (once) {
        handle_release(p->grad);
        p->grad = once;
    }
    struct row_update *r = p->rows = mem_calloc(sizeof *r);
    size_t size = tensor_size(p->grad->values);
    unsigned used = rule_states(o->rule, &o->groups[p->group]);
    bool ok = r && (r->x = block_take(size)) && storage_make_writable(p->x->storage);
    for (int k = 0; k < OPTIM_STATES_MAX && ok; k++) {
        if (!(used >> k & 1)) continue;
        ok = state_begin(o, p, k) && (r->state[k] = block_take(size));
    }
    if (!ok)
        scope_fail(
            s, GW_NO_MEMORY,
            "step of gw_%s: no memory for new rows of parameter %d; no parameter has changed",
            o->rule->name, p->number);
    return ok;
}

void row_update_compute(const gw_optimizer *o, parameter *p) {
    const optimizer_group *g = &o->groups[p->group];
    struct row_update *r = p->rows;
    update_run u = {
        .dtype = (gw_dtype)p->x->dtype,
        .x = { r->x, 0 },
        .grad = update_array_of(p->grad->values),
        .new_x = { r->x, 0 },
        .count = p->grad->values->numel,
        .step = p->step_count + 1,
    };
    rows_gather(r->x, p->grad, p->x->storage->block, tensor_offset(p->x));
    for (int k = 0; k < OPTIM_STATES_MAX; k++) {
        if (!r->state[k]) continue;
        rows_gather(r->state[k], p->grad, p->new_state[k] ? p->new_state[k] : p->state[k], 0);
        u.state[k].block = u.new_state[k].block = r->state[k];
        if (!p->state[k]) u.first |= 1u << k;
    }
    update_on_device(o->rule->update, &g->options, &u);
}

bool row_update_await(gw_scope *s, const gw_optimizer *o, parameter *p, gw_tensor *indices) {
    int64_t sizes[GW_DIMS_MAX] = { 0 };
    for (int d = 0; d < p->x->dims; d++) sizes[d] = d ? p->x->sizes[d] : indices->numel;
    gw_tensor *values = tensor_new(s, (gw_dtype)p->x->dtype, p->x->dims, sizes);
    // Staged to, while the rows that have them as values pin them.
    if (values) block_mark_as(values->storage->block, BLOCK_STAYS);
    p->grad = values ? rows_new(s, indices, values, p->x->sizes[0]) : NULL;
    p->rows = p->grad ? mem_calloc(sizeof *p->rows) : NULL;
    if (p->rows) p->rows->x = block_retain(values->storage->block);
    handle_release(values);
    if (gw_ok(s) && (!p->rows || !storage_make_writable(p->x->storage)))
        scope_fail(
            s, GW_NO_MEMORY,
            "step of gw_%s: no memory for new rows of parameter %d; no parameter has changed",
            o->rule->name, p->number);
    return gw_ok(s);
}

block *row_update_block(const parameter *p) {
    return p->rows->x;
}

void row_update_write(const parameter *p, block *to, size_t offset) {
    rows_scatter(to, offset, p->grad, p->rows->x);
}

void row_update_commit(parameter *p) {
    storage *st = p->x->storage;
    storage_make_writable_by(st, &p->spare);
    row_update_write(p, st->block, tensor_offset(p->x));
    for (int k = 0; k < OPTIM_STATES_MAX; k++)
        if (p->rows->state[k]) rows_scatter(p->state[k], 0, p->grad, p->rows->state[k]);
    row_update_discard(p);
}

void row_update_discard(parameter *p) {
    if (!p->rows) return;
    block_release(p->rows->x);
    for (int k = 0; k < OPTIM_STATES_MAX; k++) block_release(p->rows->state[k]);
    mem_free(p->rows);
    p->rows = NULL;
}
