// Convolutions over one and two dimensions: torch.nn.functional.conv1d and conv2d.
//
// Each image is unfolded to columns, a strip of rows at a time, and multiplied with the weight as a
// matrix: O rows of K = C/groups*kernel numbers. The derivatives are the other two products of the
// same matrices.
#include "tensor/kernels/conv.h"
#include "tensor/dense.h"
#include "tensor/dtype.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

static bool check_bias(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0), *w = arg_tensor(c->args, 1);
    const gw_tensor *bias = arg_tensor(c->args, 2);
    if (!bias || (bias->dtype == x->dtype && bias->dims == 1 && bias->sizes[0] == w->sizes[0]))
        return true;
    op_fail(c, GW_INVALID,
            "bias is %s of %s for %lld outputs of %s: it must have one number of that dtype for "
            "each output",
            shape_text(bias).text, gw_dtype_name(bias->dtype), (long long)w->sizes[0],
            gw_dtype_name(x->dtype));
    return false;
}

static void infer(op_call *c) {
    conv v;
    int dims = c->op->variant;
    if (!conv_read(c, dims, &v) || !check_bias(c)) return;
    const gw_tensor *x = arg_tensor(c->args, 0);
    int64_t sizes[4];
    int n = 0;
    if (x->dims == dims + 2) sizes[n++] = v.n;
    sizes[n++] = v.o * v.groups;
    if (dims == 2) sizes[n++] = v.window.out[0];
    sizes[n++] = v.window.out[1];
    op_output(c, (gw_dtype)x->dtype, n, sizes);
}

// ---- Forward ------------------------------------------------------------------------------------
static void fill(gw_dtype type, void *out, int64_t count, const void *value) {
    float *f = out;
    double *d = out;
    for (int64_t i = 0; type == GW_F32 && i < count; i++) f[i] = *(const float *)value;
    for (int64_t i = 0; type == GW_F64 && i < count; i++) d[i] = *(const double *)value;
}

static void convolve(const conv *v, const void *x, const void *weight, const void *bias, void *room,
                     void *out) {
    int64_t channels = v->groups * v->o;
    for (int64_t i = 0; bias && i < v->n * channels; i++)
        fill(v->type, (void *)conv_at(out, i * v->out_plane, v->type), v->out_plane,
             conv_at(bias, i % channels, v->type));
    for (strip s = conv_before_first(v); conv_next(v, x, &s);) {
        conv_unfold(v, &s, room);
        blas_multiply(v->type, v->o, s.count, v->k, conv_weight(v, &s, weight), s.columns,
                      conv_result(v, &s, out), v->out_plane, bias);
    }
}

static void compute(op_call *c) {
    conv v;
    if (c->outputs[0]->numel == 0 || !conv_read(c, c->op->variant, &v)) return;
    conv_plan(&v);
    dense x = { 0 }, w = { 0 }, b = { 0 };
    block *room = NULL;
    result out;
    if (dense_open(c, arg_tensor(c->args, 0), v.type, &x) &&
        dense_open(c, arg_tensor(c->args, 1), v.type, &w) &&
        dense_open_optional(c, arg_tensor(c->args, 2), v.type, &b) &&
        conv_open_columns(c, &v, &room) && result_open(c, 0, v.type, &out)) {
        convolve(&v, x.values, w.values, b.values, room ? room->bytes : NULL, out.values);
        result_close(&out);
    }
    block_release(room);
    dense_close(&b);
    dense_close(&w);
    dense_close(&x);
}

// d: N O positions, or without N.
static gw_tensor *back_to_bias(gw_scope *s, gw_tensor *d, const gw_tensor *bias, bool batched) {
    int64_t n = batched ? d->sizes[0] : 1, o = bias->sizes[0];
    gw_tensor *planes = gw_reshape(s, d, n, o, n * o > 0 ? d->numel / (n * o) : 0);
    return gw_sum(s, gw_sum(s, planes, .dim = 2), .dim = 0);
}

static void grad(op_grad *g) {
    gw_value args[7];
    memcpy(args, g->args, sizeof args);
    args[2] = gw_value_of(g->d_outputs[0]);
    if (g->wanted[0]) g->d_inputs[0] = op_run(g->scope, &op_conv_back_x, args, 7, NULL);
    if (g->wanted[1]) g->d_inputs[1] = op_run(g->scope, &op_conv_back_weight, args, 7, NULL);
    const gw_tensor *x = arg_tensor(g->args, 0), *bias = arg_tensor(g->args, 2);
    if (bias && g->wanted[2])
        g->d_inputs[2] =
            back_to_bias(g->scope, g->d_outputs[0], bias, x->dims == arg_tensor(g->args, 1)->dims);
}

#define PARAMS                                                                                     \
    "x:tensor weight:tensor bias:tensor? stride:ints? padding:ints? dilation:ints? groups:int?=1"
const op op_conv1d = {
    .name = "conv1d",
    .variant = 1,
    .params = PARAMS,
    .cast = OP_CAST_DOWN,
    .infer = infer,
    .compute = compute,
    .grad = grad,
    .saves = OP_SAVE_ARG(0) | OP_SAVE_ARG(1),
};
const op op_conv2d = {
    .name = "conv2d",
    .variant = 2,
    .params = PARAMS,
    .cast = OP_CAST_DOWN,
    .infer = infer,
    .compute = compute,
    .grad = grad,
    .saves = OP_SAVE_ARG(0) | OP_SAVE_ARG(1),
};

static gw_tensor *run(gw_scope *s, const op *o, int dims, gw_tensor *x, gw_tensor *weight,
                      gw_tensor *bias, gw_conv_options options) {
    gw_value args[] = { gw_value_of(x),
                        gw_value_of(weight),
                        value_of_optional(bias),
                        value_of_ints((gw_shape){ dims, options.stride }),
                        value_of_ints((gw_shape){ dims, options.padding }),
                        value_of_ints((gw_shape){ dims, options.dilation }),
                        gw_value_of(options.groups) };
    return op_run(s, o, args, 7, NULL);
}

gw_tensor *gw_conv1d_with(gw_scope *s, gw_tensor *x, gw_tensor *weight, gw_tensor *bias,
                          gw_conv_options options) {
    return run(s, &op_conv1d, 1, x, weight, bias, options);
}
gw_tensor *gw_conv2d_with(gw_scope *s, gw_tensor *x, gw_tensor *weight, gw_tensor *bias,
                          gw_conv_options options) {
    return run(s, &op_conv2d, 2, x, weight, bias, options);
}
