// softmax and log_softmax along a dimension.
#include "tensor/dense.h"
#include "tensor/dtype.h"
#include "tensor/kernels/kernels.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

// The dimension is the last argument.
static void infer(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    gw_dtype d = (gw_dtype)x->dtype;
    if (!op_check_float(c, d)) return;
    if (op_dim(c, x, arg_int(c->args, c->arg_count - 1)) >= 0) op_output(c, d, x->dims, x->sizes);
}

enum { SOFTMAX, LOG_SOFTMAX };  // variants

static void compute(op_call *c) {
    const kernels *k = kernels_get();
    const gw_tensor *x = arg_tensor(c->args, 0);
    gw_dtype type = dtype_compute((gw_dtype)x->dtype);
    int dim = arg_dim(c->args, c->arg_count - 1, c->outputs[0]);
    int64_t n = dim < 0 ? 1 : x->sizes[dim];
    if (x->numel == 0) return;
    dense rows;
    result out;
    if (!dense_open_rows(c, x, dim, type, &rows)) return;
    if (result_open_rows(c, 0, dim, type, &out)) {
        (c->op->variant == SOFTMAX ? k->softmax_rows : k->log_softmax_rows)[kernel_type_of(type)](
            rows.values, x->numel / n, n, out.values);
        result_close(&out);
    }
    dense_close(&rows);
}

// Arguments dy, y, dim.
static void compute_back(op_call *c) {
    const kernels *k = kernels_get();
    const gw_tensor *y = arg_tensor(c->args, 1);
    gw_dtype type = dtype_compute((gw_dtype)y->dtype);
    int dim = arg_dim(c->args, c->arg_count - 1, c->outputs[0]);
    int64_t n = dim < 0 ? 1 : y->sizes[dim];
    if (y->numel == 0) return;
    dense d_rows, y_rows;
    result out;
    if (!dense_open_rows(c, arg_tensor(c->args, 0), dim, type, &d_rows)) return;
    if (!dense_open_rows(c, y, dim, type, &y_rows)) goto close_d;
    if (result_open_rows(c, 0, dim, type, &out)) {
        (c->op->variant == SOFTMAX ? k->softmax_back_rows
                                   : k->log_softmax_back_rows)[kernel_type_of(type)](
            d_rows.values, y_rows.values, y->numel / n, n, out.values);
        result_close(&out);
    }
    dense_close(&y_rows);
close_d:
    dense_close(&d_rows);
}

// Not in the table: only derivatives use them.
static const op backward[] = {
    [SOFTMAX] = { .name = "softmax_backward",
                  .params = "dy:tensor y:tensor dim:int",
                  .infer = infer,
                  .compute = compute_back,
                  .variant = SOFTMAX },
    [LOG_SOFTMAX] = { .name = "log_softmax_backward",
                      .params = "dy:tensor y:tensor dim:int",
                      .infer = infer,
                      .compute = compute_back,
                      .variant = LOG_SOFTMAX },
};

static void grad(op_grad *g) {
    gw_value args[] = { gw_value_of(g->d_outputs[0]), gw_value_of(g->outputs[0]), g->args[1] };
    if (g->wanted[0]) g->d_inputs[0] = op_run(g->scope, &backward[g->op->variant], args, 3, NULL);
}

#define ROW(verb, which)                                                                           \
    const op op_##verb = {                                                                         \
        .name = #verb,                                                                             \
        .params = "x:tensor dim:int",                                                              \
        .cast = OP_CAST_F32_FROM_F16,                                                              \
        .infer = infer,                                                                            \
        .compute = compute,                                                                        \
        .variant = which,                                                                          \
        .grad = grad,                                                                              \
        .saves = OP_SAVE_OUT(0),                                                                   \
    };                                                                                             \
    gw_tensor *gw_##verb(gw_scope *s, gw_tensor *x, int dim) {                                     \
        gw_value args[] = { gw_value_of(x), gw_value_of(dim) };                                    \
        return op_run(s, &op_##verb, args, 2, NULL);                                               \
    }
ROW(softmax, SOFTMAX)
ROW(log_softmax, LOG_SOFTMAX)
