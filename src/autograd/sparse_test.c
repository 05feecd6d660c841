// Gradients that are sparse by rows.
#include "tensor/rows.h"
#include "testing/testing.h"
#include <gradwire/autograd.h>
#include <gradwire/ops.h>

enum { ROWS = 6, LENGTH = 3 };

static const gw_embedding_options sparse = { gw_embedding_options_defaults, .sparse = true };

static gw_tensor *table(gw_scope *s) {
    gw_seed(s, 5);
    return gw_requires_grad(s, gw_randn(s, GW_F32, ROWS, LENGTH));
}

static gw_tensor *rows_of(gw_scope *s, gw_tensor *w, int64_t a, int64_t b, int64_t c,
                          bool is_sparse) {
    gw_tensor *at = gw_from(s, ((int64_t[]){ a, b, c }), 3);
    return gw_embedding(s, w, at, .sparse = is_sparse);
}

// A loss that uses the table several times, so that its gradient has parts.
static gw_tensor *loss_of(gw_scope *s, gw_tensor *w, bool is_sparse) {
    gw_tensor *x = rows_of(s, w, 4, 1, 4, is_sparse);
    x = gw_mul(s, x, rows_of(s, w, 0, 4, 4, is_sparse));
    x = gw_tanh(s, gw_add(s, x, rows_of(s, w, 2, 2, 2, is_sparse)));
    return gw_sum(s, x);
}

static void assert_sparse(gw_scope *s, gw_tensor *grad, const char *indices) {
    assert_string_equal(gw_scope_error(s)->text, "");
    assert_int_equal(gw_layout_of(grad), GW_ROWS);
    assert_string_equal(gw_to_text(s, gw_rows_indices(s, grad)), indices);
}

static void the_gradient_of_a_table_has_the_rows_that_were_used(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *w = table(s);
    gw_backward(s, gw_sum(s, rows_of(s, w, 4, 1, 4, true)));
    assert_sparse(s, gw_grad(s, w), "tensor([1, 4])");
    assert_string_equal(gw_to_text(s, gw_rows_values(s, gw_grad(s, w))),
                        "tensor([[1., 1., 1.],\n        [2., 2., 2.]])");
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void parts_and_passes_add_up_with_the_bits_of_dense_ones(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *w = table(s);
    gw_scope *of_rows = gw_scope_open(s), *dense = gw_scope_open(s);
    for (int pass = 0; pass < 3; pass++) {
        gw_backward(of_rows, loss_of(of_rows, w, true));
        gw_backward(dense, loss_of(dense, w, false));
    }
    assert_sparse(of_rows, gw_grad(of_rows, w), "tensor([0, 1, 2, 4])");
    assert_true(gw_equal(s, gw_to_dense(s, gw_grad(of_rows, w)), gw_grad(dense, w)));
    gw_scope_close_up(of_rows);
    gw_scope_close_up(dense);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// As when a table is the decoder's weight, too: in one pass, and in two, in either order.
static void with_a_dense_part_it_becomes_dense(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *w = table(s), *expected = NULL;
    for (int order = 0; order < 4; order++) {
        gw_scope *t = gw_scope_open(s);
        gw_tensor *rows = gw_sum(t, rows_of(t, w, 4, 1, 4, true)), *all = gw_sum(t, w);
        if (order == 0) gw_backward(t, gw_add(t, rows, all));
        if (order == 1) gw_backward(t, gw_add(t, all, rows));
        if (order == 2) gw_backward(t, rows);
        if (order >= 2) gw_backward(t, all);
        if (order == 3) gw_backward(t, rows);
        gw_tensor *grad = gw_grad(t, w);
        assert_string_equal(gw_scope_error(t)->text, "");
        assert_int_equal(gw_layout_of(grad), GW_STRIDED);
        if (!expected) expected = gw_clone(s, grad);
        assert_true(gw_equal(t, grad, expected));
        gw_scope_close_up(t);
    }
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void derivatives_of_other_operators_get_it_dense(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *w = table(s);
    gw_backward(s, gw_sum(s, rows_of(s, gw_tanh(s, w), 4, 1, 4, true)));
    gw_tensor *of_rows = gw_grad(s, w);
    gw_scope *t = gw_scope_open(s);
    gw_backward(t, gw_sum(t, rows_of(t, gw_tanh(t, w), 4, 1, 4, false)));
    assert_true(gw_equal(s, of_rows, gw_grad(t, w)));
    gw_scope_close_up(t);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_requested_input_gets_its_own_gradient(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *w = table(s), *twice = gw_mul(s, w, 2);
    gw_tensor *loss = gw_sum(s, gw_embedding_with(s, twice, gw_full(s, GW_I64, 3), sparse));
    gw_backward(s, loss, .inputs = &twice, .input_count = 1);
    assert_sparse(s, gw_grad(s, twice), "tensor([3])");
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void train_a_little(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *w = table(s);
    gw_backward(s, loss_of(s, w, true));
    gw_backward(s, gw_add(s, loss_of(s, w, true), gw_sum(s, w)));
    gw_scope_close_up(s);
}

static void it_survives_any_failing_allocation(void **state) {
    (void)state;
    testing_alloc_failure_loop(train_a_little, NULL);
}

GW_TESTS(autograd_sparse, the_gradient_of_a_table_has_the_rows_that_were_used,
         parts_and_passes_add_up_with_the_bits_of_dense_ones, with_a_dense_part_it_becomes_dense,
         derivatives_of_other_operators_get_it_dense, a_requested_input_gets_its_own_gradient,
         it_survives_any_failing_allocation);
