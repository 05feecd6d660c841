#include "testing/op_expect.h"

static void it_writes_the_positions_that_gather_reads(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_randn(s, GW_F32, 3, 4, 5);
    for (int dim = 0; dim < 3; dim++) {
        // An order of each row: every position is named once.
        gw_tensor *index = gw_sort(s, gw_rand(s, GW_F32, 3, 4, 5), .dim = dim).indices;
        gw_tensor *zeros = gw_zeros(s, GW_F32, 3, 4, 5);
        gw_tensor *y = gw_scatter(s, zeros, dim, index, x);
        assert_true(gw_equal(s, gw_gather(s, y, dim, index), x));
        assert_true(gw_equal(s, zeros, gw_zeros(s, GW_F32, 3, 4, 5)));
    }
    gw_scope_close_up(s);
}

static void the_last_of_several_wins(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_I64, 3), *index = gw_from(s, ((int64_t[]){ 1, 2, 1 }), 3);
    gw_tensor *source = gw_from(s, ((int64_t[]){ 5, 6, 7 }), 3);
    expect_text(s, gw_scatter(s, x, 0, index, source), GW_I64, "tensor([0, 7, 6])");
    expect_text(s, gw_scatter(s, x, 0, index, 9), GW_I64, "tensor([0, 9, 9])");
    expect_text(s, gw_scatter(s, gw_to_dtype(s, x, GW_BF16), 0, index, 0.5), GW_BF16,
                "tensor([0.0000, 0.5000, 0.5000], dtype=bf16)");
    gw_scope_close_up(s);
}

static void overwritten_elements_have_no_gradient(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_requires_grad(s, gw_zeros(s, GW_F32, 3));
    gw_tensor *source = gw_requires_grad(s, gw_ones(s, GW_F32, 2));
    gw_tensor *index = gw_from(s, ((int32_t[]){ 2 }), 1);
    gw_backward(s, gw_sum(s, gw_mul(s, gw_scatter(s, x, 0, index, source), 3)));
    expect_text(s, gw_grad(s, x), GW_F32, "tensor([3., 3., 0.])");
    expect_text(s, gw_grad(s, source), GW_F32, "tensor([3., 0.])");
    gw_scope_close_up(s);
}

static void mismatched_arguments_are_errors(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 2, 3), *index = gw_zeros(s, GW_I64, 2, 3);
    gw_scatter(s, x, 1, gw_full(s, GW_I64, 3, 1, 1), 0);
    expect_fails(s, "gw.scatter: index 3 out of range for dimension 1 of size 3");
    gw_scatter(s, x, 1, gw_zeros(s, GW_I64, 3, 1), 0);
    expect_fails(s, "gw.scatter: index has shape 3x1, source a number, dimension is 1 of x with "
                    "2x3: all must have the same number of dimensions; a size of index must not "
                    "exceed that of source, nor that of x except along the dimension");
    gw_scatter(s, x, 1, index, gw_zeros(s, GW_F32, 2, 2));
    expect_fails(s, "gw.scatter: index has shape 2x3, source 2x2, dimension is 1 of x with 2x3: "
                    "all must have the same number of dimensions; a size of index must not exceed "
                    "that of source, nor that of x except along the dimension");
    gw_scatter(s, x, 1, index, gw_zeros(s, GW_F64, 2, 3));
    expect_fails(s, "gw.scatter: source is f64, but must be f32");
    gw_scatter(s, x, 1, x, 0);
    expect_fails(s, "gw.scatter: indices are f32, but must be i64 or i32");
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_scatter, it_writes_the_positions_that_gather_reads, the_last_of_several_wins,
         overwritten_elements_have_no_gradient, mismatched_arguments_are_errors);
