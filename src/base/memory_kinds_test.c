#include "base/memory_kinds.h"

#include "testing/testing.h"

#include <pthread.h>

static uint64_t bytes_of(memory_kind kind) {
    uint64_t all[MEMORY_KINDS];
    memory_read(all);
    return all[kind];
}

static void it_adds_and_moves(void **state) {
    (void)state;
    uint64_t before = bytes_of(MEMORY_KEPT), before_saved = bytes_of(MEMORY_SAVED);
    memory_add(MEMORY_KEPT, 100);
    memory_move(MEMORY_KEPT, MEMORY_SAVED, 30);
    assert_int_equal(bytes_of(MEMORY_KEPT) - before, 70);
    assert_int_equal(bytes_of(MEMORY_SAVED) - before_saved, 30);
}

enum { THREADS = 100, TIMES = 1000 };

static pthread_barrier_t all_are_there;

// More threads than rows at one time; what one takes another one gives back.
static void *take_many(void *number) {
    for (int i = 0; i < TIMES; i++) memory_add(MEMORY_KEPT, 8);
    pthread_barrier_wait(&all_are_there);
    for (int i = 0; i < TIMES; i++) memory_move(MEMORY_KEPT, MEMORY_SAVED, 3);
    return number;
}

static void several_threads_change_one_sum(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    uint64_t kept = bytes_of(MEMORY_KEPT), saved = bytes_of(MEMORY_SAVED);
    pthread_barrier_init(&all_are_there, NULL, THREADS);
    for (int k = 0; k < 2; k++) {  // the second ones continue with the rows of the first
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, take_many, NULL), 0);
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    }
    assert_int_equal(bytes_of(MEMORY_KEPT) - kept, 2 * THREADS * TIMES * 5);
    assert_int_equal(bytes_of(MEMORY_SAVED) - saved, 2 * THREADS * TIMES * 3);
}

static void each_kind_has_a_name(void **state) {
    (void)state;
    for (int i = 0; i < MEMORY_KINDS; i++) assert_non_null(memory_kind_names[i]);
}

GW_TESTS(base_memory_kinds, it_adds_and_moves, several_threads_change_one_sum,
         each_kind_has_a_name);
