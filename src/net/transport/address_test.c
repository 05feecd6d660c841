#include "net/transport/address.h"

#include <string.h>

#include "testing/testing.h"

static gw_error error;

static void expect(const char *text, const char *formatted) {
    address a;
    char out[ADDRESS_MAX];
    assert_int_equal(address_parse(text, &a, &error), GW_OK);
    address_format(&a, out);
    assert_string_equal(out, formatted);
}

static void addresses_are_understood(void **state) {
    (void)state;
    expect("127.0.0.1:29500", "127.0.0.1:29500");
    expect("127.1.2.3:1", "127.1.2.3:1");
    expect("[::1]:29500", "[::1]:29500");
    expect("localhost:65535", "127.0.0.1:65535");
    expect("127.0.0.1:0", "127.0.0.1:0");
}

static void malformed_addresses_are_refused(void **state) {
    (void)state;
    const char *wrong[] = {
        "",         "29500",           ":29500",       "localhost",        "localhost:",
        "[::1]",    "::1:29500",       "[::1:29500",   "]:29500",          "localhost:x",
        "[]:29500", "localhost:65536", "localhost:-1", "localhost:123456", "localhost: 1"
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        address a;
        assert_int_equal(address_parse(wrong[i], &a, &error), GW_INVALID);
        assert_non_null(strstr(error.text, "must be host:port, as in 127.0.0.1:29500"));
    }
    char longer[400];
    memset(longer, 'x', sizeof longer);
    memcpy(longer + sizeof longer - 4, ":80", 4);
    address a;
    assert_int_equal(address_parse(longer, &a, &error), GW_INVALID);
}

// No label of a name has 70 letters, so no name server is queried.
static void an_unknown_name_is_refused(void **state) {
    (void)state;
    char name[100];
    memset(name, 'x', 70);
    memcpy(name + 70, ".invalid:29500", 15);
    address a;
    assert_int_equal(address_parse(name, &a, &error), GW_NOT_FOUND);
    assert_non_null(strstr(error.text, name));
}

static void loopback_is_known_however_it_is_written(void **state) {
    (void)state;
    const char *here[] = { "127.0.0.1:1", "127.255.0.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1",
                           "localhost:1" };
    const char *beyond[] = { "0.0.0.0:1",   "10.0.0.1:29500",      "192.168.1.1:1", "[::]:1",
                             "[fe80::1]:1", "[::ffff:10.0.0.1]:1", "128.0.0.1:1" };
    address a;
    for (size_t i = 0; i < sizeof here / sizeof here[0]; i++) {
        assert_int_equal(address_parse(here[i], &a, &error), GW_OK);
        assert_true(address_is_loopback(&a));
        assert_false(address_is_any(&a));
    }
    for (size_t i = 0; i < sizeof beyond / sizeof beyond[0]; i++) {
        assert_int_equal(address_parse(beyond[i], &a, &error), GW_OK);
        assert_false(address_is_loopback(&a));
        assert_int_equal(address_is_any(&a), i == 0 || i == 3);
        assert_int_equal(address_is_link_local(&a), i == 4);
    }
    assert_true(host_is_loopback("localhost") && host_is_loopback("127.9.9.9"));
    assert_true(host_is_loopback("[::1]") && host_is_loopback("::1"));
    assert_false(host_is_loopback("127.0.0.1.example.org") || host_is_loopback("127.0.0.256"));
    assert_false(host_is_loopback("4294967423.0.0.1") || host_is_loopback(" 127.0.0.1"));
    assert_false(host_is_loopback("node0") || host_is_loopback("10.0.0.1"));
}

static void equal_ones_are_equal(void **state) {
    (void)state;
    address a, b, c;
    assert_int_equal(address_parse("localhost:7", &a, &error), GW_OK);
    assert_int_equal(address_parse("127.0.0.1:7", &b, &error), GW_OK);
    assert_int_equal(address_parse("127.0.0.1:8", &c, &error), GW_OK);
    assert_true(address_equal(&a, &b));
    assert_false(address_equal(&a, &c));
    assert_int_equal(address_port(&c), 8);
}

GW_TESTS(net_address, addresses_are_understood, malformed_addresses_are_refused,
         an_unknown_name_is_refused, loopback_is_known_however_it_is_written, equal_ones_are_equal);
