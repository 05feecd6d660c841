#include "tensor/block_index.h"

#include "tensor/pool.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <gradwire/binding.h>

static void it_finds_the_block_that_has_all_bytes(void **state) {
    (void)state;
    block blocks[64] = { 0 };
    uint8_t *base = (uint8_t *)(uintptr_t)0x100000;
    for (int i = 0; i < 64; i++) {
        int at = i * 37 % 64;  // in another order
        blocks[at] = (block){ .count = 1, .bytes = base + 1000 * at, .size = 900 };
        block_index_add(&blocks[at]);
    }
    for (int i = 0; i < 64; i++) {
        assert_ptr_equal(block_index_find(base + 1000 * i, 900), &blocks[i]);
        assert_ptr_equal(block_index_find(base + 1000 * i + 899, 1), &blocks[i]);
        assert_int_equal(blocks[i].count, 3);
        assert_null(block_index_find(base + 1000 * i, 901));
        assert_null(block_index_find(base + 1000 * i + 900, 1));
        assert_null(block_index_find(base + 1000 * i + 1, SIZE_MAX));
    }
    assert_null(block_index_find(base - 1, 2));
    for (int i = 0; i < 64; i += 2) block_index_remove(&blocks[i]);
    block_index_remove(&blocks[0]);
    assert_null(block_index_find(base, 1));
    assert_ptr_equal(block_index_find(base + 1000, 1), &blocks[1]);
    for (int i = 1; i < 64; i += 2) block_index_remove(&blocks[i]);
    assert_null(block_index_find(base + 1000, 1));
}

static void blocks_may_begin_at_one_address(void **state) {
    (void)state;
    uint8_t *base = (uint8_t *)(uintptr_t)0x100000;
    block x = { .count = 1, .bytes = base, .size = 900 }, y = x;
    block_index_add(&x);
    block_index_add(&y);
    block_index_remove(&x);
    assert_ptr_equal(block_index_find(base, 900), &y);
    // A smaller block, and one whose last count another thread has released.
    block small = { .count = 1, .bytes = base, .size = 100 },
          ended = { .bytes = base, .size = 900 };
    block_index_add(&small);
    block_index_add(&ended);
    assert_ptr_equal(block_index_find(base, 900), &y);
    assert_ptr_equal(block_index_find(base, 100), &small);
    assert_int_equal(ended.count, 0);
    block_index_remove(&ended);
    block_index_remove(&small);
    block_index_remove(&y);
    assert_null(block_index_find(base, 900));
}

enum { NUMBERS = 1 << 19 };  // 2 MiB

static void a_view_of_lendable_memory_shares_its_block(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, NUMBERS / 512, 512);
    float *numbers = gw_data_for_write(s, x);
    for (int i = 0; i < NUMBERS; i++) numbers[i] = (float)i;
    gw_tensor *all = gw_from_lendable(s, GW_F32, numbers, GW_SHAPE(NUMBERS));
    gw_tensor *part = gw_from_lendable(s, GW_F32, numbers + 1000, GW_SHAPE(10, 5));
    assert_ptr_equal(gw_data(all), numbers);
    assert_ptr_equal(gw_data(part), numbers + 1000);
    assert_float_equal(gw_item(s, gw_sum(s, part)), 50 * 1000 + 49 * 25, 0);
    assert_int_equal(gw_size(part, 1), 5);

    // Writes of the library to one of them do not change the others.
    gw_add_(s, part, 1.0);
    gw_add_(s, x, 2.0);
    assert_float_equal(gw_item(s, gw_sum(s, part)), 50 * 1000 + 49 * 25 + 50, 0);
    assert_true(((const float *)gw_data(all))[1001] == 1001);
    gw_tensor *kept = gw_from_lendable(s, GW_F32, numbers + 7, GW_SHAPE(1));
    gw_drop(s, all);
    gw_drop(s, part);
    assert_float_equal(gw_item(s, kept), 7, 0);  // the block lives as long as a view of it
    assert_string_equal(gw_scope_close(s).text, "");
}

static void other_memory_has_no_view(void **state) {
    (void)state;
    gw_scope *s = gw_scope_open(NULL);
    static float own[4];
    gw_tensor *small = gw_zeros(s, GW_F32, 4), *x = gw_zeros(s, GW_F32, NUMBERS);
    gw_tensor *blob = gw_from_blob(s, GW_F32, own, GW_SHAPE(4), NULL, NULL);
    const char *bytes = gw_data(x);
    assert_null(gw_from_lendable(s, GW_F32, own, GW_SHAPE(4)));
    assert_null(gw_from_lendable(s, GW_F32, gw_data(small), GW_SHAPE(4)));
    assert_null(gw_from_lendable(s, GW_F32, gw_data(blob), GW_SHAPE(4)));
    assert_null(gw_from_lendable(s, GW_F32, bytes + 2, GW_SHAPE(4)));
    assert_non_null(gw_from_lendable(s, GW_F16, bytes + 2, GW_SHAPE(4)));
    assert_null(gw_from_lendable(s, GW_F32, bytes, GW_SHAPE(NUMBERS + 1)));
    assert_null(gw_from_lendable(s, GW_F32, bytes, GW_SHAPE(0)));
    assert_true(gw_ok(s));
    assert_null(gw_from_lendable(s, (gw_dtype)99, bytes, GW_SHAPE(1)));
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    gw_scope_clear(s);
    assert_string_equal(gw_scope_close(s).text, "");
    s = gw_scope_open(NULL);
    assert_null(gw_from_lendable(s, GW_F32, bytes, GW_SHAPE(4)));  // its tensor is gone
    assert_string_equal(gw_scope_close(s).text, "");
}

static void view_all(void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(NULL);
    gw_tensor *x = gw_zeros(s, GW_F32, NUMBERS);
    if (gw_ok(s)) gw_from_lendable(s, GW_F32, gw_data(x), GW_SHAPE(NUMBERS));
    gw_error error = gw_scope_close(s);
    assert_true(!error.status || error.status == GW_NO_MEMORY);
}

static void without_memory_there_is_no_view(void **state) {
    (void)state;
    testing_alloc_failure_loop(view_all, NULL);
}

GW_TESTS(tensor_block_index, it_finds_the_block_that_has_all_bytes, blocks_may_begin_at_one_address,
         a_view_of_lendable_memory_shares_its_block, other_memory_has_no_view,
         without_memory_there_is_no_view);
