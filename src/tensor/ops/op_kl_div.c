// kl_div: how far x, the logarithms of probabilities, are from targets, which are probabilities or
// their logarithms.
#include "tensor/kernels/kernels.h"
#include "tensor/ops/op_loss.h"
#include "tensor/ops/ops.h"

static void infer_kl_div(op_call *c) {
    if (loss_reduction(c->args, 2) == GW_BATCH_MEAN || loss_reduction_check(c, 2)) loss_infer(c);
}

static void compute_kl_div(op_call *c) {
    const kernels *k = kernels_get();
    loss_run(c, arg_bool(c->args, 3) ? k->kl_div_log : k->kl_div, 0);
}

static void grad_kl_div(op_grad *g) {
    gw_scope *s = g->scope;
    gw_tensor *x = arg_tensor(g->args, 0), *target = arg_tensor(g->args, 1), *d = loss_scaled(g, 1);
    bool is_log = arg_bool(g->args, 3);
    gw_tensor *weight = gw_mul(s, d, is_log ? gw_exp(s, target) : target);
    // Times 1 of each number of x, where the target has fewer.
    gw_tensor *ones = gw_ones_with(s, (gw_dtype)x->dtype, (gw_shape){ x->dims, x->sizes });
    if (g->wanted[0]) g->d_inputs[0] = gw_neg(s, unbroadcast(s, gw_mul(s, weight, ones), x));
    if (!g->wanted[1]) return;
    gw_tensor *apart = gw_sub(s, is_log ? target : gw_log(s, target), x);
    gw_tensor *slope = gw_mul(s, is_log ? weight : d, gw_add(s, apart, 1));
    g->d_inputs[1] = unbroadcast(s, slope, target);
}

const op op_kl_div = {
    .name = "kl_div",
    .params = "x:tensor target:tensor reduction:int?=0 log_target:bool?=false",
    .cast = OP_CAST_F32,
    .infer = infer_kl_div,
    .compute = compute_kl_div,
    .grad = grad_kl_div,
    .saves = OP_SAVE_ARG(0) | OP_SAVE_ARG(1),
};

gw_tensor *gw_kl_div_with(gw_scope *s, gw_tensor *x, gw_tensor *target, gw_loss_options options) {
    gw_value args[] = { gw_value_of(x), gw_value_of(target), gw_value_of((int)options.reduction),
                        gw_value_of(options.log_target) };
    return op_run(s, &op_kl_div, args, 4, NULL);
}
