#include "net/handshake.h"

#include "base/bytes.h"
#include "base/limits.h"
#include "testing/testing.h"

#include <stdio.h>
#include <string.h>

static gw_status read_back(const uint8_t *raw, size_t size, handshake *out, gw_error *error) {
    size_t want;
    uint16_t version;
    gw_status status = handshake_size(raw, size, &want, &version, error);
    if (status) return status;
    assert_int_equal(want, size);
    return handshake_decode(raw, size, out, error);
}

static void it_decodes_what_it_encodes(void **state) {
    (void)state;
    uint8_t raw[HANDSHAKE_MAX];
    gw_error error;
    handshake h, session = { .kind = HANDSHAKE_SESSION,
                             .from_rank = 1,
                             .to_rank = 2,
                             .from_incarnation = UINT64_MAX,
                             .to_incarnation = 4,
                             .connection_number = 5,
                             .received = 6 };
    assert_int_equal(read_back(raw, handshake_encode(raw, &session), &h, &error), GW_OK);
    assert_int_equal(h.kind, HANDSHAKE_SESSION);
    assert_true(h.from_rank == 1 && h.to_rank == 2 && h.from_incarnation == UINT64_MAX);
    assert_true(h.to_incarnation == 4 && h.connection_number == 5 && h.received == 6);
    handshake welcome = { .kind = HANDSHAKE_WELCOME, .connection_number = 7, .received = 8 };
    assert_int_equal(read_back(raw, handshake_encode(raw, &welcome), &h, &error), GW_OK);
    assert_true(h.kind == HANDSHAKE_WELCOME && h.connection_number == 7 && h.received == 8);
    handshake refusal = {
        .kind = HANDSHAKE_REFUSAL, .reason = REFUSED_LOST, .connection_number = 9, .text = "no"
    };
    assert_int_equal(read_back(raw, handshake_encode(raw, &refusal), &h, &error), GW_OK);
    assert_true(h.kind == HANDSHAKE_REFUSAL && h.reason == REFUSED_LOST &&
                h.connection_number == 9);
    assert_string_equal(h.text, "no");
    assert_int_equal(
        read_back(raw, handshake_encode(raw, &(handshake){ .kind = HANDSHAKE_STORE }), &h, &error),
        GW_OK);
    assert_int_equal(h.kind, HANDSHAKE_STORE);
}

static void its_layout_matches_the_protocol(void **state) {
    (void)state;
    static const uint8_t want[] = { 'G', 'R', 'A', 'D', 'W', 'I', 'R', 'E', 1, 0, 3, 0,
                                    20,  0,   0,   0,   7,   0,   0,   0,   0, 0, 0, 0,
                                    8,   0,   0,   0,   0,   0,   0,   0,   0, 0, 0, 0 };
    uint8_t raw[HANDSHAKE_MAX];
    handshake welcome = { .kind = HANDSHAKE_WELCOME, .connection_number = 7, .received = 8 };
    size_t size = handshake_encode(raw, &welcome);
    assert_int_equal(size, sizeof want);
    assert_memory_equal(raw, want, size);
}

static void it_refuses_other_protocols_at_once(void **state) {
    (void)state;
    size_t size;
    uint16_t version;
    gw_error error;
    assert_int_equal(handshake_size((const uint8_t *)"GRAD", 4, &size, &version, &error), GW_OK);
    assert_int_equal(handshake_size((const uint8_t *)"G", 1, &size, &version, &error), GW_OK);
    assert_int_equal(handshake_size((const uint8_t *)"GE", 2, &size, &version, &error),
                     GW_PROTOCOL);
    assert_string_equal(error.text, "it sent \"GE\", which is not the protocol of gradwire");
}

static void it_refuses_wrong_fields(void **state) {
    (void)state;
    static const struct {
        size_t at;
        uint8_t value;
        const char *text;
    } cases[] = {
        { 10, 9, "malformed first message: kind 9 with 20 bytes" },
        { 10, 0, "malformed first message: kind 0 with 20 bytes" },
        { 10, HANDSHAKE_SESSION, "malformed first message: kind 1 with 20 bytes" },
        { 11, 1, "malformed first message: kind 3 with 20 bytes" },
        { 12, 19, "malformed first message: kind 3 with 19 bytes" },
        { 13, 8, "malformed first message: kind 3 with 2068 bytes" },
        { 13, 3, "malformed first message: kind 3 with 788 bytes" },
        { 8, 2, "it uses version 2 of the protocol, not 1" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t raw[HANDSHAKE_MAX];
        size_t size;
        uint16_t version;
        gw_error error;
        handshake_encode(raw, &(handshake){ .kind = HANDSHAKE_WELCOME });
        raw[cases[i].at] = cases[i].value;
        gw_status status = handshake_size(raw, HANDSHAKE_PREFACE_BYTES, &size, &version, &error);
        assert_int_equal(status, cases[i].at == 8 ? GW_MISMATCH : GW_PROTOCOL);
        assert_string_equal(error.text, cases[i].text);
    }
}

static void it_refuses_malformed_refusals(void **state) {
    (void)state;
    handshake refusal = { .kind = HANDSHAKE_REFUSAL, .reason = REFUSED_LOST, .text = "no" }, h;
    static const struct {
        size_t at;
        uint8_t value;
    } cases[] = { { 16, 0 }, { 16, REFUSED_COUNT }, { 17, 1 }, { 28, 3 }, { 28, 1 }, { 33, 0 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t raw[HANDSHAKE_MAX];
        gw_error error;
        size_t size = handshake_encode(raw, &refusal);
        raw[cases[i].at] = cases[i].value;
        assert_int_equal(handshake_decode(raw, size, &h, &error), GW_PROTOCOL);
    }
}

// ---- Capabilities -------------------------------------------------------------------------------

// A handshake with that map of capabilities, as a later version may send it.
static size_t encode_with(uint8_t raw[HANDSHAKE_MAX], handshake_kind kind, const void *map,
                          size_t map_size) {
    size_t size = handshake_encode(raw, &(handshake){ .kind = kind, .connection_number = 1 }) - 4;
    memcpy(raw + size, map, map_size);
    size += map_size;
    uint32_t body_size = (uint32_t)(size - HANDSHAKE_PREFACE_BYTES);
    memcpy(raw + 12, &body_size, sizeof body_size);
    return size;
}

static void put_text(bytes *map, const char *text, size_t size) {
    bytes_put_u32(map, (uint32_t)size);
    bytes_put(map, text, size);
}

static void it_skips_capabilities(void **state) {
    (void)state;
    static const handshake_kind kinds[] = { HANDSHAKE_SESSION, HANDSHAKE_STORE, HANDSHAKE_WELCOME };
    bytes map = { 0 };
    bytes_put_u32(&map, 2);
    bytes_put_text(&map, "lend");
    bytes_put_text(&map, "arena 7");
    bytes_put_text(&map, "an unknown capability");
    bytes_put_text(&map, "");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        uint8_t raw[HANDSHAKE_MAX];
        handshake back;
        gw_error error;
        size_t size = encode_with(raw, kinds[i], map.data, map.size);
        assert_int_equal(read_back(raw, size, &back, &error), GW_OK);
        assert_int_equal(back.kind, kinds[i]);
        // A map that is shorter or longer than the body's size.
        assert_int_equal(handshake_decode(raw, size - 1, &back, &error), GW_PROTOCOL);
        raw[size] = 0;
        assert_int_equal(handshake_decode(raw, size + 1, &back, &error), GW_PROTOCOL);
    }
    bytes_fini(&map);
}

static gw_status read_map(const bytes *map) {
    uint8_t raw[HANDSHAKE_MAX];
    handshake back;
    gw_error error;
    return read_back(raw, encode_with(raw, HANDSHAKE_SESSION, map->data, map->size), &back, &error);
}

static void a_handshake_with_all_capabilities_fits(void **state) {
    (void)state;
    char text[LIMIT_CAPABILITY_BYTES + 1], key[8];
    memset(text, 'v', sizeof text);
    bytes map = { 0 };
    bytes_put_u32(&map, 4);
    for (int i = 0; i < 4; i++) {
        put_text(&map, &"abcd"[i], 1);
        put_text(&map, text,
                 i < 3 ? LIMIT_CAPABILITY_BYTES : LIMIT_CAPABILITIES_BYTES - 3 * 136 - 9);
    }
    assert_int_equal(map.size, 4 + LIMIT_CAPABILITIES_BYTES);
    assert_int_equal(read_map(&map), GW_OK);
    bytes_fini(&map);
    bytes_put_u32(&map, LIMIT_CAPABILITIES);
    for (int i = 0; i < LIMIT_CAPABILITIES; i++) {
        snprintf(key, sizeof key, "k%d", i);
        bytes_put_text(&map, key);
        bytes_put_text(&map, "");
    }
    assert_int_equal(read_map(&map), GW_OK);
    bytes_fini(&map);
    for (int is_value = 0; is_value < 2; is_value++) {
        bytes_put_u32(&map, 1);
        put_text(&map, text, is_value ? 1 : sizeof text);
        put_text(&map, text, is_value ? sizeof text : 1);
        assert_int_equal(read_map(&map), GW_PROTOCOL);
        bytes_fini(&map);
    }
}

static void it_refuses_malformed_maps(void **state) {
    (void)state;
    static const struct {
        const char *raw;
        size_t size;
        const char *text;
    } cases[] = {
        { "\1\0\0", 3, "malformed first message: 0 capabilities in 3 bytes" },
        { "\21\0\0\0", 4, "malformed first message: 17 capabilities in 0 bytes" },
        { "\1\0\0\0", 4, "malformed first message: capability 0 is invalid" },
        { "\1\0\0\0\0\0\0\0\1\0\0\0v", 13, "malformed first message: capability 0 is invalid" },
        { "\1\0\0\0\1\0\0\0\0\1\0\0\0v", 14, "malformed first message: capability 0 is invalid" },
        { "\2\0\0\0\1\0\0\0k\0\0\0\0\1\0\0\0k\0\0\0\0", 22,
          "malformed first message: capability 1 is invalid" },
        { "\1\0\0\0\1\0\0\0k\0\0\0\0x", 14, "malformed first message: 1 trailing bytes" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t raw[HANDSHAKE_MAX];
        handshake back;
        gw_error error;
        size_t size = encode_with(raw, HANDSHAKE_STORE, cases[i].raw, cases[i].size);
        assert_int_equal(handshake_decode(raw, size, &back, &error), GW_PROTOCOL);
        assert_string_equal(error.text, cases[i].text);
    }
}

static void it_cuts_texts_to_fit(void **state) {
    (void)state;
    handshake refusal = { .kind = HANDSHAKE_REFUSAL, .reason = REFUSED_LOST }, h;
    memset(refusal.text, 'x', sizeof refusal.text);
    uint8_t raw[HANDSHAKE_MAX];
    gw_error error;
    assert_int_equal(read_back(raw, handshake_encode(raw, &refusal), &h, &error), GW_OK);
    assert_int_equal(strlen(h.text), HANDSHAKE_TEXT_MAX - 1);
}

GW_TESTS(net_handshake, it_decodes_what_it_encodes, its_layout_matches_the_protocol,
         it_refuses_other_protocols_at_once, it_refuses_wrong_fields, it_refuses_malformed_refusals,
         it_skips_capabilities, a_handshake_with_all_capabilities_fits, it_refuses_malformed_maps,
         it_cuts_texts_to_fit);
