// Batch normalisation (Ioffe, Szegedy 2015): torch.nn.functional.batch_norm.
//
// Each channel, which is dimension 1, is normalised over all others by its own mean and variance, or by those given.
#include "tensor/dense.h"
#include "tensor/dtype.h"
#include "tensor/kernels.h"
#include "tensor/op_sample.h"
#include "tensor/ops.h"
#include <gradwire/autograd.h>
#include <gradwire/ops.h>

#include <math.h>

#define DEFAULT_EPS 1e-5
#define DEFAULT_MOMENTUM 0.1

enum { ARG_X, ARG_WEIGHT, ARG_BIAS, ARG_MEAN, ARG_VARIANCE, ARG_TRAINING, ARG_EPS };

static double eps_of(const gw_value *args, int i) {
    return arg_is_none(args, i) ? DEFAULT_EPS : arg_number(args, i);
}

static bool is_training(const gw_value *args, int i) {
    return !arg_is_none(args, i) && arg_bool(args, i);
}

// ---- Channels -----------------------------------------------------------------------------------------------------
enum { SHORT_RUN = 16 };

// Where channels lie: |outer| times all of them, |inner| numbers each. Short runs are moved together, so that a channel
// is one run.
typedef struct channels {
    gw_dtype type;
    int64_t count, outer, inner;
    int last;  // the dimension that comes last
} channels;

static channels channels_of(const gw_tensor *x) {
    channels ch = { .type = dtype_compute((gw_dtype)x->dtype), .count = x->sizes[1] };
    ch.outer = x->sizes[0];
    ch.inner = 1;
    ch.last = x->dims - 1;
    for (int i = 2; i < x->dims; i++) ch.inner *= x->sizes[i];
    if (ch.inner < SHORT_RUN) {
        ch.last = 0;
        ch.inner *= ch.outer;
        ch.outer = 1;
    }
    return ch;
}

static const void *run_at(const channels *ch, const void *x, int64_t outer, int64_t channel) {
    return (const uint8_t *)x +
           (outer * ch->count + channel) * ch->inner * (int64_t)gw_dtype_size(ch->type);
}

static double read(gw_dtype type, const void *x, int64_t i) {
    return type == GW_F32 ? ((const float *)x)[i] : ((const double *)x)[i];
}

static void write(gw_dtype type, void *x, int64_t i, double value) {
    if (type == GW_F32)
        ((float *)x)[i] = (float)value;
    else
        ((double *)x)[i] = value;
}

// ---- Forward ------------------------------------------------------------------------------------------------------
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
    if (!dtype_is_float((gw_dtype)x->dtype)) {
        op_fail(c, GW_INVALID, "%s is not a float", gw_dtype_name((gw_dtype)x->dtype));
        return;
    }
    if (x->dims < 2) {
        op_fail(c, GW_INVALID, "input %s has no channels", shape_text(x).text);
        return;
    }
    if (!check_parameter(c, ARG_WEIGHT, "weight") || !check_parameter(c, ARG_BIAS, "bias") ||
        !check_parameter(c, ARG_MEAN, "running_mean") ||
        !check_parameter(c, ARG_VARIANCE, "running_var"))
        return;
    bool training = is_training(c->args, ARG_TRAINING);
    if (training && x->numel == x->sizes[1]) {
        op_fail(c, GW_INVALID, "one number for each channel in %s has no variance to train with",
                shape_text(x).text);
    } else if (!training &&
               (!arg_tensor(c->args, ARG_MEAN) || !arg_tensor(c->args, ARG_VARIANCE))) {
        op_fail(c, GW_INVALID, "out of training it wants running_mean and running_var");
    } else if (op_output(c, (gw_dtype)x->dtype, x->dims, x->sizes)) {
        int64_t sizes[] = { 2, x->sizes[1] };
        op_output(c, dtype_compute((gw_dtype)x->dtype), 2, sizes);
    }
}

// Runs of a channel, joined in order (Chan, Golub, LeVeque 1979).
static moments moments_of(const channels *ch, const void *x, int64_t channel) {
    moments all = { 0, 0 };
    for (int64_t o = 0; o < ch->outer; o++) {
        moments m;
        kernels_get()->moments[kernel_type_of(ch->type)](run_at(ch, x, o, channel), ch->inner, &m);
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
        write(ch->type, stats, i, m.mean);
        write(ch->type, stats, ch->count + i, m.squares / n);
    }
}

static void normalise(const channels *ch, const void *x, const void *stats, const void *weight,
                      const void *bias, double eps, void *out) {
    for (int64_t o = 0; o < ch->outer; o++) {
        for (int64_t i = 0; i < ch->count; i++) {
            double scale = 1 / sqrt(read(ch->type, stats, ch->count + i) + eps);
            if (weight) scale *= read(ch->type, weight, i);
            kernels_get()->shift_scale[kernel_type_of(ch->type)](
                run_at(ch, x, o, i), ch->inner, read(ch->type, stats, i), scale,
                bias ? read(ch->type, bias, i) : 0, (void *)run_at(ch, out, o, i));
        }
    }
}

static bool open_optional(op_call *c, int i, gw_dtype type, dense *out) {
    *out = (dense){ 0 };
    const gw_tensor *x = arg_tensor(c->args, i);
    return !x || dense_open(c, x, type, out);
}

// Copies what is given to |stats|.
static bool take_given(op_call *c, const channels *ch, void *stats) {
    dense mean, variance = { 0 };
    size_t size = (size_t)ch->count * gw_dtype_size(ch->type);
    bool ok = open_optional(c, ARG_MEAN, ch->type, &mean) &&
              open_optional(c, ARG_VARIANCE, ch->type, &variance);
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
    bool training = is_training(c->args, ARG_TRAINING);
    if (ch.count > 0 && !training && !take_given(c, &ch, stats)) return;
    if (x->numel == 0) {
        if (training) memset(stats, 0, (size_t)c->outputs[1]->numel * gw_dtype_size(ch.type));
        return;
    }
    dense values = { 0 }, weight = { 0 }, bias = { 0 };
    result out;
    if (dense_open_rows(c, x, ch.last, ch.type, &values) &&
        open_optional(c, ARG_WEIGHT, ch.type, &weight) &&
        open_optional(c, ARG_BIAS, ch.type, &bias) &&
        result_open_rows(c, 0, ch.last, ch.type, &out)) {
        if (training) measure(&ch, values.values, stats);
        normalise(&ch, values.values, stats, weight.values, bias.values, eps_of(c->args, ARG_EPS),
                  out.values);
        result_close(&out);
    }
    dense_close(&bias);
    dense_close(&weight);
    dense_close(&values);
}

// ---- The way back -------------------------------------------------------------------------------------------------
// Arguments: d x stats weight training eps. Outputs: dx; and the gradients of weight and bias, one above the other. Not in
// the table.
enum { BACK_D, BACK_X, BACK_STATS, BACK_WEIGHT, BACK_TRAINING, BACK_EPS };

static void infer_back(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, BACK_X);
    int64_t sizes[] = { 2, x->sizes[1] };
    if (op_output(c, (gw_dtype)x->dtype, x->dims, x->sizes))
        op_output(c, (gw_dtype)x->dtype, 2, sizes);
}

// One channel. With z the normalised x: dx = (d - mean of d - z mean of (d z)) * scale, without the means if the
// statistics were given.
static void go_back(const op_call *c, const channels *ch, int64_t i, const void *d, const void *x,
                    const void *stats, const void *weight, void *dx, void *d_parameters) {
    const kernels *k = kernels_get();
    kernel_type t = kernel_type_of(ch->type);
    double mean = read(ch->type, stats, i), sum = 0, sum_shifted = 0;
    double root = 1 / sqrt(read(ch->type, stats, ch->count + i) + arg_number(c->args, BACK_EPS));
    for (int64_t o = 0; o < ch->outer; o++) {
        double sums[2];
        k->shifted_sums[t](run_at(ch, d, o, i), run_at(ch, x, o, i), ch->inner, mean, sums);
        sum += sums[0];
        sum_shifted += sums[1];
    }
    write(ch->type, d_parameters, i, sum_shifted * root);
    write(ch->type, d_parameters, ch->count + i, sum);
    double n = (double)ch->outer * (double)ch->inner;
    double scale = weight ? root * read(ch->type, weight, i) : root;
    bool training = arg_bool(c->args, BACK_TRAINING);
    double shift = training ? sum / n : 0, slope = training ? sum_shifted / n * root * root : 0;
    for (int64_t o = 0; o < ch->outer; o++)
        k->shift_scale_back[t](run_at(ch, d, o, i), run_at(ch, x, o, i), ch->inner, mean, shift,
                               slope, scale, (void *)run_at(ch, dx, o, i));
}

static void compute_back(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, BACK_X);
    channels ch = channels_of(x);
    dense d = { 0 }, values = { 0 }, stats = { 0 }, weight = { 0 };
    result dx, d_parameters;
    if (dense_open_rows(c, arg_tensor(c->args, BACK_D), ch.last, ch.type, &d) &&
        dense_open_rows(c, x, ch.last, ch.type, &values) &&
        dense_open(c, arg_tensor(c->args, BACK_STATS), ch.type, &stats) &&
        open_optional(c, BACK_WEIGHT, ch.type, &weight) &&
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

static const op op_back = {
    .name = "batch_norm_backward",
    .params = "d:tensor x:tensor stats:tensor weight:tensor? training:bool eps:float",
    .infer = infer_back,
    .compute = compute_back,
};

static void grad(op_grad *g) {
    if (!g->d_outputs[0]) return;
    gw_value args[] = { gw_value_of(g->d_outputs[0]),
                        g->args[ARG_X],
                        gw_value_of(g->outputs[1]),
                        g->args[ARG_WEIGHT],
                        gw_value_of_bool(is_training(g->args, ARG_TRAINING)),
                        gw_value_of(eps_of(g->args, ARG_EPS)) };
    gw_tensor *parameters, *dx = op_run(g->scope, &op_back, args, 6, &parameters);
    if (g->wanted[0]) g->d_inputs[0] = dx;
    for (int i = 0; i < 2; i++) {
        if (!arg_tensor(g->args, ARG_WEIGHT + i)) continue;
        int input = grad_input(g, ARG_WEIGHT + i);
        // A copy: the pair would stay as long as either of them.
        if (g->wanted[input])
            g->d_inputs[input] = gw_clone(g->scope, gw_select(g->scope, parameters, 0, i));
    }
}

// ---- The row ------------------------------------------------------------------------------------------------------
static void samples(op_sampler *p) {
    gw_value yes = gw_value_of_bool(true), no = gw_value_of_bool(false);
    sample_call(p, sample_real(p, -2, 2, 4, 3), sample_real(p, 0.5, 2, 3), sample_real(p, -1, 1, 3),
                gw_none(), gw_none(), yes);
    sample_call(p, sample_real(p, -2, 2, 2, 2, 4, 5), sample_real(p, 0.5, 2, 2), gw_none(),
                gw_none(), gw_none(), yes, gw_value_of(1e-3));
    sample_call(p, sample_real(p, -2, 2, 2, 3, 4), gw_none(), sample_real(p, -1, 1, 3), gw_none(),
                gw_none(), yes);
    // What is given has no derivative, in PyTorch neither; in f32 none is looked for.
    sample_call(p, sample_real(p, -2, 2, 2, 2, 20), sample_real(p, 0.5, 2, 2),
                sample_real(p, -1, 1, 2), sample_tensor(p, GW_F32, -1, 1, 2),
                sample_tensor(p, GW_F32, 0.5, 2, 2), no);
    sample_call(p, sample_real(p, -2, 2, 1, 3), gw_none(), gw_none(),
                sample_tensor(p, GW_F32, -1, 1, 3), sample_tensor(p, GW_F32, 0.5, 2, 3));
    sample_call(p, sample_real(p, -2, 2, 0, 3, 4), sample_real(p, 0.5, 2, 3),
                sample_real(p, -1, 1, 3), gw_none(), gw_none(), yes);
}

const op op_batch_norm = {
    .name = "batch_norm",
    .params = "x:tensor weight:tensor? bias:tensor? running_mean:tensor? running_var:tensor? "
              "training:bool? eps:float?",
    .infer = infer,
    .compute = compute,
    .grad = grad,
    .saves = OP_SAVE_ARG(ARG_X) | OP_SAVE_ARG(ARG_WEIGHT) | OP_SAVE_OUT(1),
    .samples = samples,
};

// (1 - momentum) running + momentum value
static gw_tensor *followed(gw_scope *s, gw_tensor *running, gw_tensor *value, double momentum) {
    if (!running) return NULL;
    return gw_add(s, gw_mul(s, running, 1 - momentum), gw_mul(s, value, momentum));
}

// Moves the running statistics towards |stats|, those of |n| numbers.
static void follow(gw_scope *s, gw_batch_norm_options options, gw_tensor *stats, double n) {
    gw_scope *t = gw_scope_open(s);
    gw_no_grad(t);
    double momentum = options.momentum == 0  ? DEFAULT_MOMENTUM
                      : options.momentum < 0 ? 0
                                             : options.momentum;
    gw_tensor *mean = followed(t, options.running_mean, gw_select(t, stats, 0, 0), momentum);
    // The one that is kept is without bias.
    gw_tensor *unbiased = gw_mul(t, gw_select(t, stats, 0, 1), n / (n - 1));
    gw_tensor *variance = followed(t, options.running_var, unbiased, momentum);
    if (mean && gw_ok(t)) gw_copy(t, options.running_mean, mean);
    if (variance && gw_ok(t)) gw_copy(t, options.running_var, variance);
    gw_scope_merge(t);
}

gw_tensor *gw_batch_norm(gw_scope *s, gw_tensor *x, gw_tensor *weight, gw_tensor *bias,
                         gw_batch_norm_options options) {
    gw_tensor *mean = options.running_mean, *variance = options.running_var;
    gw_value args[] = { gw_value_of(x),
                        weight ? gw_value_of(weight) : gw_none(),
                        bias ? gw_value_of(bias) : gw_none(),
                        mean ? gw_value_of(mean) : gw_none(),
                        variance ? gw_value_of(variance) : gw_none(),
                        gw_value_of_bool(options.training),
                        options.eps == 0  ? gw_none()
                        : options.eps < 0 ? gw_value_of(0.0)
                                          : gw_value_of(options.eps) };
    gw_tensor *stats, *y = op_run(s, &op_batch_norm, args, 7, &stats);
    if (!gw_ok(s) || y == &tensor_poison || !options.training || y->numel == 0) return y;
    follow(s, options, stats, (double)y->numel / (double)y->sizes[1]);
    return y;
}
