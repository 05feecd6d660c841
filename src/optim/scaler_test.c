// Scaling: PyTorch's defaults, its rules for the order of calls, and the resulting steps.
#include "testing/testing.h"

#include <gradwire/amp.h>
#include <gradwire/autograd.h>
#include <gradwire/ops.h>
#include <gradwire/optim.h>

#include <math.h>
#include <string.h>

static void assert_fails(gw_scope *s, gw_status status, const char *words) {
    gw_error e = gw_scope_close(s);
    assert_int_equal(e.status, status);
    if (!strstr(e.text, words)) fail_msg("\"%s\" does not contain \"%s\"", e.text, words);
}

// One parameter, 1 at first, whose loss is it times a factor.
typedef struct one {
    gw_tensor *w;
    gw_list *params;
    gw_optimizer *opt;
} one;

static one open_one(gw_scope *s) {
    one o = { .w = gw_requires_grad(s, gw_ones(s, GW_F32)), .params = gw_list_open(s) };
    gw_list_add(s, o.params, o.w);
    o.opt = gw_sgd(s, o.params, .lr = 0.5);
    return o;
}

static void backward(gw_scope *s, gw_scaler *c, one o, double factor) {
    gw_backward(s, gw_scaler_scale(s, c, gw_mul(s, o.w, factor)));
}

// One step; returns whether it was taken.
static bool step(gw_scope *root, gw_scaler *c, one o, double factor) {
    gw_scope *s = gw_scope_open(root);
    backward(s, c, o, factor);
    bool taken = gw_scaler_step(s, c, o.opt);
    gw_scaler_update(s, c);
    gw_scope_close_up(s);
    return taken;
}

static void a_step_is_that_without_a_scale(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    one o = open_one(s);
    gw_scaler *c = gw_scaler_open(s);
    assert_float_equal(gw_scaler_get_scale(c), 65536, 0);
    assert_true(step(s, c, o, 0.25));
    assert_float_equal(gw_item(s, o.w), 1 - 0.5 * 0.25, 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_step_that_is_not_finite_is_skipped_and_halves_the_scale(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    one o = open_one(s);
    gw_scaler *c = gw_scaler_open(s);
    const double bad[] = { INFINITY, NAN, 1e38 };
    for (int i = 0; i < 3; i++) {
        assert_false(step(s, c, o, bad[i]));
        assert_float_equal(gw_scaler_get_scale(c), 65536 / pow(2, i + 1), 0);
    }
    assert_float_equal(gw_item(s, o.w), 1, 0);
    assert_int_equal(gw_optimizer_steps(o.opt), 0);
    assert_true(step(s, c, o, 0.25));
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void the_scale_doubles_after_an_interval_of_good_steps(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    one o = open_one(s);
    gw_scaler *c = gw_scaler_open(s, .init_scale = 8, .growth_interval = 3);
    const double factors[] = { 1, 1, INFINITY, 1, 1, 1, 1 }, scales[] = { 8, 8, 4, 4, 4, 8, 8 };
    for (int i = 0; i < 7; i++) {
        step(s, c, o, factors[i]);
        assert_float_equal(gw_scaler_get_scale(c), scales[i], 0);
    }
    gw_scaler *usual = gw_scaler_open(s);
    for (int i = 0; i < 1999; i++) step(s, usual, o, 0);
    assert_float_equal(gw_scaler_get_scale(usual), 65536, 0);
    step(s, usual, o, 0);
    assert_float_equal(gw_scaler_get_scale(usual), 2 * 65536, 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void the_scale_stays_a_number_of_f32(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    one o = open_one(s);
    gw_scaler *c = gw_scaler_open(s, .init_scale = ldexp(1, 127), .growth_interval = 1);
    assert_true(step(s, c, o, 0));
    assert_float_equal(gw_scaler_get_scale(c), ldexp(1, 127), 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void gradients_can_be_clipped_between(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    one o = open_one(s);
    gw_scaler *c = gw_scaler_open(s);
    backward(s, c, o, 3);
    gw_scaler_unscale(s, c, o.opt);
    assert_float_equal(gw_item(s, gw_grad(s, o.w)), 3, 0);
    assert_float_equal(gw_clip_grad_norm(s, o.params, 1), 3, 0);
    assert_true(gw_scaler_step(s, c, o.opt));
    assert_float_equal(gw_item(s, o.w), 0.5, 1e-5);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// The gradients of one optimizer do not affect the other, but the scale is of both.
static void optimizers_are_judged_apart_and_updated_together(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    one good = open_one(s), bad = open_one(s);
    gw_scaler *c = gw_scaler_open(s, .init_scale = 4);
    backward(s, c, good, 1);
    backward(s, c, bad, INFINITY);
    assert_true(gw_scaler_step(s, c, good.opt));
    assert_false(gw_scaler_step(s, c, bad.opt));
    gw_scaler_update(s, c);
    assert_float_equal(gw_scaler_get_scale(c), 2, 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void small_gradients_of_f16_are_not_lost(void **state) {
    (void)state;
    double sums[2];
    for (int scaled = 0; scaled < 2; scaled++) {
        gw_scope *s = gw_scope_open(NULL);
        gw_tensor *w = gw_requires_grad(s, gw_ones(s, GW_F32, 2, 2));
        gw_list *params = gw_list_open(s);
        gw_list_add(s, params, w);
        gw_optimizer *opt = gw_sgd(s, params, .lr = 1);
        gw_scaler *c = gw_scaler_open(s, .enabled = scaled);
        gw_autocast(s, GW_F16);
        gw_tensor *y = gw_matmul(s, gw_ones(s, GW_F32, 2, 2), w);
        gw_backward(s,
                    gw_scaler_scale(s, c, gw_sum(s, gw_mul(s, gw_to_dtype(s, y, GW_F32), 1e-8))));
        assert_true(gw_scaler_step(s, c, opt));
        sums[scaled] = gw_item(s, gw_sum(s, gw_grad(s, w)));
        assert_int_equal(gw_scope_close(s).status, GW_OK);
    }
    assert_float_equal(sums[0], 0, 0);
    assert_float_equal(sums[1], 8e-8, 1e-10);
}

// ---- Wrong use ----------------------------------------------------------------------------------
static void nothing_is_done_twice_before_an_update(void **state) {
    (void)state;
    static const char *const words[] = {
        "gw_scaler_unscale: the optimizer was already unscaled after the last gw_scaler_update",
        "gw_scaler_unscale: the optimizer was already stepped after the last gw_scaler_update",
        "gw_scaler_step: the optimizer was already stepped after the last gw_scaler_update",
    };
    for (int i = 0; i < 3; i++) {
        gw_scope *root = gw_scope_open(NULL), *s = gw_scope_open(root);
        one o = open_one(root);
        gw_scaler *c = gw_scaler_open(root);
        backward(s, c, o, 1);
        if (i == 0)
            gw_scaler_unscale(s, c, o.opt);
        else
            gw_scaler_step(s, c, o.opt);
        if (i < 2)
            gw_scaler_unscale(s, c, o.opt);
        else
            gw_scaler_step(s, c, o.opt);
        assert_fails(s, GW_WRONG_STATE, words[i]);
        gw_scaler_update(root, c);
        assert_true(step(root, c, o, 1));
        assert_int_equal(gw_scope_close(root).status, GW_OK);
    }
}

static void an_update_follows_a_step(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_scaler_update(s, gw_scaler_open(s));
    assert_fails(
        s, GW_WRONG_STATE,
        "gw_scaler_update: neither gw_scaler_step nor gw_scaler_unscale was called before");
}

#define assert_refuses(words, ...)                                                                 \
    do {                                                                                           \
        gw_scope *s = gw_scope_open(NULL);                                                         \
        assert_float_equal(gw_scaler_get_scale(gw_scaler_open(s, __VA_ARGS__)), 0, 0);             \
        assert_fails(s, GW_INVALID, words);                                                        \
    } while (0)

static void options_out_of_their_range_are_refused(void **state) {
    (void)state;
    assert_refuses("gw_scaler_open: init_scale must be above 0", .init_scale = 0);
    assert_refuses("init_scale must be above 0, and not exceed the range of f32",
                   .init_scale = 1e39);
    assert_refuses("growth_factor must be above 1", .growth_factor = 1);
    assert_refuses("backoff_factor must be between 0 and 1", .backoff_factor = 1);
    assert_refuses("growth_interval is below 1", .growth_interval = 0);
    gw_scope *failed = gw_scope_open(NULL), *s = gw_scope_open(NULL);
    gw_scaler *c = gw_scaler_open(failed, .growth_interval = 0);
    assert_int_equal(gw_scope_close(failed).status, GW_INVALID);
    gw_scaler_update(s, c);
    assert_fails(s, GW_INVALID, "gw_scaler_update: the scaler could not be made");
}

// ---- Saving -------------------------------------------------------------------------------------
static void another_scaler_continues_from_its_state(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    one o = open_one(s);
    gw_scaler *c = gw_scaler_open(s, .init_scale = 8, .growth_interval = 3);
    step(s, c, o, 1), step(s, c, o, 1);
    gw_scaler *other = gw_scaler_open(s);
    gw_scaler_load_state_dict(s, other, gw_scaler_state_dict(s, c));
    assert_float_equal(gw_scaler_get_scale(other), 8, 0);
    step(s, other, o, 1);
    assert_float_equal(gw_scaler_get_scale(other), 16, 0);
    gw_map *map = gw_scaler_state_dict(s, c);
    gw_map_put(s, map, "backoff_factor", 2.0);
    gw_scope *t = gw_scope_open(s);
    gw_scaler_load_state_dict(t, other, map);
    assert_fails(t, GW_INVALID,
                 "gw_scaler_load_state_dict: backoff_factor must be between 0 and 1");
    assert_float_equal(gw_scaler_get_scale(other), 16, 0);
    gw_scaler_load_state_dict(s, other, gw_map_open(s));
    assert_fails(s, GW_INVALID, "\"scale\" is missing");
}

static void scale_without_memory(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    one o = open_one(s);
    gw_scaler *c = gw_scaler_open(s);
    bool taken = step(s, c, o, 0.25);
    gw_scaler_load_state_dict(s, c, gw_scaler_state_dict(s, c));
    gw_error e = gw_scope_close(s);
    assert_true(e.status == GW_NO_MEMORY || (e.status == GW_OK && taken));
}

static void it_survives_the_lack_of_memory(void **state) {
    (void)state;
    testing_alloc_failure_loop(scale_without_memory, NULL);
}

GW_TESTS(optim_scaler, a_step_is_that_without_a_scale,
         a_step_that_is_not_finite_is_skipped_and_halves_the_scale,
         the_scale_doubles_after_an_interval_of_good_steps, the_scale_stays_a_number_of_f32,
         gradients_can_be_clipped_between, optimizers_are_judged_apart_and_updated_together,
         small_gradients_of_f16_are_not_lost, nothing_is_done_twice_before_an_update,
         an_update_follows_a_step, options_out_of_their_range_are_refused,
         another_scaler_continues_from_its_state, it_survives_the_lack_of_memory);
