#include "net/capabilities.h"

#include <stdio.h>
#include <string.h>

#include "testing/testing.h"

static gw_status read_raw(const void *raw, size_t size, capabilities *out, gw_error *error) {
    reader r = reader_of(raw, size);
    return capabilities_read(&r, out, error);
}

static gw_status read_back(const capabilities *c, capabilities *out, gw_error *error) {
    uint8_t raw[sizeof c->count + sizeof c->bytes];
    memcpy(raw, &c->count, sizeof c->count);
    memcpy(raw + sizeof c->count, c->bytes, c->size);
    return read_raw(raw, sizeof c->count + c->size, out, error);
}

static void it_finds_added_capabilities(void **state) {
    (void)state;
    capabilities c = { 0 };
    char value[LIMIT_CAPABILITY_BYTES + 1];
    assert_false(capabilities_find(&c, "lend", value));
    assert_true(capabilities_add(&c, "lend", "arena 7"));
    assert_true(capabilities_add(&c, "checksum", ""));
    assert_true(capabilities_find(&c, "lend", value));
    assert_string_equal(value, "arena 7");
    assert_true(capabilities_find(&c, "checksum", value));
    assert_string_equal(value, "");
    assert_false(capabilities_find(&c, "len", value));
    assert_false(capabilities_add(&c, "lend", "again"));
    assert_false(capabilities_add(&c, "", "nothing"));
}

static void it_agrees_on_common_capabilities(void **state) {
    (void)state;
    capabilities ours = { 0 }, theirs = { 0 };
    char value[LIMIT_CAPABILITY_BYTES + 1];
    capabilities_add(&ours, "lend", "1");
    capabilities_add(&ours, "older", "x");
    capabilities_add(&theirs, "newer than we are", "y");
    capabilities_add(&theirs, "lend", "2");
    assert_true(capabilities_agree(&ours, &theirs, "lend", value));
    assert_string_equal(value, "2");
    assert_false(capabilities_agree(&ours, &theirs, "older", value));
    assert_false(capabilities_agree(&ours, &theirs, "newer than we are", value));
}

static void it_decodes_what_it_encodes(void **state) {
    (void)state;
    capabilities c = { 0 }, back;
    gw_error error;
    assert_int_equal(read_back(&c, &back, &error), GW_OK);
    assert_int_equal(back.count, 0);
    capabilities_add(&c, "lend", "arena 7");
    capabilities_add(&c, "binding", "0123456789");
    assert_int_equal(read_back(&c, &back, &error), GW_OK);
    assert_int_equal(back.count, 2);
    assert_int_equal(back.size, c.size);
    assert_memory_equal(back.bytes, c.bytes, c.size);
}

static void it_holds_only_so_much(void **state) {
    (void)state;
    char text[LIMIT_CAPABILITY_BYTES + 2], key[8];
    memset(text, 'x', sizeof text);
    text[LIMIT_CAPABILITY_BYTES + 1] = '\0';
    capabilities c = { 0 }, back;
    gw_error error;
    assert_false(capabilities_add(&c, "k", text));
    assert_false(capabilities_add(&c, text, "v"));
    text[LIMIT_CAPABILITY_BYTES] = '\0';
    int count = 0;
    for (; count < 100; count++) {
        snprintf(key, sizeof key, "k%d", count);
        if (!capabilities_add(&c, key, text)) break;
    }
    assert_in_range(count, 1, LIMIT_CAPABILITIES);
    assert_true(c.size <= LIMIT_CAPABILITIES_BYTES);
    assert_int_equal(read_back(&c, &back, &error), GW_OK);
    c = (capabilities){ 0 };
    for (count = 0; count < 100; count++) {
        snprintf(key, sizeof key, "k%d", count);
        if (!capabilities_add(&c, key, "")) break;
    }
    assert_int_equal(count, LIMIT_CAPABILITIES);
}

static void it_refuses_malformed_maps(void **state) {
    (void)state;
    static const struct {
        const char *raw;
        size_t size;
        const char *text;
    } cases[] = {
        { "\1\0\0", 3, "a hello with 0 capabilities in 3 bytes" },
        { "\21\0\0\0", 4, "a hello with 17 capabilities in 0 bytes" },
        { "\1\0\0\0", 4, "malformed first message: capability 0" },
        { "\1\0\0\0\0\0\0\0\1\0\0\0v", 13, "malformed first message: capability 0" },
        { "\1\0\0\0\1\0\0\0\0\1\0\0\0v", 14, "malformed first message: capability 0" },
        { "\2\0\0\0\1\0\0\0k\0\0\0\0\1\0\0\0k\0\0\0\0", 22,
          "malformed first message: capability 1" },
        { "\1\0\0\0\1\0\0\0k\0\0\0\0x", 14, "malformed first message: 1 trailing bytes" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        capabilities c;
        gw_error error;
        assert_int_equal(read_raw(cases[i].raw, cases[i].size, &c, &error), GW_PROTOCOL);
        assert_string_equal(error.text, cases[i].text);
    }
}

GW_TESTS(net_capabilities, it_finds_added_capabilities, it_agrees_on_common_capabilities,
         it_decodes_what_it_encodes, it_holds_only_so_much, it_refuses_malformed_maps);
