// Numbers are compared with PyTorch's in recordings_test.c.
#include "nn/module.h"
#include "testing/testing.h"
#include <gradwire/autograd.h>

#include <math.h>
#include <string.h>

static void expect_fails(gw_scope *s, const char *text) {
    assert_string_equal(gw_scope_error(s)->text, text);
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    gw_scope_clear(s);
}

static void its_parameters_have_pytorchs_names_and_bounds(void **state) {
    (void)state;
    static const char *const names[] = {
        "weight_ih_l0",         "weight_hh_l0",         "bias_ih_l0",         "bias_hh_l0",
        "weight_ih_l0_reverse", "weight_hh_l0_reverse", "bias_ih_l0_reverse", "bias_hh_l0_reverse",
        "weight_ih_l1",         "weight_hh_l1",         "bias_ih_l1",         "bias_hh_l1",
        "weight_ih_l1_reverse", "weight_hh_l1_reverse", "bias_ih_l1_reverse", "bias_hh_l1_reverse",
    };
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_lstm(s, 3, 4, .layers = 2, .bidirectional = true);
    assert_int_equal(gw_module_parameter_count(m), 16);
    for (int i = 0; i < 16; i++) {
        assert_string_equal(gw_module_parameter_name(s, m, i), names[i]);
        gw_tensor *x = gw_module_parameter_at(s, m, i);
        assert_true(gw_item(s, gw_max(s, gw_abs(s, x))) <= 0.5);  // 1/sqrt(4)
        assert_int_equal(gw_size(x, 0), 16);
    }
    assert_int_equal(gw_size(gw_module_parameter_get(s, m, "weight_ih_l1"), 1), 8);
    assert_string_equal(gw_module_name(m), "lstm");
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void it_continues_from_its_returned_state(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_seed(s, 3);
    gw_module *m = gw_nn_lstm(s, 3, 4, .layers = 2);
    gw_tensor *x = gw_randn(s, GW_F32, 6, 2, 3);
    gw_lstm_result whole = gw_nn_lstm_call(s, m, x);
    gw_lstm_result first = gw_nn_lstm_call(s, m, gw_slice(s, x, 0, 0, 4, 1));
    gw_lstm_result rest =
        gw_nn_lstm_call(s, m, gw_slice(s, x, 0, 4, 6, 1), .h0 = first.h, .c0 = first.c);
    gw_tensor *both = gw_cat(s, (gw_tensor *[]){ first.output, rest.output }, 2, 0);
    assert_true(gw_allclose(s, both, whole.output, .rtol = 1e-5, .atol = 1e-6));
    assert_true(gw_allclose(s, rest.c, whole.c, .rtol = 1e-5, .atol = 1e-6));
    assert_true(gw_equal(s, gw_module_call(s, m, x), whole.output));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// Even infinite padding: neither values nor gradients see it.
static void padding_after_the_length_is_ignored(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_seed(s, 3);
    gw_module *m = gw_nn_gru(s, 2, 3, .bidirectional = true);
    gw_tensor *lengths = gw_from(s, ((int64_t[]){ 2, 4 }), 2), *grads[2];
    for (int k = 0; k < 2; k++) {
        gw_seed(s, 4);
        gw_tensor *x = gw_randn(s, GW_F32, 4, 2, 2);
        gw_copy_(s, gw_select(s, gw_slice(s, x, 0, 2, 4, 1), 1, 0),
                 gw_full(s, GW_F32, k ? INFINITY : 0.0));
        gw_requires_grad(s, x);
        gw_scope *t = gw_scope_open(s);
        gw_rnn_result y = gw_nn_gru_call(t, m, x, .lengths = lengths);
        gw_backward(t, gw_add(t, gw_sum(t, y.output), gw_sum(t, y.h)));
        assert_float_equal(
            gw_item(t, gw_sum(t, gw_select(t, gw_slice(t, y.output, 0, 2, 4, 1), 1, 0))), 0, 0);
        assert_float_equal(
            gw_item(t, gw_sum(t, gw_abs(t, gw_select(t, gw_slice(t, gw_grad(t, x), 0, 2, 4, 1), 1,
                                                     0)))),
            0, 0);
        grads[k] = gw_clone(s, gw_grad(t, gw_module_parameter_at(t, m, 0)));
        assert_string_equal(gw_scope_error(t)->text, "");
        gw_scope_close_up(t);
    }
    assert_true(gw_equal(s, grads[0], grads[1]));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void dropout_is_between_layers_and_in_training(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_seed(s, 3);
    gw_nn_recurrent_options options =
        GW_OPTIONS(gw_nn_recurrent_options, .layers = 2, .dropout = 1);
    gw_module *m = gw_nn_rnn_with(s, 2, 3, options);
    gw_tensor *x = gw_randn(s, GW_F32, 4, 2, 2), *y = gw_mul(s, x, 0.5);
    gw_tensor *dropped = gw_module_call(s, m, x);
    assert_true(gw_equal(s, dropped, gw_module_call(s, m, y)));
    gw_module_eval(s, m);
    assert_false(gw_equal(s, dropped, gw_module_call(s, m, x)));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void mismatched_arguments_are_errors(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_lstm(s, 3, 4, .batch_first = true);
    gw_tensor *x = gw_zeros(s, GW_F32, 2, 5, 3);
    gw_nn_lstm_call(s, m, gw_zeros(s, GW_F32, 2, 5, 4));
    expect_fails(s, "gw_nn_lstm: x has the shape 2x5x4, but must have N T 3, or T 3");
    gw_nn_lstm_call(s, m, x, .h0 = gw_zeros(s, GW_F32, 1, 5, 4));
    expect_fails(s, "gw_nn_lstm: h0 is 1x5x4, but must be 1x2x4");
    gw_nn_lstm_call(s, m, x, .c0 = gw_zeros(s, GW_F64, 1, 2, 4));
    expect_fails(s, "gw.lstm: c0 is 2x4 of f64, but must be 2x4 of f32");
    gw_nn_lstm_call(s, m, x, .lengths = gw_from(s, ((int64_t[]){ 5, 6 }), 2));
    expect_fails(s, "gw.lstm: a length is 6, but must be 1 to 5, the number of steps");
    gw_nn_lstm_call(s, m, x, .lengths = gw_from(s, ((int64_t[]){ 5 }), 1));
    expect_fails(s, "gw.lstm: lengths are 1 of i64, but must be 2 of i64");
    gw_nn_gru_call(s, m, x);
    expect_fails(s, "gw_nn_gru_call: the module is \"lstm\"");
    gw_nn_lstm_call(s, m, gw_zeros(s, GW_BF16, 2, 5, 3));
    expect_fails(s, "gw.lstm: x is bf16, but must be f32 or f64");
    gw_nn_gru(s, 3, 0);
    expect_fails(s, "gw_nn_gru: from 3 to 0 features: both numbers must be 1 or more");
    gw_nn_rnn(s, 3, 4, .layers = -1);
    expect_fails(s, "gw_nn_rnn: .layers is -1, but must be 1 to 999");
    gw_nn_rnn(s, 3, 4, .dropout = 2);
    expect_fails(s, "gw_nn_rnn: dropout is 2, but must be a probability: 0 to 1");
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void train_a_little(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_lstm(s, 2, 2, .layers = 2, .bidirectional = true, .dropout = 0.5);
    gw_tensor *lengths = gw_from(s, ((int64_t[]){ 2, 1 }), 2);
    gw_lstm_result y = gw_nn_lstm_call(s, m, gw_ones(s, GW_F32, 2, 2, 2), .lengths = lengths);
    gw_backward(s, gw_add(s, gw_sum(s, y.output), gw_sum(s, y.c)));
    gw_error e = gw_scope_close(s);
    (void)e;
}

static void it_survives_any_failing_allocation(void **state) {
    (void)state;
    testing_alloc_failure_loop(train_a_little, NULL);
}

static void sizes_that_no_tensor_has_are_refused(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_nn_lstm(s, 1, INT64_MAX / 3);
    assert_string_equal(gw_scope_error(s)->text,
                        "gw_nn_lstm: a tensor of 4 by 3074457345618258602 numbers is too large");
    assert_int_equal(gw_scope_error(s)->status, GW_LIMIT);
    gw_scope_clear(s);
    gw_nn_rnn(s, INT64_MAX, INT64_MAX, .bidirectional = true, .layers = 2);
    assert_false(gw_ok(s));
    gw_scope_clear(s);
    gw_scope_close_up(s);
}

// Of no observation, or of states without numbers: its steps are not walked through.
static void a_long_sequence_of_nothing_ends_at_once(void **state) {
    (void)state;
    const struct { int64_t n, e, h; } all[] = { { 0, 2, 2 }, { 3, 0, 0 } };
    for (int i = 0; i < 6; i++) {
        gw_scope *s = gw_scope_open(NULL);
        int64_t n = all[i % 2].n, e = all[i % 2].e, h = all[i % 2].h, gates = 4 - i / 2;
        if (gates == 2) gates = 1;
        gw_tensor *x = gw_requires_grad(s, gw_zeros(s, GW_F32, 1LL << 40, n, e));
        gw_tensor *h0 = gw_zeros(s, GW_F32, n, h), *lengths = gw_ones(s, GW_I64, n);
        gw_recurrent_weights w = { .weight_ih = gw_zeros(s, GW_F32, gates * h, e),
                                   .weight_hh = gw_zeros(s, GW_F32, gates * h, h),
                                   .bias_ih = gw_zeros(s, GW_F32, gates * h) };
        gw_tensor *y = gates == 4   ? gw_lstm(s, x, h0, h0, w, .lengths = lengths)
                       : gates == 3 ? gw_gru(s, x, h0, w, .lengths = lengths)
                                    : gw_rnn(s, x, h0, w, .lengths = lengths);
        gw_backward(s, gw_sum(s, y));
        assert_int_equal(gw_numel(gw_grad(s, x)), 0);
        assert_int_equal(gw_scope_close(s).status, GW_OK);
    }
}

GW_TESTS(nn_recurrent, a_long_sequence_of_nothing_ends_at_once,
         sizes_that_no_tensor_has_are_refused, its_parameters_have_pytorchs_names_and_bounds,
         it_continues_from_its_returned_state, padding_after_the_length_is_ignored,
         dropout_is_between_layers_and_in_training, mismatched_arguments_are_errors,
         it_survives_any_failing_allocation);
