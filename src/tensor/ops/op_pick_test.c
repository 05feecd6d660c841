#include "testing/op_expect.h"

static gw_tensor *grid(gw_scope *s, gw_dtype d) {
    return gw_reshape(s, gw_arange(s, d, 0, 6, 1), 2, 3);
}

static void gather_reads_along_a_dimension(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = grid(s, GW_F32), *t = gw_transpose(s, x, 0, 1);
    gw_tensor *i = gw_from(s, ((int64_t[]){ 2, 0, 1, 1 }), 2, 2);
    expect_text(s, gw_gather(s, x, 1, i), GW_F32, "tensor([[2., 0.],\n        [4., 4.]])");
    gw_tensor *j = gw_from(s, ((int64_t[]){ 1, 0, 1 }), 1, 3);
    expect_text(s, gw_gather(s, x, -2, j), GW_F32, "tensor([[3., 1., 5.]])");
    expect_text(s, gw_gather(s, t, 0, i), GW_F32, "tensor([[2., 3.],\n        [1., 4.]])");
    expect_text(s, gw_gather(s, x, 1, gw_transpose(s, i, 0, 1)), GW_F32,
                "tensor([[2., 1.],\n        [3., 4.]])");
    expect_text(s, gw_gather(s, gw_full(s, GW_I64, 7), 0, gw_zeros(s, GW_I64, 1)), GW_I64,
                "tensor([7])");
    expect_text(s, gw_gather(s, grid(s, GW_U8), 1, gw_to_dtype(s, i, GW_I32)), GW_U8,
                "tensor([[2, 0],\n        [4, 4]], dtype=u8)");
    expect_shape(s, gw_gather(s, x, 1, gw_zeros(s, GW_I64, 0)), "0");
    gw_scope_close_up(s);
}

static void scatter_add_adds_along_a_dimension(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_ones(s, GW_F32, 2, 3), *source = grid(s, GW_F32);
    gw_tensor *i = gw_from(s, ((int64_t[]){ 2, 2, 0, 1 }), 2, 2);
    expect_text(s, gw_scatter_add(s, x, 1, i, source), GW_F32,
                "tensor([[1., 1., 2.],\n        [4., 5., 1.]])");
    expect_text(s,
                gw_scatter_add(s, gw_transpose(s, gw_ones(s, GW_F32, 3, 2), 0, 1), 1, i,
                               gw_transpose(s, gw_reshape(s, source, 3, 2), 0, 1)),
                GW_F32, "tensor([[1., 1., 3.],\n        [2., 4., 1.]])");
    gw_tensor *many = gw_zeros(s, GW_I64, 1000);
    expect_text(s, gw_scatter_add(s, gw_zeros(s, GW_I8, 1), 0, many, gw_ones(s, GW_I8, 1000)),
                GW_I8, "tensor([-24], dtype=i8)");
    // In f16 itself 2048 + 1 is 2048.
    gw_tensor *half = gw_scatter_add(s, gw_full(s, GW_F16, 2048, 1), 0, gw_zeros(s, GW_I64, 4),
                                     gw_ones(s, GW_F16, 4));
    expect_text(s, half, GW_F16, "tensor([2052.], dtype=f16)");
    expect_text(s, x, GW_F32, "tensor([[1., 1., 1.],\n        [1., 1., 1.]])");
    // Where nothing is added the source may have any shape.
    expect_text(s, gw_scatter_add(s, x, 0, gw_zeros(s, GW_I64, 0, 3), gw_ones(s, GW_F32, 2)),
                GW_F32, "tensor([[1., 1., 1.],\n        [1., 1., 1.]])");
    gw_scope_close_up(s);
}

static void a_source_may_be_larger_than_its_index(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *source = gw_requires_grad(s, gw_clone(s, grid(s, GW_F32)));
    gw_tensor *i = gw_zeros(s, GW_I64, 1, 2);
    gw_tensor *y = gw_scatter_add(s, gw_zeros(s, GW_F32, 2, 3), 1, i, source);
    gw_backward(s, gw_sum(s, y));
    expect_text(s, gw_grad(s, source), GW_F32, "tensor([[1., 1., 0.],\n        [0., 0., 0.]])");
    gw_scope_close_up(s);
}

static void index_select_takes_slices(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = grid(s, GW_F32), *i = gw_from(s, ((int32_t[]){ 2, 0, 2 }), 3);
    expect_text(s, gw_index_select(s, x, 1, i), GW_F32,
                "tensor([[2., 0., 2.],\n        [5., 3., 5.]])");
    expect_text(s, gw_index_select(s, gw_transpose(s, x, 0, 1), 0, i), GW_F32,
                "tensor([[2., 5.],\n        [0., 3.],\n        [2., 5.]])");
    expect_text(s, gw_index_select(s, x, 0, gw_full(s, GW_I64, 1)), GW_F32,
                "tensor([[3., 4., 5.]])");
    expect_text(s, gw_index_select(s, gw_full(s, GW_F32, 7), 0, gw_zeros(s, GW_I64, 1)), GW_F32,
                "tensor(7.)");
    expect_shape(s, gw_index_select(s, x, 1, gw_zeros(s, GW_I64, 0)), "2x0");
    gw_scope_close_up(s);
}

static void an_index_outside_the_dim_is_named(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 2, 3), *i = gw_full(s, GW_I64, 3, 2, 2);
    gw_gather(s, x, 1, i);
    expect_fails(s, "gw.gather: index 3 out of range for dimension 1 of size 3");
    gw_scatter_add(s, x, 0, i, gw_zeros(s, GW_F32, 2, 2));
    expect_fails(s, "gw.scatter_add: index 3 out of range for dimension 0 of size 2");
    gw_index_select(s, x, -1, gw_full(s, GW_I64, -1, 1));
    expect_fails(s, "gw.index_select: index -1 out of range for dimension 1 of size 3");
    gw_scope_close_up(s);
}

static void it_refuses_invalid_arguments(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 2, 3), *i = gw_zeros(s, GW_I64, 3, 2);
    gw_gather(s, x, 1, i);
    expect_fails(s, "gw.gather: index 3x2 does not fit dimension 1 of 2x3: index must have as many "
                    "dimensions, and no larger size except along that dimension");
    gw_gather(s, x, 2, i);
    expect_fails(s, "gw.gather: dimension 2 was given for 2x3, but it must be -2 to 1");
    gw_gather(s, x, 0, gw_zeros(s, GW_I64, 3));
    expect_fails(s, "gw.gather: index 3 does not fit dimension 0 of 2x3: index must have as many "
                    "dimensions, and no larger size except along that dimension");
    gw_gather(s, x, 0, gw_zeros(s, GW_F32, 2, 3));
    expect_fails(s, "gw.gather: indices are f32, but must be i64 or i32");
    gw_scatter_add(s, x, 0, i, gw_zeros(s, GW_F32, 2, 2));
    expect_fails(s, "gw.scatter_add: index has shape 3x2, source 2x2, dimension is 0 of x with "
                    "2x3: all must have the same number of dimensions; a size of index must not "
                    "exceed that of source, nor that of x except along the dimension");
    gw_scatter_add(s, x, 0, i, gw_zeros(s, GW_F64, 3, 2));
    expect_fails(s, "gw.scatter_add: source is f64, but must be f32");
    gw_index_select(s, x, 0, i);
    expect_fails(s, "gw.index_select: index is 3x2, but must have 1 dimension");
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_pick, gather_reads_along_a_dimension, scatter_add_adds_along_a_dimension,
         a_source_may_be_larger_than_its_index, index_select_takes_slices,
         an_index_outside_the_dim_is_named, it_refuses_invalid_arguments);
