// The derivative of batch normalisation.
//
// Arguments: d x stats weight training eps. Outputs: dx; and the gradients of weight and bias, one
// above the other.
#include "tensor/kernels/channels.h"
#include "tensor/dtype.h"
#include "tensor/kernels/kernels.h"

#include <math.h>

enum { BACK_D, BACK_X, BACK_STATS, BACK_WEIGHT, BACK_TRAINING, BACK_EPS };

static void infer_back(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, BACK_X);
    int64_t sizes[] = { 2, x->sizes[1] };
    if (op_output_like(c, x)) op_output(c, (gw_dtype)x->dtype, 2, sizes);
}

// One channel. With z the normalised x: dx = (d - mean of d - z mean of (d z)) * scale, without the
// means if the statistics were given.
static void go_back(const op_call *c, const channels *ch, int64_t i, const void *d, const void *x,
                    const void *stats, const void *weight, void *dx, void *d_parameters) {
    const kernels *k = kernels_get();
    kernel_type t = kernel_type_of(ch->type);
    double mean = channels_read(ch, stats, i), sum = 0, sum_shifted = 0;
    double root = 1 / sqrt(channels_read(ch, stats, ch->count + i) + arg_number(c->args, BACK_EPS));
    for (int64_t o = 0; o < ch->outer; o++) {
        double sums[2];
        k->shifted_sums[t](channels_run(ch, d, o, i), channels_run(ch, x, o, i), ch->inner, mean,
                           sums);
        sum += sums[0];
        sum_shifted += sums[1];
    }
    channels_write(ch, d_parameters, i, sum_shifted * root);
    channels_write(ch, d_parameters, ch->count + i, sum);
    double n = (double)ch->outer * (double)ch->inner;
    double scale = weight ? root * channels_read(ch, weight, i) : root;
    bool training = arg_bool(c->args, BACK_TRAINING);
    double shift = training ? sum / n : 0, slope = training ? sum_shifted / n * root * root : 0;
    for (int64_t o = 0; o < ch->outer; o++)
        k->shift_scale_back[t](channels_run(ch, d, o, i), channels_run(ch, x, o, i), ch->inner,
                               mean, shift, slope, scale, (void *)channels_run(ch, dx, o, i));
}

static void compute_back(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, BACK_X);
    channels ch = channels_of(x);
    dense d = { 0 }, values = { 0 }, stats = { 0 }, weight = { 0 };
    result dx, d_parameters;
    if (dense_open_rows(c, arg_tensor(c->args, BACK_D), ch.last, ch.type, &d) &&
        dense_open_rows(c, x, ch.last, ch.type, &values) &&
        dense_open(c, arg_tensor(c->args, BACK_STATS), ch.type, &stats) &&
        dense_open_optional(c, arg_tensor(c->args, BACK_WEIGHT), ch.type, &weight) &&
        result_open_rows(c, 0, ch.last, ch.type, &dx)) {
        if (result_open(c, 1, ch.type, &d_parameters)) {
            for (int64_t i = 0; i < ch.count; i++)
                go_back(c, &ch, i, d.values, values.values, stats.values, weight.values, dx.values,
                        d_parameters.values);
            result_close(&d_parameters);
        }
        result_close(&dx);
    }
    dense_close(&weight);
    dense_close(&stats);
    dense_close(&values);
    dense_close(&d);
}

const op op_batch_norm_back = {
    .name = "batch_norm_backward",
    .params = "d:tensor x:tensor stats:tensor weight:tensor? training:bool eps:float",
    .infer = infer_back,
    .compute = compute_back,
};
