#include "wire/error_value.h"

#include "base/error_value.h"
#include "base/mem.h"
#include "base/scope.h"
#include "testing/testing.h"

#include <gradwire/binding.h>
#include <string.h>

static gw_error make_error(gw_value v) {
    gw_scope *s = gw_scope_open(NULL);
    gw_fail_with_value(s, GW_REMOTE, v, "x");
    gw_error e = *gw_scope_error(s);
    e.value = error_value_retain(e.value);
    scope_close_unread(s);
    return e;
}

static bytes encode(gw_value v) {
    bytes b = { 0 };
    gw_error e = make_error(v);
    encode_value_of_error(&b, &e);
    error_value_release(e.value);
    assert_false(b.failed);
    return b;
}

static gw_status decode(const void *data, size_t size, gw_error *out, gw_error *error) {
    reader r = reader_of(data, size);
    *out = (gw_error){ .status = GW_REMOTE };
    gw_status status = decode_value_of_error(&r, out, error);
    if (!status) assert_int_equal(reader_left(&r), 0);
    return status;
}

static void it_reads_the_value_that_it_has_written(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_list *list = gw_list_open(s);
    gw_list_add(s, list, 3);
    gw_list_add(s, list, "four");
    const gw_value values[] = { gw_value_of(3), gw_value_of("four"), gw_value_of(2.5),
                                gw_value_of_bytes("a\0b", 3), gw_value_of(list) };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        gw_error back, error;
        bytes b = encode(values[i]);
        assert_int_equal(decode(b.data, b.size, &back, &error), GW_OK);
        gw_value v = gw_error_value(s, &back);
        assert_int_equal(v.kind, values[i].kind);
        if (v.kind == GW_BYTES) assert_memory_equal(v.as.bytes, "a\0b", 3);
        if (v.kind == GW_LIST)
            assert_string_equal(gw_string_of(s, gw_list_get(s, v.as.list, 1)), "four");
        error_value_release(back.value);
        bytes_fini(&b);
    }
    scope_close_unread(s);
}

static void an_error_without_a_value_has_size_0(void **state) {
    (void)state;
    gw_error back, error, none = { .status = GW_REMOTE }, gone = { .status = GW_REMOTE };
    bytes b = { 0 };
    gone.value = UINT64_MAX;
    encode_value_of_error(&b, &none);
    encode_value_of_error(&b, &gone);
    assert_int_equal(b.size, 8);
    assert_memory_equal(b.data, "\0\0\0\0\0\0\0\0", 8);
    assert_int_equal(decode(b.data, 4, &back, &error), GW_OK);
    assert_true(back.value == 0);
    bytes_fini(&b);
}

static void it_refuses_malformed_values(void **state) {
    (void)state;
    size_t before = mem_live_count();
    gw_error back, error;
    bytes good = encode(gw_value_of("four"));
    for (size_t size = 0; size < good.size; size++)
        assert_int_equal(decode(good.data, size, &back, &error), GW_PROTOCOL);
    good.data[0]++;  // one byte more than the value has
    bytes_put_u8(&good, 0);
    assert_int_equal(decode(good.data, good.size, &back, &error), GW_PROTOCOL);
    assert_non_null(strstr(error.text, "1 trailing bytes"));
    bytes_fini(&good);

    // A size beyond the limit, a reference, and a tensor whose numbers are elsewhere.
    bytes large = { 0 }, attached = { 0 }, segment = { 0 };
    bytes_put_u32(&large, GW_ERROR_VALUE_MAX + 1);
    assert_non_null(bytes_extend(&large, GW_ERROR_VALUE_MAX + 1));
    assert_int_equal(decode(large.data, large.size, &back, &error), GW_PROTOCOL);
    bytes_put_u32(&attached, 5);
    bytes_put_u8(&attached, GW_RREF);
    bytes_put_u32(&attached, 0);
    assert_int_equal(decode(attached.data, attached.size, &back, &error), GW_PROTOCOL);
    bytes_put_u32(&segment, 14);
    const uint8_t header[] = { GW_TENSOR, GW_F32, GW_CPU, 0, 1, 1 };
    bytes_put(&segment, header, sizeof header);
    bytes_put_u64(&segment, 2000);
    assert_int_not_equal(decode(segment.data, segment.size, &back, &error), GW_OK);
    bytes_fini(&large);
    bytes_fini(&attached);
    bytes_fini(&segment);
    assert_int_equal(mem_live_count(), before);
}

static void pass_it_on(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL), *t = gw_scope_open(NULL);
    bytes b = { 0 };
    gw_error back = { .status = GW_REMOTE }, error;
    gw_fail_with_value(s, GW_REMOTE, gw_value_of("four"), "x");
    encode_value_of_error(&b, gw_scope_error(s));
    reader r = reader_of(b.data, b.size);
    if (!b.failed && !decode_value_of_error(&r, &back, &error)) {
        gw_error_value(t, &back);
        error_value_release(back.value);
    }
    assert_true(gw_ok(t) || gw_scope_error(t)->status == GW_NO_MEMORY);
    bytes_fini(&b);
    scope_close_unread(s);
    scope_close_unread(t);
}

static void without_memory_the_error_has_no_value(void **state) {
    (void)state;
    testing_alloc_failure_loop(pass_it_on, NULL);
}

GW_TESTS(wire_error_value, it_reads_the_value_that_it_has_written,
         an_error_without_a_value_has_size_0, it_refuses_malformed_values,
         without_memory_the_error_has_no_value);
