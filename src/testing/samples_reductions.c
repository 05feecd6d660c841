// Samples of operators: reductions, and rows along a dimension.
#include "testing/samples.h"

#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

#include <math.h>

static void samples_of_one_dim(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 3, 4));
    sample_call(p, sample_real(p, -2, 2, 3, 4), gw_none(), gw_value_of_bool(true));
    sample_call(p, sample_real(p, -2, 2, 3, 4), gw_value_of(0));
    sample_call(p, sample_real(p, -2, 2, 3, 4), gw_value_of(-1), gw_value_of_bool(true));
    sample_call(p, sample_real(p, -2, 2, 2, 3, 4), gw_value_of(1), gw_value_of_bool(false));
    sample_call(p, sample_real(p, -2, 2, 2, 33), gw_value_of(1));
    sample_call(p, sample_real(p, -2, 2, 0, 3), gw_value_of(1));
}

static void samples_of_dims(op_sampler *p) {
    samples_of_one_dim(p);
    sample_call(p, sample_real(p, -2, 2, 2, 3, 4), sample_ints(1, 2));
    sample_call(p, sample_real(p, -2, 2, 2, 3, 4), sample_ints(-1, 0), gw_value_of_bool(true));
    sample_call(p, sample_real(p, -2, 2, 2, 2, 3, 2), sample_ints(1, 3));
    sample_call(p, sample_real(p, -2, 2, 2, 3), sample_ints());
}

static void samples_place(op_sampler *p) {
    samples_of_one_dim(p);
    sample_call(p, sample_tensor(p, GW_I32, -9, 9, 3, 40), gw_value_of(1));
}

static void samples_any(op_sampler *p) {
    samples_of_dims(p);
    sample_call(p, sample_tensor(p, GW_BOOL8, 0, 2, 3, 4), gw_value_of(0));
    sample_call(p, sample_tensor(p, GW_I16, 0, 3, 3, 4), gw_value_of(1), gw_value_of_bool(true));
}

static void samples_prod(op_sampler *p) {
    samples_of_dims(p);
    sample_call(p, sample_tensor(p, GW_I32, -9, 9, 3, 4), gw_value_of(1));
    sample_call(p, sample_tensor(p, GW_BOOL8, 0, 2, 3, 4));
}

static void samples_norm(op_sampler *p) {
    const double norms[] = { 2, 1, 0.5, 1.5, 3, 0, -1, INFINITY, -INFINITY };
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        sample_call(p, sample_real(p, 0.25, 2, 2, 3, 4), gw_value_of(norms[i]), sample_ints(0, 2));
    sample_call(p, sample_real(p, -2, 2, 3, 4), gw_value_of(2));
    sample_call(p, sample_real(p, -2, 2, 3, 4), gw_value_of(3), gw_value_of(-1),
                gw_value_of_bool(true));
    sample_call(p, sample_real(p, -2, 2, 0, 3), gw_value_of(2), gw_value_of(0));
}

static void samples_cumsum(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 3, 4), gw_value_of(0));
    sample_call(p, sample_real(p, -2, 2, 3, 4), gw_value_of(-1));
    sample_call(p, sample_real(p, -2, 2, 2, 3, 2), gw_value_of(1));
    sample_call(p, sample_real(p, -2, 2, 0, 3), gw_value_of(1));
}

static void samples_softmax(op_sampler *p) {
    sample_call(p, sample_real(p, -3, 3, 3, 5), gw_value_of(-1));
    sample_call(p, sample_real(p, -3, 3, 3, 5), gw_value_of(0));
    sample_call(p, sample_real(p, -3, 3, 2, 3, 4), gw_value_of(1));
    sample_call(p, sample_real(p, -3, 3, 2, 37), gw_value_of(1));
    sample_call(p, sample_real(p, -3, 3), gw_value_of(0));
    sample_call(p, sample_real(p, -3, 3, 0, 3), gw_value_of(1));
}

static void samples_sort(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 3, 5));
    sample_call(p, sample_real(p, -2, 2, 4, 2, 3), gw_value_of(0), gw_value_of(true));
    sample_call(p, sample_tensor(p, GW_I32, -3, 3, 2, 9), gw_value_of(1));
    sample_call(p, sample_tensor(p, GW_BOOL8, 0, 2, 5), gw_value_of(0), gw_value_of(true));
    sample_call(p, sample_real(p, -2, 2));
    sample_call(p, sample_real(p, -2, 2, 2, 0), gw_value_of(0));
}

static void samples_topk(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 3, 5), gw_value_of(2));
    sample_call(p, sample_real(p, -2, 2, 9, 2), gw_value_of(4), gw_value_of(0), gw_value_of(false));
    sample_call(p, sample_real(p, -2, 2, 2, 3), gw_value_of(3), gw_value_of(-1));
    sample_call(p, sample_tensor(p, GW_I64, -3, 3, 20), gw_value_of(7));
    sample_call(p, sample_real(p, -2, 2, 2, 3), gw_value_of(0), gw_value_of(1));
}

const sample_row samples_of_reductions[] = {
    { &op_sum, samples_of_dims },
    { &op_mean, samples_of_dims },
    { &op_var, samples_of_dims },
    { &op_std, samples_of_dims },
    { &op_max, samples_place },
    { &op_min, samples_place },
    { &op_amax, samples_of_dims },
    { &op_amin, samples_of_dims },
    { &op_argmax, samples_place },
    { &op_argmin, samples_place },
    { &op_any, samples_any },
    { &op_all, samples_any },
    { &op_prod, samples_prod },
    { &op_logsumexp, samples_of_dims },
    { &op_norm, samples_norm },
    { &op_cumsum, samples_cumsum },
    { &op_softmax, samples_softmax },
    { &op_log_softmax, samples_softmax },
    { &op_sort, samples_sort },
    { &op_topk, samples_topk },
    { NULL, NULL },
};
