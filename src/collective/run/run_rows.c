// The result of tensors that are sparse by rows: their sum, or the rows of all members.
#include "collective/run/run.h"

#include "base/value.h"
#include "tensor/combine.h"
#include "tensor/rows.h"

#include <gradwire/ops.h>

static gw_tensor *contribution_of(run *r, int member) {
    return run_output_value(r, &r->plan.outputs[member]).as.tensor;
}

static gw_tensor *with_dtype(gw_scope *s, gw_tensor *x, gw_dtype dtype) {
    if (x->dtype == dtype) return x;
    return gw_rows(s, gw_rows_indices(s, x), gw_to_dtype(s, gw_rows_values(s, x), dtype),
                   x->sizes[0]);
}

// In the order of tensor/combine.h for dense tensors, so that the bits are equal.
static gw_tensor *add_all(run *r, gw_tensor **y) {
    gw_scope *s = r->scope;
    int count = r->group->count, power = 1;
    while (2 * power <= count) power *= 2;
    for (int i = 0; i + power < count; i++) y[i] = gw_add(s, y[i], y[i + power]);
    for (; power > 1; power /= 2)
        for (int i = 0; i < power / 2; i++) y[i] = gw_add(s, y[2 * i], y[2 * i + 1]);
    return y[0];
}

static gw_value sum(run *r) {
    gw_scope *s = r->scope;
    const collective_signature *x = &r->signature;
    gw_dtype dtype = (gw_dtype)x->dtype, wide = combine_partial_dtype(dtype);
    gw_tensor **y = gw_alloc(s, (size_t)r->group->count * sizeof(gw_tensor *));
    for (int i = 0; y && i < r->group->count; i++) {
        y[i] = with_dtype(s, gw_coalesce(s, contribution_of(r, i)), wide);
        if (x->factor != 1) y[i] = gw_mul(s, y[i], x->factor);
    }
    if (!y || s->error) return gw_none();
    gw_tensor *all = gw_coalesce(s, add_all(r, y));
    if (x->op == GW_AVG) all = gw_div(s, all, r->group->count);
    return gw_value_of_tensor(with_dtype(s, all, dtype));
}

static gw_value join(run *r) {
    gw_scope *s = r->scope;
    int count = r->group->count;
    int64_t row_count = 0;
    gw_tensor **indices = gw_alloc(s, (size_t)count * sizeof(gw_tensor *));
    gw_tensor **values = gw_alloc(s, (size_t)count * sizeof(gw_tensor *));
    for (int i = 0; indices && values && i < count; i++) {
        gw_tensor *x = contribution_of(r, i);
        indices[i] = gw_add(s, gw_rows_indices(s, x), row_count);
        values[i] = gw_rows_values(s, x);
        if (__builtin_add_overflow(row_count, x->sizes[0], &row_count))
            scope_fail(s, GW_INVALID, "all_gather: the number of rows is too large for an int64_t");
    }
    if (!indices || !values || s->error) return gw_none();
    gw_tensor *all =
        gw_rows(s, gw_cat(s, indices, count, 0), gw_cat(s, values, count, 0), row_count);
    return gw_value_of_tensor(all);
}

gw_value run_join_sparse(run *r) {
    return r->signature.content == CONTENT_ROWS_SUMMED ? sum(r) : join(r);
}
