#include "wire/message.h"

#include "base/limits.h"
#include "testing/testing.h"

#include <string.h>

static void sent_blocks_are_pinned_until_the_last_release(void **state) {
    (void)state;
    block *b = block_take(100);
    message *m = message_open(1);
    assert_true(message_add_segment(m, b, 10, 80));
    assert_int_equal(b->pins, 1);
    message_retain(m);
    message_release(m);
    assert_int_equal(b->pins, 1);
    message_release(m);
    assert_int_equal(b->pins, 0);
    block_release(b);
}

static void it_counts_its_bytes(void **state) {
    (void)state;
    block *b = block_take(1000);
    message *m = message_open(1);
    bytes_put_text(&m->head, "head");
    message_add_segment(m, b, 0, 1000);
    message_add_segment(m, b, 500, 1);
    assert_int_equal(message_size(m), 8 + 1001);
    message_release(m);
    block_release(b);
}

static void it_seals_with_the_sizes_behind_the_head(void **state) {
    (void)state;
    block *b = block_take(LIMIT_FRAME_BYTES);
    message *m = message_open(1);
    gw_error error;
    bytes_put_u32(&m->head, 5);
    message_add_segment(m, b, 0, LIMIT_FRAME_BYTES);
    assert_int_equal(message_seal(m, &error), GW_OK);
    assert_int_equal(m->head_size, 4);
    assert_int_equal(m->head.size, 12);
    assert_int_equal(m->size, LIMIT_FRAME_BYTES + 12);
    assert_true(m->has_bulk);
    uint64_t size;
    memcpy(&size, m->head.data + 4, sizeof size);
    assert_int_equal(size, LIMIT_FRAME_BYTES);
    message_release(m);
    block_release(b);
}

static void only_large_messages_with_segments_have_bulk(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        block *b = block_take(LIMIT_FRAME_BYTES);
        message *m = message_open(1);
        gw_error error;
        if (i == 0) bytes_extend(&m->head, LIMIT_FRAME_BYTES + 1);
        if (i > 0) message_add_segment(m, b, 0, LIMIT_FRAME_BYTES - 11 + 2 * (size_t)i);
        assert_int_equal(message_seal(m, &error), GW_OK);
        assert_int_equal(m->has_bulk, i > 1 ? 1 : 0);
        message_release(m);
        block_release(b);
    }
}

static void it_drops_its_segments(void **state) {
    (void)state;
    block *b = block_take(LIMIT_FRAME_BYTES);
    message *m = message_open(1);
    gw_error error;
    bytes_put_u32(&m->head, 5);
    message_add_segment(m, b, 0, LIMIT_FRAME_BYTES);
    assert_int_equal(message_seal(m, &error), GW_OK);
    message_drop_segments(m);
    assert_int_equal(b->pins, 0);
    assert_true(m->size == 4 && m->head.size == 4 && !m->segment_count && !m->has_bulk);
    message_release(m);
    block_release(b);
}

static void it_refuses_to_grow_beyond_its_limits(void **state) {
    (void)state;
    gw_error error;
    block *b = block_take(64);
    message *m = message_open(1);
    for (int i = 0; i <= LIMIT_SEGMENTS; i++) assert_true(message_add_segment(m, b, 0, 64));
    assert_int_equal(message_seal(m, &error), GW_LIMIT);
    assert_string_equal(error.text, "message: 16385 large tensors, at most 16384 are allowed");
    message_release(m);

    m = message_open(1);
    for (int i = 0; i < 3; i++) assert_true(message_add_segment(m, b, 0, 64));
    for (int i = 0; i < 3; i++) m->segments[i].size = LIMIT_TENSOR_BYTES;
    assert_int_equal(message_seal(m, &error), GW_LIMIT);
    assert_string_equal(error.text, "message: 12884901888 bytes, at most 8 GiB are allowed");
    message_release(m);
    block_release(b);
}

static void it_copies_as_its_receiver_would_see_it(void **state) {
    (void)state;
    block *b = block_take(64);
    memset(b->bytes, 7, 64);
    message *m = message_open(3);
    bytes_put_text(&m->head, "head");
    message_add_segment(m, b, 32, 8);
    message *copy = message_copy(m);
    memset(b->bytes, 9, 64);
    assert_true(copy->received);
    assert_int_equal(copy->kind, 3);
    assert_int_equal(copy->head.size, 8);
    assert_int_equal(copy->segments[0].size, 8);
    assert_int_equal(copy->segments[0].block->bytes[copy->segments[0].offset], 7);
    assert_int_equal(copy->segments[0].block->pins, 0);
    message_release(copy);
    message_release(m);
    block_release(b);
}

static void fill_without_memory(void *context) {
    (void)context;
    block *b = block_take(64);
    message *m = message_open(1);
    if (b && m) {
        bool all = true;
        for (int i = 0; i < 9; i++) all = message_add_segment(m, b, 0, 64) && all;
        for (int i = 0; i < 100; i++) bytes_put_u64(&m->head, 1);
        gw_error error = { 0 };
        gw_status status = message_seal(m, &error);
        assert_true(status == GW_OK || status == GW_NO_MEMORY);
        if (all && !status) message_release(message_copy(m));
    }
    message_release(m);
    block_release(b);
}

static void it_survives_without_memory(void **state) {
    (void)state;
    testing_alloc_failure_loop(fill_without_memory, NULL);
}

GW_TESTS(wire_message, sent_blocks_are_pinned_until_the_last_release, it_counts_its_bytes,
         it_seals_with_the_sizes_behind_the_head, only_large_messages_with_segments_have_bulk,
         it_drops_its_segments, it_refuses_to_grow_beyond_its_limits,
         it_copies_as_its_receiver_would_see_it, it_survives_without_memory);
