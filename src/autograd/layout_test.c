// Every row of the operator table on tensors of any layout in memory, compared with contiguous copies of
// them: the same results and the same gradients. Layouts and values are random; a new
// operator is tested by being listed.
#include "testing/testing.h"

#include "base/random.h"
#include "base/value.h"
#include "tensor/copy.h"
#include "tensor/dtype.h"
#include "tensor/ops/op.h"
#include "testing/samples.h"
#include <gradwire/autograd.h>
#include <gradwire/ops.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROUNDS = 6, RESULTS_MAX = 8 };

typedef struct trial {
    gw_scope *scope;
    uint64_t seed, drawn;
    bool extreme;  // numbers that are none, infinite, huge or tiny among the others
} trial;

static int draw(trial *t, int below) {
    uint32_t words[4];
    philox(t->seed, t->drawn++, words);
    return (int)(words[0] % (uint32_t)below);
}

// ---- Layouts ------------------------------------------------------------------------------------
// Dimensions in any order, gaps between their elements or one element for all of them. Returns how
// many elements that takes.
static int64_t draw_strides(trial *t, const gw_tensor *x, int64_t *strides) {
    int order[GW_DIMS_MAX];
    for (int i = 0; i < x->dims; i++) {
        int k = draw(t, i + 1);
        order[i] = order[k];
        order[k] = i;
    }
    int64_t stride = 1 + draw(t, 2), last = 0;
    for (int i = 0; i < x->dims; i++) {
        int d = order[i];
        bool repeats = x->sizes[d] > 1 && draw(t, 4) == 0;
        strides[d] = repeats ? 0 : stride;
        last += x->numel ? (x->sizes[d] - 1) * strides[d] : 0;
        if (!repeats && x->numel) stride *= x->sizes[d] + draw(t, 2);
    }
    return last + 1;
}

static void put_extremes(trial *t, gw_tensor *x) {
    static const double numbers[] = { NAN, INFINITY, -INFINITY, 6e4, -3e38, 1e-7, -0.0, 0 };
    size_t size = gw_dtype_size((gw_dtype)x->dtype);
    for (int k = 0; k < 3 && dtype_is_float((gw_dtype)x->dtype) && x->numel; k++) {
        int64_t at = 0;
        for (int d = 0; d < x->dims; d++) at += draw(t, (int)x->sizes[d]) * x->strides[d];
        dtype_write((gw_dtype)x->dtype, (uint8_t *)tensor_bytes(x) + (size_t)at * size,
                    numbers[draw(t, 8)]);
    }
}

static gw_tensor *lay_out(trial *t, const gw_tensor *x) {
    int64_t strides[GW_DIMS_MAX], offset = draw(t, 3);
    int64_t count = offset + draw_strides(t, x, strides);
    gw_tensor *base = gw_zeros(t->scope, (gw_dtype)x->dtype, count);
    gw_tensor *laid =
        scope_own(t->scope, tensor_view(t->scope, base, x->dims, x->sizes, strides, offset));
    copy_values(laid, (uint8_t *)tensor_bytes(laid), x);
    if (t->extreme) put_extremes(t, laid);
    return laid;
}

// |v| laid out, and a contiguous copy of that.
static void lay_out_value(trial *t, gw_value v, gw_value *laid, gw_value *plain) {
    *laid = *plain = v;
    if (v.kind == GW_TENSOR) {
        *laid = gw_value_of(lay_out(t, v.as.tensor));
        *plain = gw_value_of(gw_clone(t->scope, laid->as.tensor));
    }
    if (v.kind != GW_LIST) return;
    gw_list *a = gw_list_open(t->scope), *b = gw_list_open(t->scope);
    for (int i = 0; i < v.as.list->count; i++) {
        gw_value x, y;
        lay_out_value(t, v.as.list->items[i], &x, &y);
        gw_list_add_with(t->scope, a, x);
        gw_list_add_with(t->scope, b, y);
    }
    *laid = gw_value_of(a);
    *plain = gw_value_of(b);
}

// ---- Running ------------------------------------------------------------------------------------
typedef struct outcome {
    gw_scope *scope;
    gw_tensor *results[RESULTS_MAX];
    int count;
} outcome;

static void want_gradients(gw_scope *s, gw_value v) {
    if (v.kind == GW_TENSOR && dtype_is_float(gw_dtype_of(v.as.tensor)))
        gw_requires_grad(s, v.as.tensor);
    for (int i = 0; v.kind == GW_LIST && i < v.as.list->count; i++)
        want_gradients(s, v.as.list->items[i]);
}

static outcome run(trial *t, const op *o, const gw_value *args, int arg_count) {
    outcome out = { .scope = gw_scope_open(t->scope) };
    for (int i = 0; i < arg_count; i++) want_gradients(out.scope, args[i]);
    gw_seed(out.scope, 5);
    gw_value v = op_run_value(out.scope, o, args, arg_count);
    if (!gw_ok(out.scope)) return out;
    if (v.kind == GW_TENSOR) out.results[out.count++] = v.as.tensor;
    for (int i = 0; v.kind == GW_LIST && i < v.as.list->count && i < RESULTS_MAX; i++)
        out.results[out.count++] = v.as.list->items[i].as.tensor;
    return out;
}

static void run_back(outcome *out, int i, gw_tensor *gradient) {
    gw_backward(out->scope, out->results[i], .gradient = gradient, .retain_graph = true);
}

// ---- Comparing ----------------------------------------------------------------------------------
// Products are left to OpenBLAS, which adds up in another order for another layout.
static bool may_round(const op *o) {
    static const char *const names[] = { "matmul", "linear", "lstm", "gru", "rnn" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(o->name, names[i]) == 0) return true;
    return false;
}

static bool is_same(double x, double y, double tolerance) {
    return x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= tolerance * (1 + fabs(y));
}

static void compare(gw_scope *s, const op *o, const char *what, int i, gw_tensor *laid,
                    gw_tensor *plain) {
    assert_true(laid->dtype == plain->dtype && laid->dims == plain->dims);
    assert_memory_equal(laid->sizes, plain->sizes, laid->dims * sizeof(int64_t));
    gw_tensor *x = gw_contiguous(s, laid), *y = gw_contiguous(s, plain);
    gw_dtype dtype = (gw_dtype)x->dtype;
    double tolerance = !may_round(o) ? 0 : dtype == GW_F64 ? 1e-13 : dtype == GW_F32 ? 1e-5 : 1e-2;
    for (int64_t k = 0; k < x->numel; k++) {
        size_t at = (size_t)k * gw_dtype_size(dtype);
        double a = dtype_read(dtype, tensor_bytes(x) + at);
        double b = dtype_read(dtype, tensor_bytes(y) + at);
        if (!is_same(a, b, tolerance))
            fail_msg("gw.%s in %s: %s %d is %.17g at %lld, but %.17g from contiguous tensors",
                     o->name, gw_dtype_name(dtype), what, i, a, (long long)k, b);
    }
}

static void compare_gradients(outcome *laid, outcome *plain, const op *o, gw_value x, gw_value y,
                              int i) {
    for (int k = 0; x.kind == GW_LIST && k < x.as.list->count; k++)
        compare_gradients(laid, plain, o, x.as.list->items[k], y.as.list->items[k], i + k);
    if (x.kind != GW_TENSOR) return;
    gw_tensor *a = gw_grad_find(laid->scope, x.as.tensor);
    gw_tensor *b = gw_grad_find(plain->scope, y.as.tensor);
    assert_true(!a == !b);
    if (a)
        compare(laid->scope, o, "the gradient of argument", i, gw_to_dense(laid->scope, a),
                gw_to_dense(plain->scope, b));
}

static void compare_outcomes(trial *t, outcome *laid, outcome *plain, const op *o,
                             const gw_value *x, const gw_value *y, int arg_count) {
    assert_string_equal(gw_scope_error(laid->scope)->text, gw_scope_error(plain->scope)->text);
    assert_int_equal(laid->count, plain->count);
    for (int i = 0; i < laid->count; i++) {
        compare(t->scope, o, "result", i, laid->results[i], plain->results[i]);
        if (!gw_needs_grad(laid->results[i])) continue;
        gw_tensor *gradient = lay_out(t, gw_randn_like(t->scope, laid->results[i]));
        run_back(laid, i, gradient);
        run_back(plain, i, gw_clone(t->scope, gradient));
    }
    for (int i = 0; i < arg_count; i++) compare_gradients(laid, plain, o, x[i], y[i], i);
    assert_string_equal(gw_scope_error(laid->scope)->text, gw_scope_error(plain->scope)->text);
    assert_string_equal(gw_scope_error(t->scope)->text, "");
}

// ---- The table ----------------------------------------------------------------------------------
static void try_layout(op_sampler *p, const gw_value *args, int arg_count, uint64_t seed) {
    gw_value laid_args[OP_ARGS_MAX], plain_args[OP_ARGS_MAX];
    trial t = { .scope = gw_scope_open(p->scope), .seed = seed, .extreme = seed % 3 == 2 };
    for (int i = 0; i < arg_count; i++) lay_out_value(&t, args[i], &laid_args[i], &plain_args[i]);
    outcome laid = run(&t, p->op, laid_args, arg_count);
    outcome plain = run(&t, p->op, plain_args, arg_count);
    // A view may have to refuse another layout.
    bool refuses = strcmp(p->op->name, "view") == 0 && !gw_ok(laid.scope);
    if (!refuses) compare_outcomes(&t, &laid, &plain, p->op, laid_args, plain_args, arg_count);
    gw_scope_clear(laid.scope);
    gw_scope_clear(plain.scope);
    gw_scope_close_up(laid.scope);
    gw_scope_close_up(plain.scope);
    gw_scope_close_up(t.scope);
}

static void try_layouts(op_sampler *p, const gw_value *args, int arg_count) {
    for (int k = 0; k < ROUNDS; k++) {
        uint64_t seed = (uint64_t)p->call_count * ROUNDS + (uint64_t)k;
        testing_note("gw.%s in %s, layout %llu", p->op->name, gw_dtype_name(p->real),
                     (unsigned long long)seed);
        try_layout(p, args, arg_count, seed);
    }
}

static void layouts_change_nothing(void **state) {
    (void)state;
    const gw_dtype reals[] = { GW_F32, GW_F64, GW_F16, GW_BF16 };
    for (const op *const *o = op_table; *o; o++) {
        for (int i = 0; i < 4; i++) {
            op_sampler p = { .scope = gw_scope_open(NULL),
                             .op = *o,
                             .real = reals[i],
                             .run = try_layouts,
                             .seed = 3 };
            samples_make(&p);
            assert_string_equal(gw_scope_error(p.scope)->text, "");
            gw_scope_close_up(p.scope);
        }
    }
}

GW_TESTS_WITH_LIMIT(autograd_layout, 120, layouts_change_nothing);
