// layer_norm over the last dimensions (Ba, Kiros, Hinton 2016).
#include "tensor/dense.h"
#include "tensor/dtype.h"
#include "tensor/kernels/kernels.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

static void infer(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    int64_t sizes[GW_DIMS_MAX];
    int dims = arg_ints(c->args, 1, sizes), first = x->dims - dims;
    if (!op_check_float(c, (gw_dtype)x->dtype)) return;
    if (dims == 0 || first < 0 ||
        memcmp(x->sizes + first, sizes, (size_t)dims * sizeof *sizes) != 0) {
        op_fail(c, GW_INVALID, "%s must end in the sizes %s", shape_text(x).text,
                dims ? shape_text_of(dims, sizes).text : "nothing");
        return;
    }
    if (op_check_parameter(c, "weight", 2, dims, sizes) &&
        op_check_parameter(c, "bias", 3, dims, sizes))
        op_output_like(c, x);
}

static int64_t row_size(const gw_value *args, int i) {
    int64_t sizes[GW_DIMS_MAX], n = 1;
    int dims = arg_ints(args, i, sizes);
    for (int k = 0; k < dims; k++) n *= sizes[k];
    return n;
}

static void compute(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    gw_dtype type = dtype_compute((gw_dtype)x->dtype);
    int64_t n = row_size(c->args, 1);
    if (x->numel == 0) return;
    dense rows, weight = { 0 }, bias = { 0 };
    result out;
    if (dense_open(c, x, type, &rows) &&
        dense_open_optional(c, arg_tensor(c->args, 2), type, &weight) &&
        dense_open_optional(c, arg_tensor(c->args, 3), type, &bias) &&
        result_open(c, 0, type, &out)) {
        kernels_get()->norm_rows[kernel_type_of(type)](rows.values, x->numel / n, n,
                                                       arg_number(c->args, 4), weight.values,
                                                       bias.values, out.values);
        result_close(&out);
    }
    dense_close(&bias);
    dense_close(&weight);
    dense_close(&rows);
}

// ---- The way back -------------------------------------------------------------------------------
// Arguments: d x normalized eps weight. Without weight, for the product that the weight's gradient
// is the sum of.
enum { BACK, PRODUCT };  // variants

static void compute_back(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 1);
    gw_dtype type = dtype_compute((gw_dtype)x->dtype);
    kernel_type k = kernel_type_of(type);
    double eps = arg_number(c->args, 3);
    int64_t n = row_size(c->args, 2);
    if (x->numel == 0) return;
    dense d, rows = { 0 }, weight = { 0 };
    result out;
    if (dense_open(c, arg_tensor(c->args, 0), type, &d) && dense_open(c, x, type, &rows) &&
        dense_open_optional(c, arg_tensor(c->args, 4), type, &weight) &&
        result_open(c, 0, type, &out)) {
        if (c->op->variant == PRODUCT)
            kernels_get()->norm_product_rows[k](d.values, rows.values, x->numel / n, n, eps,
                                                out.values);
        else
            kernels_get()->norm_back_rows[k](d.values, rows.values, x->numel / n, n, eps,
                                             weight.values, out.values);
        result_close(&out);
    }
    dense_close(&weight);
    dense_close(&rows);
    dense_close(&d);
}

// Not in the table, and nor is the other: only derivatives use them.
static const op op_layer_norm_back = {
    .name = "layer_norm_backward",
    .params = "d:tensor x:tensor normalized:ints eps:float weight:tensor?",
    .infer = op_infer_second,
    .compute = compute_back,
    .variant = BACK,
};

static const op op_layer_norm_product = {
    .name = "layer_norm_product",
    .params = "d:tensor x:tensor normalized:ints eps:float weight:tensor?",
    .infer = op_infer_second,
    .compute = compute_back,
    .variant = PRODUCT,
};

// The sum over rows, in the shape of |like|.
static gw_tensor *sum_rows(gw_scope *s, gw_tensor *x, const gw_tensor *like) {
    int64_t rows = like->numel ? x->numel / like->numel : 0;
    gw_tensor *sum = gw_sum(s, gw_reshape(s, x, rows, like->numel), .dim = 0);
    return gw_reshape_with(s, sum, (gw_shape){ like->dims, like->sizes });
}

static void grad(op_grad *g) {
    gw_scope *s = g->scope;
    gw_tensor *weight = arg_tensor(g->args, 2), *bias = arg_tensor(g->args, 3);
    gw_value args[] = { gw_value_of(g->d_outputs[0]), g->args[0], g->args[1],
                        gw_value_of(arg_number(g->args, 4)), g->args[2] };
    if (g->wanted[0]) g->d_inputs[0] = op_run(s, &op_layer_norm_back, args, 5, NULL);
    int i = 1;
    if (weight) {
        if (g->wanted[i])
            g->d_inputs[i] = sum_rows(s, op_run(s, &op_layer_norm_product, args, 4, NULL), weight);
        i++;
    }
    if (bias && g->wanted[i]) g->d_inputs[i] = sum_rows(s, g->d_outputs[0], bias);
}

const op op_layer_norm = {
    .name = "layer_norm",
    .params = "x:tensor normalized:ints weight:tensor? bias:tensor? eps:float?=1e-5",
    .cast = OP_CAST_F32_FROM_F16,
    .infer = infer,
    .compute = compute,
    .grad = grad,
    .saves = OP_SAVE_ARG(0) | OP_SAVE_ARG(2),
};

gw_tensor *gw_layer_norm(gw_scope *s, gw_tensor *x, gw_shape normalized, gw_tensor *weight,
                         gw_tensor *bias, double eps) {
    gw_value args[] = { gw_value_of(x), value_of_ints(normalized), value_of_optional(weight),
                        value_of_optional(bias), gw_value_of(eps) };
    return op_run(s, &op_layer_norm, args, 5, NULL);
}
