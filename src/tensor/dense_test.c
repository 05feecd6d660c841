#include "tensor/dense.h"
#include "testing/op_expect.h"

// Calls of no operator, to open arguments and results with.
static const op row = { .name = "test", .params = "" };

static op_call call_in(gw_scope *s) {
    return (op_call){ .scope = s, .op = &row };
}

// The position in order of element |i| when dimension |last| is moved to the end.
static int64_t place(const gw_tensor *x, int last, int64_t i) {
    int64_t index[GW_DIMS_MAX], at = 0;
    index[last] = i % x->sizes[last];
    i /= x->sizes[last];
    for (int d = x->dims - 1; d >= 0; d--) {
        if (d == last) continue;
        index[d] = i % x->sizes[d];
        i /= x->sizes[d];
    }
    for (int d = 0; d < x->dims; d++) at = at * x->sizes[d] + index[d];
    return at;
}

static void check_rows(gw_scope *s, gw_tensor *x, int last, gw_dtype as) {
    op_call c = call_in(s);
    dense d;
    assert_true(dense_open_rows(&c, x, last, as, &d));
    size_t size = gw_dtype_size(as);
    for (int64_t i = 0; i < x->numel; i++)
        assert_true(dtype_read(as, (const uint8_t *)d.values + (size_t)i * size) ==
                    element(x, place(x, last, i)));
    dense_close(&d);
}

static void rows_lie_along_any_dimension(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_reshape(s, gw_arange(s, GW_F32, 0, 3 * 70 * 37, 1), 3, 70, 37);
    gw_tensor *layouts[] = {
        x,
        gw_transpose(s, x, 0, 2),
        gw_transpose(s, x, 1, 2),
        gw_permute(s, x, 1, 2, 0),
        gw_slice(s, x, 2, 1, 36, 3),
        gw_slice(s, gw_transpose(s, x, 0, 1), 0, 5, 40, 2),
        gw_expand(s, gw_slice(s, x, 1, 0, 1, 1), 3, 5, 37),
    };
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        for (int last = 0; last < 3; last++) {
            testing_note("layout %d, rows along %d", (int)i, last);
            check_rows(s, layouts[i], last, GW_F32);
            check_rows(s, layouts[i], last, GW_F64);
            check_rows(s, layouts[i], last, GW_I64);
        }
    }
    gw_scope_close_up(s);
}

static void a_contiguous_tensor_is_not_copied(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    op_call c = call_in(s);
    dense d;
    gw_tensor *x = gw_zeros(s, GW_F32, 4, 1, 5);
    assert_true(dense_open(&c, x, GW_F32, &d));
    assert_null(d.copy);
    assert_ptr_equal(d.values, gw_data(x));
    assert_true(dense_open_rows(&c, gw_slice(s, x, 0, 2, 4, 1), 2, GW_F32, &d));
    assert_null(d.copy);
    // Nothing lies behind, or the row is one number long.
    assert_true(dense_open_rows(&c, gw_reshape(s, x, 4, 5, 1), 1, GW_F32, &d));
    assert_null(d.copy);
    assert_true(dense_open_rows(&c, x, 1, GW_F32, &d));
    assert_null(d.copy);
    assert_true(dense_open_rows(&c, x, 0, GW_F32, &d));
    assert_non_null(d.copy);
    dense_close(&d);
    gw_scope_close_up(s);
}

static void results_are_copied_back(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    int64_t sizes[] = { 3, 70, 37 };
    for (int last = 0; last < 3; last++) {
        static const gw_dtype dtypes[] = { GW_F32, GW_F64, GW_F16 };
        for (int d = 0; d < 3; d++) {
            op_call c = call_in(s);
            gw_tensor *x = op_output(&c, dtypes[d], 3, sizes);
            result r;
            assert_true(result_open_rows(&c, 0, last, GW_F32, &r));
            for (int64_t i = 0; i < x->numel; i++)
                ((float *)r.values)[i] = (float)(place(x, last, i) % 2000);
            result_close(&r);
            for (int64_t i = 0; i < x->numel; i++) assert_true(element(x, i) == (double)(i % 2000));
            handle_release(x);
        }
    }
    gw_scope_close_up(s);
}

static void expanded_values_repeat(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    op_call c = call_in(s);
    dense d;
    gw_tensor *x = gw_from(s, ((float[]){ 1, 2 }), 2, 1);
    assert_true(dense_open_expanded(&c, x, 3, (int64_t[]){ 2, 2, 2 }, GW_F32, &d));
    assert_memory_equal(d.values, ((float[]){ 1, 1, 2, 2, 1, 1, 2, 2 }), 32);
    dense_close(&d);
    gw_scope_close_up(s);
}

static void nothing_and_scalars_can_be_opened(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    op_call c = call_in(s);
    dense d;
    assert_true(dense_open(&c, gw_zeros(s, GW_F32, 0, 3), GW_F64, &d));
    dense_close(&d);
    assert_true(dense_open(&c, gw_full(s, GW_I32, 7), GW_F64, &d));
    assert_true(*(const double *)d.values == 7);
    dense_close(&d);
    gw_scope_close_up(s);
}

GW_TESTS(tensor_dense, rows_lie_along_any_dimension, a_contiguous_tensor_is_not_copied,
         results_are_copied_back, expanded_values_repeat, nothing_and_scalars_can_be_opened);
