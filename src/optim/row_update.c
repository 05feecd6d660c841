#include "optim/row_update.h"

#include "base/mem.h"
#include "tensor/rows.h"
#include <gradwire/ops.h>

#include <string.h>

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
        scope_fail(s, GW_INVALID,
                   "step of gw_%s: the gradient of parameter %d is dense, which gw_adam is for",
                   name, p->number);
    } else if (is_rows && !o->rule->takes_rows) {
        scope_fail(s, GW_INVALID,
                   "step of gw_%s: the gradient of parameter %d is sparse by rows, which gw_sgd, "
                   "gw_adagrad and gw_sparse_adam are for",
                   name, p->number);
    } else if (is_rows && decay && option_get(decay, g) != 0) {
        scope_fail(
            s, GW_INVALID,
            "step of gw_%s: weight_decay is about all rows, and the gradient of parameter %d "
            "about some",
            name, p->number);
    } else if (is_rows) {
        // A parameter with momentum changes without a gradient, too.
        const option *momentum = rule_option(o->rule, "momentum");
        *out_dense = momentum && option_get(momentum, g) != 0;
    }
    return gw_ok(s);
}

static size_t row_bytes(const parameter *p) {
    return (size_t)rows_length(p->grad) * gw_dtype_size((gw_dtype)p->x->dtype);
}

bool row_update_reserve(gw_scope *s, const gw_optimizer *o, parameter *p) {
    gw_tensor *once = p->grad->coalesced ? NULL : rows_coalesce(s, p->grad);
    if (!gw_ok(s)) return false;
    if (once) {
        handle_release(p->grad);
        p->grad = once;
    }
    struct row_update *r = p->rows = mem_calloc(sizeof *r);
    size_t size = (size_t)rows_count(p->grad) * row_bytes(p);
    unsigned used = o->rule->uses(&o->groups[p->group]);
    bool ok = r && (r->x = block_take(size)) && storage_writable(p->x->storage);
    for (int k = 0; k < OPTIM_STATES_MAX && ok; k++) {
        if (!(used >> k & 1)) continue;
        ok = state_begin(o, p, k) && (r->state[k] = block_take(size));
    }
    if (!ok)
        scope_fail(s, GW_NO_MEMORY,
                   "step of gw_%s: no memory for new rows of parameter %d; none has changed",
                   o->rule->name, p->number);
    return ok;
}

// From the rows of |table| to |compact|, or back.
static void gather(const parameter *p, uint8_t *compact, const uint8_t *table) {
    const int64_t *index = rows_index(p->grad);
    size_t size = row_bytes(p);
    for (int64_t i = 0; i < rows_count(p->grad); i++)
        memcpy(compact + (size_t)i * size, table + (size_t)index[i] * size, size);
}
static void scatter(const parameter *p, const uint8_t *compact, uint8_t *table) {
    const int64_t *index = rows_index(p->grad);
    size_t size = row_bytes(p);
    for (int64_t i = 0; i < rows_count(p->grad); i++)
        memcpy(table + (size_t)index[i] * size, compact + (size_t)i * size, size);
}

void row_update_compute(const gw_optimizer *o, parameter *p) {
    const optimizer_group *g = &o->groups[p->group];
    struct row_update *r = p->rows;
    update u = {
        .x = r->x->bytes,
        .grad = tensor_bytes(p->grad->values),
        .new_x = r->x->bytes,
        .count = p->grad->values->numel,
        .step = p->step_count + 1,
    };
    gather(p, r->x->bytes, tensor_bytes(p->x));
    for (int k = 0; k < OPTIM_STATES_MAX; k++) {
        if (!r->state[k]) continue;
        const block *table = p->new_state[k] ? p->new_state[k] : p->state[k];
        gather(p, r->state[k]->bytes, table->bytes);
        u.state[k] = u.new_state[k] = r->state[k]->bytes;
        if (!p->state[k]) u.first |= 1u << k;
    }
    if (p->x->dtype == GW_F32)
        o->rule->run_f32(g, &u);
    else
        o->rule->run_f64(g, &u);
}

void row_update_commit(parameter *p) {
    storage *st = p->x->storage;
    storage_writable_by(st, &p->spare);
    size_t offset = (size_t)p->x->offset * gw_dtype_size((gw_dtype)p->x->dtype);
    scatter(p, p->rows->x->bytes, st->block->bytes + offset);
    for (int k = 0; k < OPTIM_STATES_MAX; k++)
        if (p->rows->state[k]) scatter(p, p->rows->state[k]->bytes, p->state[k]->bytes);
    row_update_discard(p);
}

void row_update_discard(parameter *p) {
    if (!p->rows) return;
    block_release(p->rows->x);
    for (int k = 0; k < OPTIM_STATES_MAX; k++) block_release(p->rows->state[k]);
    mem_free(p->rows);
    p->rows = NULL;
}
