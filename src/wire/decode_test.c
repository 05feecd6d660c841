// Bytes from a hostile peer, or one whose memory is broken: each is refused with one error text,
// or is a value.
#include "wire/codec.h"

#include "base/limits.h"
#include "base/mem.h"
#include "base/scope.h"
#include "testing/testing.h"

#include <stdlib.h>
#include <string.h>

// The head is in memory of exactly its size, so that a sanitizer detects each byte read beyond it.
static message *received(const void *head, size_t size) {
    message *m = message_open(1);
    m->received = true;
    m->head.data = mem_alloc(size ? size : 1);
    m->head.size = m->head.capacity = size;
    if (size) memcpy(m->head.data, head, size);
    return m;
}

static gw_status take_attachment(void *user, decoder *d, gw_kind kind, gw_value *out,
                                 gw_error *error) {
    (void)user, (void)kind, (void)error;
    reader_u32(&d->in);
    *out = gw_none();
    return d->in.failed ? GW_PROTOCOL : GW_OK;
}

static gw_status decode(message *m, gw_scope *s, gw_error *error) {
    decoder d = { .message = m,
                  .in = reader_of(m->head.data, m->head.size),
                  .scope = s,
                  .attachment = take_attachment };
    gw_value v;
    return decode_value(&d, &v, error);
}

// Decodes twice: only checking, and making. Both must give the same result.
static gw_status try_decode(const void *head, size_t size, gw_error *error) {
    gw_scope *s = gw_scope_open(NULL);
    message *m = received(head, size);
    gw_error other;
    gw_status checked = decode(m, NULL, &other);
    gw_status made = decode(m, s, error);
    // A check makes no map, so it does not detect a repeated key.
    const char repeated[] = "malformed map: it has the key ";
    if (made != checked)
        assert_true(made == GW_PROTOCOL && !strncmp(error->text, repeated, sizeof repeated - 1));
    message_release(m);
    gw_error closed = gw_scope_close(s);
    (void)closed;
    return made;
}

static void expect(const void *head, size_t size, gw_status status, const char *text) {
    gw_error error = { 0 };
    assert_int_equal(try_decode(head, size, &error), status);
    assert_string_equal(error.text, text);
}

#define EXPECT(status, text, ...)                                                                  \
    expect((const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }), status, text)

static void its_error_names_the_first_wrong_field(void **state) {
    (void)state;
    expect("", 0, GW_PROTOCOL, "value: the message ends inside it");
    EXPECT(GW_PROTOCOL, "value: tag 13 does not exist", 13);
    EXPECT(GW_PROTOCOL, "value: tag 255 does not exist", 255);
    EXPECT(GW_PROTOCOL, "bool: 2", 1, 2);
    EXPECT(GW_PROTOCOL, "int: the message ends inside it", 2, 1, 2, 3);
    EXPECT(GW_PROTOCOL, "string: a NUL in it", 4, 2, 0, 0, 0, 'a', 0);
    EXPECT(GW_PROTOCOL, "string: the message ends inside it", 4, 255, 255, 255, 255, 'a');
    EXPECT(GW_PROTOCOL, "bytes: the message ends inside it", 5, 255, 255, 255, 255, 255, 255, 255,
           255);
    EXPECT(GW_PROTOCOL, "list: the message ends inside it", 7, 2, 0, 0, 0, 0);
    EXPECT(GW_PROTOCOL, "map: the message ends inside it", 8, 1, 0, 0, 0, 0);
    EXPECT(GW_PROTOCOL, "malformed map: it has the key \"a\" twice", 8, 2, 0, 0, 0, 1, 0, 0, 0, 'a',
           0, 1, 0, 0, 0, 'a', 0);
    EXPECT(GW_PROTOCOL, "malformed worker: rank 4096, but ranks are less than 4096", 11, 1, 0, 0, 0,
           'w', 0, 16, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0);
    EXPECT(GW_PROTOCOL, "malformed error: invalid lost worker", 12, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
           0, 0, 0, 0, GW_LOSS_COUNT, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    EXPECT(GW_PROTOCOL, "malformed error: it counts calls that are not in its text", 12, 1, 0, 0, 0,
           0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0);
    EXPECT(GW_PROTOCOL, "malformed error: unknown status 0", 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
           0, 0, 0, 0, 0, 0, 0, 0);
    EXPECT(GW_PROTOCOL, "malformed error: unknown status 99", 12, 99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
           0, 0, 0, 0, 0, 0, 0, 0, 0);
    EXPECT(GW_PROTOCOL, "malformed error: unknown outcome 4", 12, 1, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0,
           0, 0, 0, 0, 0, 0, 0, 0, 0);
}

#define SIZE(x) x, 0, 0, 0, 0, 0, 0, 0

static void its_error_names_the_wrong_field_of_a_tensor(void **state) {
    (void)state;
    EXPECT(GW_UNSUPPORTED, "tensor: dtype 10 is unknown here", 6, 10, 0, 0, 0, 0);
    EXPECT(GW_UNSUPPORTED, "tensor: device 1 is unknown here", 6, 0, 1, 0, 0, 0);
    EXPECT(GW_UNSUPPORTED, "tensor: layout 7 is unknown here", 6, 0, 0, 7, 0, 0);
    EXPECT(GW_LIMIT, "malformed tensor: 33 dimensions, at most 32 are allowed", 6, 0, 0, 0, 33, 0);
    EXPECT(GW_PROTOCOL, "malformed tensor: the place 2 of its elements is invalid", 6, 0, 0, 0, 0,
           2);
    EXPECT(GW_PROTOCOL, "tensor: the message ends inside it", 6, 0, 0, 0, 1, 0, 1, 2);
    EXPECT(GW_PROTOCOL, "malformed tensor: size -1 of dimension 0 is invalid", 6, 0, 0, 0, 1, 0,
           255, 255, 255, 255, 255, 255, 255, 255);
    EXPECT(GW_PROTOCOL, "tensor: the product of its sizes overflows at dimension 1", 6, 0, 0, 0, 2,
           0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0);
    EXPECT(GW_PROTOCOL, "tensor: the product of its sizes overflows at dimension 2", 6, 0, 0, 0, 3,
           0, SIZE(0), 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0);
    EXPECT(GW_LIMIT, "malformed tensor: 1099511627776 numbers of f32, at most 4 GiB are allowed", 6,
           0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0);
    EXPECT(GW_LIMIT,
           "malformed tensor: 4611686018427387904 numbers of f64, at most 4 GiB are allowed", 6, 1,
           0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 64);
    EXPECT(GW_PROTOCOL, "malformed tensor: it needs 8 bytes, but the message has 7 left", 6, 0, 0,
           0, 1, 0, SIZE(2), 1, 2, 3, 4, 5, 6, 7);
    EXPECT(GW_PROTOCOL, "malformed tensor: segment 0 is out of range for 0 segments", 6, 0, 0, 0, 1,
           1, SIZE(2));
    EXPECT(GW_PROTOCOL, "malformed tensor: a bool is neither 0 nor 1", 6, 9, 0, 0, 1, 0, SIZE(2), 1,
           2);
}

// A tensor of rows, bf16 5x1, and its parts.
#define WHOLE 6, 3, 0, 1, 2, 0, SIZE(5), SIZE(1)
#define INDICES(n) 4, 0, 0, 1, 0, SIZE(n)
#define VALUES(n, length) 3, 0, 0, 2, 0, SIZE(n), SIZE(length)

static void its_error_names_the_wrong_field_of_rows(void **state) {
    (void)state;
    EXPECT(GW_PROTOCOL, "malformed tensor: the place 1 of its elements is invalid", 6, 3, 0, 1, 2,
           1, SIZE(5), SIZE(1));
    EXPECT(GW_PROTOCOL, "malformed tensor: rows of i64, which is not floating", 6, 4, 0, 1, 1, 0,
           SIZE(5));
    EXPECT(GW_PROTOCOL, "malformed tensor: a scalar cannot have rows", 6, 3, 0, 1, 0, 0);
    EXPECT(GW_LIMIT,
           "malformed tensor: 1152921504606846976 numbers of bf16, at most 4 GiB are allowed", 6, 3,
           0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 16);
    EXPECT(GW_PROTOCOL, "tensor: the message ends inside it", WHOLE);
    EXPECT(GW_PROTOCOL, "malformed tensor: a part of a tensor that is sparse by rows has layout 1",
           WHOLE, 4, 0, 1, 1, 0, SIZE(1));
    EXPECT(GW_PROTOCOL, "malformed tensor: indices of rows are i32 and have 1 dimensions", WHOLE, 5,
           0, 0, 1, 0, SIZE(0));
    EXPECT(GW_PROTOCOL, "malformed tensor: indices of rows are i64 and have 0 dimensions", WHOLE, 4,
           0, 0, 0, 0, SIZE(0));
    EXPECT(GW_PROTOCOL, "malformed tensor: index 1 is 5, which is out of range for 5 rows", WHOLE,
           INDICES(2), SIZE(4), SIZE(5));
    EXPECT(GW_PROTOCOL,
           "malformed tensor: index 0 is -9223372036854775808, which is out of range for 5 rows",
           WHOLE, INDICES(1), 0, 0, 0, 0, 0, 0, 0, 128);
    EXPECT(GW_PROTOCOL, "tensor: the message ends inside it", WHOLE, INDICES(1), SIZE(0));
    EXPECT(GW_PROTOCOL, "malformed tensor: the values of its rows have another shape", WHOLE,
           INDICES(1), SIZE(0), VALUES(2, 1), 0, 0, 0, 0);
    EXPECT(GW_PROTOCOL, "malformed tensor: the values of its rows have another shape", WHOLE,
           INDICES(1), SIZE(0), VALUES(1, 2), 0, 0, 0, 0);
    EXPECT(GW_PROTOCOL, "malformed tensor: the values of its rows have another shape", WHOLE,
           INDICES(1), SIZE(0), 2, 0, 0, 2, 0, SIZE(1), SIZE(1), 0, 0);
    EXPECT(GW_PROTOCOL, "malformed tensor: the values of its rows have another shape", WHOLE,
           INDICES(1), SIZE(0), 3, 0, 0, 1, 0, SIZE(1), 0, 0);
    EXPECT(GW_PROTOCOL, "malformed tensor: it needs 2 bytes, but the message has 1 left", WHOLE,
           INDICES(1), SIZE(0), VALUES(1, 1), 0);
}

static void it_uses_a_segment_once_and_whole(void **state) {
    (void)state;
    uint8_t head[] = { 7, 2, 0, 0, 0, 6, 0, 0, 0, 1, 1, SIZE(16), 6, 0, 0, 0, 1, 1, SIZE(16) };
    for (size_t size = 60; size <= 64; size += 4) {
        message *m = received(head, sizeof head);
        m->segments = mem_calloc(sizeof *m->segments);
        m->segments[0] = (segment){ .block = block_take(size), .size = size };
        m->segment_count = m->segment_capacity = 1;
        gw_error error;
        assert_int_equal(decode(m, NULL, &error), GW_PROTOCOL);
        assert_string_equal(
            error.text, size == 64 ? "malformed tensor: segment 1 is out of range for 1 segments"
                                   : "malformed tensor: it needs 64 bytes, but its segment has 60");
        message_release(m);
    }
}

static void it_bounds_depth_and_count(void **state) {
    (void)state;
    enum { DEEP = 100000 };
    uint8_t *head = mem_calloc(DEEP * 5 + 1);
    for (int i = 0; i < DEEP; i++) memcpy(head + i * 5, (uint8_t[]){ 7, 1, 0, 0, 0 }, 5);
    expect(head, DEEP * 5 + 1, GW_LIMIT, "value: lists and maps nested deeper than 32");
    mem_free(head);

    size_t size = 5 + LIMIT_VALUES + 1;
    head = mem_calloc(size);
    uint32_t count = LIMIT_VALUES;
    head[0] = 7;
    memcpy(head + 1, &count, sizeof count);
    expect(head, size, GW_LIMIT, "malformed message: it has more than 1048576 values");
    mem_free(head);
}

// ---- A sample of every kind, and then broken ----------------------------------------------------
static size_t make_sample(uint8_t *out, size_t max) {
    gw_scope *s = gw_scope_open(NULL);
    gw_map *map = gw_map_open(s);
    gw_list *list = gw_list_open(s);
    gw_worker w = { .name = "trainer", .rank = 2, .incarnation = 77 };
    gw_error e = { .status = GW_REMOTE, .outcome = GW_RAN_AND_FAILED, .text = "no" };
    gw_list_add(s, list, true);
    gw_list_add(s, list, -5);
    gw_list_add(s, list, 2.5);
    gw_list_add(s, list, "text");
    gw_list_add(s, list, gw_value_of_bytes("bytes", 5));
    gw_list_add(s, list, gw_ones(s, GW_F32, 2, 3));
    gw_list_add(s, list, gw_ones(s, GW_BOOL8, 4));
    gw_map_put(s, map, "list", list);
    gw_map_put(s, map, "worker", &w);
    gw_map_put(s, map, "error", &e);
    gw_map_put(s, map, "none", gw_none());
    encoder enc = { .message = message_open(1) };
    gw_error error;
    assert_int_equal(encode_value(&enc, gw_value_of(map), &error), GW_OK);
    size_t size = enc.message->head.size;
    assert_true(size <= max);
    memcpy(out, enc.message->head.data, size);
    message_release(enc.message);
    gw_error closed = gw_scope_close(s);
    assert_int_equal(closed.status, GW_OK);
    return size;
}

static void it_refuses_truncated_messages(void **state) {
    (void)state;
    uint8_t sample[1024];
    size_t size = make_sample(sample, sizeof sample);
    gw_error error;
    assert_int_equal(try_decode(sample, size, &error), GW_OK);
    for (size_t part = 0; part < size; part++) {
        assert_int_equal(try_decode(sample, part, &error), GW_PROTOCOL);
        assert_true(error.text[0] != '\0');
    }
}

static void it_survives_every_flipped_bit(void **state) {
    (void)state;
    uint8_t sample[1024];
    size_t size = make_sample(sample, sizeof sample);
    for (size_t bit = 0; bit < size * 8; bit++) {
        gw_error error = { 0 };
        sample[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (try_decode(sample, size, &error)) assert_true(error.text[0] != '\0');
        sample[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

static void it_survives_random_bytes(void **state) {
    (void)state;
    uint8_t sample[1024], bytes[200];
    size_t sample_size = make_sample(sample, sizeof sample);
    uint64_t random = 1;
    for (int i = 0; i < testing_scaled(50000); i++) {
        testing_note("round %d", i);
        size_t size = 0;
        for (; size < sizeof bytes; size++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            // Small numbers make tags and counts; pieces of a sample reach deeper code.
            uint8_t x = (uint8_t)(random >> 40);
            bytes[size] = x % 4 ? x % 16 : sample[(size + (random >> 50)) % sample_size];
        }
        gw_error error;
        try_decode(bytes, (size_t)(random >> 33) % sizeof bytes, &error);
    }
}

GW_TESTS(wire_decode, its_error_names_the_first_wrong_field,
         its_error_names_the_wrong_field_of_a_tensor, its_error_names_the_wrong_field_of_rows,
         it_uses_a_segment_once_and_whole, it_bounds_depth_and_count, it_refuses_truncated_messages,
         it_survives_every_flipped_bit, it_survives_random_bytes);
