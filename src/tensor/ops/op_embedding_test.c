#include "testing/op_expect.h"

static void it_returns_the_rows_of_the_indices(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *weight = gw_reshape(s, gw_arange(s, GW_F32, 0, 6, 1), 3, 2);
    gw_tensor *i = gw_from(s, ((int64_t[]){ 2, 0, 2 }), 3);
    const char *rows = "tensor([[4., 5.],\n        [0., 1.],\n        [4., 5.]])";
    expect_text(s, gw_embedding(s, weight, i), GW_F32, rows);
    expect_text(s, gw_embedding(s, weight, gw_to_dtype(s, i, GW_I32)), GW_F32, rows);
    gw_tensor *turned = gw_transpose(s, gw_clone(s, gw_transpose(s, weight, 0, 1)), 0, 1);
    expect_text(s, gw_embedding(s, turned, i), GW_F32, rows);
    expect_shape(s, gw_embedding(s, weight, gw_reshape(s, i, 1, 3, 1)), "1x3x1x2");
    expect_text(s, gw_embedding(s, weight, gw_full(s, GW_I64, 1)), GW_F32, "tensor([2., 3.])");
    expect_text(s, gw_embedding(s, gw_to_dtype(s, weight, GW_I16), gw_full(s, GW_I64, 1)), GW_I16,
                "tensor([2, 3], dtype=i16)");
    gw_scope_close_up(s);
}

static void gradients_of_a_row_add_up(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    static const gw_dtype dtypes[] = { GW_F32, GW_F64, GW_BF16 };
    for (int d = 0; d < 3; d++) {
        gw_scope *t = gw_scope_open(s);
        gw_tensor *weight = gw_requires_grad(t, gw_zeros(t, dtypes[d], 3, 2));
        gw_tensor *i = gw_from(t, ((int64_t[]){ 2, 0, 2 }), 3);
        gw_tensor *scale = gw_from(t, ((float[]){ 1, 10, 100 }), 3, 1);
        gw_backward(
            t, gw_sum(t, gw_mul(t, gw_embedding(t, weight, i), gw_to_dtype(t, scale, dtypes[d]))));
        expect_values(t, gw_grad(t, weight), (double[]){ 10, 10, 0, 0, 101, 101 }, 1e-6);
        gw_scope_close_up(t);
    }
    gw_scope_close_up(s);
}

static void a_padding_row_gets_no_gradient(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    for (int k = 0; k < 4; k++) {
        gw_scope *t = gw_scope_open(s);
        gw_embedding_options options =
            GW_OPTIONS(gw_embedding_options, .sparse = k & 1, .padding_idx = 0);
        options.padding_idx = k & 2 ? -1 : 2;
        gw_tensor *weight = gw_requires_grad(t, gw_ones(t, GW_F32, 3, 2));
        gw_tensor *i = gw_from(t, ((int32_t[]){ 2, 0, 2, 0 }), 2, 2);
        gw_tensor *rows = gw_embedding_with(t, weight, i, options);
        expect_shape(t, rows, "2x2x2");
        gw_backward(t, gw_sum(t, rows));
        gw_tensor *grad = gw_grad(t, weight);
        assert_int_equal(gw_layout_of(grad), options.sparse ? GW_ROWS : GW_STRIDED);
        expect_values(t, gw_to_dense(t, grad), (double[]){ 2, 2, 0, 0, 0, 0 }, 0);
        gw_scope_close_up(t);
    }
    gw_embedding(s, gw_zeros(s, GW_F32, 3, 2), gw_zeros(s, GW_I64, 1), .padding_idx = 3);
    expect_fails(s, "gw.embedding: padding_idx 3 out of range for 3 rows");
    gw_scope_close_up(s);
}

// A position that is read 700 times, and every second one of a longer list.
static void indices_may_lie_in_any_layout(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *one = gw_from(s, ((int64_t[]){ 1 }), 1);
    gw_tensor *few = gw_from(s, ((int64_t[]){ 4, 9, 3, 9, 0, 9 }), 6);
    gw_tensor *indices[] = { gw_expand(s, one, 700), gw_slice(s, few, 0, 0, 6, 2) };
    const double counts[][5] = { { 0, 700, 0, 0, 0 }, { 1, 0, 0, 1, 1 } };
    for (int k = 0; k < 8; k++) {
        gw_scope *t = gw_scope_open(s);
        gw_embedding_options options = GW_OPTIONS(gw_embedding_options, .sparse = k & 1);
        if (k & 2) options.padding_idx = 3;
        gw_tensor *weight = gw_requires_grad(t, gw_ones(t, GW_F32, 5, 2));
        gw_backward(t, gw_sum(t, gw_embedding_with(t, weight, indices[k >> 2], options)));
        gw_tensor *grad = gw_to_dense(t, gw_grad(t, weight));
        double expected[10];
        for (int row = 0; row < 5; row++)
            expected[2 * row] = expected[2 * row + 1] = row == 3 && k & 2 ? 0 : counts[k >> 2][row];
        expect_values(t, grad, expected, 0);
        gw_scope_close_up(t);
    }
    gw_scope_close_up(s);
}

static void an_index_out_of_range_is_named(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *weight = gw_zeros(s, GW_F32, 10, 2);
    gw_embedding(s, weight, gw_from(s, ((int64_t[]){ 3, 12 }), 2));
    expect_fails(s, "gw.embedding: index 12 out of range for 10 rows");
    gw_embedding(s, weight, gw_full(s, GW_I64, -1));
    expect_fails(s, "gw.embedding: index -1 out of range for 10 rows");
    gw_embedding(s, weight, gw_zeros(s, GW_F32, 2));
    expect_fails(s, "gw.embedding: indices are f32, but must be i64 or i32");
    gw_embedding(s, gw_zeros(s, GW_F32, 10), gw_zeros(s, GW_I64, 2));
    expect_fails(s, "gw.embedding: weight is 10, but must have 2 dimensions");
    gw_scope_close_up(s);
}

static void one_hot_marks_the_class(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *i = gw_from(s, ((int64_t[]){ 2, 0 }), 2);
    expect_text(s, gw_one_hot(s, i, 4), GW_I64, "tensor([[0, 0, 1, 0],\n        [1, 0, 0, 0]])");
    expect_text(s, gw_one_hot(s, i, -1), GW_I64, "tensor([[0, 0, 1],\n        [1, 0, 0]])");
    expect_text(s, gw_one_hot(s, gw_full(s, GW_I32, 1), 2), GW_I64, "tensor([0, 1])");
    expect_shape(s, gw_one_hot(s, gw_zeros(s, GW_I64, 2, 0), 3), "2x0x3");
    gw_one_hot(s, i, 2);
    expect_fails(s, "gw.one_hot: index 2 out of range for 2 classes");
    gw_one_hot(s, gw_neg(s, i), -1);
    expect_fails(s, "gw.one_hot: the index -2 must not be negative");
    gw_one_hot(s, gw_zeros(s, GW_I64, 0), -1);
    expect_fails(s, "gw.one_hot: without indices the number of classes must be given");
    gw_one_hot(s, gw_full(s, GW_I64, INT64_MAX), -1);
    expect_fails(s, "gw.one_hot: the index 9223372036854775807 is too large: the number of classes "
                    "must fit into an int64_t");
    gw_one_hot(s, i, 0);
    expect_fails(s, "gw.one_hot: the number of classes is 0 for indices 2, but must be 1 or more");
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_embedding, it_returns_the_rows_of_the_indices, gradients_of_a_row_add_up,
         a_padding_row_gets_no_gradient, indices_may_lie_in_any_layout,
         an_index_out_of_range_is_named, one_hot_marks_the_class);
