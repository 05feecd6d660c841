// Other views of the same values.
#include "tensor/copy.h"
#include "tensor/dtype.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

static gw_shape shape_of(const gw_tensor *x) {
    return (gw_shape){ x->dims, x->sizes };
}

// The gradient in the shape of the argument: the way back of whatever only changes the shape.
static void grad_reshape(op_grad *g) {
    g->d_inputs[0] = gw_reshape_with(g->scope, g->d_outputs[0], shape_of(g->args[0].as.tensor));
}

// ---- reshape, view ------------------------------------------------------------------------------
// Fills in a size of -1. Fails and returns false if the elements do not fit.
static bool complete(op_call *c, const gw_tensor *x, int dims, int64_t *sizes) {
    int unknown = -1;
    int64_t known = 1;
    for (int i = 0; i < dims; i++) {
        bool is_unknown = sizes[i] == -1;
        if (is_unknown ? unknown >= 0
                       : sizes[i] < 0 || __builtin_mul_overflow(known, sizes[i], &known))
            goto misfit;
        if (is_unknown) unknown = i;
    }
    if (unknown >= 0) {
        if (known == 0 || x->numel % known) goto misfit;
        sizes[unknown] = x->numel / known;
        return true;
    }
    if (known == x->numel) return true;
misfit:
    op_fail(c, GW_INVALID,
            "%s cannot get the shape %s, which must have the same number of elements",
            shape_text(x).text, shape_text_of(dims, sizes).text);
    return false;
}

// Of sizes that may be too large for a tensor without elements, which is found where it is made.
static void contiguous_strides(int dims, const int64_t *sizes, int64_t *strides) {
    uint64_t stride = 1;
    for (int i = dims - 1; i >= 0; i--) {
        strides[i] = (int64_t)stride;
        if (sizes[i] > 1) stride *= (uint64_t)sizes[i];
    }
}

// Strides of |x| seen in another shape of as many elements. False if that takes a copy. Runs of
// dimensions of |x| that lie as one are cut anew.
static bool find_strides(const gw_tensor *x, int dims, const int64_t *sizes, int64_t *strides) {
    if (x->contiguous) {
        contiguous_strides(dims, sizes, strides);
        return true;
    }
    int to = dims - 1;
    for (int from = x->dims - 1; from >= 0;) {
        int64_t base = x->strides[from], run = x->sizes[from--];
        while (from >= 0 && (x->sizes[from] == 1 || x->strides[from] == run * base))
            run *= x->sizes[from--];
        int64_t cut = 1;
        while (to >= 0 && (cut < run || sizes[to] == 1)) {
            strides[to] = cut * base;
            cut *= sizes[to--];
        }
        if (cut != run) return false;
    }
    return to < 0;
}

static void infer_reshape(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    int64_t sizes[GW_DIMS_MAX], strides[GW_DIMS_MAX];
    int dims = arg_ints(c->args, 1, sizes);
    if (!complete(c, x, dims, sizes)) return;
    if (find_strides(x, dims, sizes, strides))
        op_output_view(c, x, dims, sizes, strides, x->offset);
    else if (c->op == &op_reshape)
        op_output(c, (gw_dtype)x->dtype, dims, sizes);
    else
        op_fail(c, GW_INVALID,
                "%s cannot get the shape %s without a copy; gw_reshape makes a copy where needed",
                shape_text(x).text, shape_text_of(dims, sizes).text);
}

// A new output has the elements of |x| in order, in whatever shape.
static void copy_if_new(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    gw_tensor *out = c->outputs[0];
    if (out->storage == x->storage) return;
    gw_tensor *same = tensor_view_for(c->scope, c->op->name, out, x->dims, x->sizes, x->strides, 0);
    if (!same) return;
    contiguous_strides(x->dims, x->sizes, same->strides);
    copy_into_new(same, x);
    handle_release(same);
}

const op op_reshape = {
    .name = "reshape",
    .params = "x:tensor sizes:ints",
    .infer = infer_reshape,
    .compute = copy_if_new,
    .grad = grad_reshape,
};

const op op_view = {
    .name = "view",
    .params = "x:tensor sizes:ints",
    .infer = infer_reshape,
    .grad = grad_reshape,
};

static gw_tensor *run_shaped(gw_scope *s, const op *o, gw_tensor *x, gw_shape shape) {
    return op_run(s, o, (const gw_value[]){ gw_value_of(x), value_of_ints(shape) }, 2, NULL);
}

gw_tensor *gw_reshape_with(gw_scope *s, gw_tensor *x, gw_shape shape) {
    return run_shaped(s, &op_reshape, x, shape);
}

gw_tensor *gw_view_with(gw_scope *s, gw_tensor *x, gw_shape shape) {
    return run_shaped(s, &op_view, x, shape);
}

// ---- expand -------------------------------------------------------------------------------------
static void infer_expand(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    int64_t sizes[GW_DIMS_MAX], strides[GW_DIMS_MAX];
    int dims = arg_ints(c->args, 1, sizes);
    bool fits = dims >= x->dims;
    for (int i = dims - 1, own = x->dims - 1; i >= 0 && fits; i--, own--) {
        if (sizes[i] == -1 && own >= 0) sizes[i] = x->sizes[own];
        bool keeps = own >= 0 && sizes[i] == x->sizes[own];
        strides[i] = keeps ? x->strides[own] : 0;
        fits = sizes[i] >= 0 && (keeps || own < 0 || x->sizes[own] == 1);
    }
    if (!fits) {
        op_fail(c, GW_INVALID,
                "%s cannot be expanded to %s: only dimensions of size 1 can be expanded, all "
                "others must keep their size",
                shape_text(x).text, shape_text_of(dims, sizes).text);
        return;
    }
    op_output_view(c, x, dims, sizes, strides, x->offset);
}

static void grad_expand(op_grad *g) {
    g->d_inputs[0] = unbroadcast(g->scope, g->d_outputs[0], g->args[0].as.tensor);
}

const op op_expand = {
    .name = "expand",
    .params = "x:tensor sizes:ints",
    .infer = infer_expand,
    .grad = grad_expand,
};

gw_tensor *gw_expand_with(gw_scope *s, gw_tensor *x, gw_shape shape) {
    return run_shaped(s, &op_expand, x, shape);
}

// ---- squeeze, unsqueeze -------------------------------------------------------------------------
static void infer_squeeze(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    int dim = op_dim(c, x, arg_int(c->args, 1)), dims = 0;
    if (dim < 0) return;
    int64_t sizes[GW_DIMS_MAX], strides[GW_DIMS_MAX];
    for (int i = 0; i < x->dims; i++) {
        if (i == dim && x->sizes[i] == 1) continue;
        sizes[dims] = x->sizes[i];
        strides[dims++] = x->strides[i];
    }
    op_output_view(c, x, dims, sizes, strides, x->offset);
}

const op op_squeeze = {
    .name = "squeeze",
    .params = "x:tensor dim:int",
    .infer = infer_squeeze,
    .grad = grad_reshape,
};

gw_tensor *gw_squeeze(gw_scope *s, gw_tensor *x, int dim) {
    return op_run(s, &op_squeeze, (const gw_value[]){ gw_value_of(x), gw_value_of(dim) }, 2, NULL);
}

static void infer_unsqueeze(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    int64_t dim = arg_int(c->args, 1), sizes[GW_DIMS_MAX], strides[GW_DIMS_MAX];
    if (dim < 0) dim += x->dims + 1;
    if (dim < 0 || dim > x->dims || x->dims == GW_DIMS_MAX) {
        op_fail(c, GW_INVALID,
                "a dimension cannot be inserted at %lld in %s: it must be the place of one of its "
                "dimensions, or the end",
                (long long)arg_int(c->args, 1), shape_text(x).text);
        return;
    }
    for (int i = 0, from = 0; i <= x->dims; i++) {
        sizes[i] = i == dim ? 1 : x->sizes[from];
        strides[i] =
            i == dim ? (from < x->dims ? x->strides[from] * x->sizes[from] : 1) : x->strides[from];
        from += i != dim;
    }
    op_output_view(c, x, x->dims + 1, sizes, strides, x->offset);
}

const op op_unsqueeze = {
    .name = "unsqueeze",
    .params = "x:tensor dim:int",
    .infer = infer_unsqueeze,
    .grad = grad_reshape,
};

gw_tensor *gw_unsqueeze(gw_scope *s, gw_tensor *x, int dim) {
    return op_run(s, &op_unsqueeze, (const gw_value[]){ gw_value_of(x), gw_value_of(dim) }, 2,
                  NULL);
}
