#include "tensor/ops/op.h"
#include "testing/testing.h"

#include <gradwire/ops.h>
#include <string.h>

static gw_tensor *counted(gw_scope *s, int64_t n) {
    return gw_arange(s, GW_I64, 0, (double)n, 1);
}

static void assert_shape_is(const gw_tensor *x, const char *shape) {
    assert_string_equal(shape_text(x).text, shape);
}

// The elements in order, as text.
static void assert_holds(gw_scope *s, gw_tensor *x, const char *text) {
    assert_string_equal(gw_to_text(s, gw_reshape(s, x, -1)), text);
}

static void assert_fails(gw_scope *s, const char *text) {
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    assert_string_equal(gw_scope_error(s)->text, text);
    gw_scope_clear(s);
}

static bool is_view_of(const gw_tensor *x, const gw_tensor *base) {
    return x->storage == base->storage;
}

static void reshape_shares_where_it_can(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_reshape(s, counted(s, 12), 3, 4);
    assert_true(is_view_of(gw_reshape(s, x, 2, -1), x));
    gw_tensor *t = gw_transpose(s, x, 0, 1);
    gw_tensor *flat = gw_reshape(s, t, -1);
    assert_false(is_view_of(flat, x));
    assert_holds(s, flat, "tensor([ 0,  4,  8,  1,  5,  9,  2,  6, 10,  3,  7, 11])");
    // Dimensions that lie as one are joined, others are cut: no copy.
    gw_tensor *cut = gw_view(s, t, 2, 2, 3);
    assert_int_equal(gw_stride(cut, 0), 2);
    assert_int_equal(gw_stride(cut, 1), 1);
    assert_int_equal(gw_stride(cut, 2), 4);
    gw_tensor *half = gw_slice(s, gw_reshape(s, counted(s, 24), 2, 3, 4), 0, 1, 2, 1);
    assert_true(is_view_of(gw_view(s, half, 12), half));
    assert_shape_is(gw_view(s, gw_expand(s, gw_ones(s, GW_F32, 1, 3), 4, 3), 2, 2, 3), "2x2x3");
    gw_scope_close_up(s);
}

static void reshape_refuses_other_sizes(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 3, 4);
    gw_reshape(s, x, 5, -1);
    assert_fails(
        s,
        "gw.reshape: 3x4 cannot get the shape 5x-1, which must have the same number of elements");
    gw_reshape(s, x, -1, -1);
    assert_fails(
        s,
        "gw.reshape: 3x4 cannot get the shape -1x-1, which must have the same number of elements");
    gw_reshape(s, x, -3, -4);
    assert_fails(
        s,
        "gw.reshape: 3x4 cannot get the shape -3x-4, which must have the same number of elements");
    gw_reshape(s, gw_zeros(s, GW_F32, 0), 0, -1);
    assert_fails(
        s, "gw.reshape: 0 cannot get the shape 0x-1, which must have the same number of elements");
    gw_reshape(s, x, INT64_MAX, 4);
    assert_false(gw_ok(s));
    gw_scope_clear(s);
    gw_view(s, gw_transpose(s, x, 0, 1), 12);
    assert_fails(s, "gw.view: 4x3 cannot get the shape 12 without a copy; gw_reshape makes a copy "
                    "where needed");
    gw_scope_close_up(s);
}

static void expand_repeats_without_a_copy(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_reshape(s, counted(s, 2), 2, 1), *y = gw_expand(s, x, 2, -1, 3);
    assert_shape_is(y, "2x2x3");
    y = gw_expand(s, x, 3, -1, 2);
    assert_shape_is(y, "3x2x2");
    assert_true(is_view_of(y, x));
    assert_holds(s, y, "tensor([0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1])");
    gw_expand(s, x, 3);
    assert_fails(s, "gw.expand: 2x1 cannot be expanded to 3: only dimensions of size 1 can be "
                    "expanded, all others must keep their size");
    gw_scope_close_up(s);
}

static void permute_and_transpose_reorder_dimensions(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_reshape(s, counted(s, 6), 1, 2, 3);
    assert_shape_is(gw_permute(s, x, 2, 0, 1), "3x1x2");
    assert_holds(s, gw_permute(s, x, -1, 0, 1), "tensor([0, 3, 1, 4, 2, 5])");
    assert_holds(s, gw_transpose(s, x, 1, 2), "tensor([0, 3, 1, 4, 2, 5])");
    assert_shape_is(gw_transpose(s, gw_ones(s, GW_F32), 0, -1), "scalar");
    gw_permute(s, x, 0, 1);
    assert_fails(
        s,
        "gw.permute: 0x1 is not an order of the 3 dimensions of 1x2x3: each must be listed once");
    gw_permute(s, x, 0, 1, 1);
    assert_fails(
        s,
        "gw.permute: 0x1x1 is not an order of the 3 dimensions of 1x2x3: each must be listed once");
    gw_transpose(s, x, 0, 3);
    assert_fails(s, "gw.transpose: dimension 3 was given for 1x2x3, but it must be -3 to 2");
    gw_scope_close_up(s);
}

static void slice_counts_as_python_does(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = counted(s, 10);
    assert_holds(s, gw_slice(s, x, 0, 2, 9, 3), "tensor([2, 5, 8])");
    assert_holds(s, gw_slice(s, x, 0, -3, INT64_MAX, 1), "tensor([7, 8, 9])");
    assert_holds(s, gw_slice(s, x, -1, INT64_MIN, 2, 1), "tensor([0, 1])");
    assert_shape_is(gw_slice(s, x, 0, 8, 3, 1), "0");
    assert_shape_is(gw_slice(s, x, 0, 50, 90, 1), "0");
    assert_holds(s, gw_slice(s, x, 0, 9, 100, INT64_MAX), "tensor([9])");
    gw_slice(s, x, 0, 0, 1, 0);
    assert_fails(s, "gw.slice: the step must be at least 1, not 0");
    gw_slice(s, gw_ones(s, GW_F32), 0, 0, 1, 1);
    assert_fails(s, "gw.slice: x is a scalar, but must have at least one dimension");
    gw_scope_close_up(s);
}

static void select_takes_one_away(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_reshape(s, counted(s, 6), 2, 3);
    assert_holds(s, gw_select(s, x, 1, -1), "tensor([2, 5])");
    gw_select(s, x, 1, 3);
    assert_fails(s, "gw.select: index 3 out of range for dimension 1 of 2x3");
    gw_select(s, x, 0, INT64_MIN);
    assert_false(gw_ok(s));
    gw_scope_clear(s);
    gw_select(s, gw_ones(s, GW_F32), 0, 0);
    assert_fails(s, "gw.select: x is a scalar, but must have at least one dimension");
    gw_scope_close_up(s);
}

static void squeeze_and_unsqueeze_undo_each_other(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 2, 3);
    for (int dim = -3; dim <= 2; dim++)
        assert_shape_is(gw_squeeze(s, gw_unsqueeze(s, x, dim), dim), "2x3");
    assert_shape_is(gw_unsqueeze(s, x, -1), "2x3x1");
    assert_true(gw_is_contiguous(gw_unsqueeze(s, x, 0)));
    assert_shape_is(gw_squeeze(s, x, 0), "2x3");
    assert_shape_is(gw_squeeze(s, gw_ones(s, GW_F32), 0), "scalar");
    gw_unsqueeze(s, x, 3);
    assert_fails(s,
                 "gw.unsqueeze: a dimension cannot be inserted at 3 in 2x3: it must be the place "
                 "of one of its dimensions, or the end");
    gw_scope_close_up(s);
}

static void thirty_two_dimensions_are_enough(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    int64_t sizes[GW_DIMS_MAX];
    for (int i = 0; i < GW_DIMS_MAX; i++) sizes[i] = i < 4 ? 2 : 1;
    gw_tensor *x = gw_reshape_with(s, counted(s, 16), (gw_shape){ GW_DIMS_MAX, sizes });
    assert_holds(s, gw_add(s, x, x),
                 "tensor([ 0,  2,  4,  6,  8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30])");
    gw_unsqueeze(s, x, 0);
    assert_false(gw_ok(s));
    gw_scope_clear(s);
    gw_scope_close_up(s);
}

static void shapes_beyond_counting_are_refused(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *none = gw_zeros(s, GW_F32, 0), *one = gw_zeros(s, GW_F32, 1);
    const int64_t huge = INT64_MAX / 4;
    gw_reshape(s, none, 0, huge, huge);
    assert_int_equal(gw_scope_error(s)->status, GW_LIMIT);
    gw_scope_clear(s);
    gw_expand(s, one, huge, huge);
    assert_int_equal(gw_scope_error(s)->status, GW_LIMIT);
    assert_ptr_equal(strstr(gw_scope_error(s)->text, "gw.expand: "), gw_scope_error(s)->text);
    gw_scope_clear(s);
    gw_expand(s, one, 0, huge, huge);
    assert_int_equal(gw_scope_error(s)->status, GW_LIMIT);
    gw_scope_clear(s);
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_view, shapes_beyond_counting_are_refused, reshape_shares_where_it_can,
         reshape_refuses_other_sizes, expand_repeats_without_a_copy,
         permute_and_transpose_reorder_dimensions, slice_counts_as_python_does,
         select_takes_one_away, squeeze_and_unsqueeze_undo_each_other,
         thirty_two_dimensions_are_enough);
