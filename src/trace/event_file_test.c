#include "trace/event_file.h"

#include "testing/testing.h"

#include <string.h>

// As TensorFlow writes it: the sums are from there.
static void the_first_record_is_that_of_tensorflow(void **state) {
    (void)state;
    static const uint8_t beginning[] = { 24, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22, 0x09 };
    bytes b = { 0 };
    event_file_put_version(&b, 1.5);
    assert_int_equal(b.size, 12 + 24 + 4);
    assert_memory_equal(b.data, beginning, sizeof beginning);
    assert_memory_equal(b.data + 13,
                        "\0\0\0\0\0\0\xf8\x3f\x1a\x0d"
                        "brain.Event:2",
                        23);
    bytes_fini(&b);
}

static void a_scalar_has_time_step_name_and_number(void **state) {
    (void)state;
    bytes b = { 0 };
    event_file_put_scalar(&b, 1.5, "loss", 0.5f, 300);
    static const char event[] = "\x09\0\0\0\0\0\0\xf8\x3f"  // wall_time
                                "\x10\xac\x02"              // step
                                "\x2a\x0d\x0a\x0b"          // summary, value
                                "\x0a\x04loss\x15\0\0\0\x3f";
    assert_int_equal(b.size, 12 + sizeof event - 1 + 4);
    assert_memory_equal(b.data + 12, event, sizeof event - 1);
    bytes_fini(&b);
}

static void a_negative_step_has_ten_bytes(void **state) {
    (void)state;
    bytes one = { 0 }, minus_one = { 0 };
    event_file_put_scalar(&one, 0, "a", 0, 1);
    event_file_put_scalar(&minus_one, 0, "a", 0, -1);
    assert_int_equal(minus_one.size, one.size + 9);
    bytes_fini(&one);
    bytes_fini(&minus_one);
}

GW_TESTS(trace_event_file, the_first_record_is_that_of_tensorflow,
         a_scalar_has_time_step_name_and_number, a_negative_step_has_ten_bytes);
