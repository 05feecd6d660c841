#include "lend/ways.h"

#include "testing/testing.h"

enum { LEND = 1 << WAY_LEND, PULL = 1 << WAY_PULL, SHM = 1 << WAY_SHM, TCP = 1 << WAY_TCP };

static void what_can_be_lent_is_lent(void **state) {
    (void)state;
    for (uint64_t size = 1 << 20; size <= (uint64_t)4 << 30; size *= 2) {
        assert_int_equal(ways_choose(LEND | PULL | SHM, size), WAY_LEND);
        assert_int_equal(ways_choose(LEND | TCP, size), WAY_LEND);
    }
}

static void large_ones_are_pulled_and_smaller_ones_go_through_a_ring(void **state) {
    (void)state;
    assert_int_equal(ways_choose(PULL | SHM, 400 << 20), WAY_PULL);
    assert_int_equal(ways_choose(PULL | TCP, 400 << 20), WAY_PULL);
    assert_int_equal(ways_choose(PULL | SHM, 1 << 20), WAY_SHM);
    assert_int_equal(ways_choose(PULL | TCP, 64 << 10), WAY_PULL);
}

static void without_another_way_it_is_the_transports(void **state) {
    (void)state;
    assert_int_equal(ways_choose(SHM, 400 << 20), WAY_SHM);
    assert_int_equal(ways_choose(TCP, 1), WAY_TCP);
    assert_int_equal(ways_of_transport("shm"), WAY_SHM);
    assert_int_equal(ways_of_transport("tcp"), WAY_TCP);
    assert_int_equal(ways_of_transport("another"), WAY_TCP);
    assert_int_equal(ways_of_transport(NULL), WAY_TCP);
}

GW_TESTS(lend_ways, what_can_be_lent_is_lent,
         large_ones_are_pulled_and_smaller_ones_go_through_a_ring,
         without_another_way_it_is_the_transports);
