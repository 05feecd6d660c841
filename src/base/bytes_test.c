#include "base/bytes.h"

#include "base/mem.h"
#include "testing/testing.h"

#include <string.h>

static void it_reads_the_bytes_that_were_put(void **state) {
    (void)state;
    bytes b = { 0 };
    bytes_put_u8(&b, 0xab);
    bytes_put_u16(&b, 0xbeef);
    bytes_put_u32(&b, 0xdeadbeef);
    bytes_put_u64(&b, UINT64_MAX - 1);
    bytes_put_f64(&b, -0.5);
    bytes_put_text(&b, "ps");
    assert_int_equal(b.size, 1 + 2 + 4 + 8 + 8 + 4 + 2);
    reader r = reader_of(b.data, b.size);
    assert_int_equal(reader_u8(&r), 0xab);
    assert_int_equal(reader_u16(&r), 0xbeef);
    assert_int_equal(reader_u32(&r), 0xdeadbeef);
    assert_true(reader_u64(&r) == UINT64_MAX - 1);
    assert_true(reader_f64(&r) == -0.5);
    char text[3];
    assert_true(reader_text(&r, text, sizeof text));
    assert_string_equal(text, "ps");
    assert_int_equal(reader_left(&r), 0);
    assert_false(r.failed);
    bytes_fini(&b);
}

static void it_is_little_endian(void **state) {
    (void)state;
    bytes b = { 0 };
    bytes_put_u32(&b, 0x01020304);
    assert_memory_equal(b.data, ((uint8_t[]){ 4, 3, 2, 1 }), 4);
    bytes_fini(&b);
}

static void it_grows_and_keeps_its_content(void **state) {
    (void)state;
    bytes b = { 0 };
    for (uint32_t i = 0; i < 10000; i++) bytes_put_u32(&b, i);
    assert_int_equal(b.size, 40000);
    reader r = reader_of(b.data, b.size);
    for (uint32_t i = 0; i < 10000; i++) assert_int_equal(reader_u32(&r), i);
    bytes_fini(&b);
}

// No byte is read beyond the end, wherever the bytes end; and once failed, a reader
// stays so.
static void it_fails_on_truncated_input(void **state) {
    (void)state;
    for (size_t size = 0; size < 27; size++) {
        uint8_t *exact = mem_calloc(size ? size : 1);
        reader r = reader_of(exact, size);
        reader_u8(&r), reader_u16(&r), reader_u64(&r), reader_f64(&r), reader_u64(&r);
        assert_true(r.failed);
        const uint8_t *stopped = r.at;
        assert_int_equal(reader_u8(&r), 0);
        assert_int_equal(reader_u32(&r), 0);
        assert_true(reader_f64(&r) == 0);
        assert_null(reader_take(&r, 0));
        assert_ptr_equal(r.at, stopped);
        mem_free(exact);
    }
}

static void it_refuses_malformed_texts(void **state) {
    (void)state;
    char out[4] = "abc";
    uint8_t too_long[] = { 4, 0, 0, 0, 'a', 'b', 'c', 'd' };
    reader r = reader_of(too_long, sizeof too_long);
    assert_false(reader_text(&r, out, sizeof out));
    assert_true(r.failed);
    assert_string_equal(out, "");
    uint8_t with_nul[] = { 3, 0, 0, 0, 'a', 0, 'c' };
    r = reader_of(with_nul, sizeof with_nul);
    assert_false(reader_text(&r, out, sizeof out));
    uint8_t huge[] = { 0xff, 0xff, 0xff, 0xff, 'a' };
    r = reader_of(huge, sizeof huge);
    assert_false(reader_text(&r, out, sizeof out));
    uint8_t early[] = { 2, 0, 0, 0, 'a' };
    r = reader_of(early, sizeof early);
    assert_false(reader_text(&r, out, sizeof out));
}

static void it_takes_nothing_from_nothing(void **state) {
    (void)state;
    reader r = reader_of(NULL, 0);
    assert_int_equal(reader_left(&r), 0);
    reader_take(&r, 0);
    assert_false(r.failed);
    bytes b = { 0 };
    bytes_put(&b, NULL, 0);
    assert_int_equal(b.size, 0);
    assert_false(b.failed);
}

static void it_fails_when_sizes_overflow(void **state) {
    (void)state;
    bytes b = { 0 };
    bytes_put_u8(&b, 1);
    assert_null(bytes_extend(&b, SIZE_MAX));
    assert_true(b.failed);
    bytes_fini(&b);
}

static void write_without_memory(void *context) {
    (void)context;
    bytes b = { 0 };
    for (int i = 0; i < 300; i++) bytes_put_u64(&b, 1);
    if (b.failed) {
        assert_null(bytes_extend(&b, 1));
    } else {
        assert_int_equal(b.size, 2400);
    }
    bytes_fini(&b);
}

static void it_stays_failed_without_memory(void **state) {
    (void)state;
    testing_alloc_failure_loop(write_without_memory, NULL);
}

GW_TESTS(base_bytes, it_reads_the_bytes_that_were_put, it_is_little_endian,
         it_grows_and_keeps_its_content, it_fails_on_truncated_input, it_refuses_malformed_texts,
         it_takes_nothing_from_nothing, it_fails_when_sizes_overflow,
         it_stays_failed_without_memory);
