#include "testing/op_expect.h"

static gw_tensor *part(gw_scope *s, gw_list *parts, int i) {
    return gw_tensor_of(s, gw_list_get(s, parts, i));
}

static void parts_are_views(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_arange(s, GW_I64, 0, 5, 1);
    gw_list *parts = gw_split(s, x, 2, 0);
    assert_int_equal(gw_list_count(parts), 3);
    expect_text(s, part(s, parts, 1), GW_I64, "tensor([2, 3])");
    expect_text(s, part(s, parts, 2), GW_I64, "tensor([4])");
    gw_copy_(s, part(s, parts, 1), gw_full(s, GW_I64, 7));
    expect_text(s, x, GW_I64, "tensor([0, 1, 7, 7, 4])");

    gw_tensor *m = gw_reshape(s, gw_arange(s, GW_I64, 0, 8, 1), 2, 4);
    parts = gw_split_with_sizes(s, m, GW_SHAPE(1, 3), -1);
    expect_text(s, part(s, parts, 0), GW_I64, "tensor([[0],\n        [4]])");
    assert_ptr_equal(part(s, parts, 1)->storage, m->storage);
    gw_scope_close_up(s);
}

static void chunks_are_of_one_size_but_the_last(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 7);
    gw_list *parts = gw_chunk(s, x, 4, 0);
    assert_int_equal(gw_list_count(parts), 4);
    assert_int_equal(gw_size(part(s, parts, 0), 0), 2);
    assert_int_equal(gw_size(part(s, parts, 3), 0), 1);
    assert_int_equal(gw_list_count(gw_chunk(s, gw_zeros(s, GW_F32, 6), 4, 0)), 3);
    assert_int_equal(gw_list_count(gw_chunk(s, gw_zeros(s, GW_F32, 0), 4, 0)), 4);
    gw_scope_close_up(s);
}

static void each_part_has_its_part_of_the_gradient(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, gw_zeros(s, GW_F32, 2, 5));
    gw_list *parts = gw_split(s, x, 2, 1);
    gw_tensor *loss = gw_add(s, gw_mul(s, gw_sum(s, part(s, parts, 0)), 2),
                             gw_sum(s, part(s, parts, 2)));  // none of the second
    gw_backward(s, loss);
    expect_text(s, gw_grad(s, x), GW_F32,
                "tensor([[2., 2., 0., 0., 1.],\n        [2., 2., 0., 0., 1.]])");
    gw_scope_close_up(s);
}

static void the_number_of_parts_is_not_limited(void **state) {
    (void)state;
    enum { MANY = 1000 };
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, gw_zeros(s, GW_F32, MANY));
    gw_list *parts = gw_split(s, x, 1, 0);
    assert_int_equal(gw_list_count(parts), MANY);
    gw_tensor *loss = gw_zeros(s, GW_F32);
    for (int i = 0; i < MANY; i++)
        loss = gw_add(s, loss, gw_mul(s, gw_sum(s, part(s, parts, i)), i));
    gw_backward(s, loss);
    assert_true(gw_equal(s, gw_grad(s, x), gw_arange(s, GW_F32, 0, MANY, 1)));
    gw_split(s, gw_zeros(s, GW_U8, 65536), 1, 0);
    expect_fails(s, "gw.split: the call has 65536 results, but there must be at most 65535");
    gw_scope_close_up(s);
}

static void invalid_splits_are_errors(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 4, 3);
    gw_split(s, gw_zeros(s, GW_F32), 1, 0);
    expect_fails(s, "gw.split: x is a scalar, but must have at least one dimension");
    gw_split(s, x, 0, 0);
    expect_fails(s, "gw.split: the size of parts is 0, but must be 1 or more");
    gw_split(s, x, 1, 2);
    expect_fails(s, "gw.split: dimension 2 was given for 4x3, but it must be -2 to 1");
    gw_split_with_sizes(s, x, GW_SHAPE(1, 2), 0);
    expect_fails(s, "gw.split_with_sizes: the sizes 1x2 must sum up to dimension 0 of 4x3");
    gw_split_with_sizes(s, x, GW_SHAPE(5, -1), 0);
    expect_fails(s, "gw.split_with_sizes: the sizes 5x-1 must sum up to dimension 0 of 4x3");
    gw_list *none = gw_chunk(s, x, 0, 0);
    assert_int_equal(gw_list_count(none), 0);
    assert_true(tensor_is_poison(gw_tensor_of(s, gw_list_get(s, none, 0))));
    expect_fails(s, "gw.chunk: chunks is 0, but must be 1 or more");
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_split, parts_are_views, chunks_are_of_one_size_but_the_last,
         each_part_has_its_part_of_the_gradient, the_number_of_parts_is_not_limited,
         invalid_splits_are_errors);
