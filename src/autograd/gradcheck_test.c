// Every row of the operator table: its derivative compared with central differences, in f64.
//
// A new operator is tested by being listed. One that has no derivative must be named below, so that
// a derivative cannot be forgotten.
#include "testing/testing.h"

#include "tensor/dtype.h"
#include "tensor/ops/op.h"
#include "autograd/node.h"
#include "testing/samples.h"
#include <gradwire/autograd.h>
#include <gradwire/ops.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

// Rows whose results do not follow their inputs smoothly, or have none.
static const char *const not_differentiable[] = {
    "zeros",       "ones",        "full",     "arange",   "rand",    "randn",       "eq",
    "ne",          "lt",          "le",       "gt",       "ge",      "argmax",      "argmin",
    "one_hot",     "multinomial", "equal",    "allclose", "nonzero", "logical_and", "logical_or",
    "logical_xor", "logical_not", "isfinite", "isnan",    "isinf",   "bitwise_and", "bitwise_or",
    "bitwise_xor", "bitwise_not", "randint",  "randperm", "any",     "all",
};

enum { TENSORS_MAX = 8 };

typedef struct check {
    const op *op;
    gw_scope *scope;
    gw_value args[OP_ARGS_MAX];
    int arg_count;
    gw_tensor *inputs[TENSORS_MAX];  // leaves in |args| whose gradient is requested
    int input_count;
    int checked_count;  // calls that could be differentiated
} check;

// ---- Making leaves of a sample's tensors --------------------------------------------------------
// A copy of |x|; |strided| lays its dimensions out in reverse.
static gw_tensor *copy_of(gw_scope *s, gw_tensor *x, bool strided) {
    gw_tensor *copy = gw_zeros_with(s, gw_dtype_of(x), (gw_shape){ x->dims, x->sizes });
    if (strided && x->dims > 1) {
        int64_t sizes[GW_DIMS_MAX], dims[GW_DIMS_MAX];
        for (int d = 0; d < x->dims; d++) {
            sizes[d] = x->sizes[x->dims - 1 - d];
            dims[d] = x->dims - 1 - d;
        }
        copy = gw_zeros_with(s, gw_dtype_of(x), (gw_shape){ x->dims, sizes });
        copy = gw_permute_with(s, copy, (gw_shape){ x->dims, dims });
    }
    gw_copy_(s, copy, x);
    return copy;
}

static gw_value leaf_of(check *c, gw_value v, bool strided) {
    if (v.kind != GW_TENSOR || gw_dtype_of(v.as.tensor) != GW_F64) return v;
    gw_tensor *x = copy_of(c->scope, v.as.tensor, strided);
    assert_true(c->input_count < TENSORS_MAX);
    c->inputs[c->input_count++] = x;
    return gw_value_of_tensor(x);
}

static void take_args(check *c, const gw_value *args, int arg_count, bool strided) {
    c->arg_count = arg_count;
    c->input_count = 0;
    for (int i = 0; i < arg_count; i++) {
        c->args[i] = args[i];
        if (args[i].kind != GW_LIST) {
            c->args[i] = leaf_of(c, args[i], strided);
            continue;
        }
        gw_list *copy = gw_list_open(c->scope);
        for (int k = 0; k < gw_list_count(args[i].as.list); k++)
            gw_list_add(c->scope, copy,
                        leaf_of(c, gw_list_get(c->scope, args[i].as.list, k), strided));
        c->args[i] = gw_value_of_list(copy);
    }
}

// ---- Differences --------------------------------------------------------------------------------
// The result on the arguments as they are; random numbers are the same each time.
static gw_tensor *result(check *c, gw_scope *s) {
    gw_seed(s, 5);
    gw_tensor *out = op_run(s, c->op, c->args, c->arg_count, NULL);
    if (!gw_ok(s)) fail_msg("gw.%s: %s", c->op->name, gw_scope_error(s)->text);
    return out;
}

// Weights of the elements of a result, so that each one's gradient differs.
static gw_tensor *weights_of(gw_scope *s, const gw_tensor *out) {
    gw_tensor *w = gw_zeros_with(s, GW_F64, (gw_shape){ out->dims, out->sizes });
    double *values = gw_data_for_write(s, w);
    for (int64_t i = 0; i < w->numel; i++) values[i] = 0.5 + (double)(i * 37 % 101) / 101;
    return w;
}

static double weighted(check *c) {
    gw_scope *s = gw_scope_open(c->scope);
    gw_no_grad(s);
    gw_tensor *out = result(c, s);
    double sum = gw_item(s, gw_sum(s, gw_mul(s, out, weights_of(s, out))));
    gw_scope_close_up(s);
    return sum;
}

// Where element |i| of |x| lies, in elements.
static int64_t offset_of(const gw_tensor *x, int64_t i) {
    int64_t at = 0;
    for (int d = x->dims - 1; d >= 0; d--) {
        at += i % x->sizes[d] * x->strides[d];
        i /= x->sizes[d];
    }
    return at;
}

static double difference(check *c, gw_tensor *x, int64_t i) {
    const double step = 1e-6;
    double *at = (double *)gw_data_for_write(c->scope, x) + offset_of(x, i);
    double value = *at;
    *at = value + step;
    double above = weighted(c);
    *at = value - step;
    double below = weighted(c);
    *at = value;
    return (above - below) / (2 * step);
}

static void compare(check *c, int input, gw_tensor *grad) {
    gw_tensor *x = c->inputs[input];
    if (grad) assert_true(grad->contiguous && grad->dims == x->dims && grad->numel == x->numel);
    for (int64_t i = 0; i < x->numel; i++) {
        double expected = difference(c, x, i);
        double d = grad ? ((const double *)gw_data(grad))[i] : 0;
        if (!(fabs(d - expected) <= 1e-6 + 1e-5 * fabs(expected)))
            fail_msg("gw.%s: the gradient of input %d at %lld is %.9g, but differences give %.9g",
                     c->op->name, input, (long long)i, d, expected);
    }
}

static void compare_gradient(check *c, gw_scope *s, int input) {
    gw_tensor *grad = gw_grad_find(s, c->inputs[input]);
    compare(c, input, grad ? gw_to_dense(s, grad) : NULL);
}

// Computes gradients of all inputs, or of |only| one.
static void check_backward(check *c, int only) {
    gw_scope *s = gw_scope_open(c->scope);
    for (int k = 0; k < c->input_count; k++)
        c->inputs[k]->tape = only < 0 || k == only ? &autograd_tape : NULL;
    gw_tensor *out = result(c, s);
    if (gw_dtype_of(out) == GW_F64) {
        assert_true(gw_needs_grad(out));
        gw_backward(s, out, .gradient = weights_of(s, out));
        if (!gw_ok(s)) fail_msg("gw.%s: %s", c->op->name, gw_scope_error(s)->text);
        for (int k = 0; k < c->input_count; k++)
            if (only < 0 || k == only) compare_gradient(c, s, k);
        c->checked_count++;
    }
    gw_scope_close_up(s);
}

static void check_sample(op_sampler *p, const gw_value *args, int arg_count) {
    check *c = p->context;
    // A view may have to refuse another layout.
    int layouts = strcmp(c->op->name, "view") == 0 ? 1 : 2;
    for (int strided = 0; strided < layouts; strided++) {
        take_args(c, args, arg_count, strided);
        if (!c->input_count) return;
        check_backward(c, -1);
        for (int k = 0; k < c->input_count && c->input_count > 1; k++) check_backward(c, k);
    }
}

// ---- The table ----------------------------------------------------------------------------------
static bool may_lack_derivative(const op *o) {
    for (size_t i = 0; i < sizeof not_differentiable / sizeof *not_differentiable; i++)
        if (strcmp(o->name, not_differentiable[i]) == 0) return true;
    return false;
}

static void check_row(const op *o) {
    testing_note("gw.%s", o->name);
    if (!o->grad) {
        if (!may_lack_derivative(o)) fail_msg("gw.%s has no derivative", o->name);
        return;
    }
    gw_scope *s = gw_scope_open(NULL);
    check c = { .op = o, .scope = s };
    op_sampler p = {
        .scope = s, .op = o, .real = GW_F64, .seed = 1, .run = check_sample, .context = &c
    };
    samples_make(&p);
    if (!c.checked_count) fail_msg("gw.%s has no sample that can be differentiated", o->name);
    gw_error e = gw_scope_close(s);
    if (e.status) fail_msg("gw.%s: %s", o->name, e.text);
}

static void derivatives_agree_with_differences(void **state) {
    (void)state;
    for (int i = 0; op_table[i]; i++) check_row(op_table[i]);
}

GW_TESTS_WITH_LIMIT(autograd_gradcheck, 120, derivatives_agree_with_differences);
