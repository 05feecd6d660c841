// Memory by kind: the sum is what the allocators gave, and each kind has what it should.
#include "base/memory_kinds.h"
#include "base/mem.h"
#include "tensor/pool.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MIB = 1 << 20, MATRIX = 1024, MATRIX_BYTES = MATRIX * MATRIX * 4 };

static uint64_t bytes_of(memory_kind kind) {
    uint64_t all[MEMORY_KINDS];
    memory_read(all);
    return all[kind];
}

// Of blocks.
static uint64_t sum(void) {
    uint64_t all[MEMORY_KINDS], out = 0;
    memory_read(all);
    for (int i = 0; i <= MEMORY_IDLE; i++) out += all[i];
    return out;
}

static uint64_t resident(void) {
    unsigned long long all, here = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%llu %llu", &all, &here), 2);
    fclose(f);
    return here * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void small_blocks_are_what_malloc_gave(void **state) {
    (void)state;
    enum { COUNT = 1000 };
    static block *blocks[COUNT];
    if (!MEM_CACHED) testing_skip("the allocator of sanitizers does not count for mallinfo2");
    uint64_t before = sum(), given = mallinfo2().uordblks + mallinfo2().hblkhd;
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = block_take((size_t)(i * 7919) % (MIB / 8) + 1);
        assert_non_null(blocks[i]);
    }
    uint64_t counted = sum() - before;
    uint64_t real = mallinfo2().uordblks + mallinfo2().hblkhd - given;
    testing_note("%llu counted, %llu given", (unsigned long long)counted, (unsigned long long)real);
    assert_in_range(real, counted, counted + counted / 20);  // with headers and alignment
    for (int i = 0; i < COUNT; i++) block_release(blocks[i]);
    assert_int_equal(sum() - before, counted);  // they wait for reuse
    pool_trim();
    assert_true(sum() - before < counted);
}

static void large_blocks_are_resident_where_they_are_used(void **state) {
    (void)state;
    enum { COUNT = 16, EACH = 8 * MIB };
    block *blocks[COUNT];
    if (!MEM_CACHED) testing_skip("sanitizers keep memory that was given back");
    uint64_t before = sum(), resident_before = resident();
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = block_take(EACH);
        assert_non_null(blocks[i]);
        memset(block_writable(blocks[i], 0), 1, EACH);
    }
    assert_int_equal(sum() - before, COUNT * EACH);
    assert_in_range(resident() - resident_before, COUNT * EACH - MIB, COUNT * EACH + 8 * MIB);
    for (int i = 0; i < COUNT; i++) block_release(blocks[i]);
    assert_int_equal(bytes_of(MEMORY_IDLE) % EACH, 0);
    pool_trim();
    assert_int_equal(sum(), before);
    assert_true(resident() - resident_before < 8 * MIB);
}

static void a_step_of_training_has_each_kind(void **state) {
    (void)state;
    gw_scope *root = gw_scope_open(NULL);
    gw_tensor *w = gw_requires_grad(root, gw_zeros(root, GW_F32, MATRIX, MATRIX));
    gw_list *parameters = gw_list_open(root);
    gw_list_add(root, parameters, w);
    gw_optimizer *adam = gw_adam(root, parameters);
    assert_int_equal(bytes_of(MEMORY_PARAMETERS), MATRIX_BYTES);
    for (int step = 0; step < 3; step++) {
        gw_scope *s = gw_scope_open(root);
        gw_tensor *x = gw_ones(s, GW_F32, MATRIX, MATRIX);
        uint64_t saved = bytes_of(MEMORY_SAVED);
        gw_tensor *y = gw_tanh(s, gw_matmul(s, x, w));
        assert_int_equal(bytes_of(MEMORY_SAVED) - saved, 2 * MATRIX_BYTES);  // x, and the tanh
        gw_backward(s, gw_mean(s, y));
        assert_int_equal(bytes_of(MEMORY_GRADIENTS), MATRIX_BYTES);
        gw_optimizer_step(s, adam);
        assert_int_equal(bytes_of(MEMORY_OPTIMIZERS), 2 * MATRIX_BYTES);
        assert_int_equal(bytes_of(MEMORY_PARAMETERS), MATRIX_BYTES);
        assert_int_equal(gw_scope_close(s).status, GW_OK);
        assert_int_equal(bytes_of(MEMORY_SAVED), saved);
        assert_int_equal(bytes_of(MEMORY_GRADIENTS), 0);
        assert_int_equal(bytes_of(MEMORY_KEPT), 0);
    }
    assert_int_equal(gw_scope_close(root).status, GW_OK);
    uint64_t all[MEMORY_KINDS];
    memory_read(all);
    for (int i = 0; i < MEMORY_IDLE; i++)
        if (i != MEMORY_TENSORS) assert_int_equal(all[i], 0);
}

static void what_a_copy_keeps_is_counted_apart(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL), *keeps = gw_scope_open(NULL);
    gw_tensor *w = gw_requires_grad(s, gw_zeros(s, GW_F32, MATRIX, MATRIX));
    scope_own(keeps, tensor_saved(keeps, w));  // as a checkpoint and a message do
    assert_int_equal(bytes_of(MEMORY_PARAMETERS), MATRIX_BYTES);
    assert_true(storage_make_writable(w->storage));
    assert_int_equal(bytes_of(MEMORY_PARAMETERS), MATRIX_BYTES);
    assert_int_equal(bytes_of(MEMORY_KEPT), MATRIX_BYTES);
    assert_int_equal(gw_scope_close(keeps).status, GW_OK);
    assert_int_equal(bytes_of(MEMORY_KEPT), 0);
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void memory_of_the_program_is_counted_apart(void **state) {
    (void)state;
    static float numbers[1000];
    uint64_t before = sum(), external = bytes_of(MEMORY_EXTERNAL);
    block *b = block_of_external(numbers, sizeof numbers, NULL, NULL);
    assert_non_null(b);
    block_set_kind(b, MEMORY_GRADIENTS);
    assert_int_equal(bytes_of(MEMORY_EXTERNAL) - external, sizeof numbers);
    block_release(b);
    b = block_of_mapped((const uint8_t *)numbers, sizeof numbers, NULL, NULL);
    assert_int_equal(bytes_of(MEMORY_EXTERNAL), external);
    assert_int_equal(bytes_of(MEMORY_MAPPED), sizeof numbers);
    block_unpin(b);
    assert_int_equal(bytes_of(MEMORY_MAPPED), 0);
    assert_int_equal(sum(), before);
}

enum { THREADS = 8, TURNS = 3000, SLOTS = 64 };

// Each thread takes blocks, and gives back those of others.
static void *exchange(void *start) {
    static _Atomic(block *) slots[SLOTS];
    unsigned random = (unsigned)(uintptr_t)start + 1;
    for (int i = 0; i < TURNS; i++) {
        random = random * 1664525u + 1013904223u;
        block *b = block_take(random >> 8 & 0xffff);
        assert_non_null(b);
        if (random & 1u << 30) block_set_kind(b, MEMORY_GRADIENTS);
        block_release(atomic_exchange(&slots[random >> 24 & (SLOTS - 1)], b));
    }
    for (int i = 0; i < SLOTS; i++) block_release(atomic_exchange(&slots[i], NULL));
    return NULL;
}

static void threads_that_exchange_blocks_lose_none(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    uint64_t tensors = bytes_of(MEMORY_TENSORS), gradients = bytes_of(MEMORY_GRADIENTS);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, exchange, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    exchange(NULL);  // what the last ones have left
    assert_int_equal(bytes_of(MEMORY_TENSORS), tensors);
    assert_int_equal(bytes_of(MEMORY_GRADIENTS), gradients);
}

GW_TESTS(memory, small_blocks_are_what_malloc_gave, large_blocks_are_resident_where_they_are_used,
         a_step_of_training_has_each_kind, what_a_copy_keeps_is_counted_apart,
         memory_of_the_program_is_counted_apart, threads_that_exchange_blocks_lose_none);
