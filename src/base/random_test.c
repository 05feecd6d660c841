#include "base/random.h"

#include "testing/testing.h"

#include <string.h>

// The vectors that Random123 publishes with the paper, for keys and counters of 64 bits. Of these,
// the upper half of the counter is always 0.
static void it_gives_the_published_numbers(void **state) {
    (void)state;
    const uint32_t zero[4] = { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 };
    uint32_t out[4];
    philox(0, 0, out);
    assert_memory_equal(out, zero, sizeof out);
}

static void key_and_counter_both_matter(void **state) {
    (void)state;
    uint32_t a[4], b[4], c[4], d[4];
    philox(1, 0, a);
    philox(0, 1, b);
    philox(UINT64_C(1) << 32, 0, c);
    philox(0, UINT64_C(1) << 32, d);
    assert_memory_not_equal(a, b, sizeof a);
    assert_memory_not_equal(a, c, sizeof a);
    assert_memory_not_equal(b, d, sizeof b);
}

static void blocks_are_taken_in_turn(void **state) {
    (void)state;
    generator g = { .key = 3 };
    assert_int_equal(generator_take(&g, 5), 0);
    assert_int_equal(generator_take(&g, 1), 5);
    assert_int_equal(g.counter, 6);
}

static void split_streams_differ(void **state) {
    (void)state;
    const generator g = { .key = 3 }, other = { .key = 4 };
    uint64_t first = generator_split(&g, 1), second = generator_split(&g, 2);
    assert_true(first != second && first != g.key && second != g.key);
    assert_true(generator_split(&other, 1) != first);
    assert_true(generator_split(&g, 1) == first);  // and repeat
}

// Each of 128 bits is set about as often as not.
static void bits_are_balanced(void **state) {
    (void)state;
    enum { BLOCKS = 20000 };
    int set[128] = { 0 };
    for (uint64_t n = 0; n < BLOCKS; n++) {
        uint32_t words[4];
        philox(42, n, words);
        for (int i = 0; i < 128; i++) set[i] += words[i / 32] >> (i % 32) & 1;
    }
    for (int i = 0; i < 128; i++) assert_in_range(set[i], BLOCKS / 2 - 450, BLOCKS / 2 + 450);
}

GW_TESTS(base_random, it_gives_the_published_numbers, key_and_counter_both_matter,
         blocks_are_taken_in_turn, split_streams_differ, bits_are_balanced);
