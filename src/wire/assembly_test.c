#include "wire/frame.h"

#include "base/limits.h"
#include "base/mem.h"
#include "testing/testing.h"

#include <string.h>

// The bytes of a message: a head of |head_size| bytes, then segments of |sizes|. Returns the count.
static size_t stream_of(uint8_t *out, uint32_t head_size, const uint64_t *sizes, uint32_t count) {
    size_t at = 0;
    for (; at < head_size; at++) out[at] = (uint8_t)(at * 7);
    memcpy(out + at, sizes, count * sizeof sizes[0]);
    at += count * sizeof sizes[0];
    for (uint32_t i = 0; i < count; i++)
        for (uint64_t k = 0; k < sizes[i]; k++) out[at++] = (uint8_t)(i * 31 + k * 13);
    return at;
}

// Puts |size| bytes in, at most |piece| at a time.
static gw_status feed(assembly *a, const uint8_t *data, size_t size, size_t piece,
                      gw_error *error) {
    while (size > 0) {
        uint8_t *into;
        size_t room;
        gw_status status = assembly_next(a, &into, &room, error);
        if (status) return status;
        if (room == 0) return GW_PROTOCOL;
        size_t n = size < piece ? size : piece;
        if (n > room) n = room;
        memcpy(into, data, n);
        assembly_advance(a, n);
        data += n;
        size -= n;
    }
    return GW_OK;
}

static void check(const message *m, const uint8_t *stream, uint32_t head_size,
                  const uint64_t *sizes, uint32_t count) {
    assert_int_equal(m->head.size, head_size);
    if (head_size) assert_memory_equal(m->head.data, stream, head_size);
    stream += head_size + count * sizeof sizes[0];
    assert_int_equal(m->segment_count, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(m->segments[i].size, sizes[i]);
        assert_memory_equal(m->segments[i].block->bytes, stream, sizes[i]);
        stream += sizes[i];
    }
}

static const uint64_t sizes[] = { 5, 1, 300 };
enum { HEAD = 50, COUNT = 3 };

static void it_puts_pieces_of_any_size_together(void **state) {
    (void)state;
    uint8_t stream[1000];
    size_t size = stream_of(stream, HEAD, sizes, COUNT);
    for (size_t piece = 1; piece <= size; piece++) {
        assembly a;
        gw_error error;
        assert_int_equal(assembly_open(&a, 1, HEAD, COUNT, false, &error), GW_OK);
        assert_false(assembly_is_complete(&a));
        assert_int_equal(feed(&a, stream, size, piece, &error), GW_OK);
        assert_true(assembly_is_complete(&a));
        message *m = assembly_take(&a);
        check(m, stream, HEAD, sizes, COUNT);
        message_release(m);
    }
}

static void it_is_complete_without_bytes(void **state) {
    (void)state;
    assembly a;
    gw_error error;
    assert_int_equal(assembly_open(&a, 1, 0, 0, false, &error), GW_OK);
    assert_true(assembly_is_complete(&a));
    uint8_t *into;
    size_t room;
    assert_int_equal(assembly_next(&a, &into, &room, &error), GW_OK);
    assert_int_equal(room, 0);
    message_release(assembly_take(&a));
}

static void an_incomplete_message_is_freed(void **state) {
    (void)state;
    uint8_t stream[1000];
    size_t size = stream_of(stream, HEAD, sizes, COUNT);
    for (size_t part = 0; part < size; part++) {
        assembly a;
        gw_error error;
        assembly_open(&a, 1, HEAD, COUNT, false, &error);
        feed(&a, stream, part, 17, &error);
        assembly_drop(&a);
        assert_null(a.message);
    }
}

// A frame ended at |kept|; the next one broke at |lost| and is sent again, perhaps with other bytes.
static void it_rewinds_to_the_last_whole_frame(void **state) {
    (void)state;
    uint8_t first[1000], second[1000];
    const uint64_t others[] = { 200, 3, 60 };
    stream_of(first, HEAD, sizes, COUNT);
    for (size_t kept = 0; kept < 380; kept += 3) {
        for (size_t lost = kept; lost < 380; lost += 7) {
            // The kept bytes are the same; the resent ones contain other sizes, if no size was
            // kept.
            bool other = kept < HEAD + 8 * COUNT;
            const uint64_t *later = other ? others : sizes;
            size_t size = stream_of(second, HEAD, later, COUNT);
            if (other && kept > HEAD) continue;
            assembly a;
            gw_error error;
            assembly_open(&a, 1, HEAD, COUNT, false, &error);
            feed(&a, first, kept, 11, &error);
            assembly_mark mark = a.at;
            feed(&a, first + kept, lost - kept, 11, &error);
            assembly_rewind(&a, mark);
            assert_int_equal(feed(&a, second + kept, size - kept, 13, &error), GW_OK);
            assert_true(assembly_is_complete(&a));
            message *m = assembly_take(&a);
            check(m, second, HEAD, later, COUNT);
            message_release(m);
        }
    }
}

static void it_refuses_sizes_before_it_takes_memory(void **state) {
    (void)state;
    static const struct {
        uint64_t sizes[3];
        gw_status status;
        const char *text;
    } cases[] = {
        { { 1, 0, 1 }, GW_PROTOCOL, "message: segment 1 is empty" },
        { { LIMIT_TENSOR_BYTES + 1, 1, 1 },
          GW_LIMIT,
          "message: segment 0 has 4294967297 bytes, at most 4 GiB are allowed" },
        { { UINT64_MAX, 1, 1 },
          GW_LIMIT,
          "message: segment 0 has 18446744073709551615 bytes, at most 4 GiB are allowed" },
        { { LIMIT_TENSOR_BYTES, LIMIT_TENSOR_BYTES, 1 },
          GW_LIMIT,
          "message: segment 1 makes it larger than 8 GiB" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assembly a;
        gw_error error;
        uint8_t *into;
        size_t room;
        assembly_open(&a, 1, 0, 3, false, &error);
        assert_int_equal(feed(&a, (const uint8_t *)cases[i].sizes, 24, 24, &error), GW_OK);
        size_t live = mem_live_count();
        assert_int_equal(assembly_next(&a, &into, &room, &error), cases[i].status);
        assert_string_equal(error.text, cases[i].text);
        assert_int_equal(mem_live_count(), live);
        assembly_drop(&a);
    }
}

// ---- With bulk ----------------------------------------------------------------------------------

static message *announce(assembly *a, const uint8_t *stream, gw_error *error) {
    message *m = NULL;
    assert_int_equal(assembly_open(a, 1, HEAD, COUNT, true, error), GW_OK);
    assert_int_equal(feed(a, stream, HEAD + 8 * COUNT, 11, error), GW_OK);
    assert_true(assembly_is_complete(a));
    assert_int_equal(assembly_announce(a, &m, error), GW_OK);
    assert_false(assembly_is_complete(a));
    return m;
}

static void it_announces_a_message_before_its_bulk(void **state) {
    (void)state;
    uint8_t stream[1000];
    size_t size = stream_of(stream, HEAD, sizes, COUNT), behind = HEAD + 8 * COUNT;
    assembly a;
    gw_error error;
    message *m = announce(&a, stream, &error);
    assert_true(m->incomplete && a.bulk_bytes == size - behind);
    assert_int_equal(message_size(m), HEAD + size - behind);
    assert_int_equal(feed(&a, stream + behind, size - behind, 7, &error), GW_OK);
    assert_true(assembly_is_complete(&a));
    message_release(assembly_finish(&a));
    assert_false(m->incomplete);
    check(m, stream, HEAD, sizes, COUNT);
    message_release(m);
}

// Segments that were inserted meanwhile keep their position.
static void it_fills_in_segments_around_others(void **state) {
    (void)state;
    uint8_t stream[1000];
    size_t size = stream_of(stream, HEAD, sizes, COUNT), behind = HEAD + 8 * COUNT;
    assembly a;
    gw_error error;
    message *m = announce(&a, stream, &error);
    segment *more = mem_calloc(4 * sizeof *more);
    block *other = block_take(9);
    const int from[4] = { 0, -1, 1, 2 };
    for (int i = 0; i < 4; i++)
        more[i] = from[i] < 0 ? (segment){ .block = other, .size = 9 } : m->segments[from[i]];
    mem_free(m->segments);
    m->segments = more;
    m->segment_count = 4;
    assert_int_equal(feed(&a, stream + behind, size - behind, 50, &error), GW_OK);
    message_release(assembly_finish(&a));
    assert_ptr_equal(m->segments[1].block, other);
    assert_memory_equal(m->segments[2].block->bytes, stream + behind + 5, 1);
    assert_memory_equal(m->segments[3].block->bytes, stream + behind + 6, 300);
    message_release(m);
}

// The receiver of the message sets the target of its only segment; a lost frame is received there again.
static void it_receives_a_segment_into_its_target(void **state) {
    (void)state;
    enum { BEHIND = HEAD + 8, AT = 64 };
    const uint64_t size[] = { 300 };
    uint8_t stream[1000];
    stream_of(stream, HEAD, size, 1);
    for (size_t lost = 0; lost < 300; lost += 37) {
        assembly a;
        gw_error error;
        message *m;
        assembly_open(&a, 1, HEAD, 1, true, &error);
        feed(&a, stream, BEHIND, 11, &error);
        assert_int_equal(assembly_announce(&a, &m, &error), GW_OK);
        block *b = block_take(400);
        message_set_target(m, b, 0, 299);  // which is not its size
        message_set_target(m, b, AT, 300);
        feed(&a, stream + BEHIND, lost, 11, &error);
        assembly_rewind(&a, (assembly_mark){ .head_done = BEHIND });
        assert_int_equal(feed(&a, stream + BEHIND, 300, 13, &error), GW_OK);
        message_release(assembly_finish(&a));
        assert_ptr_equal(m->segments[0].block, b);
        assert_int_equal(m->segments[0].offset, AT);
        assert_memory_equal(b->bytes + AT, stream + BEHIND, 300);
        message_release(m);
        assert_int_equal(b->count, 1);
        block_release(b);
    }
}

static void an_incomplete_bulk_is_dropped(void **state) {
    (void)state;
    uint8_t stream[1000];
    size_t behind = HEAD + 8 * COUNT;
    stream_of(stream, HEAD, sizes, COUNT);
    for (size_t part = 0; part < 300; part += 7) {
        assembly a;
        gw_error error;
        message *m = announce(&a, stream, &error);
        assert_int_equal(feed(&a, stream + behind, part, 7, &error), GW_OK);
        if (part % 2) assembly_forget_segments(&a);
        assembly_drop(&a);
        assert_true(m->incomplete);
        message_release(m);
    }
}

static size_t largest;

static int note_size(size_t size) {
    if (size > largest) largest = size;
    return 0;
}

// A claimed head of 4 GiB and claimed segments allocate next to nothing.
static void it_takes_memory_as_bytes_arrive(void **state) {
    (void)state;
    assembly a;
    gw_error error;
    uint8_t *into;
    size_t room;
    largest = 0;
    mem_fail_hook = note_size;
    assembly_open(&a, 1, UINT32_MAX - 1, LIMIT_SEGMENTS, false, &error);
    assert_int_equal(assembly_next(&a, &into, &room, &error), GW_OK);
    mem_fail_hook = NULL;
    assert_true(largest <= 64 * 1024);
    assembly_drop(&a);
}

static void assemble_without_memory(void *context) {
    (void)context;
    uint8_t stream[1000];
    size_t size = stream_of(stream, HEAD, sizes, COUNT);
    assembly a;
    gw_error error;
    if (assembly_open(&a, 1, HEAD, COUNT, false, &error) == GW_OK) {
        gw_status status = feed(&a, stream, size, 20, &error);
        assert_true(status == GW_OK || status == GW_NO_MEMORY);
    }
    assembly_drop(&a);
}

static void it_survives_without_memory(void **state) {
    (void)state;
    testing_alloc_failure_loop(assemble_without_memory, NULL);
}

GW_TESTS(wire_assembly, it_puts_pieces_of_any_size_together, it_is_complete_without_bytes,
         an_incomplete_message_is_freed, it_rewinds_to_the_last_whole_frame,
         it_refuses_sizes_before_it_takes_memory, it_takes_memory_as_bytes_arrive,
         it_announces_a_message_before_its_bulk, it_fills_in_segments_around_others,
         it_receives_a_segment_into_its_target, an_incomplete_bulk_is_dropped,
         it_survives_without_memory);
