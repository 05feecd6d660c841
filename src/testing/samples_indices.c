// Samples of operators: indices, random choices, comparisons of whole tensors, and losses.
#include "testing/samples.h"

#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

static void samples_gather(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 4, 3), gw_value_of(0),
                sample_tensor(p, GW_I64, 0, 4, 5, 3));
    sample_call(p, sample_real(p, -2, 2, 4, 3), gw_value_of(-1),
                sample_tensor(p, GW_I32, 0, 3, 2, 2));
    sample_call(p, sample_real(p, -2, 2, 2, 3, 2), gw_value_of(1),
                sample_tensor(p, GW_I64, 0, 3, 2, 4, 2));
    sample_call(p, sample_real(p, -2, 2, 3), gw_value_of(0), sample_tensor(p, GW_I64, 0, 3, 0));
}

static void samples_index_select(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 4, 3), gw_value_of(0), sample_tensor(p, GW_I64, 0, 4, 5));
    sample_call(p, sample_real(p, -2, 2, 2, 4, 3), gw_value_of(-2),
                sample_tensor(p, GW_I32, 0, 4, 2));
    sample_call(p, sample_real(p, -2, 2, 4), gw_value_of(0), sample_tensor(p, GW_I64, 0, 4, 0));
}

static void samples_scatter_add(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 3), gw_value_of(0),
                sample_tensor(p, GW_I64, 0, 3, 0, 4, 4, 4), sample_real(p, -2, 2, 2));
    sample_call(p, sample_real(p, -2, 2, 4, 3), gw_value_of(0),
                sample_tensor(p, GW_I64, 0, 4, 5, 3), sample_real(p, -2, 2, 5, 3));
    sample_call(p, sample_real(p, -2, 2, 4, 3), gw_value_of(-1),
                sample_tensor(p, GW_I32, 0, 3, 2, 2), sample_real(p, -2, 2, 3, 4));
    sample_call(p, sample_real(p, -2, 2, 3), gw_value_of(0), sample_tensor(p, GW_I64, 0, 3, 0),
                sample_real(p, -2, 2, 0));
    sample_call(p, sample_real(p, -2, 2, 3, 2), gw_value_of(0), sample_tensor(p, GW_I64, 0, 3, 0),
                sample_real(p, -2, 2, 4, 2));
    sample_call(p, sample_real(p, -2, 2, 3, 2), gw_value_of(0),
                sample_tensor(p, GW_I64, 0, 3, 2, 1), sample_real(p, -2, 2, 4, 2));
}

// No position is named twice, which has a derivative only by convention.
static void samples_scatter(op_sampler *p) {
    gw_value across = gw_value_of(gw_from(p->scope, ((int64_t[]){ 2, 0, 1, 2 }), 2, 2));
    gw_value down = gw_value_of(gw_from(p->scope, ((int32_t[]){ 3, 0, 1, 1, 0, 2 }), 3, 2));
    gw_value zero = gw_value_of(0), one = gw_value_of(1);
    sample_call(p, sample_real(p, -2, 2, 2, 3), one, across, sample_real(p, -2, 2, 2, 2));
    sample_call(p, sample_real(p, -2, 2, 4, 3), zero, down, sample_real(p, -2, 2, 5, 4));
    sample_call(p, sample_real(p, -2, 2, 2, 3), gw_value_of(-1), across, gw_value_of(2.5));
    sample_call(p, sample_tensor(p, GW_I64, -9, 9, 2, 3), one, across, one);
    sample_call(p, sample_real(p, -2, 2), zero, gw_value_of(gw_zeros(p->scope, GW_I64)),
                sample_real(p, -2, 2));
    sample_call(p, sample_real(p, -2, 2, 3), zero, sample_tensor(p, GW_I64, 0, 3, 0),
                sample_real(p, -2, 2, 2));
    sample_call(p, sample_real(p, -2, 2, 3), zero, sample_tensor(p, GW_I64, 0, 3, 4, 0, 4, 4),
                sample_real(p, -2, 2, 2));
}

static void samples_embedding(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 5, 3), sample_tensor(p, GW_I64, 0, 5, 4));
    sample_call(p, sample_real(p, -2, 2, 5, 3), sample_tensor(p, GW_I32, 0, 5, 2, 3));
    sample_call(p, sample_real(p, -2, 2, 5, 3), sample_tensor(p, GW_I64, 0, 5));
    sample_call(p, sample_real(p, -2, 2, 5, 3), sample_tensor(p, GW_I64, 0, 5, 0));
    sample_call(p, sample_real(p, -2, 2, 5, 3), sample_tensor(p, GW_I64, 0, 4, 9), gw_value_of(-1));
    sample_call(p, sample_real(p, -2, 2, 5, 3), sample_tensor(p, GW_I64, 0, 5, 2, 4), gw_none(),
                gw_value_of_bool(true));
    sample_call(p, sample_real(p, -2, 2, 5, 3), sample_tensor(p, GW_I64, 0, 3, 9), gw_value_of(3),
                gw_value_of_bool(true));
}

static void samples_one_hot(op_sampler *p) {
    sample_call(p, sample_tensor(p, GW_I64, 0, 5, 4), gw_value_of(5));
    sample_call(p, sample_tensor(p, GW_I64, 0, 5, 2, 3), gw_value_of(-1));
    sample_call(p, sample_tensor(p, GW_I64, 0, 5));
    sample_call(p, sample_tensor(p, GW_I64, 0, 5, 0), gw_value_of(3));
}

static void samples_bernoulli(op_sampler *p) {
    sample_call(p, sample_real(p, 0, 1, 3, 4));
    sample_call(p, sample_real(p, 0, 1));
    sample_call(p, sample_real(p, 0, 1, 0));
}

static void samples_multinomial(op_sampler *p) {
    sample_call(p, sample_real(p, 0.1, 1, 5), gw_value_of(1), gw_value_of_bool(false));
    sample_call(p, sample_real(p, 0.1, 1, 3, 5), gw_value_of(4), gw_value_of_bool(false));
    sample_call(p, sample_real(p, 0.1, 1, 2, 3), gw_value_of(7), gw_value_of_bool(true));
    sample_call(p, sample_real(p, 0.1, 1, 0, 3), gw_value_of(2));
}

static void samples_equal(op_sampler *p) {
    gw_value x = sample_real(p, -2, 2, 3, 4), i = sample_tensor(p, GW_I64, -9, 9, 3);
    sample_call(p, x, x);
    sample_call(p, x, sample_real(p, -2, 2, 3, 4));
    sample_call(p, x, sample_real(p, -2, 2, 4));
    sample_call(p, i, i);
    sample_call(p, sample_real(p, -2, 2, 0), sample_real(p, -2, 2, 0));
}

static void samples_allclose(op_sampler *p) {
    gw_value x = sample_real(p, -2, 2, 3, 4);
    sample_call(p, x, x);
    sample_call(p, x, sample_real(p, -2, 2, 3, 4));
    sample_call(p, x, sample_real(p, -2, 2, 4), gw_value_of(0.1), gw_value_of(10.0));
    sample_call(p, sample_real(p, -2, 2, 0), sample_real(p, -2, 2, 0));
}

static void samples_losses(op_sampler *p) {
    for (int reduction = GW_MEAN; reduction <= GW_NO_REDUCTION; reduction++)
        sample_call(p, sample_real(p, -2, 2, 3, 4), sample_real(p, 0, 1, 3, 4),
                    gw_value_of(reduction));
    sample_call(p, sample_real(p, -2, 2, 5), sample_real(p, 0, 1, 5));
    sample_call(p, sample_real(p, -2, 2, 0), sample_real(p, 0, 1, 0),
                gw_value_of((int)GW_SUM_REDUCTION));
}

static void samples_broadcast(op_sampler *p) {
    samples_losses(p);
    sample_call(p, sample_real(p, -2, 2, 3, 1), sample_real(p, -2, 2, 4));
    sample_call(p, sample_real(p, -2, 2), sample_real(p, -2, 2, 2, 2),
                gw_value_of((int)GW_SUM_REDUCTION));
}

static void samples_smooth_l1(op_sampler *p) {
    samples_broadcast(p);
    sample_call(p, sample_real(p, -2, 2, 3, 4), sample_real(p, 0, 1, 3, 4),
                gw_value_of((int)GW_MEAN), gw_value_of(0.3));
}

static void samples_kl_div(op_sampler *p) {
    for (int reduction = GW_MEAN; reduction <= GW_BATCH_MEAN; reduction++) {
        sample_call(p, sample_real(p, -2, 0, 3, 4), sample_real(p, 0.1, 1, 3, 4),
                    gw_value_of(reduction));
        sample_call(p, sample_real(p, -2, 0, 3, 4), sample_real(p, -2, 0, 3, 4),
                    gw_value_of(reduction), gw_value_of(true));
    }
    sample_call(p, sample_real(p, -2, 0, 3, 1), sample_real(p, 0.1, 1, 4));
    sample_call(p, sample_real(p, -2, 0, 4), sample_real(p, -2, 0, 3, 1), gw_none(),
                gw_value_of(true));
    sample_call(p, sample_real(p, -2, 0), sample_real(p, 0.1, 1), gw_value_of((int)GW_BATCH_MEAN));
}

static void sample_classes(op_sampler *p, double low, double high) {
    sample_call(p, sample_real(p, low, high, 4, 3), sample_tensor(p, GW_I64, 0, 3, 4));
    sample_call(p, sample_real(p, low, high, 4, 3), sample_tensor(p, GW_I32, 0, 3, 4),
                gw_value_of((int)GW_SUM_REDUCTION));
    sample_call(p, sample_real(p, low, high, 4, 3), sample_tensor(p, GW_I64, 0, 3, 4),
                gw_value_of((int)GW_NO_REDUCTION), gw_value_of(1));
    sample_call(p, sample_real(p, low, high, 3), sample_tensor(p, GW_I64, 0, 3));
    sample_call(p, sample_real(p, low, high, 2, 3, 2, 2), sample_tensor(p, GW_I64, 0, 3, 2, 2, 2));
    sample_call(p, sample_real(p, low, high, 0, 3), sample_tensor(p, GW_I64, 0, 3, 0),
                gw_value_of((int)GW_SUM_REDUCTION));
}

static void samples_nll(op_sampler *p) {
    sample_classes(p, -3, 0);
    // Weights have no derivative, in PyTorch neither; in f32 none is looked for.
    for (int reduction = GW_MEAN; reduction <= GW_NO_REDUCTION; reduction++)
        sample_call(p, sample_real(p, -3, 0, 4, 3), sample_tensor(p, GW_I64, 0, 3, 4),
                    gw_value_of(reduction), gw_value_of(1), sample_tensor(p, GW_F32, 0.5, 2, 3));
}

static void samples_cross_entropy(op_sampler *p) {
    sample_classes(p, -3, 3);
    sample_call(p, sample_real(p, -3, 3, 4, 3), sample_tensor(p, GW_I64, 0, 3, 4),
                gw_value_of((int)GW_MEAN), gw_value_of(2), gw_value_of(0.2));
    sample_call(p, sample_real(p, -3, 3, 2, 3, 2), sample_tensor(p, GW_I64, 0, 3, 2, 2),
                gw_value_of((int)GW_NO_REDUCTION), gw_none(), gw_value_of(0.5));
    // Weights have no derivative, in PyTorch neither; in f32 none is looked for.
    for (int reduction = GW_MEAN; reduction <= GW_NO_REDUCTION; reduction++) {
        gw_value weight = sample_tensor(p, GW_F32, 0.5, 2, 3);
        sample_call(p, sample_real(p, -3, 3, 4, 3), sample_tensor(p, GW_I64, 0, 3, 4),
                    gw_value_of(reduction), gw_value_of(1), gw_value_of(0.0), weight);
        sample_call(p, sample_real(p, -3, 3, 2, 3, 2), sample_tensor(p, GW_I64, 0, 3, 2, 2),
                    gw_value_of(reduction), gw_value_of(0), gw_value_of(0.3), weight);
    }
}

const sample_row samples_of_indices[] = {
    { &op_gather, samples_gather },
    { &op_index_select, samples_index_select },
    { &op_scatter_add, samples_scatter_add },
    { &op_scatter, samples_scatter },
    { &op_embedding, samples_embedding },
    { &op_one_hot, samples_one_hot },
    { &op_bernoulli, samples_bernoulli },
    { &op_multinomial, samples_multinomial },
    { &op_equal, samples_equal },
    { &op_allclose, samples_allclose },
    { &op_mse, samples_broadcast },
    { &op_bce_with_logits, samples_losses },
    { &op_smooth_l1, samples_smooth_l1 },
    { &op_l1, samples_broadcast },
    { &op_kl_div, samples_kl_div },
    { &op_nll, samples_nll },
    { &op_cross_entropy, samples_cross_entropy },
    { NULL, NULL },
};
