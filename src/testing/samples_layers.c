// Samples of operators: products, windows, normalisation and recurrent layers.
#include "testing/samples.h"

#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

static void samples_matmul(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 3), sample_real(p, -2, 2, 3));
    sample_call(p, sample_real(p, -2, 2, 2, 3), sample_real(p, -2, 2, 3));
    sample_call(p, sample_real(p, -2, 2, 3), sample_real(p, -2, 2, 3, 2));
    sample_call(p, sample_real(p, -2, 2, 4, 3), sample_real(p, -2, 2, 3, 2));
    sample_call(p, sample_real(p, -2, 2, 2, 4, 3), sample_real(p, -2, 2, 3, 2));
    sample_call(p, sample_real(p, -2, 2, 2, 4, 3), sample_real(p, -2, 2, 2, 3, 2));
    sample_call(p, sample_real(p, -2, 2, 2, 1, 2, 3), sample_real(p, -2, 2, 3, 3, 2));
    sample_call(p, sample_real(p, -2, 2, 2, 4, 3), sample_real(p, -2, 2, 3));
    sample_call(p, sample_real(p, -2, 2, 3), sample_real(p, -2, 2, 2, 3, 2));
    sample_call(p, sample_real(p, -2, 2, 0, 3), sample_real(p, -2, 2, 3, 2));
    sample_call(p, sample_real(p, -2, 2, 2, 0), sample_real(p, -2, 2, 0, 2));
    sample_call(p, sample_real(p, -2, 2, 2, 3, 0), sample_real(p, -2, 2, 0, 4));
    sample_call(p, sample_real(p, -2, 2, 2, 3, 4), sample_real(p, -2, 2, 4, 0));
    sample_call(p, sample_real(p, -2, 2, 2, 0, 4), sample_real(p, -2, 2, 2, 4, 3));
}

static void samples_linear(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 5, 3), sample_real(p, -2, 2, 2, 3),
                sample_real(p, -2, 2, 2));
    sample_call(p, sample_real(p, -2, 2, 5, 3), sample_real(p, -2, 2, 2, 3), gw_none());
    sample_call(p, sample_real(p, -2, 2, 3), sample_real(p, -2, 2, 2, 3), sample_real(p, -2, 2, 2));
    sample_call(p, sample_real(p, -2, 2, 2, 2, 3), sample_real(p, -2, 2, 4, 3),
                sample_real(p, -2, 2, 4));
    sample_call(p, sample_real(p, -2, 2, 0, 3), sample_real(p, -2, 2, 2, 3),
                sample_real(p, -2, 2, 2));
    sample_call(p, sample_real(p, -2, 2, 2, 3), sample_real(p, -2, 2, 0, 3), gw_none());
}

static void samples_conv1d(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 2, 3, 7), sample_real(p, -2, 2, 4, 3, 3),
                sample_real(p, -2, 2, 4));
    sample_call(p, sample_real(p, -2, 2, 2, 4, 8), sample_real(p, -2, 2, 6, 2, 3), gw_none(),
                sample_ints(2), sample_ints(3), sample_ints(2), gw_value_of(2));
    sample_call(p, sample_real(p, -2, 2, 3, 5), sample_real(p, -2, 2, 2, 3, 1),
                sample_real(p, -2, 2, 2));
    sample_call(p, sample_real(p, -2, 2, 0, 3, 7), sample_real(p, -2, 2, 4, 3, 3),
                sample_real(p, -2, 2, 4));
}

static void samples_conv2d(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 2, 3, 4, 5), sample_real(p, -2, 2, 2, 3, 3, 2),
                sample_real(p, -2, 2, 2));
    sample_call(p, sample_real(p, -2, 2, 2, 2, 5, 4), sample_real(p, -2, 2, 3, 2, 3, 3), gw_none(),
                sample_ints(2, 1), sample_ints(1, 2), sample_ints(1, 2));
    sample_call(p, sample_real(p, -2, 2, 4, 4, 3), sample_real(p, -2, 2, 4, 1, 2, 2),
                sample_real(p, -2, 2, 4), sample_ints(1), sample_ints(1), sample_ints(1),
                gw_value_of(4));
    sample_call(p, sample_real(p, -2, 2, 2, 3, 2, 2), sample_real(p, -2, 2, 2, 3, 1, 1));
    sample_call(p, sample_real(p, -2, 2, 0, 3, 4, 4), sample_real(p, -2, 2, 2, 3, 3, 3));
}

static void samples_max_pool1d(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 2, 3, 7), sample_ints(2));
    sample_call(p, sample_real(p, -2, 2, 3, 9), sample_ints(3), sample_ints(2), sample_ints(1),
                sample_ints(2), gw_value_of_bool(true));
    sample_call(p, sample_real(p, -2, 2, 0, 3, 7), sample_ints(2));
}

static void samples_max_pool2d(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 2, 2, 4, 5), sample_ints(2));
    sample_call(p, sample_real(p, -2, 2, 2, 5, 6), sample_ints(3, 2), sample_ints(1, 2),
                sample_ints(1, 0), sample_ints(1, 2), gw_value_of_bool(true));
    sample_call(p, sample_real(p, -2, 2, 1, 2, 3, 3), sample_ints(2), sample_ints(2),
                sample_ints(1));
    sample_call(p, sample_real(p, -2, 2, 2, 0, 4, 4), sample_ints(2));
}

static void samples_avg_pool1d(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 2, 3, 7), sample_ints(2));
    sample_call(p, sample_real(p, -2, 2, 3, 8), sample_ints(3), sample_ints(2), sample_ints(1),
                gw_value_of_bool(true), gw_value_of_bool(false));
    sample_call(p, sample_real(p, -2, 2, 0, 3, 7), sample_ints(2));
}

static void samples_avg_pool2d(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 2, 2, 4, 5), sample_ints(2));
    sample_call(p, sample_real(p, -2, 2, 2, 5, 6), sample_ints(3, 2), sample_ints(2, 1),
                sample_ints(1, 1), gw_value_of_bool(true), gw_value_of_bool(true));
    sample_call(p, sample_real(p, -2, 2, 1, 2, 4, 4), sample_ints(3), sample_ints(2),
                sample_ints(1), gw_value_of_bool(true), gw_value_of_bool(false), gw_value_of(5));
    sample_call(p, sample_real(p, -2, 2, 2, 0, 4, 4), sample_ints(2));
}

static void samples_adaptive_avg_pool1d(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 2, 3, 7), sample_ints(1));
    sample_call(p, sample_real(p, -2, 2, 3, 7), sample_ints(3));
    sample_call(p, sample_real(p, -2, 2, 1, 2, 2), sample_ints(5));
}

static void samples_adaptive_avg_pool2d(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 2, 3, 4, 5), sample_ints(1));
    sample_call(p, sample_real(p, -2, 2, 2, 5, 7), sample_ints(2, 3));
    sample_call(p, sample_real(p, -2, 2, 0, 2, 5, 7), sample_ints(1, 7));
}

static void samples_layer_norm(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 3, 5), sample_ints(5), sample_real(p, 0.5, 2, 5),
                sample_real(p, -1, 1, 5), gw_value_of(1e-5));
    sample_call(p, sample_real(p, -2, 2, 2, 3, 4), sample_ints(3, 4), sample_real(p, 0.5, 2, 3, 4),
                gw_none(), gw_value_of(1e-3));
    sample_call(p, sample_real(p, -2, 2, 3, 5), sample_ints(5), gw_none(),
                sample_real(p, -1, 1, 5));
    sample_call(p, sample_real(p, -2, 2, 40), sample_ints(40));
    sample_call(p, sample_real(p, -2, 2, 0, 3), sample_ints(3));
}

static void samples_batch_norm(op_sampler *p) {
    gw_value yes = gw_value_of_bool(true), no = gw_value_of_bool(false);
    sample_call(p, sample_real(p, -2, 2, 4, 3), sample_real(p, 0.5, 2, 3), sample_real(p, -1, 1, 3),
                gw_none(), gw_none(), yes);
    sample_call(p, sample_real(p, -2, 2, 2, 2, 4, 5), sample_real(p, 0.5, 2, 2), gw_none(),
                gw_none(), gw_none(), yes, gw_value_of(1e-3));
    sample_call(p, sample_real(p, -2, 2, 2, 3, 4), gw_none(), sample_real(p, -1, 1, 3), gw_none(),
                gw_none(), yes);
    // Given statistics have no derivative, as in PyTorch; in f32 none is searched for.
    sample_call(p, sample_real(p, -2, 2, 2, 2, 20), sample_real(p, 0.5, 2, 2),
                sample_real(p, -1, 1, 2), sample_tensor(p, GW_F32, -1, 1, 2),
                sample_tensor(p, GW_F32, 0.5, 2, 2), no);
    sample_call(p, sample_real(p, -2, 2, 1, 3), gw_none(), gw_none(),
                sample_tensor(p, GW_F32, -1, 1, 3), sample_tensor(p, GW_F32, 0.5, 2, 3));
    sample_call(p, sample_real(p, -2, 2, 0, 3, 4), sample_real(p, 0.5, 2, 3),
                sample_real(p, -1, 1, 3), gw_none(), gw_none(), yes);
}

static void samples_dropout(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 3, 4), gw_value_of(0.5));
    sample_call(p, sample_real(p, -2, 2, 3, 4), gw_value_of(0.25), gw_value_of_bool(true));
    sample_call(p, sample_real(p, -2, 2, 3, 4), gw_value_of(0.5), gw_value_of_bool(false));
    sample_call(p, sample_real(p, -2, 2, 5), gw_value_of(0.0));
    sample_call(p, sample_real(p, -2, 2, 5), gw_value_of(1.0));
    sample_call(p, sample_real(p, -2, 2, 0), gw_value_of(0.5));
}

static void samples_lstm(op_sampler *p) {
    const gw_dtype real = p->real;
    if (real != GW_F32 && real != GW_F64) p->real = GW_F32;
    for (int k = 0; k < 4; k++) {
        gw_value lengths = gw_value_of(gw_from(p->scope, ((int64_t[]){ 3, 1 }), 2));
        gw_value bias = sample_real(p, -1, 1, 8);
        sample_call(p, sample_real(p, -1, 1, 3, 2, 3), sample_real(p, -1, 1, 2, 2),
                    sample_real(p, -1, 1, 2, 2), sample_real(p, -1, 1, 8, 3),
                    sample_real(p, -1, 1, 8, 2), k & 1 ? bias : gw_none(),
                    k & 2 ? lengths : gw_none(), gw_value_of(k > 1));
    }
    p->real = real;
}

static void samples_gru(op_sampler *p) {
    const gw_dtype real = p->real;
    if (real != GW_F32 && real != GW_F64) p->real = GW_F32;
    for (int k = 0; k < 4; k++) {
        gw_value lengths = gw_value_of(gw_from(p->scope, ((int64_t[]){ 1, 3 }), 2));
        sample_call(p, sample_real(p, -1, 1, 3, 2, 3), sample_real(p, -1, 1, 2, 2),
                    sample_real(p, -1, 1, 6, 3), sample_real(p, -1, 1, 6, 2),
                    k & 1 ? sample_real(p, -1, 1, 6) : gw_none(),
                    k & 1 ? sample_real(p, -1, 1, 6) : gw_none(), k & 2 ? lengths : gw_none(),
                    gw_value_of(k > 1));
    }
    p->real = real;
}

static void samples_rnn(op_sampler *p) {
    const gw_dtype real = p->real;
    if (real != GW_F32 && real != GW_F64) p->real = GW_F32;
    for (int k = 0; k < 4; k++) {
        gw_value lengths = gw_value_of(gw_from(p->scope, ((int64_t[]){ 1, 3 }), 2));
        sample_call(p, sample_real(p, -1, 1, 3, 2, 3), sample_real(p, -1, 1, 2, 2),
                    sample_real(p, -1, 1, 2, 3), sample_real(p, -1, 1, 2, 2),
                    k & 1 ? sample_real(p, -1, 1, 2) : gw_none(), k & 2 ? lengths : gw_none(),
                    gw_value_of(k > 1), gw_value_of(k == 3));
    }
    p->real = real;
}

const sample_row samples_of_layers[] = {
    { &op_matmul, samples_matmul },
    { &op_linear, samples_linear },
    { &op_conv1d, samples_conv1d },
    { &op_conv2d, samples_conv2d },
    { &op_max_pool1d, samples_max_pool1d },
    { &op_max_pool2d, samples_max_pool2d },
    { &op_avg_pool1d, samples_avg_pool1d },
    { &op_avg_pool2d, samples_avg_pool2d },
    { &op_adaptive_avg_pool1d, samples_adaptive_avg_pool1d },
    { &op_adaptive_avg_pool2d, samples_adaptive_avg_pool2d },
    { &op_layer_norm, samples_layer_norm },
    { &op_batch_norm, samples_batch_norm },
    { &op_dropout, samples_dropout },
    { &op_lstm, samples_lstm },
    { &op_gru, samples_gru },
    { &op_rnn, samples_rnn },
    { NULL, NULL },
};
