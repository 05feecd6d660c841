#include "testing/testing.h"

#include "autograd/index.h"
#include "base/mem.h"

static char things[5000];

static void it_finds_exactly_the_keys_that_were_put(void **state) {
    (void)state;
    pointer_index ix;
    index_init(&ix);
    for (uint32_t i = 0; i < 4000; i++) {
        assert_int_equal(index_find(&ix, &things[i]), INDEX_NONE);
        assert_true(index_reserve(&ix, 1));
        index_put(&ix, &things[i], i);
    }
    for (uint32_t i = 0; i < 4000; i++) assert_int_equal(index_find(&ix, &things[i]), i);
    for (uint32_t i = 4000; i < 5000; i++)
        assert_int_equal(index_find(&ix, &things[i]), INDEX_NONE);
    index_fini(&ix);
}

static int fail_all(size_t size) {
    (void)size;
    return 1;
}

static void it_allocates_nothing_while_it_is_small(void **state) {
    (void)state;
    pointer_index ix;
    index_init(&ix);
    mem_fail_hook = fail_all;
    for (uint32_t i = 0; i < INDEX_SMALL / 2; i++) {
        assert_true(index_reserve(&ix, 1));
        index_put(&ix, &things[i], i);
    }
    assert_false(index_reserve(&ix, 1));
    mem_fail_hook = NULL;
    assert_int_equal(index_find(&ix, &things[3]), 3);  // as it was
    index_fini(&ix);
}

static void it_reserves_for_many_at_once(void **state) {
    (void)state;
    pointer_index ix;
    index_init(&ix);
    assert_true(index_reserve(&ix, 1000));
    mem_fail_hook = fail_all;
    for (uint32_t i = 0; i < 1000; i++) {
        assert_true(index_reserve(&ix, 1));
        index_put(&ix, &things[i], i);
    }
    mem_fail_hook = NULL;
    index_fini(&ix);
}

GW_TESTS(autograd_index, it_finds_exactly_the_keys_that_were_put,
         it_allocates_nothing_while_it_is_small, it_reserves_for_many_at_once);
