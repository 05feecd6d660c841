#include "base/mem.h"
#include "tensor/tensor.h"
#include "testing/testing.h"

#include <string.h>

static int fail_always(size_t size) {
    (void)size;
    return 1;
}

static void each_write_counts(void **state) {
    (void)state;
    storage *st = storage_open(block_take(16));
    assert_int_equal(st->version, 0);
    assert_ptr_equal(storage_writable(st), st->block->bytes);
    assert_ptr_equal(storage_writable(st), st->block->bytes);
    assert_int_equal(st->version, 2);
    storage_release(st);
}

static void a_pinned_block_is_copied_before_it_is_written(void **state) {
    (void)state;
    size_t before = mem_live_count();
    storage *st = storage_open(block_take(16));
    memset(st->block->bytes, 1, 16);
    block *sent = block_pin(st->block);
    uint8_t *bytes = storage_writable(st);
    assert_ptr_not_equal(bytes, sent->bytes);
    assert_int_equal(bytes[15], 1);
    bytes[15] = 2;
    assert_int_equal(sent->bytes[15], 1);
    assert_ptr_equal(storage_writable(st), bytes);  // once
    block_unpin(sent);
    storage_release(st);
    assert_int_equal(mem_live_count(), before);
}

static void without_memory_the_old_values_stay(void **state) {
    (void)state;
    storage *st = storage_open(block_take(16));
    block *sent = block_pin(st->block);
    mem_fail_hook = fail_always;
    assert_null(storage_writable(st));
    mem_fail_hook = NULL;
    assert_ptr_equal(st->block, sent);
    assert_int_equal(st->version, 0);
    block_unpin(sent);
    storage_release(st);
}

static void opening_takes_the_count_even_when_it_fails(void **state) {
    (void)state;
    size_t before = mem_live_count();
    block *b = block_take(16);
    mem_fail_hook = fail_always;
    assert_null(storage_open(b));
    mem_fail_hook = NULL;
    assert_int_equal(mem_live_count(), before);
}

GW_TESTS(tensor_storage, each_write_counts, a_pinned_block_is_copied_before_it_is_written,
         without_memory_the_old_values_stay, opening_takes_the_count_even_when_it_fails);
