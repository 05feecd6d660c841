// Common parts of losses of classes, and nll.
#include "tensor/ops/op_loss_class.h"

#include "tensor/dense.h"
#include "tensor/dtype.h"
#include "tensor/kernels/kernels.h"
#include "tensor/ops/ops.h"

// ---- Common parts -------------------------------------------------------------------
int class_dim(const gw_tensor *x) {
    return x->dims == 1 ? 0 : 1;
}

static bool shapes_fit(const gw_tensor *x, const gw_tensor *target) {
    if (x->dims == 0 || target->dims != x->dims - 1) return false;
    for (int i = 0, k = 0; i < x->dims; i++)
        if (i != class_dim(x) && x->sizes[i] != target->sizes[k++]) return false;
    return true;
}

static bool is_index(const gw_tensor *x) {
    return x->dtype == GW_I64 || x->dtype == GW_I32;
}

static bool weights_fit(const gw_tensor *weights, const gw_tensor *x) {
    return !weights || (dtype_is_float((gw_dtype)weights->dtype) && weights->dims == 1 &&
                        weights->sizes[0] == x->sizes[class_dim(x)]);
}

void class_infer(op_call *c, int weight) {
    const gw_tensor *x = arg_tensor(c->args, 0), *target = arg_tensor(c->args, 1);
    const gw_tensor *weights = arg_tensor(c->args, weight);
    if (!loss_reduction_check(c, 2)) return;
    if (!op_check_float(c, (gw_dtype)x->dtype)) return;
    if (!is_index(target)) {
        op_fail(c, GW_INVALID, "target is %s, but indices of classes must be i64 or i32",
                gw_dtype_name(target->dtype));
    } else if (!shapes_fit(x, target)) {
        op_fail(c, GW_INVALID,
                "the input is %s and the target %s, but the target must have the shape of the "
                "input without its classes",
                shape_text(x).text, shape_text(target).text);
    } else if (!weights_fit(weights, x)) {
        op_fail(c, GW_INVALID, "weight is %s %s, but must be a float for each of %lld classes",
                gw_dtype_name(weights->dtype), shape_text(weights).text,
                (long long)x->sizes[class_dim(x)]);
    } else {
        loss_output(c, (gw_dtype)x->dtype, loss_reduction(c->args, 2), target->dims, target->sizes);
    }
}

bool class_check_targets(op_call *c, const int64_t *target, int64_t n, int64_t classes,
                         int64_t ignore) {
    for (int64_t i = 0; i < n; i++) {
        if (target[i] == ignore) continue;
        if (target[i] >= 0 && target[i] < classes) continue;
        op_fail(c, GW_INVALID, "target %lld out of range for %lld classes", (long long)target[i],
                (long long)classes);
        return false;
    }
    return true;
}

double class_count(const int64_t *target, int64_t n, int64_t ignore, const double *weights) {
    double count = 0;
    for (int64_t i = 0; i < n; i++)
        if (target[i] != ignore) count += class_weight(weights, target[i]);
    return count;
}

double class_row_gradient(const double *d, gw_reduction reduction, int64_t row, double counted) {
    if (reduction == GW_NO_REDUCTION) return d[row];
    return reduction == GW_MEAN ? d[0] / counted : d[0];
}

void class_reduce_losses(op_call *c, const double *losses, int64_t n, double counted) {
    gw_tensor *out = c->outputs[0];
    gw_dtype d = (gw_dtype)out->dtype;
    uint8_t *bytes = (uint8_t *)tensor_bytes(out);
    gw_reduction reduction = loss_reduction(c->args, 2);
    if (reduction == GW_NO_REDUCTION) {
        dtype_gather(d, bytes, GW_F64, losses, 1, n);
        return;
    }
    double total;
    kernels_get()->sum_rows[KERNEL_F64](losses, 1, n, &total);
    dtype_write(d, bytes, reduction == GW_MEAN ? total / counted : total);
}

// ---- nll ----------------------------------------------------------------------------------------
// Where class |target| of row |row| stands in values of |x|, whose classes are |inner| apart.
static int64_t place_of(int64_t row, int64_t target, int64_t classes, int64_t inner) {
    return row / inner * classes * inner + target * inner + row % inner;
}

static int64_t inner_count(const gw_tensor *x) {
    int64_t inner = 1;
    for (int i = class_dim(x) + 1; i < x->dims; i++) inner *= x->sizes[i];
    return inner;
}

static void compute_nll(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0), *t = arg_tensor(c->args, 1);
    int64_t n = t->numel, classes = x->sizes[class_dim(x)];
    int64_t ignore = arg_int(c->args, 3), inner = inner_count(x);
    gw_dtype type = dtype_compute((gw_dtype)x->dtype);
    dense logp, target, weight;
    block *losses;
    if (!dense_open(c, x, type, &logp)) return;
    if (!dense_open(c, t, GW_I64, &target)) goto close_logp;
    if (!dense_open_optional(c, arg_tensor(c->args, 4), GW_F64, &weight)) goto close_target;
    const int64_t *classes_of = target.values;
    if (!class_check_targets(c, classes_of, n, classes, ignore)) goto close_weight;
    losses = scratch_open(c, n, sizeof(double));
    if (!losses) goto close_weight;
    double *loss = (double *)losses->bytes;
    for (int64_t r = 0; r < n; r++) {
        loss[r] = 0;
        if (classes_of[r] == ignore) continue;
        int64_t at = place_of(r, classes_of[r], classes, inner);
        loss[r] = type == GW_F32 ? -(double)((const float *)logp.values)[at]
                                 : -((const double *)logp.values)[at];
        loss[r] *= class_weight(weight.values, classes_of[r]);
    }
    class_reduce_losses(c, loss, n, class_count(classes_of, n, ignore, weight.values));
    block_release(losses);
close_weight:
    dense_close(&weight);
close_target:
    dense_close(&target);
close_logp:
    dense_close(&logp);
}

// Arguments: d target sizes reduction ignore_index weight. The targets have been checked on the way
// here.
static void infer_nll_back(op_call *c) {
    int64_t sizes[GW_DIMS_MAX];
    int dims = arg_ints(c->args, 2, sizes);
    op_output(c, (gw_dtype)arg_tensor(c->args, 0)->dtype, dims, sizes);
}

static void compute_nll_back(op_call *c) {
    gw_tensor *dx = c->outputs[0];
    gw_dtype dtype = (gw_dtype)dx->dtype;
    int64_t n = arg_tensor(c->args, 1)->numel, classes = dx->sizes[class_dim(dx)];
    int64_t inner = inner_count(dx), ignore = arg_int(c->args, 4);
    gw_reduction reduction = loss_reduction(c->args, 3);
    uint8_t *bytes = (uint8_t *)tensor_bytes(dx);
    dense d, target = { 0 }, weight = { 0 };
    memset(bytes, 0, (size_t)dx->numel * gw_dtype_size(dtype));
    if (dense_open(c, arg_tensor(c->args, 0), GW_F64, &d) &&
        dense_open(c, arg_tensor(c->args, 1), GW_I64, &target) &&
        dense_open_optional(c, arg_tensor(c->args, 5), GW_F64, &weight)) {
        const int64_t *classes_of = target.values;
        double counted = class_count(classes_of, n, ignore, weight.values);
        for (int64_t r = 0; r < n; r++) {
            if (classes_of[r] == ignore) continue;
            int64_t at = place_of(r, classes_of[r], classes, inner);
            dtype_write(dtype, bytes + at * (int64_t)gw_dtype_size(dtype),
                        -class_weight(weight.values, classes_of[r]) *
                            class_row_gradient(d.values, reduction, r, counted));
        }
    }
    dense_close(&weight);
    dense_close(&target);
    dense_close(&d);
}

// Not in the table: only the derivative uses it.
static const op op_nll_back = {
    .name = "nll_backward",
    .params = "d:tensor target:tensor sizes:ints reduction:int ignore_index:int weight:tensor?",
    .infer = infer_nll_back,
    .compute = compute_nll_back,
};

static void grad_nll(op_grad *g) {
    const gw_tensor *x = arg_tensor(g->args, 0);
    gw_value args[] = { gw_value_of(g->d_outputs[0]),
                        g->args[1],
                        value_of_ints((gw_shape){ x->dims, x->sizes }),
                        gw_value_of((int)loss_reduction(g->args, 2)),
                        gw_value_of(arg_int(g->args, 3)),
                        g->args[4] };
    if (g->wanted[0]) g->d_inputs[0] = op_run(g->scope, &op_nll_back, args, 6, NULL);
}

static void infer_nll(op_call *c) {
    class_infer(c, 4);
}

const op op_nll = {
    .name = "nll",
    .params = "logp:tensor target:tensor reduction:int?=0 ignore_index:int?=-100 weight:tensor?",
    .cast = OP_CAST_F32,
    .infer = infer_nll,
    .compute = compute_nll,
    .grad = grad_nll,
    .saves = OP_SAVE_ARG(1) | OP_SAVE_ARG(4),
};

gw_tensor *gw_nll_with(gw_scope *s, gw_tensor *logp, gw_tensor *target, gw_loss_options options) {
    gw_value args[] = { gw_value_of(logp), gw_value_of(target), gw_value_of((int)options.reduction),
                        gw_value_of(options.ignore_index), value_of_optional(options.weight) };
    return op_run(s, &op_nll, args, 5, NULL);
}
