#include "wire/frame.h"

#include "base/limits.h"
#include "testing/testing.h"

#include <string.h>

static const frame samples[] = {
    { .type = FRAME_DATA,
      .first = true,
      .body_size = 12,
      .number = 1,
      .ack = 0,
      .kind = 1,
      .head_size = 12 },
    { .type = FRAME_DATA,
      .first = true,
      .body_size = LIMIT_FRAME_BYTES,
      .number = UINT64_MAX,
      .ack = 99,
      .kind = 255,
      .segment_count = LIMIT_SEGMENTS,
      .head_size = UINT32_MAX },
    { .type = FRAME_DATA,
      .body_size = 1,
      .number = 77,
      .ack = UINT64_MAX,
      .body_check = 0x12345678 },
    { .type = FRAME_DATA,
      .first = true,
      .body_size = 20,
      .number = 8,
      .kind = 2,
      .has_bulk = true,
      .segment_count = 1,
      .head_size = 12 },
    { .type = FRAME_BULK, .body_size = LIMIT_FRAME_BYTES, .number = 9, .distance = 1 },
    { .type = FRAME_ACK, .ack = 5 },
    { .type = FRAME_PING, .ack = 5 },
    { .type = FRAME_GOODBYE, .ack = 5 },
    { .type = 200, .body_size = 100, .number = 3, .ack = 5 },
};

static void it_decodes_what_it_encodes(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        uint8_t raw[FRAME_HEADER_BYTES];
        frame f, want = samples[i];
        gw_error error;
        frame_encode(raw, &want);
        assert_int_equal(frame_decode(raw, &f, &error), GW_OK);
        assert_int_equal(f.type, want.type);
        assert_int_equal(f.first, want.first);
        assert_int_equal(f.body_size, want.body_size);
        assert_true(f.number == want.number && f.ack == want.ack);
        assert_int_equal(f.kind, want.kind);
        assert_int_equal(f.segment_count, want.segment_count);
        assert_int_equal(f.has_bulk, want.has_bulk);
        assert_int_equal(f.head_size, want.head_size);
        assert_int_equal(f.distance, want.distance);
        assert_int_equal(f.body_check, want.body_check);
    }
}

// A peer of another build must use the same layout: these bytes may not change within a version.
static void its_layout_matches_the_protocol(void **state) {
    (void)state;
    static const uint8_t want[FRAME_HEADER_BYTES - 4] = {
        'G', 'W', 1, 1, 12, 0, 0, 0,  // magic, type, first, body size
        2,   0,   0, 0, 0,  0, 0, 0,  // number
        1,   0,   0, 0, 0,  0, 0, 0,  // ack
        9,   1,   3, 0, 10, 0, 0, 0,  // kind, bulk, segment count, head size
        7,   0,   0, 0,               // body check
    };
    uint8_t raw[FRAME_HEADER_BYTES];
    frame_encode(raw, &(frame){ .type = FRAME_DATA,
                                .first = true,
                                .body_size = 12,
                                .number = 2,
                                .ack = 1,
                                .kind = 9,
                                .has_bulk = true,
                                .segment_count = 3,
                                .head_size = 10,
                                .body_check = 7 });
    assert_memory_equal(raw, want, sizeof want);
    // The check, computed as in docs/protocol/session.md.
    uint64_t x = 0, word = 0;
    for (size_t at = 0; at < sizeof want; at += 8, word = 0) {
        memcpy(&word, want + at, at < 32 ? 8 : 4);
        x = (x ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        x ^= x >> 32;
    }
    uint32_t check;
    memcpy(&check, raw + 36, sizeof check);
    assert_int_equal(check, (uint32_t)(x ^ x >> 32));
}

static void it_notices_every_flipped_bit(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        uint8_t raw[FRAME_HEADER_BYTES];
        frame f;
        frame_encode(raw, &samples[i]);
        for (int bit = 0; bit < FRAME_HEADER_BYTES * 8; bit++) {
            gw_error error;
            raw[bit / 8] ^= (uint8_t)(1 << bit % 8);
            assert_int_equal(frame_decode(raw, &f, &error), GW_DISCONNECTED);
            raw[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
    }
}

static void expect(frame f, gw_status status, const char *text) {
    uint8_t raw[FRAME_HEADER_BYTES];
    gw_error error;
    frame_encode(raw, &f);
    assert_int_equal(frame_decode(raw, &f, &error), status);
    assert_string_equal(error.text, text);
}

static void it_refuses_impossible_headers(void **state) {
    (void)state;
    expect((frame){ .type = FRAME_DATA, .first = true, .kind = 1 }, GW_PROTOCOL,
           "malformed frame: its data has no number");
    expect((frame){ .type = FRAME_DATA, .number = 4, .first = true }, GW_PROTOCOL,
           "malformed frame 4: the message kind is 0");
    expect((frame){ .type = FRAME_DATA, .number = 4, .kind = 1 }, GW_PROTOCOL,
           "frame 4 has the fields of a message's first frame, but is not the first");
    expect((frame){ .type = FRAME_DATA,
                    .number = 4,
                    .first = true,
                    .kind = 1,
                    .segment_count = LIMIT_SEGMENTS + 1 },
           GW_LIMIT, "malformed frame 4: 16385 segments, at most 16384 are allowed");
    expect((frame){ .type = FRAME_DATA, .number = 4, .body_size = LIMIT_FRAME_BYTES + 1 }, GW_LIMIT,
           "malformed frame: its body has 262145 bytes, at most 262144 are allowed");
    expect((frame){ .type = FRAME_DATA, .number = 4, .first = true, .kind = 1, .has_bulk = true },
           GW_PROTOCOL, "malformed frame 4: its message has bulk, but no segments");
    expect((frame){ .type = FRAME_BULK, .number = 4, .body_size = 1, .distance = 1, .kind = 1 },
           GW_PROTOCOL, "malformed frame 4: it has bulk, but fields of a data frame");
    expect((frame){ .type = FRAME_BULK, .number = 4, .body_size = 1 }, GW_PROTOCOL,
           "malformed frame 4: its bulk belongs to no message");
    expect((frame){ .type = FRAME_BULK, .number = 4, .body_size = 1, .distance = 4 }, GW_PROTOCOL,
           "malformed frame 4: its bulk belongs to no message");
    expect((frame){ .type = FRAME_BULK, .number = 4, .distance = 1 }, GW_PROTOCOL,
           "malformed frame 4: its bulk belongs to no message");
    expect((frame){ .type = FRAME_ACK, .kind = 4 }, GW_PROTOCOL,
           "malformed frame: fields of a data frame in a frame of type 2");
    expect((frame){ .type = FRAME_GOODBYE, .body_size = 4 }, GW_PROTOCOL,
           "malformed frame: fields of a data frame in a frame of type 4");
}

GW_TESTS(wire_frame, it_decodes_what_it_encodes, its_layout_matches_the_protocol,
         it_notices_every_flipped_bit, it_refuses_impossible_headers);
