// Batch normalisation (Ioffe, Szegedy 2015): torch.nn.functional.batch_norm.
//
// Each channel, which is dimension 1, is normalised over all others by its own mean and variance,
// or by those given.
#include "tensor/kernels/channels.h"
#include "tensor/dtype.h"
#include "tensor/kernels/kernels.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

#include <math.h>

enum { ARG_X, ARG_WEIGHT, ARG_BIAS, ARG_MEAN, ARG_VARIANCE, ARG_TRAINING, ARG_EPS };

// ---- Forward ------------------------------------------------------------------------------------
static bool check_parameter(op_call *c, int i, const char *name) {
    const gw_tensor *x = arg_tensor(c->args, ARG_X), *p = arg_tensor(c->args, i);
    bool is_given = i >= ARG_MEAN;  // these may have more digits than x
    if (!p || ((p->dtype == x->dtype || (is_given && dtype_is_float((gw_dtype)p->dtype))) &&
               p->dims == 1 && p->sizes[0] == x->sizes[1]))
        return true;
    op_fail(c, GW_INVALID, "%s is %s of %s, but must be %lld of %s", name, shape_text(p).text,
            gw_dtype_name((gw_dtype)p->dtype), (long long)x->sizes[1],
            gw_dtype_name((gw_dtype)x->dtype));
    return false;
}

// The second output is the means and variances that are used, for the derivative.
static void infer(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, ARG_X);
    if (!op_check_float(c, (gw_dtype)x->dtype)) return;
    if (x->dims < 2) {
        op_fail(c, GW_INVALID, "input %s has no channels: it must be N C or N C ...",
                shape_text(x).text);
        return;
    }
    if (!check_parameter(c, ARG_WEIGHT, "weight") || !check_parameter(c, ARG_BIAS, "bias") ||
        !check_parameter(c, ARG_MEAN, "running_mean") ||
        !check_parameter(c, ARG_VARIANCE, "running_var"))
        return;
    bool training = arg_bool(c->args, ARG_TRAINING);
    if (training && x->numel == x->sizes[1]) {
        op_fail(c, GW_INVALID,
                "%s has only one number for each channel: training must have more to compute a "
                "variance",
                shape_text(x).text);
    } else if (!training &&
               (!arg_tensor(c->args, ARG_MEAN) || !arg_tensor(c->args, ARG_VARIANCE))) {
        op_fail(c, GW_INVALID, "without .training running_mean and running_var must be given");
    } else if (op_output_like(c, x)) {
        int64_t sizes[] = { 2, x->sizes[1] };
        op_output(c, dtype_compute((gw_dtype)x->dtype), 2, sizes);
    }
}

// Runs of a channel, joined in order (Chan, Golub, LeVeque 1979).
static moments moments_of(const channels *ch, const void *x, int64_t channel) {
    moments all = { 0, 0 };
    for (int64_t o = 0; o < ch->outer; o++) {
        moments m;
        kernels_get()->moments[kernel_type_of(ch->type)](channels_run(ch, x, o, channel), ch->inner,
                                                         &m);
        double before = (double)o, n = (double)ch->inner, distance = m.mean - all.mean;
        all.mean += distance / (before + 1);
        all.squares += m.squares + distance * distance * before * n / (before + 1);
    }
    return all;
}

static void measure(const channels *ch, const void *x, void *stats) {
    double n = (double)ch->outer * (double)ch->inner;
    for (int64_t i = 0; i < ch->count; i++) {
        moments m = moments_of(ch, x, i);
        channels_write(ch, stats, i, m.mean);
        channels_write(ch, stats, ch->count + i, m.squares / n);
    }
}

static void normalise(const channels *ch, const void *x, const void *stats, const void *weight,
                      const void *bias, double eps, void *out) {
    for (int64_t o = 0; o < ch->outer; o++) {
        for (int64_t i = 0; i < ch->count; i++) {
            double scale = 1 / sqrt(channels_read(ch, stats, ch->count + i) + eps);
            if (weight) scale *= channels_read(ch, weight, i);
            kernels_get()->shift_scale[kernel_type_of(ch->type)](
                channels_run(ch, x, o, i), ch->inner, channels_read(ch, stats, i), scale,
                bias ? channels_read(ch, bias, i) : 0, (void *)channels_run(ch, out, o, i));
        }
    }
}

// Copies the given statistics to |stats|.
static bool take_given(op_call *c, const channels *ch, void *stats) {
    dense mean, variance = { 0 };
    size_t size = (size_t)ch->count * gw_dtype_size(ch->type);
    bool ok = dense_open_optional(c, arg_tensor(c->args, ARG_MEAN), ch->type, &mean) &&
              dense_open_optional(c, arg_tensor(c->args, ARG_VARIANCE), ch->type, &variance);
    if (ok) {
        memcpy(stats, mean.values, size);
        memcpy((uint8_t *)stats + size, variance.values, size);
    }
    dense_close(&variance);
    dense_close(&mean);
    return ok;
}

static void compute(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, ARG_X);
    channels ch = channels_of(x);
    void *stats = (void *)tensor_bytes(c->outputs[1]);
    bool training = arg_bool(c->args, ARG_TRAINING);
    if (ch.count > 0 && !training && !take_given(c, &ch, stats)) return;
    if (x->numel == 0) {
        if (training) memset(stats, 0, (size_t)c->outputs[1]->numel * gw_dtype_size(ch.type));
        return;
    }
    dense values = { 0 }, weight = { 0 }, bias = { 0 };
    result out;
    if (dense_open_rows(c, x, ch.last, ch.type, &values) &&
        dense_open_optional(c, arg_tensor(c->args, ARG_WEIGHT), ch.type, &weight) &&
        dense_open_optional(c, arg_tensor(c->args, ARG_BIAS), ch.type, &bias) &&
        result_open_rows(c, 0, ch.last, ch.type, &out)) {
        if (training) measure(&ch, values.values, stats);
        normalise(&ch, values.values, stats, weight.values, bias.values,
                  arg_number(c->args, ARG_EPS), out.values);
        result_close(&out);
    }
    dense_close(&bias);
    dense_close(&weight);
    dense_close(&values);
}

static void grad(op_grad *g) {
    if (!g->d_outputs[0]) return;
    gw_value args[] = { gw_value_of(g->d_outputs[0]),
                        g->args[ARG_X],
                        gw_value_of(g->outputs[1]),
                        g->args[ARG_WEIGHT],
                        gw_value_of_bool(arg_bool(g->args, ARG_TRAINING)),
                        gw_value_of(arg_number(g->args, ARG_EPS)) };
    gw_tensor *parameters, *dx = op_run(g->scope, &op_batch_norm_back, args, 6, &parameters);
    if (g->wanted[0]) g->d_inputs[0] = dx;
    for (int i = 0; i < 2; i++) {
        if (!arg_tensor(g->args, ARG_WEIGHT + i)) continue;
        int input = grad_input(g, ARG_WEIGHT + i);
        // A copy: the pair would stay as long as either of them.
        if (g->wanted[input])
            g->d_inputs[input] = gw_clone(g->scope, gw_select(g->scope, parameters, 0, i));
    }
}

const op op_batch_norm = {
    .name = "batch_norm",
    .params = "x:tensor weight:tensor? bias:tensor? running_mean:tensor? running_var:tensor? "
              "training:bool?=false eps:float?=1e-5",
    .infer = infer,
    .compute = compute,
    .grad = grad,
    .saves = OP_SAVE_ARG(ARG_X) | OP_SAVE_ARG(ARG_WEIGHT) | OP_SAVE_OUT(1),
};

// (1 - momentum) running + momentum value
static gw_tensor *followed(gw_scope *s, gw_tensor *running, gw_tensor *value, double momentum) {
    if (!running) return NULL;
    return gw_add(s, gw_mul(s, running, 1 - momentum), gw_mul(s, value, momentum));
}

// Moves the running statistics towards |stats|, those of |n| numbers.
static void follow(gw_scope *s, gw_batch_norm_options options, gw_tensor *stats, double n) {
    gw_scope *t = scope_open_unrecorded(s);
    double momentum = options.momentum;
    gw_tensor *mean = followed(t, options.running_mean, gw_select(t, stats, 0, 0), momentum);
    // The one that is kept is without bias.
    gw_tensor *unbiased = gw_mul(t, gw_select(t, stats, 0, 1), n / (n - 1));
    gw_tensor *variance = followed(t, options.running_var, unbiased, momentum);
    if (mean && gw_ok(t)) gw_copy_(t, options.running_mean, mean);
    if (variance && gw_ok(t)) gw_copy_(t, options.running_var, variance);
    gw_scope_close_up(t);
}

gw_tensor *gw_batch_norm_with(gw_scope *s, gw_tensor *x, gw_tensor *weight, gw_tensor *bias,
                              gw_batch_norm_options options) {
    gw_tensor *mean = options.running_mean, *variance = options.running_var;
    gw_value args[] = {
        gw_value_of(x),          value_of_optional(weight),   value_of_optional(bias),
        value_of_optional(mean), value_of_optional(variance), gw_value_of_bool(options.training),
        gw_value_of(options.eps)
    };
    gw_tensor *stats, *y = op_run(s, &op_batch_norm, args, 7, &stats);
    if (!gw_ok(s) || !options.training || y->numel == 0) return y;
    follow(s, options, stats, (double)y->numel / (double)y->sizes[1]);
    return y;
}
