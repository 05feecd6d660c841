#include "testing/op_expect.h"

// ---- Values -------------------------------------------------------------------------------------
static void it_gives_the_result_of_the_operator(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((float[]){ 1, 2, 3, 4 }), 2, 2);
    assert_ptr_equal(gw_add_(s, x, gw_from(s, ((float[]){ 10, 20 }), 2)), x);
    expect_values(s, x, (const double[]){ 11, 22, 13, 24 }, 0);
    gw_div_(s, gw_mul_(s, gw_sub_(s, x, 1), 2), 4);
    expect_values(s, x, (const double[]){ 5, 10.5, 6, 11.5 }, 0);
    gw_add_(s, x, x);
    expect_values(s, x, (const double[]){ 10, 21, 12, 23 }, 0);
    gw_fill_(s, x, 7);
    expect_values(s, x, (const double[]){ 7, 7, 7, 7 }, 0);
    gw_zero_(s, x);
    expect_values(s, x, (const double[]){ 0, 0, 0, 0 }, 0);
    gw_scope_close_up(s);
}

static void every_view_sees_it(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_I64, 2, 3), *column = gw_select(s, x, 1, 1);
    gw_add_(s, column, gw_from(s, ((int64_t[]){ 4, 5 }), 2));
    expect_text(s, x, GW_I64, "tensor([[0, 4, 0],\n        [0, 5, 0]])");
    gw_add_(s, x, 1);
    expect_text(s, column, GW_I64, "tensor([5, 6])");
    gw_fill_(s, gw_slice(s, x, 1, 0, 3, 2), -1);
    expect_text(s, x, GW_I64, "tensor([[-1,  5, -1],\n        [-1,  6, -1]])");
    gw_scope_close_up(s);
}

static void memory_of_the_caller_is_written(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    float values[] = { 1, 2 };
    gw_tensor *x = gw_from_blob(s, GW_F32, values, GW_SHAPE(2), NULL, NULL);
    gw_mul_(s, x, 3);
    assert_true(values[0] == 3 && values[1] == 6);
    gw_scope_close_up(s);
}

static void each_write_is_a_version(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 3);
    uint32_t version = x->storage->version;
    gw_add_(s, x, 1);
    gw_fill_(s, gw_select(s, x, 0, 0), 2);
    assert_int_equal(x->storage->version, version + 2);
    gw_scope_close_up(s);
}

// ---- Checks ----------------------------------------------------------------------------------
static void only_the_other_operand_broadcasts(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 3);
    gw_add_(s, x, gw_ones(s, GW_F32, 2, 3));
    expect_fails(s, "gw.add_: a result of 2x3 cannot be written into a target of 3");
    gw_add_(s, gw_expand(s, gw_zeros(s, GW_F32, 1), 3), 1);
    expect_fails(s, "gw.add_: elements of the target share memory");
    expect_values(s, x, (const double[]){ 0, 0, 0 }, 0);
    gw_scope_close_up(s);
}

static void a_result_keeps_its_kind(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *half = gw_ones(s, GW_F16, 1), *byte = gw_ones(s, GW_U8, 1);
    gw_add_(s, half, gw_ones(s, GW_F64, 1));
    gw_add_(s, byte, gw_ones(s, GW_I64, 1));
    expect_text(s, half, GW_F16, "tensor([2.], dtype=f16)");
    expect_text(s, byte, GW_U8, "tensor([2], dtype=u8)");
    gw_div_(s, byte, 2);
    expect_fails(s, "gw.div_: a result of f32 cannot be written into a target of u8");
    gw_mul_(s, gw_ones(s, GW_BOOL8, 1), 2);
    expect_fails(s, "gw.mul_: a result of i64 cannot be written into a target of bool");
    gw_scope_close_up(s);
}

static void it_refuses_poison_and_does_nothing_in_a_failed_scope(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_ones(s, GW_F32, 1);
    assert_true(tensor_is_poison(gw_add_(s, &tensor_poison, 1)));
    expect_fails(s, "gw.add_: the tensor was made in a scope that has failed: it was never made");
    assert_true(tensor_is_poison(gw_add_(s, x, &tensor_poison)));
    expect_fails(s, "gw.add: b was made in a scope that has failed: it was never made");
    assert_true(tensor_is_poison(gw_copy_(s, x, &tensor_poison)));
    expect_fails(s, "gw.copy_: the tensor was made in a scope that has failed: it was never made");
    gw_fail(s, GW_CANCELLED, "first");
    assert_true(tensor_is_poison(gw_fill_(s, x, 2)));
    gw_scope_clear(s);
    expect_values(s, x, (const double[]){ 1 }, 0);
    gw_scope_close_up(s);
}

// ---- Gradients ----------------------------------------------------------------------------------
static void a_leaf_is_written_only_without_gradients(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *w = gw_requires_grad(s, gw_ones(s, GW_F32, 2));
    gw_sub_(s, w, 1);
    expect_fails(s, "gw.sub_: the target is a leaf that needs a gradient: it can be written only "
                    "after gw_no_grad");
    gw_normal_(s, w, 0, 1);
    expect_fails(s, "gw.normal_: the target is a leaf that needs a gradient: it can be written "
                    "only after gw_no_grad");
    gw_scope *plain = gw_scope_open(s);
    gw_no_grad(plain);
    gw_sub_(plain, w, 1);
    gw_scope_close_up(plain);
    expect_values(s, w, (const double[]){ 0, 0 }, 0);
    gw_backward(s, gw_sum(s, gw_mul(s, w, 3)));  // still a leaf
    expect_values(s, gw_grad(s, w), (const double[]){ 3, 3 }, 0);
    gw_scope_close_up(s);
}

static void tensors_saved_for_backward_keep_their_values(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *w = gw_requires_grad(s, gw_full(s, GW_F32, 3, 2));
    gw_tensor *square = gw_sum(s, gw_mul(s, w, w));
    gw_scope *plain = gw_scope_open(s);
    gw_no_grad(plain);
    gw_zero_(plain, w);
    gw_scope_close_up(plain);
    gw_backward(s, square);
    expect_values(s, gw_grad(s, w), (const double[]){ 6, 6 }, 0);
    gw_scope_close_up(s);
}

// y = 2 w, then 3 y + y^2 with the old y, then y is something else.
static void a_result_is_computed_from_the_written_values(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *w = gw_requires_grad(s, gw_full(s, GW_F64, 5, 1));
    gw_tensor *y = gw_mul(s, w, 2);
    gw_tensor *before = gw_mul(s, y, y);  // 4 w^2
    gw_mul_(s, gw_add_(s, y, 1), w);      // (2 w + 1) w
    gw_backward(s, gw_sum(s, gw_add(s, before, y)));
    expect_values(s, y, (const double[]){ 55 }, 0);
    expect_values(s, gw_grad(s, w), (const double[]){ 8 * 5 + 4 * 5 + 1 }, 0);
    gw_scope_close_up(s);
}

static void a_plain_tensor_gets_a_history(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *w = gw_requires_grad(s, gw_ones(s, GW_F32, 3));
    gw_tensor *sum = gw_zeros(s, GW_F64, 2, 3), *copy = gw_zeros(s, GW_F32, 2, 3);
    for (int i = 0; i < 3; i++) gw_add_(s, sum, gw_mul(s, w, i + 1));
    gw_copy_(s, copy, w);
    assert_true(gw_needs_grad(sum) && gw_needs_grad(copy) && gw_dtype_of(sum) == GW_F64);
    gw_backward(s, gw_sum(s, gw_add(s, sum, copy)));
    expect_values(s, gw_grad(s, w), (const double[]){ 14, 14, 14 }, 0);
    gw_scope_close_up(s);
}

static void constants_and_chance_have_no_history(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *w = gw_requires_grad(s, gw_ones(s, GW_F32, 3));
    gw_tensor *x = gw_mul(s, w, 2), *y = gw_mul(s, w, 2), *z = gw_mul(s, w, 2);
    gw_zero_(s, x);
    gw_uniform_(s, y, 0, 1);
    gw_copy_(s, z, gw_ones(s, GW_F32, 1));
    assert_false(gw_needs_grad(x) || gw_needs_grad(y) || gw_needs_grad(z));
    gw_scope_close_up(s);
}

static void without_gradients_a_result_keeps_its_history(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *w = gw_requires_grad(s, gw_ones(s, GW_F32, 3)), *y = gw_mul(s, w, 2);
    gw_scope *plain = gw_scope_open(s);
    gw_no_grad(plain);
    gw_mul_(plain, y, 100);
    gw_scope_close_up(plain);
    gw_backward(s, gw_sum(s, y));
    expect_values(s, gw_grad(s, w), (const double[]){ 2, 2, 2 }, 0);
    gw_scope_close_up(s);
}

static void a_view_of_a_result_is_refused(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *w = gw_requires_grad(s, gw_ones(s, GW_F32, 3));
    const char *text = "gw.add_: the target shares its values with another tensor, whose gradient "
                       "would then be wrong: gw_clone copies it";
    gw_add_(s, gw_slice(s, gw_mul(s, w, 2), 0, 0, 2, 1), 1);
    expect_fails(s, text);
    gw_tensor *plain = gw_zeros(s, GW_F32, 3), *part = gw_select(s, plain, 0, 0);
    gw_add_(s, plain, w);  // |part| would not see it
    expect_fails(s, text);
    expect_values(s, plain, (const double[]){ 0, 0, 0 }, 0);
    gw_drop(s, part);
    gw_add_(s, plain, w);
    assert_true(gw_ok(s) && gw_needs_grad(plain));
    gw_scope_close_up(s);
}

// ---- Chance -------------------------------------------------------------------------------------
static double share(gw_scope *s, gw_tensor *which) {
    return gw_item(s, gw_mean(s, gw_to_dtype(s, which, GW_F64)));
}

static void random_numbers_have_their_distribution(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 100, 100);
    gw_uniform_(s, x, -2, 6);
    assert_true(gw_item(s, gw_min(s, x)) >= -2 && gw_item(s, gw_max(s, x)) <= 6);
    expect_near(share(s, gw_lt(s, x, 0)), 0.25, 0.02);
    gw_normal_(s, x, 3, 0.5);
    expect_near(gw_item(s, gw_mean(s, x)), 3, 0.01);
    expect_near(gw_item(s, gw_std(s, x)), 0.5, 0.02);
    gw_bernoulli_(s, x, 0.3);
    expect_near(share(s, gw_eq(s, x, 1)), 0.3, 0.02);
    expect_near(share(s, gw_eq(s, x, 0)), 0.7, 0.02);
    gw_random_(s, x, -1, 3);
    expect_near(share(s, gw_eq(s, x, -1)), 0.25, 0.02);
    gw_tensor *bits = gw_bernoulli_(s, gw_zeros(s, GW_BOOL8, 10000), 0.5);
    expect_near(share(s, bits), 0.5, 0.02);
    gw_scope_close_up(s);
}

static void the_seed_decides(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_seed(s, 6);
    gw_tensor *x = gw_normal_(s, gw_zeros(s, GW_F32, 50), 0, 1);
    gw_tensor *y = gw_normal_(s, gw_zeros(s, GW_F32, 50), 0, 1);
    assert_false(same_bits(x, y));
    gw_seed(s, 6);
    assert_true(same_bits(x, gw_normal_(s, gw_zeros(s, GW_F32, 50), 0, 1)));
    gw_scope_close_up(s);
}

static void an_unknown_distribution_is_an_error(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 2);
    gw_uniform_(s, x, 1, 0);
    expect_fails(
        s, "gw.uniform_: there are no numbers from 1 to 0: the range must be finite and ascending");
    gw_normal_(s, x, 0, -1);
    expect_fails(s, "gw.normal_: the standard deviation is -1, but must be 0 or more");
    gw_bernoulli_(s, x, 1.5);
    expect_fails(s, "gw.bernoulli: the probability 1.5 must be between 0 and 1");
    gw_random_(s, gw_zeros(s, GW_U8, 2), 0, 1000);
    expect_fails(s, "gw.randint: u8 must hold every integer from 0 to below 1000, but does not");
    gw_uniform_(s, gw_zeros(s, GW_I64, 2), 0, 1);
    expect_fails(s, "gw.rand: the dtype must be a float, but is i64; gw_to_dtype converts it");
    gw_scope_close_up(s);
}

// ---- Memory -------------------------------------------------------------------------------------
static void write_all(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *w = gw_requires_grad(s, gw_ones(s, GW_F32, 3)), *x = gw_zeros(s, GW_F64, 2, 3);
    gw_add_(s, x, w);
    gw_copy_(s, x, w);
    gw_fill_(s, x, 2);
    gw_uniform_(s, x, 0, 1);
    gw_bernoulli_(s, x, 0.5);
    gw_copy_(s, gw_select(s, x, 0, 0), gw_select(s, x, 0, 1));
    gw_error e = gw_scope_close(s);
    (void)e;
}

static void it_survives_any_failing_allocation(void **state) {
    (void)state;
    testing_alloc_failure_loop(write_all, NULL);
}

GW_TESTS(tensor_inplace, it_gives_the_result_of_the_operator, every_view_sees_it,
         memory_of_the_caller_is_written, each_write_is_a_version,
         only_the_other_operand_broadcasts, a_result_keeps_its_kind,
         it_refuses_poison_and_does_nothing_in_a_failed_scope,
         a_leaf_is_written_only_without_gradients, tensors_saved_for_backward_keep_their_values,
         a_result_is_computed_from_the_written_values, a_plain_tensor_gets_a_history,
         constants_and_chance_have_no_history, without_gradients_a_result_keeps_its_history,
         a_view_of_a_result_is_refused, random_numbers_have_their_distribution, the_seed_decides,
         an_unknown_distribution_is_an_error, it_survives_any_failing_allocation);
