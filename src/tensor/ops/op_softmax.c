// softmax and log_softmax along a dimension.
#include "tensor/dense.h"
#include "tensor/dtype.h"
#include "tensor/kernels/kernels.h"
#include "tensor/ops/op_sample.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

static void infer(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    gw_dtype d = (gw_dtype)x->dtype;
    if (!dtype_is_float(d)) {
        op_fail(c, GW_INVALID, "%s is not a float dtype, but must be one; gw_to_dtype converts it",
                gw_dtype_name(d));
        return;
    }
    if (op_dim(c, x, arg_int(c->args, c->arg_count - 1)) >= 0) op_output(c, d, x->dims, x->sizes);
}

// The dimension, which is the last argument. -1 for a scalar, which is a row of one.
static int dim_of(const op_call *c) {
    const gw_tensor *x = c->outputs[0];
    int64_t dim = arg_int(c->args, c->arg_count - 1);
    return x->dims == 0 ? -1 : (int)(dim < 0 ? dim + x->dims : dim);
}

typedef void rows_kernel(const void *x, int64_t rows, int64_t n, void *out);
typedef void back_kernel(const void *dy, const void *y, int64_t rows, int64_t n, void *dx);

static void run(op_call *c, rows_kernel *const kernel[2]) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    gw_dtype type = dtype_compute((gw_dtype)x->dtype);
    int dim = dim_of(c);
    int64_t n = dim < 0 ? 1 : x->sizes[dim];
    if (x->numel == 0) return;
    dense rows;
    result out;
    if (!dense_open_rows(c, x, dim, type, &rows)) return;
    if (result_open_rows(c, 0, dim, type, &out)) {
        kernel[kernel_type_of(type)](rows.values, x->numel / n, n, out.values);
        result_close(&out);
    }
    dense_close(&rows);
}

// Arguments dy, y, dim.
static void run_back(op_call *c, back_kernel *const kernel[2]) {
    const gw_tensor *y = arg_tensor(c->args, 1);
    gw_dtype type = dtype_compute((gw_dtype)y->dtype);
    int dim = dim_of(c);
    int64_t n = dim < 0 ? 1 : y->sizes[dim];
    if (y->numel == 0) return;
    dense d_rows, y_rows;
    result out;
    if (!dense_open_rows(c, arg_tensor(c->args, 0), dim, type, &d_rows)) return;
    if (!dense_open_rows(c, y, dim, type, &y_rows)) goto close_d;
    if (result_open_rows(c, 0, dim, type, &out)) {
        kernel[kernel_type_of(type)](d_rows.values, y_rows.values, y->numel / n, n, out.values);
        result_close(&out);
    }
    dense_close(&y_rows);
close_d:
    dense_close(&d_rows);
}

static void grad_with(op_grad *g, const op *back) {
    gw_value args[] = { gw_value_of(g->d_outputs[0]), gw_value_of(g->outputs[0]), g->args[1] };
    if (g->wanted[0]) g->d_inputs[0] = op_run(g->scope, back, args, 3, NULL);
}

static void samples(op_sampler *p) {
    sample_call(p, sample_real(p, -3, 3, 3, 5), gw_value_of(-1));
    sample_call(p, sample_real(p, -3, 3, 3, 5), gw_value_of(0));
    sample_call(p, sample_real(p, -3, 3, 2, 3, 4), gw_value_of(1));
    sample_call(p, sample_real(p, -3, 3, 2, 37), gw_value_of(1));
    sample_call(p, sample_real(p, -3, 3), gw_value_of(0));
    sample_call(p, sample_real(p, -3, 3, 0, 3), gw_value_of(1));
}

// ---- softmax ------------------------------------------------------------------------------------
static void compute_softmax(op_call *c) {
    run(c, kernels_get()->softmax_rows);
}

static void compute_softmax_back(op_call *c) {
    run_back(c, kernels_get()->softmax_back_rows);
}

// Not in the table, and nor is the other: only derivatives use them.
const op op_softmax_back = {
    .name = "softmax_backward",
    .params = "dy:tensor y:tensor dim:int",
    .infer = infer,
    .compute = compute_softmax_back,
};

static void grad_softmax(op_grad *g) {
    grad_with(g, &op_softmax_back);
}

const op op_softmax = {
    .name = "softmax",
    .params = "x:tensor dim:int",
    .cast = OP_CAST_F32_FROM_F16,
    .infer = infer,
    .compute = compute_softmax,
    .grad = grad_softmax,
    .saves = OP_SAVE_OUT(0),
    .samples = samples,
};

gw_tensor *gw_softmax(gw_scope *s, gw_tensor *x, int dim) {
    gw_value args[] = { gw_value_of(x), gw_value_of(dim) };
    return op_run(s, &op_softmax, args, 2, NULL);
}

// ---- log_softmax --------------------------------------------------------------------------------
static void compute_log_softmax(op_call *c) {
    run(c, kernels_get()->log_softmax_rows);
}

static void compute_log_softmax_back(op_call *c) {
    run_back(c, kernels_get()->log_softmax_back_rows);
}

const op op_log_softmax_back = {
    .name = "log_softmax_backward",
    .params = "dy:tensor y:tensor dim:int",
    .infer = infer,
    .compute = compute_log_softmax_back,
};

static void grad_log_softmax(op_grad *g) {
    grad_with(g, &op_log_softmax_back);
}

const op op_log_softmax = {
    .name = "log_softmax",
    .params = "x:tensor dim:int",
    .cast = OP_CAST_F32_FROM_F16,
    .infer = infer,
    .compute = compute_log_softmax,
    .grad = grad_log_softmax,
    .saves = OP_SAVE_OUT(0),
    .samples = samples,
};

gw_tensor *gw_log_softmax(gw_scope *s, gw_tensor *x, int dim) {
    gw_value args[] = { gw_value_of(x), gw_value_of(dim) };
    return op_run(s, &op_log_softmax, args, 2, NULL);
}
