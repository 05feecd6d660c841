#include "base/crc32c.h"

#include "testing/testing.h"

#include <string.h>

// RFC 3720, B.4.
static void it_matches_the_vectors_of_the_rfc(void **state) {
    (void)state;
    uint8_t bytes[32];
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(crc32c(0, bytes, sizeof bytes), 0x8A9136AA);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(crc32c(0, bytes, sizeof bytes), 0x62A8AB43);
    for (int i = 0; i < 32; i++) bytes[i] = (uint8_t)i;
    assert_int_equal(crc32c(0, bytes, sizeof bytes), 0x46DD794E);
    for (int i = 0; i < 32; i++) bytes[i] = (uint8_t)(31 - i);
    assert_int_equal(crc32c(0, bytes, sizeof bytes), 0x113FDB5C);
    assert_int_equal(crc32c(0, "123456789", 9), 0xE3069283);
    assert_int_equal(crc32c(0, "", 0), 0);
}

static uint8_t *noise(size_t size) {
    uint8_t *bytes = test_malloc(size);
    uint32_t random = 1;
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)((random = random * 1664525 + 1013904223) >> 24);
    return bytes;
}

static void all_implementations_agree(void **state) {
    (void)state;
    enum { SIZE = 70000 };
    uint8_t *bytes = noise(SIZE);
    for (size_t size = 0; size < SIZE; size += size < 100 ? 1 : 611)
        for (size_t from = 0; from < 3 && from <= size; from++)
            assert_int_equal(crc32c(7, bytes + from, size - from),
                             crc32c_by_table(7, bytes + from, size - from));
    test_free(bytes);
}

static void parts_sum_to_the_whole(void **state) {
    (void)state;
    enum { SIZE = 40000 };
    uint8_t *bytes = noise(SIZE);
    uint32_t whole = crc32c(0, bytes, SIZE);
    for (size_t cut = 0; cut <= SIZE; cut += 999)
        assert_int_equal(crc32c(crc32c(0, bytes, cut), bytes + cut, SIZE - cut), whole);
    test_free(bytes);
}

GW_TESTS(base_crc32c, it_matches_the_vectors_of_the_rfc, all_implementations_agree,
         parts_sum_to_the_whole);
