#include "lend/ways.h"

#include "testing/testing.h"

enum { MAP = 1 << WAY_MAP, READ = 1 << WAY_READ, SHM = 1 << WAY_SHM, TCP = 1 << WAY_TCP };

static void mapping_is_preferred(void **state) {
    (void)state;
    for (uint64_t size = 1 << 20; size <= (uint64_t)4 << 30; size *= 2) {
        assert_int_equal(ways_choose(MAP | READ | SHM, size), WAY_MAP);
        assert_int_equal(ways_choose(MAP | TCP, size), WAY_MAP);
    }
}

static void large_tensors_are_read_and_smaller_ones_use_a_ring(void **state) {
    (void)state;
    assert_int_equal(ways_choose(READ | SHM, 400 << 20), WAY_READ);
    assert_int_equal(ways_choose(READ | TCP, 400 << 20), WAY_READ);
    assert_int_equal(ways_choose(READ | SHM, 1 << 20), WAY_SHM);
    assert_int_equal(ways_choose(READ | TCP, 64 << 10), WAY_READ);
}

static void the_transport_is_the_fallback(void **state) {
    (void)state;
    assert_int_equal(ways_choose(SHM, 400 << 20), WAY_SHM);
    assert_int_equal(ways_choose(TCP, 1), WAY_TCP);
    assert_int_equal(ways_of_transport("shm"), WAY_SHM);
    assert_int_equal(ways_of_transport("tcp"), WAY_TCP);
    assert_int_equal(ways_of_transport("another"), WAY_TCP);
    assert_int_equal(ways_of_transport(NULL), WAY_TCP);
}

GW_TESTS(lend_ways, mapping_is_preferred, large_tensors_are_read_and_smaller_ones_use_a_ring,
         the_transport_is_the_fallback);
