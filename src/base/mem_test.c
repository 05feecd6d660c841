#include "base/mem.h"

#include "testing/testing.h"

#include <pthread.h>
#include <string.h>

static int fail_large(size_t size) {
    return size >= 100;
}

static void every_allocation_can_be_made_to_fail(void **state) {
    (void)state;
    char *kept = mem_alloc(10);
    mem_fail_hook = fail_large;
    assert_null(mem_alloc(100));
    assert_null(mem_calloc(100));
    assert_null(mem_take(100));
    assert_null(mem_realloc(NULL, 100));
    assert_null(mem_realloc(kept, 100));  // and |kept| stays
    assert_true(mem_must_fail(100));
    assert_false(mem_must_fail(99));
    memset(kept, 1, 10);
    void *small = mem_alloc(99);
    assert_non_null(small);
    mem_fail_hook = NULL;
    mem_free(small);
    mem_free(kept);
}

static void live_allocations_are_counted(void **state) {
    (void)state;
    size_t before = mem_live_count();
    void *a = mem_alloc(0), *b = mem_calloc(8), *c = mem_take(40), *d = mem_take(5000);
    char *e = mem_strdup("text");
    assert_int_equal(mem_live_count(), before + 5);
    a = mem_realloc(a, 1000);
    assert_int_equal(mem_live_count(), before + 5);
    mem_give(c, 40);
    mem_give(d, 5000);
    mem_free(a);
    mem_free(b);
    mem_free(e);
    mem_free(NULL);
    mem_give(NULL, 40);
    assert_int_equal(mem_live_count(), before);
    mem_count(2);
    mem_count(-2);
    assert_int_equal(mem_live_count(), before);
}

static void small_objects_are_used_again(void **state) {
    (void)state;
#if MEM_CACHED
    void *a = mem_take(72);
    mem_give(a, 72);
    assert_ptr_equal(mem_take(80), a);  // of the same class
    mem_give(a, 80);
#endif
}

static void a_size_of_nothing_is_fine(void **state) {
    (void)state;
    void *p = mem_take(0);
    assert_non_null(p);
    mem_give(p, 0);
}

static void reserved_memory_is_aligned(void **state) {
    (void)state;
    size_t before = mem_live_count();
    void *p = mem_reserve(64, 1000);
    assert_int_equal((uintptr_t)p % 64, 0);
    assert_int_equal(mem_live_count(), before);
    mem_unreserve(p);
}

enum { OBJECTS = 3000 };

static void *take_all(void *objects) {
    void **all = objects;
    for (int i = 0; i < OBJECTS; i++) all[i] = mem_take((size_t)(i % 1500));
    return NULL;
}

static void *give_all(void *objects) {
    void **all = objects;
    for (int i = 0; i < OBJECTS; i++) mem_give(all[i], (size_t)(i % 1500));
    return NULL;
}

// Given back by another thread than took them, which then ends: a sanitizer detects what its cache
// would leak.
static void objects_move_between_threads(void **state) {
    (void)state;
    static void *all[OBJECTS];
    size_t before = mem_live_count();
    for (int round = 0; round < 3; round++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, take_all, all), 0);
        pthread_join(thread, NULL);
        assert_int_equal(pthread_create(&thread, NULL, give_all, all), 0);
        pthread_join(thread, NULL);
    }
    assert_int_equal(mem_live_count(), before);
}

GW_TESTS(base_mem, every_allocation_can_be_made_to_fail, live_allocations_are_counted,
         small_objects_are_used_again, a_size_of_nothing_is_fine, reserved_memory_is_aligned,
         objects_move_between_threads);
