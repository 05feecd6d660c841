#include "tensor/ops/op.h"
#include "testing/testing.h"
#include <gradwire/autograd.h>
#include <gradwire/ops.h>

static void assert_fails(gw_scope *s, const char *text) {
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    assert_string_equal(gw_scope_error(s)->text, text);
    gw_scope_clear(s);
}

static void contiguous_copies_only_if_needed(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((float[]){ 1, 2, 3, 4 }), 2, 2), *t = gw_transpose(s, x, 0, 1);
    assert_ptr_equal(gw_contiguous(s, x)->storage, x->storage);
    assert_ptr_not_equal(gw_contiguous(s, t)->storage, x->storage);
    assert_true(gw_equal(s, gw_contiguous(s, t), t));
    assert_ptr_not_equal(gw_clone(s, x)->storage, x->storage);
    assert_ptr_equal(gw_to_dtype(s, x, GW_F32)->storage, x->storage);
    gw_scope_close_up(s);
}

// Large enough for tiles with ragged ends, in every size of element.
static void a_transposed_copy_moves_every_element(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    const gw_dtype dtypes[] = { GW_F64, GW_F32, GW_I16, GW_U8 };
    for (int d = 0; d < 4; d++) {
        gw_tensor *x = gw_to_dtype(
            s, gw_reshape(s, gw_arange(s, GW_I64, 0, 3 * 70 * 101, 1), 3, 70, 101), dtypes[d]);
        gw_tensor *t = gw_transpose(s, x, 1, 2), *y = gw_contiguous(s, t);
        gw_tensor *wide = gw_to_dtype(s, t, GW_I32);
        for (int64_t i = 0; i < 3; i++)
            for (int64_t j = 0; j < 101; j += 5)
                for (int64_t k = 0; k < 70; k++) {
                    int64_t from = (i * 70 + k) * 101 + j, to = (i * 101 + j) * 70 + k;
                    int64_t expected = dtypes[d] == GW_U8    ? (uint8_t)from
                                       : dtypes[d] == GW_I16 ? (int16_t)from
                                                             : from;
                    if (((const int32_t *)gw_data(wide))[to] != expected)
                        fail_msg("%d %d %d", (int)i, (int)j, (int)k);
                    if (dtypes[d] == GW_U8)
                        assert_int_equal(((const uint8_t *)gw_data(y))[to], expected);
                    if (dtypes[d] == GW_F64)
                        assert_true(((const double *)gw_data(y))[to] == (double)expected);
                }
    }
    gw_scope_close_up(s);
}

static void cat_joins_and_promotes(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *a = gw_from(s, ((int32_t[]){ 1, 2 }), 2, 1),
              *b = gw_from(s, ((float[]){ 3.5f, 4 }), 2, 1);
    gw_tensor *none = gw_zeros(s, GW_F32, 0);
    gw_tensor *y = gw_cat(s, (gw_tensor *[]){ none, a, b }, 3, -1);
    assert_string_equal(gw_to_text(s, y), "tensor([[1.0000, 3.5000],\n        [2.0000, 4.0000]])");
    gw_cat(s, (gw_tensor *[]){ a, gw_zeros(s, GW_I32, 3, 1) }, 2, 1);
    assert_fails(
        s, "gw.cat: 2x1 and 3x1 cannot be joined along dimension 1: all other sizes must be equal");
    gw_cat(s, NULL, 0, 0);
    assert_fails(s, "gw.cat: no tensors are given: there must be one or more");
    gw_tensor *scalar = gw_ones(s, GW_F32);
    gw_cat(s, (gw_tensor *[]){ scalar }, 1, 0);
    assert_fails(s, "gw.cat: scalars cannot be joined; gw_stack joins them to a vector");
    gw_cat(s, (gw_tensor *[]){ a, NULL }, 2, 0);
    assert_fails(s, "gw.cat: tensors must be a list of tensors, but item 1 is none");
    gw_scope_close_up(s);
}

static void stack_adds_a_dimension(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *a = gw_from(s, ((float[]){ 1, 2 }), 2), *b = gw_from(s, ((float[]){ 3, 4 }), 2);
    assert_string_equal(gw_to_text(s, gw_stack(s, (gw_tensor *[]){ a, b }, 2, 0)),
                        "tensor([[1., 2.],\n        [3., 4.]])");
    assert_string_equal(gw_to_text(s, gw_stack(s, (gw_tensor *[]){ a, b }, 2, -1)),
                        "tensor([[1., 3.],\n        [2., 4.]])");
    gw_stack(s, (gw_tensor *[]){ a, gw_ones(s, GW_F32, 3) }, 2, 0);
    assert_fails(s, "gw.stack: 2 and 3 must have the same shape");
    gw_stack(s, (gw_tensor *[]){ a, b }, 2, 3);
    assert_fails(s,
                 "gw.stack: a dimension cannot be inserted at 3 in 2: it must be the place of one "
                 "of its dimensions, or the end");
    gw_scope_close_up(s);
}

static void copy_broadcasts_and_converts_into_a_view(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_I32, 2, 3);
    gw_copy_(s, gw_select(s, x, 1, 1), gw_from(s, ((float[]){ 5.7f }), 1));
    assert_string_equal(gw_to_text(s, x), "tensor([[0, 5, 0],\n        [0, 5, 0]], dtype=i32)");
    gw_copy_(s, x, gw_zeros(s, GW_F32, 4));
    assert_fails(s, "gw.copy_: 4 does not fit into 2x3");
    gw_copy_(s, gw_expand(s, gw_zeros(s, GW_F32, 1), 3), gw_ones(s, GW_F32, 3));
    assert_fails(s, "gw.copy_: elements of the target share memory");
    gw_scope_close_up(s);
}

static void copy_within_a_storage_reads_before_it_writes(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((float[]){ 1, 2, 3, 4, 5 }), 5);
    gw_copy_(s, gw_slice(s, x, 0, 1, 5, 1), gw_slice(s, x, 0, 0, 4, 1));
    assert_string_equal(gw_to_text(s, x), "tensor([1., 1., 2., 3., 4.])");
    gw_tensor *m = gw_from(s, ((float[]){ 1, 2, 3, 4 }), 2, 2);
    gw_copy_(s, m, gw_transpose(s, m, 0, 1));
    assert_string_equal(gw_to_text(s, m), "tensor([[1., 3.],\n        [2., 4.]])");
    gw_scope_close_up(s);
}

static void copy_refuses_a_target_that_needs_a_gradient(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F32, 2));
    gw_copy_(s, x, gw_zeros(s, GW_F32, 2));
    assert_fails(s, "gw.copy_: the target is a leaf that needs a gradient: it can be written only "
                    "after gw_no_grad");
    s->grad_enabled = false;
    gw_copy_(s, x, gw_zeros(s, GW_F32, 2));
    assert_true(gw_ok(s) && *(const float *)gw_data(x) == 0);
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_copy, contiguous_copies_only_if_needed, a_transposed_copy_moves_every_element,
         cat_joins_and_promotes, stack_adds_a_dimension, copy_broadcasts_and_converts_into_a_view,
         copy_within_a_storage_reads_before_it_writes, copy_refuses_a_target_that_needs_a_gradient);
