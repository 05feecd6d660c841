#include "testing/recording.h"
#include "testing/testing.h"

#include <gradwire/autograd.h>
#include <gradwire/nn.h>

#include <string.h>

// ---- Compared with PyTorch -----------------------------------------------------------------------------
// Compares |y|, and the gradient of |given| if one was recorded.
static void compare(gw_scope *s, recording *r, const char *what, gw_tensor *y, gw_tensor *given) {
    if (!gw_ok(s)) fail_msg("%s: %s", what, gw_scope_error(s)->text);
    recording_compare(what, y, recording_tensor(s, r), 1e-5, 1e-6);
    if (!recording_takes(r, "d")) return;
    gw_scope *t = gw_scope_open(s);
    gw_backward(t, y, .gradient = recording_tensor(t, r));
    assert_true(recording_takes(r, "d_in"));
    recording_compare(what, gw_grad(t, given), recording_tensor(t, r), 1e-5, 1e-6);
    gw_scope_close_up(t);
}

static void run_case(recording *r) {
    gw_scope *s = gw_scope_open(NULL);
    bool by_probs = strcmp(recording_word(r), "probs") == 0;
    gw_tensor *given = gw_requires_grad(s, recording_tensor(s, r));
    gw_categorical c =
        by_probs ? gw_categorical_from_probs(s, given) : gw_categorical_from_logits(s, given);
    assert_true(recording_takes(r, "value"));
    gw_tensor *value = recording_tensor(s, r);
    assert_true(recording_takes(r, "log_prob"));
    compare(s, r, "log_prob", gw_categorical_log_prob(s, c, value), given);
    assert_true(recording_takes(r, "entropy"));
    compare(s, r, "entropy", gw_categorical_entropy(s, c), given);
    assert_true(recording_takes(r, "end"));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void it_gives_the_results_of_pytorch(void **state) {
    (void)state;
    recording r = recording_open(RECORDINGS "categorical.txt");
    while (recording_takes(&r, "case")) run_case(&r);
    assert_null(recording_word(&r));
    recording_close(&r);
}

// ---- Drawing ------------------------------------------------------------------------------------
static void it_draws_in_the_shape_of_its_batch(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    for (int dims = 0; dims < 4; dims++) {
        int64_t sizes[] = { 2, 3, 4, 5 };
        sizes[dims] = 5;
        gw_tensor *p = gw_rand_with(s, GW_F32, (gw_shape){ dims + 1, sizes });
        gw_tensor *drawn = gw_categorical_sample(s, gw_categorical_from_probs(s, p));
        assert_int_equal(gw_dims(drawn), dims);
        for (int d = 0; d < dims; d++) assert_int_equal(gw_size(drawn, d), sizes[d]);
        assert_int_equal(gw_dtype_of(drawn), GW_I64);
        assert_true(gw_item_int(s, gw_max(s, drawn)) < 5 && gw_item_int(s, gw_min(s, drawn)) >= 0);
    }
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void assert_drawn_as_likely(gw_scope *s, gw_categorical c) {
    gw_tensor *drawn = gw_categorical_sample(s, c);
    const double expected[] = { 0.5, 0.3, 0.2 };
    for (int i = 0; i < 3; i++)
        assert_float_equal(gw_item(s, gw_mean(s, gw_to_dtype(s, gw_eq(s, drawn, i), GW_F32))),
                           expected[i], 0.02);
}

static void it_draws_each_class_as_often_as_it_is_likely(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *weights = gw_from(s, ((float[]){ 5, 3, 2 }), 3);  // they need not sum to 1
    gw_tensor *p = gw_expand(s, weights, 20000, 3);
    assert_drawn_as_likely(s, gw_categorical_from_probs(s, p));
    assert_drawn_as_likely(s, gw_categorical_from_logits(s, gw_log(s, p)));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void drawing_records_nothing(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *logits = gw_requires_grad(s, gw_zeros(s, GW_F32, 3));
    assert_false(gw_needs_grad(gw_categorical_sample(s, gw_categorical_from_logits(s, logits))));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_dimension_of_classes_is_required(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_categorical c = gw_categorical_from_probs(s, gw_ones(s, GW_F32));
    gw_categorical_sample(s, c);  // safe to pass on
    gw_categorical_log_prob(s, c, gw_zeros(s, GW_I64));
    gw_categorical_entropy(s, c);
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, GW_INVALID);
    assert_non_null(strstr(e.text, "gw_categorical: needs a tensor with at least one dimension"));
}

static void use_one(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *p = gw_requires_grad(s, gw_rand(s, GW_F32, 2, 3));
    gw_categorical c = gw_categorical_from_probs(s, p);
    gw_tensor *logp = gw_categorical_log_prob(s, c, gw_categorical_sample(s, c));
    gw_backward(s, gw_sum(s, gw_add(s, logp, gw_categorical_entropy(s, c))));
    gw_error e = gw_scope_close(s);
    (void)e;
}

static void it_survives_any_failing_allocation(void **state) {
    (void)state;
    testing_alloc_failure_loop(use_one, NULL);
}

static void errors_are_its_own(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_categorical c = gw_categorical_from_logits(s, gw_zeros(s, GW_F32, 3, 4));
    gw_categorical_log_prob(s, c, NULL);
    assert_string_equal(gw_scope_error(s)->text, "gw_categorical_log_prob: no tensor");
    gw_scope_clear(s);
    gw_categorical_log_prob(s, c, gw_zeros(s, GW_I64, 2));
    assert_string_equal(
        gw_scope_error(s)->text,
        "gw_categorical_log_prob: values of shape 2 do not fit distributions of shape 3x4");
    gw_scope_clear(s);
    gw_categorical_log_prob(s, c, gw_zeros(s, GW_F32, 3));
    assert_string_equal(gw_scope_error(s)->text,
                        "gw_categorical_log_prob: values are f32, but must be i64 or i32");
    gw_scope_clear(s);
    gw_scope_close_up(s);
}

GW_TESTS(nn_categorical, errors_are_its_own, it_gives_the_results_of_pytorch,
         it_draws_in_the_shape_of_its_batch, it_draws_each_class_as_often_as_it_is_likely,
         drawing_records_nothing, a_dimension_of_classes_is_required,
         it_survives_any_failing_allocation);
