// Numbers are compared with PyTorch's in recordings_test.c.
#include "nn/module.h"
#include "testing/testing.h"
#include <gradwire.h>

#include <math.h>
#include <string.h>

static void expect_fails(gw_scope *s, const char *text) {
    assert_string_equal(gw_scope_error(s)->text, text);
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    gw_scope_clear(s);
}

static void a_table_starts_normal_and_padding_as_0(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_seed(s, 8);
    gw_module *m = gw_nn_embedding(s, 1000, 20, .padding_idx = -1);
    gw_tensor *w = gw_module_parameter_get(s, m, "weight");
    assert_true(gw_needs_grad(w));
    assert_true(fabs(gw_item(s, gw_mean(s, w))) < 0.05);
    assert_true(fabs(gw_item(s, gw_std(s, w)) - 1) < 0.05);
    assert_float_equal(gw_item(s, gw_sum(s, gw_abs(s, gw_select(s, w, 0, -1)))), 0, 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void a_sparse_table_gets_gradients_of_the_looked_up_rows(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_embedding(s, 1000, 2, .sparse = true);
    gw_tensor *at = gw_from(s, ((int64_t[]){ 7, 7, 3 }), 3);
    gw_backward(s, gw_sum(s, gw_module_call(s, m, at)));
    gw_tensor *grad = gw_grad(s, gw_module_parameter_at(s, m, 0));
    assert_int_equal(gw_layout_of(grad), GW_ROWS);
    assert_string_equal(gw_to_text(s, gw_rows_indices(s, grad)), "tensor([3, 7])");

    // No other row, whatever the lengths of bags are.
    gw_nn_embedding_bag_options options =
        GW_OPTIONS(gw_nn_embedding_bag_options, .sparse = true, .padding_idx = 9);
    gw_module *bag = gw_nn_embedding_bag_with(s, 1000, 2, options);
    gw_tensor *index = gw_from(s, ((int64_t[]){ 5, 9, 4, 4, 4 }), 5);
    gw_tensor *y =
        gw_nn_embedding_bag_call(s, bag, index, .offsets = gw_from(s, ((int64_t[]){ 0, 2, 5 }), 3));
    gw_backward(s, gw_sum(s, y));
    grad = gw_grad(s, gw_module_parameter_at(s, bag, 0));
    assert_string_equal(gw_to_text(s, gw_rows_indices(s, grad)), "tensor([4, 5])");
    assert_float_equal(gw_item(s, gw_sum(s, gw_abs(s, gw_select(s, y, 0, 2)))), 0, 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static gw_module *open_padded_bag(gw_scope *s, gw_embedding_bag_mode mode, bool sparse,
                                  gw_tensor *rows) {
    gw_nn_embedding_bag_options options =
        GW_OPTIONS(gw_nn_embedding_bag_options, .mode = mode, .sparse = sparse, .padding_idx = 2);
    gw_module *m = gw_nn_embedding_bag_with(s, 3, 2, options);
    memcpy(gw_data_for_write(s, gw_module_parameter_at(s, m, 0)), gw_data(rows), 6 * sizeof(float));
    return m;
}

// As in PyTorch 1.13: padding does not count, whatever other numbers are.
static void padding_does_not_count_with_infinity(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *rows = gw_from(s, ((float[]){ INFINITY, 1, 2, 3, 4, 5 }), 3, 2);
    gw_tensor *index = gw_from(s, ((int64_t[]){ 0, 2, 1, 2, 2, 2 }), 3, 2);
    const gw_embedding_bag_mode modes[] = { GW_BAG_SUM, GW_BAG_MEAN, GW_BAG_MAX };
    for (int i = 0; i < 3; i++) {
        gw_scope *t = gw_scope_open(s);
        gw_module *m = open_padded_bag(t, modes[i], false, rows);
        gw_tensor *y = gw_module_call(t, m, index);
        const float expected[] = { INFINITY, 1, 2, 3, 0, 0 };
        assert_memory_equal(gw_data(y), expected, sizeof expected);
        gw_backward(t, gw_sum(t, y));
        const float grad[] = { 1, 1, 1, 1, 0, 0 };
        assert_memory_equal(gw_data(gw_grad(t, gw_module_parameter_at(t, m, 0))), grad,
                            sizeof grad);
        gw_scope_close_up(t);
    }
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// And bags of nothing but padding give no row a gradient, though the table has one.
static void bags_of_padding_name_no_row(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = open_padded_bag(s, GW_BAG_SUM, true, gw_ones(s, GW_F32, 3, 2));
    gw_tensor *w = gw_module_parameter_at(s, m, 0);
    for (int empty = 0; empty < 2; empty++) {
        gw_scope *t = gw_scope_open(s);
        gw_tensor *index = gw_full(t, GW_I64, 2, empty ? 0 : 4);
        gw_tensor *y = gw_nn_embedding_bag_call(
            t, m, index, .offsets = gw_from(t, ((int64_t[]){ 0, empty ? 0 : 2 }), 2));
        assert_int_equal(gw_size(y, 0), 2);
        gw_backward(t, gw_sum(t, y));
        assert_int_equal(gw_numel(gw_rows_indices(t, gw_grad(t, w))), 0);
        gw_scope_close_up(t);
    }
    gw_list *params = gw_list_open(s);
    gw_list_add(s, params, w);
    gw_optimizer *o = gw_sparse_adam(s, params);
    gw_tensor *at = gw_full(s, GW_I64, 2, 1, 2);
    gw_backward(s, gw_sum(s, gw_module_call(s, m, at)));
    gw_optimizer_step(s, o);
    assert_float_equal(gw_item(s, gw_sum(s, w)), 6, 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void mismatched_arguments_are_errors(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_nn_embedding(s, 0, 3);
    expect_fails(s, "gw_nn_embedding: 0 rows of 3 features: both numbers must be 1 or more");
    gw_nn_embedding(s, 5, 3, .padding_idx = 5);
    expect_fails(s, "gw_nn_embedding: padding_idx 5 out of range for 5 rows");
    gw_module *m = gw_nn_embedding(s, 5, 3), *bag = gw_nn_embedding_bag(s, 5, 3);
    gw_module_call(s, m, gw_full(s, GW_I64, 5));
    expect_fails(s, "gw.embedding: index 5 out of range for 5 rows");
    gw_tensor *index = gw_from(s, ((int64_t[]){ 1, 2, 3 }), 3);
    gw_nn_embedding_bag_call(s, m, index);
    expect_fails(s, "gw_nn_embedding_bag_call: the module is \"embedding\"");
    gw_nn_embedding_bag_call(s, bag, index);
    expect_fails(s,
                 "gw_nn_embedding_bag: indices must have the shape B L, or N if offsets are given");
    gw_nn_embedding_bag_call(s, bag, index, .offsets = gw_from(s, ((int64_t[]){ 0, 2, 1 }), 3));
    expect_fails(s, "gw_nn_embedding_bag: offsets must begin with 0 and must not descend");
    gw_nn_embedding_bag_call(s, bag, index, .offsets = gw_from(s, ((int64_t[]){ 1, 2 }), 2));
    expect_fails(s, "gw_nn_embedding_bag: offsets must begin with 0 and must not descend");
    gw_nn_embedding_bag_call(s, bag, index, .offsets = gw_from(s, ((int64_t[]){ 0, 4 }), 2));
    expect_fails(s, "gw_nn_embedding_bag: offsets must begin with 0 and must not descend");
    gw_nn_embedding_bag_call(s, bag, index, .offsets = gw_zeros(s, GW_I64, 1),
                             .per_sample_weights = gw_ones(s, GW_F32, 3));
    expect_fails(s, "gw_nn_embedding_bag: per_sample_weights can be used only with GW_BAG_SUM");
    bag = gw_nn_embedding_bag(s, 5, 3, .mode = GW_BAG_SUM);
    gw_nn_embedding_bag_call(s, bag, index, .offsets = gw_zeros(s, GW_I64, 1),
                             .per_sample_weights = gw_ones(s, GW_F32, 2));
    expect_fails(s, "gw_nn_embedding_bag: there must be one weight for each index");
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void wrong_offsets_are_refused(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *bag = gw_nn_embedding_bag(s, 4, 2);
    gw_tensor *indices = gw_from(s, ((int64_t[]){ 0, 1, 2 }), 3);
    const int64_t lies[][3] = { { 0, INT64_MAX, -5 }, { 0, -1, 2 }, { 1, 2, 3 },
                                { 0, INT64_MIN, 3 },  { 0, 3, 2 },  { INT64_MIN, 0, 0 } };
    for (int i = 0; i < 6; i++) {
        gw_nn_embedding_bag_call(s, bag, indices, .offsets = gw_from(s, lies[i], 3));
        assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
        gw_scope_clear(s);
    }
    gw_nn_embedding_bag_call(s, bag, indices, .offsets = gw_from(s, ((int64_t[]){ 0, 2, 4 }), 3));
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    gw_scope_clear(s);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

// Rows 3 4 and 6 8 have the norms 5 and 10, row 1 0 has 1.
static void rows_that_are_used_are_shortened(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_module *m = gw_nn_embedding(s, 3, 2, .max_norm = 5, .dtype = GW_F64);
    gw_tensor *table = gw_module_parameter_at(s, m, 0);
    gw_no_grad(s);
    gw_copy_(s, table, gw_from(s, ((double[]){ 3, 4, 6, 8, 1, 0 }), 3, 2));
    gw_enable_grad(s);
    gw_module_call(s, m, gw_from(s, ((int64_t[]){ 0, 2 }), 2));
    const double *w = gw_data(table);
    assert_true(w[0] == 3 && w[2] == 6 && w[4] == 1);  // 6 8 was not used
    gw_tensor *y = gw_module_call(s, m, gw_from(s, ((int64_t[]){ 1 }), 1));
    w = gw_data(table);
    assert_float_equal(w[2], 3, 1e-6);
    assert_float_equal(w[3], 4, 1e-6);
    assert_float_equal(((const double *)gw_data(y))[1], 4, 1e-6);
    gw_backward(s, gw_sum(s, y));
    assert_true(gw_item(s, gw_sum(s, gw_grad(s, table))) == 2);
    gw_module_call(s, m, gw_from(s, ((int64_t[]){ 3 }), 1));
    expect_fails(s, "gw.embedding: index 3 out of range for 3 rows");
    gw_nn_embedding(s, 3, 2, .max_norm = -1);
    expect_fails(s, "gw_nn_embedding: max_norm is -1 and norm_type is 2, but max_norm must not be "
                    "negative, and norm_type must be above 0");
    gw_nn_embedding(s, 3, 2, .max_norm = 1, .dtype = GW_F16);
    expect_fails(s, "gw_nn_embedding: max_norm can be used with f32 and f64, not with f16");
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

GW_TESTS(nn_embedding, rows_that_are_used_are_shortened, wrong_offsets_are_refused,
         a_table_starts_normal_and_padding_as_0,
         a_sparse_table_gets_gradients_of_the_looked_up_rows, padding_does_not_count_with_infinity,
         bags_of_padding_name_no_row, mismatched_arguments_are_errors);
