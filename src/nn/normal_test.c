#include "testing/recording.h"
#include "testing/testing.h"

#include <gradwire/autograd.h>
#include <gradwire/nn.h>

#include <math.h>
#include <string.h>

// ---- Compared with PyTorch -----------------------------------------------------------------------------
static void compare(gw_scope *s, recording *r, const char *what, gw_tensor *y, gw_normal n) {
    if (!gw_ok(s)) fail_msg("%s: %s", what, gw_scope_error(s)->text);
    recording_compare(what, y, recording_tensor(s, r), 1e-5, 1e-6);
    assert_true(recording_takes(r, "d"));
    gw_scope *t = gw_scope_open(s);
    gw_backward(t, y, .gradient = recording_tensor(t, r));
    assert_true(recording_takes(r, "d_loc"));
    gw_tensor *d_loc = gw_grad_find(t, n.loc), *expected = recording_tensor(t, r);
    recording_compare(what, d_loc ? d_loc : gw_zeros_like(t, n.loc), expected, 1e-5, 1e-6);
    assert_true(recording_takes(r, "d_scale"));
    recording_compare(what, gw_grad(t, n.scale), recording_tensor(t, r), 1e-5, 1e-6);
    gw_scope_close_up(t);
}

static void run_case(recording *r) {
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *loc = gw_requires_grad(s, recording_tensor(s, r));
    gw_tensor *scale = gw_requires_grad(s, recording_tensor(s, r));
    gw_normal n = gw_normal_from(s, loc, scale);
    assert_true(recording_takes(r, "value"));
    gw_tensor *value = recording_tensor(s, r);
    assert_true(recording_takes(r, "log_prob"));
    compare(s, r, "log_prob", gw_normal_log_prob(s, n, value), n);
    assert_true(recording_takes(r, "entropy"));
    compare(s, r, "entropy", gw_normal_entropy(s, n), n);
    assert_true(recording_takes(r, "end"));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void it_gives_the_results_of_pytorch(void **state) {
    (void)state;
    recording r = recording_open(RECORDINGS "normal.txt");
    while (recording_takes(&r, "case")) run_case(&r);
    assert_null(recording_word(&r));
    recording_close(&r);
}

// ---- Drawing ------------------------------------------------------------------------------------
static void it_draws_with_its_mean_and_deviation(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *loc = gw_from(s, ((float[]){ -3, 0, 5 }), 3);
    gw_tensor *scale = gw_full(s, GW_F32, 0.5, 20000, 1);
    gw_tensor *x = gw_normal_sample(s, gw_normal_from(s, loc, scale));  // N 3
    assert_int_equal(gw_size(x, 0), 20000);
    gw_tensor *mean = gw_mean(s, x, .dim = 0), *std = gw_std(s, x, .dim = 0);
    for (int i = 0; i < 3; i++) {
        double expected = gw_item(s, gw_select(s, loc, 0, i));
        assert_float_equal(gw_item(s, gw_select(s, mean, 0, i)), expected, 0.02);
        assert_float_equal(gw_item(s, gw_select(s, std, 0, i)), 0.5, 0.02);
    }
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void gradients_flow_through_a_reparameterised_sample(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *loc = gw_requires_grad(s, gw_zeros(s, GW_F64, 4));
    gw_tensor *scale = gw_requires_grad(s, gw_full(s, GW_F64, 2, 4));
    gw_normal n = gw_normal_from(s, loc, scale);
    assert_false(gw_needs_grad(gw_normal_sample(s, n)));
    gw_tensor *x = gw_normal_rsample(s, n);
    gw_backward(s, gw_sum(s, x));
    assert_true(gw_equal(s, gw_grad(s, loc), gw_ones(s, GW_F64, 4)));
    gw_tensor *noise = gw_div(s, x, 2);  // d x / d scale
    assert_true(gw_allclose(s, gw_grad(s, scale), noise, .rtol = 1e-12, .atol = 1e-12));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void the_seed_decides(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_normal n = gw_normal_from(s, gw_zeros(s, GW_F32, 9), gw_ones(s, GW_F32, 9));
    gw_seed(s, 3);
    gw_tensor *x = gw_normal_sample(s, n);
    assert_false(gw_equal(s, x, gw_normal_sample(s, n)));
    gw_seed(s, 3);
    assert_true(gw_equal(s, x, gw_normal_rsample(s, n)));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// ---- Errors -------------------------------------------------------------------------------------
static void expect_refused(gw_scope *s, gw_normal n, const char *text) {
    assert_non_null(strstr(gw_scope_error(s)->text, text));
    gw_normal_sample(s, n);  // safe to pass on
    gw_normal_log_prob(s, n, gw_zeros(s, GW_F32));
    gw_normal_entropy(s, n);
    gw_scope_clear(s);
    gw_normal_sample(s, n);
    assert_non_null(strstr(gw_scope_error(s)->text, text));
    gw_scope_clear(s);
}

static void a_scale_is_a_float_above_0(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_ones(s, GW_F32, 2);
    gw_normal n = gw_normal_from(s, x, gw_from(s, ((float[]){ 1, 0 }), 2));
    expect_refused(s, n, "gw_normal: a scale is not above 0, but all must be above 0");
    n = gw_normal_from(s, x, gw_full(s, GW_F32, NAN));
    expect_refused(s, n, "gw_normal: a scale is not above 0, but all must be above 0");
    n = gw_normal_from(s, gw_ones(s, GW_I64, 2), x);
    expect_refused(s, n, "gw_normal: the loc is i64, but must be a float");
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void use_one(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *loc = gw_requires_grad(s, gw_rand(s, GW_F32, 2, 3));
    gw_normal n = gw_normal_from(s, loc, gw_ones(s, GW_F32, 3));
    gw_tensor *logp = gw_normal_log_prob(s, n, gw_normal_rsample(s, n));
    gw_backward(s, gw_sum(s, gw_add(s, logp, gw_normal_entropy(s, n))));
    gw_error e = gw_scope_close(s);
    (void)e;
}

static void it_survives_any_failing_allocation(void **state) {
    (void)state;
    testing_alloc_failure_loop(use_one, NULL);
}

GW_TESTS(nn_normal, it_gives_the_results_of_pytorch, it_draws_with_its_mean_and_deviation,
         gradients_flow_through_a_reparameterised_sample, the_seed_decides,
         a_scale_is_a_float_above_0, it_survives_any_failing_allocation);
