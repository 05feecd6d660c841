// Several tensors in one.
#include "tensor/copy.h"
#include "tensor/dtype.h"
#include "tensor/ops/ops.h"
#include "base/value.h"
#include <gradwire/ops.h>

static const gw_tensor *item(const op_call *c, int i) {
    return c->args[0].as.list->items[i].as.tensor;
}

// The dtype of all, or -1 with the call failed if there are none.
static int common_dtype(op_call *c) {
    int count = c->args[0].as.list->count;
    if (count == 0) {
        op_fail(c, GW_INVALID, "no tensors are given: there must be one or more");
        return -1;
    }
    promotion p = promotion_start();
    for (int i = 0; i < count; i++) promotion_add_tensor(&p, item(c, i));
    return (int)promotion_end(&p);
}

// An empty vector fits everywhere, as in PyTorch.
static bool is_nothing(const gw_tensor *x) {
    return x->dims == 1 && x->sizes[0] == 0;
}

static bool fits(const gw_tensor *a, const gw_tensor *b, int dim) {
    if (a->dims != b->dims) return false;
    for (int i = 0; i < a->dims; i++)
        if (i != dim && a->sizes[i] != b->sizes[i]) return false;
    return true;
}

static void infer_cat(op_call *c) {
    int dtype = common_dtype(c), count = c->args[0].as.list->count;
    if (dtype < 0) return;
    const gw_tensor *first = item(c, 0);
    for (int i = 1; i < count && is_nothing(first); i++) first = item(c, i);
    int dim = op_dim(c, first, arg_int(c->args, 1));
    if (dim < 0) return;
    if (first->dims == 0) {
        op_fail(c, GW_INVALID, "scalars cannot be joined; gw_stack joins them to a vector");
        return;
    }
    int64_t total = 0;
    for (int i = 0; i < count; i++) {
        const gw_tensor *x = item(c, i);
        if (is_nothing(x)) continue;
        if (!fits(first, x, dim)) {
            op_fail(c, GW_INVALID,
                    "%s and %s cannot be joined along dimension %d: all other sizes must be equal",
                    shape_text(first).text, shape_text(x).text, dim);
            return;
        }
        total += x->sizes[dim];
    }
    int64_t sizes[GW_DIMS_MAX];
    for (int i = 0; i < first->dims; i++) sizes[i] = i == dim ? total : first->sizes[i];
    c->plan.ints[0] = dim;
    op_output(c, (gw_dtype)dtype, first->dims, sizes);
}

static void infer_stack(op_call *c) {
    int dtype = common_dtype(c), count = c->args[0].as.list->count;
    if (dtype < 0) return;
    const gw_tensor *first = item(c, 0);
    int64_t dim = arg_int(c->args, 1);
    if (dim < 0) dim += first->dims + 1;
    if (dim < 0 || dim > first->dims || first->dims == GW_DIMS_MAX) {
        op_fail(c, GW_INVALID,
                "a dimension cannot be inserted at %lld in %s: it must be the place of one of its "
                "dimensions, or the end",
                (long long)arg_int(c->args, 1), shape_text(first).text);
        return;
    }
    for (int i = 1; i < count; i++) {
        if (fits(first, item(c, i), -1)) continue;
        op_fail(c, GW_INVALID, "%s and %s must have the same shape", shape_text(first).text,
                shape_text(item(c, i)).text);
        return;
    }
    int64_t sizes[GW_DIMS_MAX];
    for (int i = 0; i <= first->dims; i++)
        sizes[i] = i == dim ? count : first->sizes[i < dim ? i : i - 1];
    c->plan.ints[0] = dim;
    op_output(c, (gw_dtype)dtype, first->dims + 1, sizes);
}

// Writes |x| into the part of the output that begins at |at| along |dim|.
static bool put(op_call *c, const gw_tensor *x, int dim, int64_t at, int64_t size) {
    gw_tensor *out = c->outputs[0];
    int64_t sizes[GW_DIMS_MAX];
    for (int i = 0; i < out->dims; i++) sizes[i] = i == dim ? size : out->sizes[i];
    gw_tensor *part = tensor_view_for(c->scope, c->op->name, out, out->dims, sizes, out->strides,
                                      at * out->strides[dim]);
    if (!part) return false;
    copy_values(part, (uint8_t *)tensor_bytes(part), x);
    handle_release(part);
    return true;
}

static void compute_cat(op_call *c) {
    int dim = (int)c->plan.ints[0];
    int64_t at = 0;
    for (int i = 0; i < c->args[0].as.list->count; i++) {
        const gw_tensor *x = item(c, i);
        if (is_nothing(x)) continue;
        if (!put(c, x, dim, at, x->sizes[dim])) return;
        at += x->sizes[dim];
    }
}

static void compute_stack(op_call *c) {
    int dim = (int)c->plan.ints[0], count = c->args[0].as.list->count;
    for (int i = 0; i < count; i++) {
        const gw_tensor *x = item(c, i);
        int64_t sizes[GW_DIMS_MAX], strides[GW_DIMS_MAX];
        for (int k = 0, from = 0; k <= x->dims; k++) {
            sizes[k] = k == dim ? 1 : x->sizes[from];
            strides[k] = k == dim ? 0 : x->strides[from];
            from += k != dim;
        }
        gw_tensor *row =
            tensor_view_for(c->scope, c->op->name, x, x->dims + 1, sizes, strides, x->offset);
        bool done = row && put(c, row, dim, i, 1);
        handle_release(row);
        if (!done) return;
    }
}

static void grad_cat(op_grad *g) {
    int64_t at = 0;
    int count = g->args[0].as.list->count, dim = (int)arg_int(g->args, 1);
    if (dim < 0) dim += g->outputs[0]->dims;
    for (int i = 0; i < count; i++) {
        const gw_tensor *x = g->args[0].as.list->items[i].as.tensor;
        int64_t size = is_nothing(x) ? 0 : x->sizes[dim];
        if (g->wanted[i]) {
            gw_tensor *d = is_nothing(x)
                               ? gw_zeros_with(g->scope, (gw_dtype)x->dtype, GW_SHAPE(0))
                               : gw_slice(g->scope, g->d_outputs[0], dim, at, at + size, 1);
            g->d_inputs[i] = gw_to_dtype(g->scope, d, (gw_dtype)x->dtype);
        }
        at += size;
    }
}

static void grad_stack(op_grad *g) {
    for (int i = 0; i < g->args[0].as.list->count; i++) {
        if (!g->wanted[i]) continue;
        gw_tensor *d = gw_select(g->scope, g->d_outputs[0], (int)arg_int(g->args, 1), i);
        gw_dtype dtype = (gw_dtype)g->args[0].as.list->items[i].as.tensor->dtype;
        g->d_inputs[i] = gw_to_dtype(g->scope, d, dtype);
    }
}

const op op_cat = {
    .name = "cat",
    .params = "tensors:tensors dim:int",
    .infer = infer_cat,
    .compute = compute_cat,
    .grad = grad_cat,
};

const op op_stack = {
    .name = "stack",
    .params = "tensors:tensors dim:int",
    .infer = infer_stack,
    .compute = compute_stack,
    .grad = grad_stack,
};

static gw_tensor *run_list(gw_scope *s, const op *o, gw_tensor *const *xs, int count, int dim) {
    if (s->error) return tensor_poison_of(s);
    if (!xs) count = 0;
    gw_list *list = list_open();
    bool complete = list;
    for (int i = 0; i < count && complete; i++) complete = list_add(list, gw_value_of(xs[i]));
    gw_tensor *out = tensor_poison_of(s);
    if (complete) {
        out = op_run(s, o, (const gw_value[]){ gw_value_of(list), gw_value_of(dim) }, 2, NULL);
    } else {
        scope_fail(s, GW_NO_MEMORY, "gw.%s: no memory for a list of %d tensors", o->name, count);
    }
    handle_release(list);
    return out;
}

gw_tensor *gw_cat(gw_scope *s, gw_tensor *const *xs, int count, int dim) {
    return run_list(s, &op_cat, xs, count, dim);
}

gw_tensor *gw_stack(gw_scope *s, gw_tensor *const *xs, int count, int dim) {
    return run_list(s, &op_stack, xs, count, dim);
}
