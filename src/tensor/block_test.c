#include "base/mem.h"
#include "base/memory_limit.h"
#include "tensor/pool.h"
#include "testing/testing.h"
#include <gradwire/ops.h>

#include <pthread.h>
#include <string.h>

static void its_bytes_are_aligned_and_usable(void **state) {
    (void)state;
    const size_t sizes[] = { 0,    1,    63,   64,   65,     255,     256,     257,
                             1000, 4096, 8192, 8193, 100000, 1048575, 1048576, 3 << 20 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        testing_note("%zu bytes", sizes[i]);
        block *b = block_take(sizes[i]);
        assert_non_null(b);
        assert_int_equal((uintptr_t)b->bytes % 64, 0);
        assert_int_equal(b->size, sizes[i]);
        assert_true(b->capacity >= sizes[i]);
        memset(b->bytes, 0x5a, sizes[i]);
        block_release(b);
    }
}

static void no_size_class_is_too_small(void **state) {
    (void)state;
    for (size_t size = 1; size < (1 << 20) + 200; size += size < 70000 ? 1 : 997) {
        block *b = block_take(size);
        assert_true(b->capacity >= size);
#if MEM_CACHED
        if (size > 256 && size < 1 << 20) assert_true(b->capacity <= size + size / 4 + 64);
#endif
        block_release(b);
    }
}

static void freed_blocks_are_reused(void **state) {
    (void)state;
#if MEM_CACHED
    const size_t sizes[] = { 100, 20000, 5 << 20 };
    for (int i = 0; i < 3; i++) {
        block *b = block_take(sizes[i]);
        uint8_t *bytes = b->bytes;
        block_release(b);
        b = block_take(sizes[i]);
        assert_ptr_equal(b->bytes, bytes);
        block_release(b);
    }
    // A mapping serves blocks that waste at most a quarter of it.
    block *b = block_take(64 << 20);
    uint8_t *bytes = b->bytes;
    block_release(b);
    b = block_take(20 << 20);
    assert_ptr_not_equal(b->bytes, bytes);
    block *c = block_take(60 << 20);
    assert_ptr_equal(c->bytes, bytes);
    block_release(b);
    block_release(c);
#endif
}

static void free_blocks_can_be_given_to_the_system(void **state) {
    (void)state;
#if MEM_CACHED
    block *b = block_take(8 << 20);
    memset(b->bytes, 1, 8 << 20);
    block_release(b);
    assert_true(pool_idle_bytes() >= 8 << 20);
    pool_trim();
    assert_int_equal(pool_idle_bytes(), 0);
#endif
}

static void unused_blocks_are_given_to_the_system(void **state) {
    (void)state;
#if MEM_CACHED
    enum { COUNT = 8 };
    block *never[COUNT], *often = block_take(3 << 20);
    pool_trim();
    for (int i = 0; i < COUNT; i++) never[i] = block_take(8 << 20);
    for (int i = 0; i < COUNT; i++) block_release(never[i]);
    block_release(often);
    assert_true(pool_idle_bytes() >= COUNT * (8 << 20));
    // As if the time had passed: each returned block gives one to the system.
    pool_keep_for(0);
    for (int i = 0; i < COUNT; i++) {
        often = block_take(3 << 20);
        block_release(often);
    }
    pool_keep_for(4000);
    assert_int_equal(pool_idle_bytes(), often->capacity);
#endif
}

static void it_is_counted_while_in_use(void **state) {
    (void)state;
    size_t before = mem_live_count();
    block *b = block_take(1000), *c = block_take(5 << 20);
    assert_int_equal(mem_live_count(), before + 2);
    block_retain(b);
    block_release(b);
    block_release(b);
    block_release(c);
    assert_int_equal(mem_live_count(), before);
}

static int fail_always(size_t size) {
    (void)size;
    return 1;
}

static void tests_can_make_it_fail(void **state) {
    (void)state;
    block_release(block_take(1000));  // a block waits, and is not handed out all the same
    mem_fail_hook = fail_always;
    assert_null(block_take(1000));
    mem_fail_hook = NULL;
    assert_null(block_take(SIZE_MAX));
    assert_null(block_take(SIZE_MAX - 4096));
    assert_null(block_take((size_t)1 << 62));
}

static void count_call(void *context) {
    ++*(int *)context;
}

static void an_external_block_calls_its_release_function_once(void **state) {
    (void)state;
    int calls = 0;
    float bytes[4];
    block *b = block_of_external(bytes, sizeof bytes, count_call, &calls);
    assert_ptr_equal(b->bytes, bytes);
    block_retain(b);
    block_release(b);
    assert_int_equal(calls, 0);
    block_release(b);
    assert_int_equal(calls, 1);
    block_release(block_of_external(bytes, sizeof bytes, NULL, NULL));
    block_release(NULL);
}

static void a_pin_is_a_count(void **state) {
    (void)state;
    size_t before = mem_live_count();
    block *b = block_take(100);
    block_pin(b);
    block_release(b);
    assert_int_equal(b->pins, 1);
    b->bytes[99] = 1;
    block_unpin(b);
    assert_int_equal(mem_live_count(), before);
}

// ---- Threads ------------------------------------------------------------------------------------
enum { THREADS = 4, ROUNDS = 4000, SLOTS = 32 };

static block *_Atomic slots[SLOTS];

// Each thread puts blocks where another one takes them out and gives them back.
static void *exchange(void *seed) {
    uint32_t random = (uint32_t)(uintptr_t)seed;
    int rounds = testing_scaled(ROUNDS);
    for (int i = 0; i < rounds; i++) {
        random = random * 1664525 + 1013904223;
        size_t size = (random >> 8) % 20000 + 1;
        block *b = block_take(size);
        assert_non_null(b);
        memset(b->bytes, (int)(random >> 24), size);
        b = atomic_exchange(&slots[random % SLOTS], b);
        if (!b) continue;
        for (size_t k = 1; k < b->size; k += 97) assert_int_equal(b->bytes[k], b->bytes[0]);
        block_release(b);
    }
    return NULL;
}

static void blocks_move_between_threads(void **state) {
    (void)state;
    size_t before = mem_live_count();
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, exchange, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < SLOTS; i++) block_release(slots[i]);
    assert_int_equal(mem_live_count(), before);
    pool_trim();
}

// The system would promise it, and kill a process that touches too much of it.
static void more_than_the_machine_has_is_refused(void **state) {
    (void)state;
    assert_null(block_take((size_t)memory_limit() + 1));
    gw_scope *s = gw_scope_open(NULL);
    gw_zeros(s, GW_U8, (int64_t)memory_limit() + 1);
    assert_int_equal(gw_scope_error(s)->status, GW_NO_MEMORY);
    assert_non_null(strstr(gw_scope_error(s)->text, "no memory for a tensor of u8 "));
    gw_scope_close_up(s);
}

GW_TESTS(tensor_block, more_than_the_machine_has_is_refused, its_bytes_are_aligned_and_usable,
         no_size_class_is_too_small, freed_blocks_are_reused,
         free_blocks_can_be_given_to_the_system, unused_blocks_are_given_to_the_system,
         it_is_counted_while_in_use, tests_can_make_it_fail,
         an_external_block_calls_its_release_function_once, a_pin_is_a_count,
         blocks_move_between_threads);
