#include "base/args.h"
#include "base/mem.h"
#include "base/value.h"
#include "tensor/ops/op.h"
#include "testing/testing.h"
#include <gradwire/ops.h>

#include <string.h>

static void count_call(void *context) {
    ++*(int *)context;
}

static void close_failed(gw_scope *s, gw_status status, const char *text) {
    assert_int_equal(gw_scope_error(s)->status, status);
    assert_string_equal(gw_scope_error(s)->text, text);
    gw_scope_clear(s);
    gw_scope_close_up(s);
}

static void a_new_one_is_contiguous(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_I16, 2, 3, 4);
    assert_int_equal(gw_dims(x), 3);
    assert_int_equal(gw_numel(x), 24);
    assert_int_equal(gw_size(x, 0), 2);
    assert_int_equal(gw_size(x, -1), 4);
    assert_int_equal(gw_size(x, 3), 0);
    assert_int_equal(gw_size(x, -4), 0);
    assert_int_equal(gw_stride(x, 0), 12);
    assert_int_equal(gw_stride(x, 2), 1);
    assert_true(gw_is_contiguous(x));
    assert_int_equal(gw_dtype_of(x), GW_I16);
    assert_int_equal(gw_device_of(x), GW_CPU);
    assert_int_equal(gw_layout_of(x), GW_STRIDED);
    gw_scope_close_up(s);
}

static void a_size_must_make_sense(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    assert_true(tensor_is_poison(gw_zeros(s, GW_F32, 2, -1)));
    close_failed(s, GW_INVALID,
                 "gw.zeros: -1 is a size in the shape 2x-1, but all sizes must be 0 or more");
    s = gw_scope_open(NULL);
    gw_zeros(s, GW_F32, INT64_MAX, 2);
    assert_int_equal(gw_scope_error(s)->status, GW_NO_MEMORY);
    assert_string_equal(gw_scope_error(s)->text,
                        "gw.zeros: no memory for a tensor of f32 9223372036854775807x2");
    gw_scope_clear(s);
    int64_t sizes[33];
    for (int i = 0; i < 33; i++) sizes[i] = 1;
    gw_from_with(s, GW_F32, sizes, (gw_shape){ 33, sizes });
    close_failed(s, GW_LIMIT, "a tensor has at most 32 dimensions, not 33");
}

static void the_size_that_a_peer_requests_is_limited(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    s->tensor_bytes_max = 100;
    gw_scope *inner = gw_scope_open(s);
    gw_ones(inner, GW_F32, 25);
    assert_true(gw_ok(inner));
    gw_ones(inner, GW_F32, 26);
    close_failed(inner, GW_LIMIT,
                 "gw.ones: a received tensor would have 104 bytes, at most 100 are allowed");
    gw_scope_close_up(s);
}

static void an_item_is_the_only_one(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    assert_true(gw_item(s, gw_full(s, GW_F16, 1.5, 1, 1)) == 1.5);
    assert_int_equal(gw_item_int(s, gw_full(s, GW_I64, INT64_MAX)), INT64_MAX);
    assert_int_equal(gw_item_int(s, gw_full(s, GW_F32, -2.5)), -2);
    assert_true(gw_item(s, gw_zeros(s, GW_F32, 2, 3)) == 0);
    close_failed(s, GW_INVALID, "gw.item: a tensor of 2x3 has 6 elements, not one");
}

static void a_view_shares_the_values(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from(s, ((float[]){ 1, 2, 3, 4 }), 2, 2), *row = gw_select(s, x, 0, 1);
    *(float *)gw_data_for_write(s, row) = 7;
    assert_true(((const float *)gw_data(x))[2] == 7);
    assert_int_equal(x->storage->version, 1);
    gw_scope_close_up(s);
}

static void a_saved_one_cannot_change(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_full(s, GW_F32, 1.0, 3), *view = gw_view(s, x, 3, 1);
    gw_tensor *saved = scope_own(s, tensor_saved(s, x));
    ((float *)gw_data_for_write(s, x))[0] = 2;
    assert_true(((const float *)gw_data(saved))[0] == 1);
    assert_true(((const float *)gw_data(view))[0] == 2);  // views go along
    // When the last saved one is gone, writing needs no copy.
    gw_tensor *again = scope_own(s, tensor_saved(s, x));
    gw_drop(s, again);
    const void *before = gw_data(x);
    assert_ptr_equal(gw_data_for_write(s, x), before);
    // A saved one that is written itself leaves its source alone.
    again = scope_own(s, tensor_saved(s, x));
    ((float *)gw_data_for_write(s, again))[0] = 5;
    assert_true(((const float *)gw_data(x))[0] == 2);
    gw_scope_close_up(s);
}

static void external_memory_is_used_in_place_and_given_back_once(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    float values[6] = { 1, 2, 3, 4, 5, 6 };
    int calls = 0;
    gw_scope *inner = gw_scope_open(s);
    gw_tensor *x = gw_from_blob(inner, GW_F32, values, GW_SHAPE(2, 3), count_call, &calls);
    gw_tensor *column = gw_keep(s, gw_select(inner, x, 1, 2));
    ((float *)gw_data_for_write(inner, x))[0] = 9;
    assert_true(values[0] == 9);
    gw_scope_close_up(inner);
    assert_int_equal(calls, 0);
    assert_true(gw_item(s, gw_select(s, column, 0, 1)) == 6);
    gw_scope_close_up(s);
    assert_int_equal(calls, 1);
}

static void external_memory_is_given_back_also_when_it_fails(void **state) {
    (void)state;
    float values[6];
    int calls = 0;
    gw_scope *s = gw_scope_open(NULL);
    gw_from_blob(s, GW_F32, values, GW_SHAPE(2, -3), count_call, &calls);
    assert_int_equal(calls, 1);
    assert_false(gw_ok(s));
    gw_from_blob(s, GW_F32, values, GW_SHAPE(2), count_call, &calls);
    assert_int_equal(calls, 2);
    close_failed(s, GW_INVALID, "-3 is a size in the shape 2x-3, but all sizes must be 0 or more");
}

static void a_block_that_is_too_small_is_refused(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    assert_null(tensor_over(s, GW_F32, 1, (int64_t[]){ 5 }, block_take(16)));
    close_failed(s, GW_INVALID, "16 bytes are too few for a tensor of f32 5");
}

static void a_value_that_is_no_tensor_gives_poison(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, 1);
    assert_ptr_equal(gw_tensor_of(s, gw_value_of(x)), x);
    assert_true(tensor_is_poison(gw_tensor_of(s, gw_value_of(3))));
    close_failed(s, GW_INVALID, "gw_tensor_of: expected tensor, got int");
}

static void use_everything(void *context) {
    (void)context;
    static float values[6];
    static int calls;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_from_blob(s, GW_F32, values, GW_SHAPE(2, 3), count_call, &calls);
    gw_tensor *y = gw_from(s, values, 6);
    if (gw_ok(s)) scope_own(s, tensor_saved(s, x));
    gw_data_for_write(s, x);
    gw_copy_(s, x, gw_select(s, x, 0, 0));
    gw_cat(s, (gw_tensor *[]){ y, y }, 2, 0);
    gw_to_text(s, y);
    gw_error error = gw_scope_close(s);
    assert_true(error.status == GW_OK || error.status == GW_NO_MEMORY);
}

static void it_survives_without_memory(void **state) {
    (void)state;
    testing_alloc_failure_loop(use_everything, NULL);
}

static void null_is_no_tensor(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    assert_int_equal(gw_dims(NULL), 0);
    assert_int_equal(gw_size(NULL, 0), 0);
    assert_null(gw_data(NULL));
    gw_tensor *x = gw_ones(s, GW_F32, 2);
    static const char *const prefixes[] = {
        "gw.item: ",       "gw.item_int: ", "gw_data_for_write: ",
        "gw.copy_: ",      "gw.copy_: ",    "gw.cat: ",
        "gw.zeros_like: ", "gw.add: ",      "gw.full_like: "
    };
    for (int k = 0; k < (int)(sizeof prefixes / sizeof *prefixes); k++) {
        gw_scope *t = gw_scope_open(s);
        switch (k) {
        case 0: gw_item(t, NULL); break;
        case 1: gw_item_int(t, NULL); break;
        case 2: gw_data_for_write(t, NULL); break;
        case 3: gw_copy_(t, x, NULL); break;
        case 4: gw_copy_(t, NULL, x); break;
        case 5: gw_cat(t, NULL, 2, 0); break;
        case 6: gw_zeros_like(t, NULL); break;
        case 7: gw_add(t, x, (gw_tensor *)NULL); break;
        case 8: gw_full_like(t, NULL, 1); break;
        }
        assert_int_equal(gw_scope_error(t)->status, GW_INVALID);
        assert_ptr_equal(strstr(gw_scope_error(t)->text, prefixes[k]), gw_scope_error(t)->text);
        gw_scope_clear(t);
        gw_scope_close_up(t);
    }
    gw_scope_close_up(s);
}

static void an_argument_that_is_a_tensor_may_be_left_out(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_ones(s, GW_F32, 2);
    const gw_value values[] = { gw_value_of(x), gw_none(), gw_value_of(3) };
    gw_args a = { "f", 3, values, { .name = "" } };
    assert_ptr_equal(gw_arg_tensor(s, &a, 0), x);
    assert_ptr_equal(gw_arg_tensor_or_null(s, &a, 0), x);
    assert_null(gw_arg_tensor_or_null(s, &a, 1));
    assert_null(gw_arg_tensor_or_null(s, &a, 3));
    assert_true(tensor_is_poison(gw_arg_tensor_or_null(s, &a, 2)));
    assert_string_equal(gw_scope_close(s).text, "f: argument 2 is int, not tensor");
}

static void literals_and_pointers_have_a_dtype(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    float numbers[] = { 5, 6 };
    const void *anything = numbers;
    int64_t two = 2;
    assert_true(gw_item(s, gw_sum(s, gw_from(s, (float[]){ 1, 2 }, 2))) == 3);
    assert_true(gw_item(s, gw_sum(s, gw_from(s, ((float[]){ 1, 2 }), two))) == 3);
    assert_true(gw_item(s, gw_sum(s, gw_from(s, (const float *)anything, 2))) == 11);
    assert_true(gw_item(s, gw_sum(s, gw_from(s, (numbers), 2))) == 11);
    assert_true(gw_item(s, gw_from(s, (double[]){ 7 })) == 7);
    assert_true(gw_dtype_of(gw_from(s, (bool[]){ true, false }, 2)) == GW_BOOL8);
    gw_tensor *x = gw_from(s, (const int64_t[]){ 1, 2, 3, 4 }, 1, two, 2);
    assert_true(gw_dtype_of(x) == GW_I64 && gw_dims(x) == 3 && gw_size(x, 1) == 2);
    assert_true(gw_size(gw_from(s, (float[]){ 1 }, 0), 0) == 0);
    assert_true(gw_ok(s));
    gw_from(s, (float[]){ 1 }, -1);
    assert_int_equal(gw_scope_close(s).status, GW_INVALID);
}

GW_TESTS(tensor_tensor, literals_and_pointers_have_a_dtype, null_is_no_tensor,
         a_new_one_is_contiguous, a_size_must_make_sense, the_size_that_a_peer_requests_is_limited,
         an_item_is_the_only_one, a_view_shares_the_values, a_saved_one_cannot_change,
         external_memory_is_used_in_place_and_given_back_once,
         external_memory_is_given_back_also_when_it_fails, a_block_that_is_too_small_is_refused,
         a_value_that_is_no_tensor_gives_poison, an_argument_that_is_a_tensor_may_be_left_out,
         it_survives_without_memory);
