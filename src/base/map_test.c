#include "base/map.h"

#include "base/mem.h"
#include "testing/testing.h"

#include <stdio.h>

enum { KEYS = 64, STEPS = 20000 };

// Any sequence of puts and takes, compared with an array.
static void behave_like_an_array(uint64_t seed, void *context) {
    (void)context;
    map m = { 0 };
    void *expected[KEYS] = { 0 };
    static int targets[KEYS];
    size_t count = 0;
    uint64_t random = seed;
    for (int step = 0; step < STEPS; step++) {
        random = hash_u64(random);
        uint64_t key = random % KEYS;
        if (random >> 32 & 1) {
            count += !expected[key];
            expected[key] = &targets[random >> 40 & (KEYS - 1)];
            assert_true(map_put(&m, key, expected[key]));
        } else {
            assert_ptr_equal(map_take(&m, key), expected[key]);
            count -= expected[key] != NULL;
            expected[key] = NULL;
        }
        assert_int_equal(m.count, count);
        assert_ptr_equal(map_find(&m, key), expected[key]);
    }
    for (uint64_t key = 0; key < KEYS; key++) assert_ptr_equal(map_find(&m, key), expected[key]);
    map_fini(&m);
}

static void it_behaves_like_an_array(void **state) {
    (void)state;
    testing_for_seeds(20, behave_like_an_array, NULL);
}

static void names_are_copied(void **state) {
    (void)state;
    size_t before = mem_live_count();
    map m = { 0 };
    static int values[200];
    char name[24];
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "worker%d", i);
        assert_true(map_put_name(&m, name, &values[i]));
    }
    assert_ptr_equal(map_find_name(&m, "worker7"), &values[7]);
    assert_null(map_find_name(&m, "worker200"));
    assert_true(map_put_name(&m, "worker7", &values[0]));
    assert_int_equal(m.count, 200);
    assert_ptr_equal(map_take_name(&m, "worker7"), &values[0]);
    assert_null(map_take_name(&m, "worker7"));
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "worker%d", i);
        assert_ptr_equal(map_find_name(&m, name), i == 7 ? NULL : &values[i]);
    }
    map_fini(&m);
    assert_int_equal(mem_live_count(), before);
}

static void it_visits_every_entry_once(void **state) {
    (void)state;
    map m = { 0 };
    int seen[100] = { 0 };
    for (uint64_t key = 0; key < 100; key++) map_put(&m, key, &seen[key]);
    for (map_cursor e = { 0 }; map_next(&m, &e);) ++*(int *)e.value;
    for (int i = 0; i < 100; i++) assert_int_equal(seen[i], 1);
    map_fini(&m);
}

static void an_empty_map_has_nothing(void **state) {
    (void)state;
    map m = { 0 };
    map_cursor e = { 0 };
    assert_null(map_find(&m, 0));
    assert_null(map_take(&m, 0));
    assert_null(map_find_name(&m, ""));
    assert_false(map_next(&m, &e));
    map_fini(&m);
}

static void fill_a_map(void *context) {
    (void)context;
    map m = { 0 };
    static int value;
    char name[24];
    size_t put = 0;
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "%d", i);
        put += map_put_name(&m, name, &value);
    }
    assert_int_equal(m.count, put);  // failed puts left no entry, the others did
    map_fini(&m);
}

static void it_survives_without_memory(void **state) {
    (void)state;
    testing_alloc_failure_loop(fill_a_map, NULL);
}

GW_TESTS(base_map, it_behaves_like_an_array, names_are_copied, it_visits_every_entry_once,
         an_empty_map_has_nothing, it_survives_without_memory);
