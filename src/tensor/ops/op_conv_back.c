// The derivatives of convolutions: for the input, and for the weight.
#include "tensor/kernels/conv.h"
#include "tensor/dense.h"

#include <string.h>

// dx: the columns' gradient W^T d, folded.
static void back_to_x(const conv *v, const void *weight, const void *d, void *room, void *dx) {
    memset(dx, 0, (size_t)(v->n * v->groups * v->c * v->plane) * gw_dtype_size(v->type));
    for (strip s = conv_before_first(v); conv_next(v, dx, &s);) {
        matrix w = conv_weight(v, &s, weight), turned = { w.values, 1, v->k };
        matrix grad = { conv_result(v, &s, d), v->out_plane, 1 };
        if (v->is_plain) {
            blas_multiply(v->type, v->k, s.count, v->o, turned, grad, (void *)s.x, v->plane, false);
            continue;
        }
        blas_multiply(v->type, v->k, s.count, v->o, turned, grad, room, s.count, false);
        window_fold(v->type, &v->window, room, v->c, s.first_row, s.row_count, (void *)s.x);
    }
}

// dW: d times the columns turned, added up over images and strips.
static void back_to_weight(const conv *v, const void *x, const void *d, void *room, void *dw) {
    memset(dw, 0, (size_t)(v->groups * v->o * v->k) * gw_dtype_size(v->type));
    for (strip s = conv_before_first(v); conv_next(v, x, &s);) {
        conv_unfold(v, &s, room);
        matrix grad = { conv_result(v, &s, d), v->out_plane, 1 };
        matrix turned = { s.columns.values, 1, s.columns.row_stride };
        blas_multiply(v->type, v->o, v->k, s.count, grad, turned,
                      (void *)conv_weight(v, &s, dw).values, v->k, true);
    }
}

static void run_back(op_call *c, int other,
                     void back(const conv *v, const void *other, const void *d, void *room,
                               void *out)) {
    conv v;
    int dims = arg_tensor(c->args, 1)->dims - 2;
    if (c->outputs[0]->numel == 0 || !conv_read(c, dims, &v)) return;
    conv_plan(&v);
    dense values = { 0 }, d = { 0 };
    block *room = NULL;
    result out;
    if (dense_open(c, arg_tensor(c->args, other), v.type, &values) &&
        dense_open(c, arg_tensor(c->args, 2), v.type, &d) && conv_open_columns(c, &v, &room) &&
        result_open(c, 0, v.type, &out)) {
        back(&v, values.values, d.values, room ? room->bytes : NULL, out.values);
        result_close(&out);
    }
    block_release(room);
    dense_close(&d);
    dense_close(&values);
}

static void compute_back_x(op_call *c) {
    run_back(c, 1, back_to_x);
}
static void compute_back_weight(op_call *c) {
    run_back(c, 0, back_to_weight);
}

#define BACK_PARAMS                                                                                \
    "x:tensor weight:tensor d:tensor stride:ints? padding:ints? dilation:ints? groups:int?=1"
const op op_conv_back_x = {
    .name = "conv_backward_input",
    .params = BACK_PARAMS,
    .infer = op_infer_first,
    .compute = compute_back_x,
};
const op op_conv_back_weight = {
    .name = "conv_backward_weight",
    .params = BACK_PARAMS,
    .infer = op_infer_second,
    .compute = compute_back_weight,
};
