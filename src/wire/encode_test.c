// Encoding and decoding values. Malformed bytes are in decode_test.c.
#include "wire/codec.h"

#include "base/limits.h"
#include "base/mem.h"
#include "base/scope.h"
#include "testing/testing.h"
#include <gradwire/ops.h>

#include <math.h>
#include <string.h>

// A copy as a receiver has it: the same bytes, other memory.
static message *carried(message *m) {
    message *copy = message_copy(m);
    message_release(m);
    return copy;
}

static gw_value round_trip(gw_scope *s, gw_value v) {
    gw_error error;
    encoder e = { .message = message_open(1) };
    if (encode_value(&e, v, &error)) fail_msg("%s", error.text);
    message *m = carried(e.message);
    // First without making anything, as a receiver that only checks does.
    for (int pass = 0; pass < 2; pass++) {
        decoder d = { .message = m,
                      .in = reader_of(m->head.data, m->head.size),
                      .scope = pass == 0 ? NULL : s };
        if (decode_value(&d, &v, &error)) fail_msg("%s", error.text);
        assert_int_equal(reader_left(&d.in), 0);
        assert_int_equal(d.next_segment, m->segment_count);
    }
    message_release(m);
    return v;
}

static gw_scope *open_scope(void **state) {
    (void)state;
    return gw_scope_open(NULL);
}

static void close_scope(gw_scope *s) {
    gw_error e = gw_scope_close(s);
    if (e.status) fail_msg("%s", e.text);
}

static void it_carries_scalars(void **state) {
    gw_scope *s = open_scope(state);
    assert_int_equal(round_trip(s, gw_none()).kind, GW_NONE);
    assert_true(gw_bool_of(s, round_trip(s, gw_value_of(true))));
    assert_false(gw_bool_of(s, round_trip(s, gw_value_of(false))));
    static const int64_t ints[] = { 0, 1, -1, INT64_MAX, INT64_MIN };
    for (size_t i = 0; i < 5; i++)
        assert_true(gw_int_of(s, round_trip(s, gw_value_of(ints[i]))) == ints[i]);
    static const double floats[] = { 0.0, -0.0, 1.5, INFINITY, -INFINITY, 5e-324 };
    for (size_t i = 0; i < 6; i++) {
        double back = gw_float_of(s, round_trip(s, gw_value_of(floats[i])));
        assert_memory_equal(&back, &floats[i], sizeof back);
    }
    assert_true(isnan(gw_float_of(s, round_trip(s, gw_value_of(NAN)))));
    close_scope(s);
}

static void it_carries_strings_and_bytes(void **state) {
    gw_scope *s = open_scope(state);
    assert_string_equal(gw_string_of(s, round_trip(s, gw_value_of("gradient"))), "gradient");
    assert_string_equal(gw_string_of(s, round_trip(s, gw_value_of(""))), "");
    uint8_t data[10000];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * 7);
    gw_value v = round_trip(s, gw_value_of_bytes(data, sizeof data));
    assert_int_equal(v.kind, GW_BYTES);
    assert_int_equal(v.size, sizeof data);
    assert_memory_equal(v.as.bytes, data, sizeof data);
    assert_int_equal(round_trip(s, gw_value_of_bytes(NULL, 0)).size, 0);
    close_scope(s);
}

static void it_carries_lists_and_maps(void **state) {
    gw_scope *s = open_scope(state);
    gw_map *m = gw_map_open(s);
    gw_list *inner = gw_list_open(s);
    gw_list_add(s, inner, 1);
    gw_list_add(s, inner, "two");
    gw_map_put(s, m, "z", inner);
    gw_map_put(s, m, "a", 2.5);
    gw_map_put(s, m, "", gw_list_open(s));
    gw_map *back = gw_map_of(s, round_trip(s, gw_value_of(m)));
    assert_int_equal(gw_map_count(back), 3);
    assert_string_equal(gw_map_key(s, back, 0), "z");
    assert_string_equal(gw_map_key(s, back, 1), "a");
    assert_string_equal(gw_map_key(s, back, 2), "");
    gw_list *list = gw_list_of(s, gw_map_get(s, back, "z"));
    assert_int_equal(gw_int_of(s, gw_list_get(s, list, 0)), 1);
    assert_string_equal(gw_string_of(s, gw_list_get(s, list, 1)), "two");
    assert_int_equal(gw_list_count(gw_list_of(s, gw_map_get(s, back, ""))), 0);
    close_scope(s);
}

static void it_carries_workers_and_errors(void **state) {
    gw_scope *s = open_scope(state);
    gw_worker w = { .name = "ps", .rank = 3, .incarnation = UINT64_MAX };
    gw_worker back = gw_worker_of(s, round_trip(s, gw_value_of(&w)));
    assert_string_equal(back.name, "ps");
    assert_int_equal(back.rank, 3);
    assert_true(back.incarnation == UINT64_MAX);
    gw_error e = { .status = GW_TIMEOUT,
                   .outcome = GW_MAY_HAVE_RUN,
                   .worker = "ps",
                   .function = "gw.add",
                   .text = "ps: gw.add: late" };
    gw_value v = round_trip(s, gw_value_of(&e));
    assert_int_equal(v.kind, GW_ERROR);
    assert_memory_equal(v.as.error, &e, sizeof e);
    close_scope(s);
}

// ---- Tensors ------------------------------------------------------------------------------------
static void expect_same(gw_scope *s, gw_tensor *x) {
    gw_tensor *back = gw_tensor_of(s, round_trip(s, gw_value_of(x)));
    assert_true(gw_ok(s));
    assert_int_equal(gw_dtype_of(back), gw_dtype_of(x));
    assert_int_equal(gw_dims(back), gw_dims(x));
    for (int d = 0; d < gw_dims(x); d++) assert_int_equal(gw_size(back, d), gw_size(x, d));
    assert_true(gw_is_contiguous(back));
    // Element by element, so that the strides of |x| are used.
    size_t size = gw_dtype_size(gw_dtype_of(x));
    int64_t index[GW_DIMS_MAX] = { 0 };
    for (int64_t n = 0; n < gw_numel(x); n++) {
        int64_t at = 0;
        for (int d = 0; d < gw_dims(x); d++) at += index[d] * gw_stride(x, d);
        assert_memory_equal((const char *)gw_data(back) + (size_t)n * size,
                            (const char *)gw_data(x) + at * (int64_t)size, size);
        for (int d = gw_dims(x) - 1; d >= 0 && ++index[d] == gw_size(x, d); d--) index[d] = 0;
    }
}

static gw_tensor *counted(gw_scope *s, gw_dtype dtype, gw_shape shape) {
    gw_tensor *x = gw_zeros_with(s, dtype, shape);
    uint8_t *at = gw_data_for_write(s, x);
    for (size_t i = 0; i < (size_t)gw_numel(x) * gw_dtype_size(dtype); i++)
        at[i] = dtype == GW_BOOL8 ? i % 3 == 0 : (uint8_t)(i * 11);
    return x;
}

static void it_carries_tensors_of_every_dtype(void **state) {
    gw_scope *s = open_scope(state);
    for (int dtype = 0; dtype < GW_DTYPE_COUNT; dtype++) {
        expect_same(s, counted(s, (gw_dtype)dtype, GW_SHAPE(3, 5)));
        expect_same(s, counted(s, (gw_dtype)dtype, GW_SHAPE(70, 90)));
    }
    close_scope(s);
}

static void it_carries_tensors_of_every_size(void **state) {
    gw_scope *s = open_scope(state);
    expect_same(s, counted(s, GW_F32, GW_SHAPE()));
    expect_same(s, counted(s, GW_F32, GW_SHAPE(0)));
    expect_same(s, counted(s, GW_F32, GW_SHAPE(3, 0, 2)));
    for (int64_t n = 1022; n < 1028; n++) expect_same(s, counted(s, GW_F32, GW_SHAPE(n)));
    int64_t ones[GW_DIMS_MAX];
    for (int d = 0; d < GW_DIMS_MAX; d++) ones[d] = 1;
    expect_same(s, counted(s, GW_F32, (gw_shape){ GW_DIMS_MAX, ones }));
    close_scope(s);
}

static void it_sends_only_the_elements_of_a_view(void **state) {
    gw_scope *s = open_scope(state);
    gw_tensor *x = counted(s, GW_F32, GW_SHAPE(64, 40));
    expect_same(s, gw_transpose(s, x, 0, 1));
    expect_same(s, gw_slice(s, x, 0, 3, 60, 7));
    expect_same(s, gw_slice(s, x, 1, 3, 37, 2));
    expect_same(s, gw_select(s, x, 1, 5));
    expect_same(s, gw_select(s, x, 0, 5));
    expect_same(s, gw_expand_with(s, gw_select(s, x, 0, 1), GW_SHAPE(50, 40)));
    expect_same(s, gw_slice(s, x, 0, 60, 64, 1));
    static const gw_dtype narrow[] = { GW_F64, GW_F16, GW_I8 };
    for (int i = 0; i < 3; i++)
        expect_same(s, gw_transpose(s, counted(s, narrow[i], GW_SHAPE(64, 80)), 0, 1));

    encoder e = { .message = message_open(1) };
    gw_error error;
    gw_tensor *rows = gw_slice(s, x, 0, 10, 40, 1);
    assert_int_equal(encode_value(&e, gw_value_of(rows), &error), GW_OK);
    assert_int_equal(e.message->segments[0].size, 30 * 40 * 4);
    assert_int_equal(e.message->segments[0].offset, 10 * 40 * 4);
    message_release(e.message);
    close_scope(s);
}

static void it_does_not_copy_large_tensors(void **state) {
    gw_scope *s = open_scope(state);
    gw_tensor *x = counted(s, GW_F32, GW_SHAPE(2000));
    encoder e = { .message = message_open(1) };
    gw_error error;
    assert_int_equal(encode_value(&e, gw_value_of(x), &error), GW_OK);
    assert_ptr_equal(e.message->segments[0].block, x->storage->block);
    message *m = carried(e.message);
    decoder d = { .message = m, .in = reader_of(m->head.data, m->head.size), .scope = s };
    gw_value v;
    assert_int_equal(decode_value(&d, &v, &error), GW_OK);
    assert_ptr_equal(v.as.tensor->storage->block, m->segments[0].block);
    message_release(m);
    close_scope(s);
}

// Small ones here, large values in a segment.
static void it_carries_rows(void **state) {
    gw_scope *s = open_scope(state);
    for (int64_t length = 2; length <= 2000; length += 1998) {
        gw_tensor *at = gw_from(s, ((int64_t[]){ 3, 1, 3 }), 3);
        gw_tensor *x = gw_rows(s, at, counted(s, GW_F32, GW_SHAPE(3, length)), 1000);
        for (int once = 0; once < 2; once++) {
            gw_tensor *back = round_trip(s, gw_value_of(x)).as.tensor;
            assert_int_equal(gw_layout_of(back), GW_ROWS);
            assert_int_equal(back->coalesced, once);
            assert_int_equal(gw_size(back, 0), 1000);
            assert_true(gw_equal(s, gw_rows_indices(s, back), gw_rows_indices(s, x)));
            assert_true(gw_equal(s, gw_to_dense(s, back), gw_to_dense(s, x)));
            x = gw_coalesce(s, x);
        }
    }
    close_scope(s);
}

// A message contains the values at the time of encoding, whatever is written before it is sent.
static void later_writes_do_not_change_a_message(void **state) {
    gw_scope *s = open_scope(state);
    gw_tensor *x = counted(s, GW_U8, GW_SHAPE(5000));
    encoder e = { .message = message_open(1) };
    gw_error error;
    assert_int_equal(encode_value(&e, gw_value_of(x), &error), GW_OK);
    memset(gw_data_for_write(s, x), 0, 5000);
    assert_int_equal(e.message->segments[0].block->bytes[1], 11);
    message_release(e.message);
    close_scope(s);
}

// ---- Values that cannot travel ------------------------------------------------------------------
static void expect_refusal(gw_value v, gw_status status, const char *text) {
    gw_error error;
    encoder e = { .message = message_open(1) };
    assert_int_equal(encode_value(&e, v, &error), status);
    assert_string_equal(error.text, text);
    message_release(e.message);
}

static void it_refuses_values_that_cannot_travel(void **state) {
    gw_scope *s = open_scope(state);
    expect_refusal((gw_value){ .kind = GW_STRING, .as.string = "a\0b", .size = 3 }, GW_INVALID,
                   "string: byte 1 is a NUL: send such data as bytes");
    expect_refusal((gw_value){ .kind = GW_RREF, .as.bytes = s }, GW_UNSUPPORTED,
                   "reference: cannot be sent here");
    expect_refusal((gw_value){ .kind = (gw_kind)99 }, GW_INVALID, "value: kind 99 does not exist");
    expect_refusal(gw_value_of_bytes("", (size_t)5 << 30), GW_LIMIT,
                   "bytes: there are 5368709120, but less than 4 GiB are allowed");
    close_scope(s);
}

static gw_value nested(gw_scope *s, int depth) {
    gw_value v = gw_none();
    for (int i = 0; i < depth; i++) {
        gw_list *list = gw_list_open(s);
        gw_list_add(s, list, v);
        v = gw_value_of(list);
    }
    return v;
}

static void it_nests_as_deep_as_the_limit(void **state) {
    gw_scope *s = open_scope(state);
    round_trip(s, nested(s, LIMIT_NESTING));
    expect_refusal(nested(s, LIMIT_NESTING + 1), GW_LIMIT,
                   "value: lists and maps nested deeper than 32");
    close_scope(s);
}

static void it_counts_values(void **state) {
    gw_scope *s = open_scope(state);
    gw_list *list = gw_list_open(s);
    for (int i = 0; i < LIMIT_VALUES - 1; i++) gw_list_add(s, list, gw_none());
    assert_int_equal(gw_list_count(gw_list_of(s, round_trip(s, gw_value_of(list)))),
                     LIMIT_VALUES - 1);
    gw_list_add(s, list, gw_none());
    expect_refusal(gw_value_of(list), GW_LIMIT, "a message has more than 1048576 values");
    close_scope(s);
}

// ---- Without memory -----------------------------------------------------------------------------
static void round_trip_without_memory(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    gw_map *map = gw_map_open(s);
    gw_worker w = { .name = "ps", .rank = 1, .incarnation = 1 };
    gw_map_put(s, map, "large", gw_transpose(s, gw_ones(s, GW_F32, 60, 40), 0, 1));
    gw_map_put(s, map, "small", gw_ones(s, GW_F32, 3));
    gw_map_put(s, map, "worker", &w);
    gw_map_put(s, map, "text", "text");
    encoder e = { .message = gw_ok(s) ? message_open(1) : NULL };
    message *m = NULL;
    gw_error error = { 0 };
    if (e.message) {
        gw_status status = encode_value(&e, gw_value_of(map), &error);
        if (!status) status = message_seal(e.message, &error);
        assert_true(status == GW_OK || status == GW_NO_MEMORY);
        if (!status) {
            e.message->head.size = e.message->head_size;
            m = message_copy(e.message);
        }
        message_release(e.message);
    }
    if (m) {
        decoder d = { .message = m, .in = reader_of(m->head.data, m->head.size), .scope = s };
        gw_value v;
        gw_status status = decode_value(&d, &v, &error);
        assert_true(status == GW_OK || status == GW_NO_MEMORY);
        if (status == GW_OK && gw_ok(s)) assert_int_equal(gw_map_count(v.as.map), 4);
    }
    message_release(m);
    gw_error closed = gw_scope_close(s);
    assert_true(closed.status == GW_OK || closed.status == GW_NO_MEMORY);
}

static void it_survives_without_memory(void **state) {
    (void)state;
    testing_alloc_failure_loop(round_trip_without_memory, NULL);
}

GW_TESTS(wire_encode, it_carries_scalars, it_carries_strings_and_bytes, it_carries_lists_and_maps,
         it_carries_workers_and_errors, it_carries_tensors_of_every_dtype,
         it_carries_tensors_of_every_size, it_sends_only_the_elements_of_a_view,
         it_does_not_copy_large_tensors, it_carries_rows, later_writes_do_not_change_a_message,
         it_refuses_values_that_cannot_travel, it_nests_as_deep_as_the_limit, it_counts_values,
         it_survives_without_memory);
