#include "testing/op_expect.h"

static void triangles_are_their_definitions(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_randn(s, GW_F32, 2, 4, 5);
    for (int64_t diagonal = -6; diagonal <= 6; diagonal++) {
        gw_tensor *lower = gw_tril(s, x, diagonal), *upper = gw_triu(s, x, diagonal);
        for (int64_t i = 0; i < x->numel; i++) {
            int64_t row = i / 5 % 4, column = i % 5;
            expect_near(element(lower, i), column - row <= diagonal ? element(x, i) : 0, 0);
            expect_near(element(upper, i), column - row >= diagonal ? element(x, i) : 0, 0);
        }
    }
    assert_true(gw_equal(s, gw_tril(s, x, INT64_MAX), x));
    assert_true(gw_equal(s, gw_triu(s, x, INT64_MIN), x));
    gw_tril(s, gw_zeros(s, GW_F32, 3), 0);
    expect_fails(s, "gw.tril: 3 is not a matrix: it must have 2 dimensions or more");
    gw_scope_close_up(s);
}

static void nonzero_returns_the_indices(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((float[]){ 0, 2, -0.0f, NAN, 0, 5 }), 2, 3);
    expect_text(s, gw_nonzero(s, x), GW_I64, "tensor([[0, 1],\n        [1, 0],\n        [1, 2]])");
    expect_text(s, gw_nonzero(s, gw_transpose(s, x, 0, 1)), GW_I64,
                "tensor([[0, 1],\n        [1, 0],\n        [2, 1]])");
    expect_shape(s, gw_nonzero(s, gw_zeros(s, GW_BOOL8, 4, 2)), "0x2");
    expect_shape(s, gw_nonzero(s, gw_ones(s, GW_F16)), "1x0");
    expect_shape(s, gw_nonzero(s, gw_zeros(s, GW_I64)), "0x0");
    gw_scope_close_up(s);
}

GW_TESTS(tensor_op_triangle, triangles_are_their_definitions, nonzero_returns_the_indices);
