// cross_entropy: log_softmax and nll in one, without the logarithms of all classes in between.
#include "tensor/ops/op_loss_class.h"

#include <math.h>

#include "tensor/dense.h"
#include "tensor/dtype.h"
#include "tensor/kernels/kernels.h"
#include "tensor/ops/ops.h"

static void infer_cross_entropy(op_call *c) {
    double smoothing = arg_number(c->args, 4);
    if (smoothing >= 0 && smoothing <= 1)
        class_infer(c, 5);
    else
        op_fail(c, GW_INVALID, "label_smoothing is %g, but must be between 0 and 1", smoothing);
}

// The parts of the loss of a row: its largest number and the sum of e^(x - largest). Later, in
// the same fields and the third: the arguments of raise_rows.
typedef struct row_facts {
    dense rows, target, weight;
    block *room;
    void *largest, *exp_sum, *offset;
} row_facts;

static bool facts_open(op_call *c, const gw_tensor *x, const gw_tensor *target,
                       const gw_tensor *weight, gw_dtype type, row_facts *f) {
    *f = (row_facts){ 0 };
    int64_t n = target->numel, classes = x->sizes[class_dim(x)];
    size_t bytes = (size_t)n * gw_dtype_size(type);
    if (!dense_open_rows(c, x, class_dim(x), type, &f->rows) ||
        !dense_open(c, target, GW_I64, &f->target) ||
        !dense_open_optional(c, weight, GW_F64, &f->weight) ||
        !(f->room = scratch_open(c, n, 3 * gw_dtype_size(type))))
        return false;
    f->largest = f->room->bytes;
    f->exp_sum = f->room->bytes + bytes;
    f->offset = f->room->bytes + 2 * bytes;
    kernel_type k = kernel_type_of(type);
    if (classes > 0)
        kernels_get()->exp_sum_rows[k](f->rows.values, n, classes, f->largest, f->exp_sum);
    return true;
}

static void facts_close(row_facts *f) {
    block_release(f->room);
    dense_close(&f->weight);
    dense_close(&f->target);
    dense_close(&f->rows);
}

static double number_at(gw_dtype type, const void *p, int64_t i) {
    return type == GW_F32 ? (double)((const float *)p)[i] : ((const double *)p)[i];
}

static double weight_sum(const double *weights, int64_t classes) {
    double sum = 0;
    for (int64_t k = 0; k < classes; k++) sum += class_weight(weights, k);
    return sum;
}

// The sum of |n| numbers, each less |largest|: large ones do not overflow, nor lose their
// differences. In lanes, which run in parallel.
#define SUM_BELOW(T)                                                                               \
    static double sum_below_##T(const T *x, int64_t n, double largest) {                           \
        enum { LANES = 8 };                                                                        \
        double sums[LANES] = { 0 }, total = 0;                                                     \
        int64_t i = 0;                                                                             \
        for (; i + LANES <= n; i += LANES)                                                         \
            for (int k = 0; k < LANES; k++) sums[k] += (double)x[i + k] - largest;                 \
        for (; i < n; i++) total += (double)x[i] - largest;                                        \
        for (int k = 0; k < LANES; k++) total += sums[k];                                          \
        return total;                                                                              \
    }
SUM_BELOW(float)
SUM_BELOW(double)

static double sum_below(gw_dtype type, const void *rows, int64_t at, int64_t n, double largest) {
    if (type == GW_F32) return sum_below_float((const float *)rows + at, n, largest);
    return sum_below_double((const double *)rows + at, n, largest);
}

// The mean over classes of their weights times |log_sum| - x, of row |r|.
static double smooth_loss(const row_facts *f, gw_dtype type, int64_t r, int64_t classes,
                          double largest, double log_sum) {
    const double *weights = f->weight.values;
    if (!weights)
        return log_sum -
               sum_below(type, f->rows.values, r * classes, classes, largest) / (double)classes;
    double sum = 0;
    for (int64_t k = 0; k < classes; k++)
        sum +=
            weights[k] * (log_sum - (number_at(type, f->rows.values, r * classes + k) - largest));
    return sum / (double)classes;
}

// With smoothing e, a row's target is 1 - e of its class and e / C of every class.
static void losses_of(const row_facts *f, gw_dtype type, int64_t n, int64_t classes, int64_t ignore,
                      double smoothing, double *loss) {
    const int64_t *target = f->target.values;
    for (int64_t r = 0; r < n; r++) {
        loss[r] = 0;
        if (target[r] == ignore) continue;
        // Apart from the largest number, lest the digits of the rest be lost in it.
        double largest = number_at(type, f->largest, r);
        double log_sum = log(number_at(type, f->exp_sum, r));
        double own = number_at(type, f->rows.values, r * classes + target[r]) - largest;
        loss[r] = (1 - smoothing) * class_weight(f->weight.values, target[r]) * (log_sum - own);
        if (smoothing > 0)
            loss[r] += smoothing * smooth_loss(f, type, r, classes, largest, log_sum);
    }
}

static void compute_cross_entropy(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0), *target = arg_tensor(c->args, 1);
    int64_t n = target->numel, classes = x->sizes[class_dim(x)];
    int64_t ignore = arg_int(c->args, 3);
    double smoothing = arg_number(c->args, 4);
    gw_dtype type = dtype_compute((gw_dtype)x->dtype);
    row_facts f;
    block *losses = NULL;
    if (facts_open(c, x, target, arg_tensor(c->args, 5), type, &f) &&
        class_check_targets(c, f.target.values, n, classes, ignore) &&
        (losses = scratch_open(c, n, sizeof(double)))) {
        losses_of(&f, type, n, classes, ignore, smoothing, (double *)losses->bytes);
        class_reduce_losses(c, (const double *)losses->bytes, n,
                            class_count(f.target.values, n, ignore, f.weight.values));
    }
    block_release(losses);
    facts_close(&f);
}

// Arguments: d logits target reduction ignore_index label_smoothing weight.
static void subtract(gw_dtype type, void *row, int64_t k, double x) {
    dtype_write(type, (uint8_t *)row + (size_t)k * gw_dtype_size(type),
                number_at(type, row, k) - x);
}

// The gradient of row r is |d| (softmax - (1 - e) at its class - e / C), or 0 if the row is
// ignored; with weights w it is |d| (((1 - e) w of its class + e / C sum w) softmax - (1 - e) w at
// its class - e / C w).
static void finish_rows(gw_dtype type, const row_facts *f, const double *d, int64_t n,
                        int64_t classes, int64_t ignore, double smoothing, void *dx) {
    const int64_t *target = f->target.values;
    const double *weights = f->weight.values;
    size_t size = gw_dtype_size(type);
    for (int64_t r = 0; r < n; r++) {
        uint8_t *row = (uint8_t *)dx + (size_t)(r * classes) * size;
        if (target[r] == ignore) {
            memset(row, 0, (size_t)classes * size);
            continue;
        }
        subtract(type, row, target[r], (1 - smoothing) * class_weight(weights, target[r]) * d[r]);
        for (int64_t k = 0; weights && smoothing > 0 && k < classes; k++)
            subtract(type, row, k, smoothing / (double)classes * weights[k] * d[r]);
    }
}

// Makes |d| of one number for each row, and of the facts the scale and offset that raise_rows
// wants.
static void prepare_rows(op_call *c, gw_dtype type, row_facts *f, const double *d, int64_t n,
                         int64_t classes, double *row_d) {
    int64_t ignore = arg_int(c->args, 4);
    double smoothing = arg_number(c->args, 5);
    gw_reduction reduction = loss_reduction(c->args, 3);
    const int64_t *target = f->target.values;
    const double *weights = f->weight.values;
    double counted = class_count(target, n, ignore, weights);
    double all = smoothing * weight_sum(weights, classes) / (double)classes;
    size_t size = gw_dtype_size(type);
    for (int64_t r = 0; r < n; r++) {
        bool is_weighted = weights && target[r] != ignore;
        double weight = is_weighted ? (1 - smoothing) * weights[target[r]] + all : 1;
        row_d[r] = class_row_gradient(d, reduction, r, counted);
        dtype_write(type, (uint8_t *)f->exp_sum + (size_t)r * size,
                    weight * row_d[r] / number_at(type, f->exp_sum, r));
        dtype_write(type, (uint8_t *)f->offset + (size_t)r * size,
                    weights ? 0 : -row_d[r] * smoothing / (double)classes);
    }
}

static void compute_cross_entropy_back(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 1), *target = arg_tensor(c->args, 2);
    int64_t n = target->numel, classes = x->sizes[class_dim(x)];
    gw_dtype type = dtype_compute((gw_dtype)x->dtype);
    row_facts f;
    dense d = { 0 };
    block *row_d = NULL;
    result out;
    if (facts_open(c, x, target, arg_tensor(c->args, 6), type, &f) &&
        dense_open(c, arg_tensor(c->args, 0), GW_F64, &d) &&
        (row_d = scratch_open(c, n, sizeof(double))) &&
        result_open_rows(c, 0, class_dim(x), type, &out)) {
        double *each = (double *)row_d->bytes;
        prepare_rows(c, type, &f, d.values, n, classes, each);
        kernels_get()->raise_rows[kernel_type_of(type)](f.rows.values, n, classes, f.largest,
                                                        f.exp_sum, f.offset, out.values);
        finish_rows(type, &f, each, n, classes, arg_int(c->args, 4), arg_number(c->args, 5),
                    out.values);
        result_close(&out);
    }
    block_release(row_d);
    dense_close(&d);
    facts_close(&f);
}

static const op op_cross_entropy_back = {
    .name = "cross_entropy_backward",
    .params = "d:tensor logits:tensor target:tensor reduction:int ignore_index:int "
              "label_smoothing:float weight:tensor?",
    .infer = op_infer_second,
    .compute = compute_cross_entropy_back,
};

static void grad_cross_entropy(op_grad *g) {
    gw_value args[] = { gw_value_of(g->d_outputs[0]),
                        g->args[0],
                        g->args[1],
                        gw_value_of((int)loss_reduction(g->args, 2)),
                        gw_value_of(arg_int(g->args, 3)),
                        gw_value_of(arg_number(g->args, 4)),
                        g->args[5] };
    if (g->wanted[0]) g->d_inputs[0] = op_run(g->scope, &op_cross_entropy_back, args, 7, NULL);
}

const op op_cross_entropy = {
    .name = "cross_entropy",
    .params = "logits:tensor target:tensor reduction:int?=0 ignore_index:int?=-100 "
              "label_smoothing:float?=0.0 weight:tensor?",
    .cast = OP_CAST_F32,
    .infer = infer_cross_entropy,
    .compute = compute_cross_entropy,
    .grad = grad_cross_entropy,
    .saves = OP_SAVE_ARG(0) | OP_SAVE_ARG(1) | OP_SAVE_ARG(5),
};

gw_tensor *gw_cross_entropy_with(gw_scope *s, gw_tensor *logits, gw_tensor *target,
                                 gw_loss_options options) {
    gw_value args[] = { gw_value_of(logits),
                        gw_value_of(target),
                        gw_value_of((int)options.reduction),
                        gw_value_of(options.ignore_index),
                        gw_value_of(options.label_smoothing),
                        value_of_optional(options.weight) };
    return op_run(s, &op_cross_entropy, args, 6, NULL);
}
