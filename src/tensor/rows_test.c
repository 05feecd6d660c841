#include "tensor/rows.h"

#include "testing/op_expect.h"

#define INDICES(...)                                                                               \
    gw_from(s, ((int64_t[]){ __VA_ARGS__ }), sizeof((int64_t[]){ __VA_ARGS__ }) / 8)

// 5x2 with rows 3, 1, 3: 1 2, 3 4, 5 6.
static gw_tensor *example(gw_scope *s) {
    gw_tensor *values = gw_reshape(s, gw_arange(s, GW_F32, 1, 7, 1), 3, 2);
    return gw_rows(s, INDICES(3, 1, 3), values, 5);
}

static void it_is_a_tensor_of_all_rows_and_keeps_some(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = example(s);
    expect_shape(s, x, "5x2");
    assert_int_equal(gw_layout_of(x), GW_ROWS);
    assert_int_equal(gw_numel(x), 10);
    assert_int_equal(gw_stride(x, 0), 0);
    assert_false(gw_is_contiguous(x));
    assert_null(gw_data(x));
    expect_text(s, gw_rows_indices(s, x), GW_I64, "tensor([3, 1, 3])");
    expect_shape(s, gw_rows_values(s, x), "3x2");
    expect_values(s, gw_to_dense(s, x), (double[]){ 0, 0, 3, 4, 0, 0, 6, 8, 0, 0 }, 0);
    gw_scope_close_up(s);
}

static void it_puts_each_row_once_in_ascending_order(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *once = gw_coalesce(s, example(s));
    expect_text(s, gw_rows_indices(s, once), GW_I64, "tensor([1, 3])");
    expect_values(s, gw_rows_values(s, once), (double[]){ 3, 4, 6, 8 }, 0);
    assert_ptr_equal(gw_coalesce(s, once), once);
    gw_tensor *none = gw_rows(s, gw_zeros(s, GW_I64, 0), gw_zeros(s, GW_F32, 0, 2), 5);
    expect_shape(s, gw_rows_values(s, gw_coalesce(s, none)), "0x2");
    expect_values(s, gw_to_dense(s, none), (double[10]){ 0 }, 0);
    gw_scope_close_up(s);
}

// Many rows over several digits of the sort, in every dtype that is summed, against a dense sum in
// the same order.
static void its_sums_have_the_bits_of_dense_ones(void **state) {
    (void)state;
    static const gw_dtype dtypes[] = { GW_F32, GW_F64, GW_F16, GW_BF16 };
    enum { ROWS = 5000, COUNT = 3000, LENGTH = 3 };
    for (int d = 0; d < 4; d++) {
        gw_scope *s = gw_scope_open(NULL);
        gw_tensor *at = gw_to_dtype(s, gw_mul(s, gw_rand(s, GW_F32, COUNT), (double)ROWS), GW_I64);
        at = gw_clamp(s, gw_mul(s, at, gw_lt(s, gw_rand(s, GW_F32, COUNT), 0.5)), 0, ROWS - 1);
        gw_tensor *x = gw_rows(s, at, gw_randn(s, dtypes[d], COUNT, LENGTH), ROWS);
        gw_tensor *once = gw_coalesce(s, x);
        assert_true(gw_numel(gw_rows_indices(s, once)) < COUNT);
        assert_true(once->coalesced);
        assert_true(same_bits(gw_to_dense(s, x), gw_to_dense(s, once)));
        gw_tensor *y = gw_rows(s, INDICES(ROWS - 1, 0, 0), gw_randn(s, dtypes[d], 3, LENGTH), ROWS);
        gw_tensor *sum = gw_add(s, x, y);
        assert_int_equal(gw_layout_of(sum), GW_ROWS);
        gw_tensor *dense = gw_add(s, gw_to_dense(s, x), gw_to_dense(s, y));
        assert_true(gw_equal(s, gw_to_dense(s, sum), dense));
        assert_true(gw_equal(s, gw_add(s, gw_to_dense(s, x), y), dense));
        assert_true(gw_equal(s, gw_add(s, x, gw_to_dense(s, y)), dense));
        assert_string_equal(gw_scope_error(s)->text, "");
        gw_scope_close_up(s);
    }
}

static void it_goes_with_numbers(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = example(s);
    const double twice[] = { 0, 0, 6, 8, 0, 0, 12, 16, 0, 0 };
    expect_values(s, gw_to_dense(s, gw_mul(s, x, 2)), twice, 0);
    expect_values(s, gw_to_dense(s, gw_mul(s, 2.0, x)), twice, 0);
    expect_values(s, gw_to_dense(s, gw_mul(s, gw_full(s, GW_F32, 2), x)), twice, 0);
    expect_values(s, gw_to_dense(s, gw_div(s, gw_coalesce(s, x), 0.5)), twice, 0);
    gw_scope_close_up(s);
}

// Whatever is written to a part, before or after, and through whatever tensor.
static void its_values_never_change(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    float lent[] = { 1, 2 };
    gw_tensor *index = INDICES(3, 1),
              *values = gw_from_blob(s, GW_F32, lent, GW_SHAPE(2, 1), NULL, NULL);
    gw_tensor *x = gw_rows(s, index, values, 4);
    ((int64_t *)gw_data_for_write(s, index))[0] = 1000;
    lent[0] = 7;
    ((int64_t *)gw_data_for_write(s, gw_rows_indices(s, x)))[1] = 1000;
    ((float *)gw_data_for_write(s, gw_rows_values(s, x)))[1] = 7;
    expect_values(s, gw_to_dense(s, x), (double[]){ 0, 2, 0, 1 }, 0);
    gw_tensor *once = gw_coalesce(s, x);
    ((int64_t *)gw_data_for_write(s, gw_rows_indices(s, once)))[1] = 1000;
    expect_values(s, gw_to_dense(s, once), (double[]){ 0, 2, 0, 1 }, 0);
    gw_scope_close_up(s);
}

static void it_prints_its_parts(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    expect_text(s, example(s), GW_F32,
                "tensor(indices=tensor([3, 1, 3]),\n"
                "       values=tensor([[1., 2.],\n"
                "                      [3., 4.],\n"
                "                      [5., 6.]]),\n"
                "       size=(5, 2), count=3, layout=rows)");
    gw_scope_close_up(s);
}

static void invalid_parts_are_errors(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *values = gw_zeros(s, GW_F32, 2, 3);
    gw_rows(s, INDICES(0, 5), values, 5);
    expect_fails(s, "gw.rows: index 5 out of range for 5 rows");
    gw_rows(s, INDICES(-1, 0), values, 5);
    expect_fails(s, "gw.rows: index -1 out of range for 5 rows");
    gw_rows(s, INDICES(0), values, 5);
    expect_fails(s, "gw.rows: indices are 1 and values 2x3, but must be N and N F...");
    gw_rows(s, gw_zeros(s, GW_F32, 2), values, 5);
    expect_fails(s, "gw.rows: indices are f32, but must be i64 or i32");
    gw_rows(s, INDICES(0, 1), gw_zeros(s, GW_I64, 2, 3), 5);
    expect_fails(s, "gw.rows: values are i64, but must be floating");
    gw_rows(s, INDICES(0, 1), values, -1);
    expect_fails(s, "gw.rows: the number of rows is -1, but must be 0 or more");
    gw_rows(s, INDICES(3, 1, 3), example(s), 5);
    expect_fails(s, "gw.rows: indices and values must be dense, but are sparse by rows");
    gw_coalesce(s, values);
    expect_fails(s, "gw.coalesce: x is dense");
    gw_rows_values(s, values);
    expect_fails(s, "gw.rows_values: x is dense");
    gw_scope_close_up(s);
}

static void other_operators_refuse_it(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = example(s), *dense = gw_zeros(s, GW_F32, 5, 2);
    gw_matmul(s, dense, x);
    expect_fails(s, "gw.matmul: b is sparse by rows; gw_to_dense makes it dense");
    gw_cat(s, (gw_tensor *[]){ dense, x }, 2, 0);
    expect_fails(s, "gw.cat: tensors is sparse by rows; gw_to_dense makes it dense");
    gw_clone(s, x);
    expect_fails(s, "gw.clone: x is sparse by rows; gw_to_dense makes it dense");
    gw_add(s, x, 1);
    expect_fails(s, "gw.add: a number cannot be combined with a tensor that is sparse by rows; "
                    "gw_to_dense makes it dense");
    gw_add(s, x, gw_zeros(s, GW_F32, 2));
    expect_fails(s, "gw.add: 5x2 and 2: tensors that are sparse by rows do not broadcast, so the "
                    "shapes must be equal");
    gw_add(s, x, gw_zeros(s, GW_F64, 5, 2));
    expect_fails(s, "gw.add: f32 and f64: tensors that are sparse by rows are not promoted, so the "
                    "dtypes must be equal");
    gw_mul(s, x, dense);
    expect_fails(s, "gw.mul: a is sparse by rows, so the other operand must be a number; "
                    "gw_to_dense makes it dense");
    gw_div(s, 1, x);
    expect_fails(s, "gw.div: b is sparse by rows, so the other operand must be a number; "
                    "gw_to_dense makes it dense");
    gw_add(s, x, gw_requires_grad(s, dense));
    expect_fails(s, "gw.add: no gradient can flow through a tensor that is sparse by rows; "
                    "gw_to_dense makes it dense");
    gw_requires_grad(s, x);
    expect_fails(s, "requires_grad: x is sparse by rows; gw_to_dense makes it dense");
    gw_copy_(s, gw_zeros(s, GW_F32, 5, 2), x);
    expect_fails(s, "gw.copy_: the source is sparse by rows; gw_to_dense makes it dense");
    gw_data_for_write(s, x);
    expect_fails(s, "gw_data_for_write: x is sparse by rows; gw_to_dense makes it dense");
    gw_item(s, x);
    expect_fails(s, "gw.item: x is sparse by rows; gw_to_dense makes it dense");
    assert_ptr_equal(gw_detach(s, x), x);
    gw_scope_close_up(s);
}

static void use_everything(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_rows(s, INDICES(3, 1, 3), gw_ones(s, GW_BF16, 3, 2), 5);
    gw_tensor *sum = gw_add(s, gw_mul(s, x, 2), x);
    gw_to_text(s, gw_add(s, gw_to_dense(s, sum), x));
    gw_scope_close_up(s);
}

static void it_lives_without_memory(void **state) {
    (void)state;
    testing_alloc_failure_loop(use_everything, NULL);
}

GW_TESTS(tensor_rows, it_is_a_tensor_of_all_rows_and_keeps_some,
         it_puts_each_row_once_in_ascending_order, its_sums_have_the_bits_of_dense_ones,
         it_goes_with_numbers, its_values_never_change, it_prints_its_parts,
         invalid_parts_are_errors, other_operators_refuse_it, it_lives_without_memory);
