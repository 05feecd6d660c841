#include "net/handshake.h"

#include "testing/testing.h"

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
    static const uint8_t want[] = { 'G', 'R', 'A', 'D', 'W', 'I', 'R', 'E', 1, 0,  3, 0,
                                    30,  0,   0,   0,   7,   0,   0,   0,   0, 0,  0, 0,
                                    8,   0,   0,   0,   0,   0,   0,   0,   1, 0,  0, 0,
                                    1,   0,   0,   0,   'k', 1,   0,   0,   0, 'v' };
    uint8_t raw[HANDSHAKE_MAX];
    handshake welcome = { .kind = HANDSHAKE_WELCOME, .connection_number = 7, .received = 8 };
    assert_true(capabilities_add(&welcome.can, "k", "v"));
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

static void expect_capabilities(handshake *h) {
    uint8_t raw[HANDSHAKE_MAX];
    handshake back;
    gw_error error;
    char value[LIMIT_CAPABILITY_BYTES + 1];
    assert_true(capabilities_add(&h->can, "lend", "arena 7"));
    assert_true(capabilities_add(&h->can, "an unknown capability", ""));
    assert_int_equal(read_back(raw, handshake_encode(raw, h), &back, &error), GW_OK);
    assert_int_equal(back.can.count, 2);
    assert_true(capabilities_find(&back.can, "lend", value));
    assert_string_equal(value, "arena 7");
    // A map that is shorter or longer than the body's size.
    size_t size = handshake_encode(raw, h);
    assert_int_equal(handshake_decode(raw, size - 1, &back, &error), GW_PROTOCOL);
    raw[size] = 0;
    assert_int_equal(handshake_decode(raw, size + 1, &back, &error), GW_PROTOCOL);
}

static void both_sides_send_capabilities(void **state) {
    (void)state;
    expect_capabilities(&(handshake){ .kind = HANDSHAKE_SESSION, .connection_number = 1 });
    expect_capabilities(&(handshake){ .kind = HANDSHAKE_STORE });
    expect_capabilities(&(handshake){ .kind = HANDSHAKE_WELCOME, .connection_number = 1 });
}

static void a_handshake_with_all_capabilities_fits(void **state) {
    (void)state;
    handshake h = { .kind = HANDSHAKE_SESSION, .connection_number = 1 }, back;
    char value[LIMIT_CAPABILITY_BYTES + 1];
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    for (int i = 0; i < 3; i++)
        assert_true(capabilities_add(&h.can, (const char *[]){ "a", "b", "c" }[i], value));
    value[LIMIT_CAPABILITIES_BYTES - h.can.size - 9] = '\0';
    assert_true(capabilities_add(&h.can, "d", value));
    assert_int_equal(h.can.size, LIMIT_CAPABILITIES_BYTES);
    uint8_t raw[HANDSHAKE_MAX];
    gw_error error;
    assert_int_equal(read_back(raw, handshake_encode(raw, &h), &back, &error), GW_OK);
    assert_memory_equal(back.can.bytes, h.can.bytes, h.can.size);
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
         both_sides_send_capabilities, a_handshake_with_all_capabilities_fits,
         it_cuts_texts_to_fit);
