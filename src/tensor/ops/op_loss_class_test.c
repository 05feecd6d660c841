#include "testing/op_expect.h"

static gw_tensor *targets(gw_scope *s, int64_t classes, gw_shape shape) {
    gw_tensor *u = gw_mul(s, gw_rand_with(s, GW_F32, shape), (double)classes);
    return gw_clamp(s, gw_to_dtype(s, u, GW_I64), 0, (double)(classes - 1));
}

// Cross entropy of row |row| with target |t| by definition. Rows are along dimension 1 of x: N C
// inner.
static double definition(const gw_tensor *x, int64_t row, int64_t t, double smoothing) {
    int64_t c = x->sizes[1], inner = x->dims > 2 ? x->numel / x->sizes[0] / c : 1;
    int64_t first = row / inner * c * inner + row % inner;
    double sum = 0, loss = 0;
    for (int64_t k = 0; k < c; k++) sum += exp(element(x, first + k * inner));
    for (int64_t k = 0; k < c; k++) {
        double wanted = smoothing / (double)c + (k == t ? 1 - smoothing : 0);
        loss -= wanted * (element(x, first + k * inner) - log(sum));
    }
    return loss;
}

static void check(gw_scope *s, gw_tensor *x, gw_tensor *t, int64_t ignore, double smoothing,
                  double tolerance) {
    gw_loss_options o = GW_OPTIONS(gw_loss_options, .reduction = GW_NO_REDUCTION,
                                   .ignore_index = ignore, .label_smoothing = smoothing);
    gw_tensor *each = gw_cross_entropy_with(s, x, t, o);
    gw_tensor *nll = gw_nll_with(s, gw_log_softmax(s, x, 1), t, o);
    assert_string_equal(gw_scope_error(s)->text, "");
    double sum = 0, count = 0;
    for (int64_t i = 0; i < t->numel; i++) {
        int64_t class = (int64_t)element(t, i);
        double loss = class == ignore ? 0 : definition(x, i, class, smoothing);
        expect_near(element(each, i), loss, tolerance);
        if (smoothing == 0) expect_near(element(nll, i), loss, tolerance);
        sum += loss;
        count += class != ignore;
    }
    o.reduction = GW_SUM_REDUCTION;
    expect_near(gw_item(s, gw_cross_entropy_with(s, x, t, o)), sum, tolerance);
    o.reduction = GW_MEAN;
    expect_near(gw_item(s, gw_cross_entropy_with(s, x, t, o)), sum / count, tolerance);
}

static void they_are_their_definitions(void **state) {
    (void)state;
    static const gw_dtype dtypes[] = { GW_F32, GW_F64, GW_BF16 };
    static const double tolerances[] = { 2e-6, 1e-13, 3e-2 };
    for (int d = 0; d < 3; d++) {
        gw_scope *s = gw_scope_open(NULL);
        gw_tensor *x = gw_to_dtype(s, gw_randn(s, GW_F64, 20, 7), dtypes[d]);
        gw_tensor *deep = gw_to_dtype(s, gw_randn(s, GW_F64, 2, 5, 3, 4), dtypes[d]);
        gw_tensor *t = targets(s, 7, GW_SHAPE(20)), *deep_t = targets(s, 5, GW_SHAPE(2, 3, 4));
        check(s, x, t, -100, 0, tolerances[d]);
        check(s, x, gw_to_dtype(s, t, GW_I32), 3, 0, tolerances[d]);
        check(s, x, t, 3, 0.2, tolerances[d]);
        check(s, deep, deep_t, -100, 0, tolerances[d]);
        check(s, deep, deep_t, 1, 0.1, tolerances[d]);
        check(s, gw_transpose(s, gw_clone(s, gw_transpose(s, x, 0, 1)), 0, 1), t, -100, 0,
              tolerances[d]);
        gw_scope_close_up(s);
    }
}

static void ignored_targets_need_not_be_classes(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 2, 4);
    gw_tensor *t = gw_from(s, ((int64_t[]){ -100, 2 }), 2);
    expect_text(s, gw_cross_entropy(s, x, t), GW_F32, "tensor(1.3863)");
    expect_text(s, gw_nll(s, x, t), GW_F32, "tensor(0.)");
    gw_tensor *none = gw_full(s, GW_I64, -100, 2);
    expect_text(s, gw_cross_entropy(s, x, none), GW_F32, "tensor(nan)");
    gw_loss_options sum = GW_OPTIONS(gw_loss_options, .reduction = GW_SUM_REDUCTION);
    expect_text(s, gw_nll_with(s, x, none, sum), GW_F32, "tensor(0.)");
    gw_scope_close_up(s);
}

static void one_row_needs_no_batch(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((float[]){ -1, -2, -3 }), 3), *t = gw_full(s, GW_I64, 1);
    expect_text(s, gw_nll(s, x, t), GW_F32, "tensor(2.)");
    expect_text(s, gw_cross_entropy(s, x, t), GW_F32, "tensor(1.4076)");
    gw_scope_close_up(s);
}

// A mean with weights is a mean of the targets, each as often as its class counts.
static void weights_count_classes_several_times(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_randn(s, GW_F64, 4, 3);
    gw_tensor *t = gw_from(s, ((int64_t[]){ 0, 2, 1, 2 }), 4);
    gw_tensor *rows = gw_from(s, ((int64_t[]){ 0, 1, 1, 1, 3, 3, 3 }), 7);  // row 2 is ignored
    gw_tensor *often = gw_index_select(s, x, 0, rows), *often_t = gw_index_select(s, t, 0, rows);
    gw_loss_options weighted = GW_OPTIONS(gw_loss_options, .ignore_index = 1,
                                          .weight = gw_from(s, ((double[]){ 1, 2, 3 }), 3));
    expect_near(gw_item(s, gw_nll_with(s, x, t, weighted)), gw_item(s, gw_nll(s, often, often_t)),
                1e-12);
    expect_near(gw_item(s, gw_cross_entropy_with(s, x, t, weighted)),
                gw_item(s, gw_cross_entropy(s, often, often_t)), 1e-12);
    gw_scope_close_up(s);
}

// A given 0 is the class 0, and not an omitted argument.
static void class_0_can_be_ignored(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_randn(s, GW_F64, 3, 2);
    gw_tensor *t = gw_from(s, ((int64_t[]){ 0, 1, 0 }), 3);
    gw_tensor *last = gw_slice(s, x, 0, 1, 2, 1), *one = gw_full(s, GW_I64, 1, 1);
    expect_near(gw_item(s, gw_nll(s, x, t, .ignore_index = 0)), gw_item(s, gw_nll(s, last, one)),
                1e-12);
    expect_near(gw_item(s, gw_cross_entropy(s, x, t, .ignore_index = 0)),
                gw_item(s, gw_cross_entropy(s, last, one)), 1e-12);
    gw_scope_close_up(s);
}

// By definition, each class has its weight in the target that smoothing makes.
static void smoothing_weighs_every_class(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_randn(s, GW_F64, 1, 3), *t = gw_full(s, GW_I64, 1, 1);
    const double weights[] = { 0.5, 2, 4 }, wanted[] = { 0.1, 0.8, 0.1 };
    gw_tensor *logp = gw_log_softmax(s, x, 1);
    double loss = 0;
    for (int k = 0; k < 3; k++) loss -= weights[k] * wanted[k] * element(logp, k);
    gw_loss_options o =
        GW_OPTIONS(gw_loss_options, .label_smoothing = 0.3, .weight = gw_from(s, weights, 3));
    expect_near(gw_item(s, gw_cross_entropy_with(s, x, t, o)), loss / weights[1], 1e-12);
    o.reduction = GW_SUM_REDUCTION;
    expect_near(gw_item(s, gw_cross_entropy_with(s, x, t, o)), loss, 1e-12);
    gw_scope_close_up(s);
}

static void an_invalid_target_is_named(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 2, 10);
    gw_nll(s, x, gw_from(s, ((int64_t[]){ 3, 12 }), 2));
    expect_fails(s, "gw.nll: target 12 out of range for 10 classes");
    gw_cross_entropy(s, x, gw_from(s, ((int64_t[]){ -1, 2 }), 2));
    expect_fails(s, "gw.cross_entropy: target -1 out of range for 10 classes");
    gw_scope_close_up(s);
}

static void it_refuses_invalid_arguments(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 2, 10);
    gw_cross_entropy(s, x, gw_zeros(s, GW_I64, 3));
    expect_fails(s, "gw.cross_entropy: the input is 2x10 and the target 3, but the target must "
                    "have the shape of the input without its classes");
    gw_cross_entropy(s, gw_zeros(s, GW_F32), gw_zeros(s, GW_I64));
    expect_fails(s, "gw.cross_entropy: the input is scalar and the target scalar, but the target "
                    "must have the shape of the input without its classes");
    gw_cross_entropy(s, gw_zeros(s, GW_F32, 2, 3, 4), gw_zeros(s, GW_I64, 2, 3));
    expect_fails(s, "gw.cross_entropy: the input is 2x3x4 and the target 2x3, but the target must "
                    "have the shape of the input without its classes");
    gw_nll(s, x, gw_zeros(s, GW_F32, 2));
    expect_fails(s, "gw.nll: target is f32, but indices of classes must be i64 or i32");
    gw_nll(s, gw_zeros(s, GW_I64, 2, 10), gw_zeros(s, GW_I64, 2));
    expect_fails(s, "gw.nll: i64 is not a float dtype, but must be one; gw_to_dtype converts it");
    gw_cross_entropy(s, x, gw_zeros(s, GW_I64, 2), .label_smoothing = 2);
    expect_fails(s, "gw.cross_entropy: label_smoothing is 2, but must be between 0 and 1");
    gw_loss_options few = GW_OPTIONS(gw_loss_options, .weight = gw_ones(s, GW_F32, 3));
    gw_nll_with(s, x, gw_zeros(s, GW_I64, 2), few);
    expect_fails(s, "gw.nll: weight is f32 3, but must be a float for each of 10 classes");
    gw_scope_close_up(s);
}

static void smoothing_takes_logits_of_any_size(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *target = gw_from(s, ((int64_t[]){ 1, 0 }), 2);
    gw_tensor *x = gw_from(s, ((float[]){ 3e38, 3e38, 3e38, 1e6, 1e6 + 1, 1e6 - 1 }), 2, 3);
    gw_tensor *loss =
        gw_cross_entropy(s, x, target, .label_smoothing = 0.1, .reduction = GW_NO_REDUCTION);
    expect_values(s, loss, (double[]){ 1.0986122886681098, 1.4076059644443804 }, 1e-6);
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_loss_class, smoothing_takes_logits_of_any_size, class_0_can_be_ignored,
         they_are_their_definitions, ignored_targets_need_not_be_classes, one_row_needs_no_batch,
         weights_count_classes_several_times, smoothing_weighs_every_class,
         an_invalid_target_is_named, it_refuses_invalid_arguments);
