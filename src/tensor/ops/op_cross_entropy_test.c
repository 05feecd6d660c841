#include "testing/op_expect.h"

// Values, shapes and errors are tested with nll's in op_loss_class_test.c.

static void large_logits_keep_their_digits(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((float[]){ 10000, 10001 }), 1, 2);
    gw_tensor *t = gw_zeros(s, GW_I64, 1);
    expect_near(gw_item(s, gw_cross_entropy(s, x, t)), 1.3132616875, 1e-7);
    gw_requires_grad(s, x);
    gw_backward(s, gw_cross_entropy(s, x, t));
    expect_values(s, gw_grad(s, x), (double[]){ -0.7310585786, 0.7310585786 }, 1e-6);
    gw_scope_close_up(s);
}

// By differences this would be 0 / 0: the gradient of an ignored target is 0 in any case.
static void ignored_targets_have_no_gradient(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((float[]){ INFINITY, NAN, 0, 0 }), 2, 2);
    gw_requires_grad(s, x);
    gw_tensor *t = gw_from(s, ((int64_t[]){ -100, 1 }), 2);
    gw_backward(s, gw_cross_entropy(s, x, t));
    expect_text(s, gw_grad(s, x), GW_F32,
                "tensor([[ 0.0000,  0.0000],\n        [ 0.5000, -0.5000]])");
    gw_scope_close_up(s);
}

// With smoothing e the target of three classes is 1 - e + e / 3 for one and e / 3 for the others.
static void smoothing_moves_the_gradient_to_all_classes(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, gw_zeros(s, GW_F64, 1, 3));
    gw_tensor *loss = gw_cross_entropy(s, x, gw_zeros(s, GW_I64, 1), .label_smoothing = 0.3);
    gw_backward(s, loss);
    expect_values(s, gw_grad(s, x), (double[]){ 1.0 / 3 - 0.8, 1.0 / 3 - 0.1, 1.0 / 3 - 0.1 },
                  1e-12);
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_cross_entropy, large_logits_keep_their_digits, ignored_targets_have_no_gradient,
         smoothing_moves_the_gradient_to_all_classes);
