#include "tensor/ops/reduction.h"

#include "tensor/dtype.h"
#include <gradwire/ops.h>

_Static_assert((int)GW_DIMS_MAX <= 32, "a bit of 32 for each dimension");

static bool is_in(uint32_t dims, int dim) {
    return dims >> dim & 1;
}

// ---- Shapes -------------------------------------------------------------------------------------
// Checks the dimensions that are given. No list, an empty one, and any of a scalar are all.
static bool check_dims(op_call *c, int dims_at) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    if (arg_is_none(c->args, dims_at)) return true;
    int64_t given[GW_DIMS_MAX];
    uint32_t seen = 0;
    for (int i = 0, count = arg_ints(c->args, dims_at, given); i < count; i++) {
        int dim = op_dim(c, x, given[i]);
        if (dim < 0) return false;
        if (is_in(seen, dim)) {
            op_fail(c, GW_INVALID, "dimension %lld is given twice, but each must be given once",
                    (long long)given[i]);
            return false;
        }
        seen |= UINT32_C(1) << dim;
    }
    return true;
}

bool reduction_infer_at(op_call *c, gw_dtype dtype, int dims_at) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    if (!check_dims(c, dims_at)) return false;
    bool keep = !arg_is_none(c->args, dims_at + 1) && arg_bool(c->args, dims_at + 1);
    reduction r = reduction_of_at(c->args, dims_at);
    int64_t sizes[GW_DIMS_MAX];
    int dims = 0;
    for (int i = 0; i < x->dims; i++) {
        if (!is_in(r.dims, i))
            sizes[dims++] = x->sizes[i];
        else if (keep)
            sizes[dims++] = 1;
    }
    return op_output(c, dtype, dims, sizes) != NULL;
}

void reduction_infer_float(op_call *c) {
    gw_dtype d = (gw_dtype)arg_tensor(c->args, 0)->dtype;
    if (op_check_float(c, d)) reduction_infer(c, d);
}

void reduction_infer_wide(op_call *c) {
    gw_dtype d = (gw_dtype)arg_tensor(c->args, 0)->dtype;
    reduction_infer(c, dtype_is_float(d) ? d : GW_I64);
}

static uint32_t dims_of(const gw_value *args, int dims_at) {
    const gw_tensor *x = arg_tensor(args, 0);
    int64_t given[GW_DIMS_MAX];
    int count = arg_is_none(args, dims_at) ? 0 : arg_ints(args, dims_at, given);
    uint32_t dims = 0;
    for (int i = 0; i < count && x->dims; i++)
        dims |= UINT32_C(1) << (given[i] < 0 ? given[i] + x->dims : given[i]);
    return dims ? dims : (uint32_t)((UINT64_C(1) << x->dims) - 1);
}

reduction reduction_of_at(const gw_value *args, int dims_at) {
    const gw_tensor *x = arg_tensor(args, 0);
    reduction r = { .dim = -1, .dims = dims_of(args, dims_at), .outer = 1, .n = 1, .inner = 1 };
    int first = x->dims, last = -1, count = 0;
    for (int i = 0; i < x->dims; i++) {
        if (!is_in(r.dims, i)) continue;
        if (first > i) first = i;
        last = i;
        count++;
    }
    if (count == 1 && !arg_is_none(args, dims_at)) r.dim = first;
    for (int i = 0; i < x->dims; i++) {
        r.scattered |= i > first && i < last && !is_in(r.dims, i);
        *(is_in(r.dims, i) ? &r.n : i < first ? &r.outer : &r.inner) *= x->sizes[i];
    }
    if (r.scattered) {
        r.outer *= r.inner;
        r.inner = 1;
    }
    return r;
}

// ---- Values -------------------------------------------------------------------------------------
bool reduction_open_rows(op_call *c, const reduction *r, gw_dtype dtype, dense *out) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    if (r->inner == 1 && !r->scattered) return dense_open(c, x, dtype, out);
    if (r->dim >= 0) return dense_open_rows(c, x, r->dim, dtype, out);
    int64_t sizes[GW_DIMS_MAX], strides[GW_DIMS_MAX];
    int at = 0;
    for (int reduced = 0; reduced < 2; reduced++) {
        for (int i = 0; i < x->dims; i++) {
            if (is_in(r->dims, i) != (bool)reduced) continue;
            sizes[at] = x->sizes[i];
            strides[at++] = x->strides[i];
        }
    }
    *out = (dense){ 0 };
    gw_tensor *rows = tensor_view_for(c->scope, c->op->name, x, x->dims, sizes, strides, x->offset);
    bool ok = rows && dense_open(c, rows, dtype, out);
    handle_release(rows);
    return ok;
}

bool reduction_open(op_call *c, const reduction *r, gw_dtype dtype, dense *out) {
    return r->scattered ? reduction_open_rows(c, r, dtype, out)
                        : dense_open(c, arg_tensor(c->args, 0), dtype, out);
}

// ---- Derivatives --------------------------------------------------------------------------------
gw_tensor *reduction_widen_at(const op_grad *g, gw_tensor *y, int dims_at) {
    const gw_tensor *x = arg_tensor(g->args, 0);
    uint32_t reduced = dims_of(g->args, dims_at);
    if (y->dims == 0 || y->dims == x->dims) return y;
    int64_t sizes[GW_DIMS_MAX];
    for (int i = 0; i < x->dims; i++) sizes[i] = is_in(reduced, i) ? 1 : x->sizes[i];
    return gw_reshape_with(g->scope, y, (gw_shape){ x->dims, sizes });
}

gw_tensor *reduction_spread(const op_grad *g, gw_tensor *y) {
    const gw_tensor *x = arg_tensor(g->args, 0);
    return gw_expand_with(g->scope, reduction_widen(g, y), (gw_shape){ x->dims, x->sizes });
}

// ---- Calling ------------------------------------------------------------------------------------
gw_tensor *reduction_run(gw_scope *s, const op *o, gw_tensor *x, gw_dim_options options) {
    gw_value dim = options.dim == GW_NOT_GIVEN ? gw_none() : gw_value_of(options.dim);
    gw_value args[] = { gw_value_of(x), dim, gw_value_of(options.keepdim) };
    return op_run(s, o, args, 3, NULL);
}

gw_value reduction_dims(gw_scope *s, const op *o, gw_dims_options options) {
    if (!s->error && options.dim != GW_NOT_GIVEN && options.dims.count)
        scope_fail(s, GW_INVALID, "gw.%s: both dim and dims are given", o->name);
    if (options.dim != GW_NOT_GIVEN) return gw_value_of(options.dim);
    return options.dims.count ? value_of_ints(options.dims) : gw_none();
}

gw_tensor *reduction_run_dims(gw_scope *s, const op *o, gw_tensor *x, gw_dims_options options) {
    gw_value args[] = { gw_value_of(x), reduction_dims(s, o, options),
                        gw_value_of(options.keepdim) };
    return op_run(s, o, args, 3, NULL);
}
