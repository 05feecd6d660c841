#include "net/tls/backoff.h"

#include "testing/testing.h"

#include <string.h>

#define MS INT64_C(1000000)

static backoff_address address(uint8_t network, uint8_t host) {
    return (backoff_address){ { 0xfd, network, [15] = host } };
}

static backoff_address v4(uint8_t host) {
    return (backoff_address){ { [10] = 0xff, 0xff, 10, 0, 0, host } };
}

static int64_t delay_ms(backoff *b, backoff_address a, int64_t now_ns) {
    bool counted;
    int64_t begins_ns = backoff_begin(b, &a, now_ns, &counted);
    assert_int_equal(counted, begins_ns > now_ns);
    return (begins_ns - now_ns) / MS;
}

static void fail_times(backoff *b, backoff_address a, int times, int64_t now_ns) {
    for (int i = 0; i < times; i++) backoff_fail(b, &a, now_ns);
}

static void a_few_failures_are_free(void **state) {
    (void)state;
    backoff b = { 0 };
    int64_t now_ns = 5000 * MS;
    assert_int_equal(delay_ms(&b, v4(1), now_ns), 0);
    fail_times(&b, v4(1), BACKOFF_FREE, now_ns);
    assert_int_equal(delay_ms(&b, v4(1), now_ns), 0);
    fail_times(&b, v4(1), 1, now_ns);
    assert_int_equal(delay_ms(&b, v4(1), now_ns), BACKOFF_EACH_MS);
    // The next one begins one interval later.
    assert_int_equal(delay_ms(&b, v4(1), now_ns), 2 * BACKOFF_EACH_MS);
}

static void delays_are_bounded(void **state) {
    (void)state;
    backoff b = { 0 };
    fail_times(&b, v4(1), 10000, 0);
    for (int i = 0; i < 100; i++) assert_int_equal(delay_ms(&b, v4(1), 0), BACKOFF_MAX_MS);
    assert_int_equal(delay_ms(&b, v4(1), 2000 * MS), 0);
}

static bool is_full(const backoff *b, backoff_address a, int64_t now_ns) {
    return backoff_is_full(b, &a, now_ns);
}

// Delayed handshakes each have a start time of their own, so that their number is limited.
static void a_full_queue_refuses_handshakes(void **state) {
    (void)state;
    backoff b = { 0 };
    int waiting = 0;
    assert_false(is_full(&b, v4(1), 0));
    fail_times(&b, v4(1), BACKOFF_FREE, 0);
    while (!is_full(&b, v4(1), 0)) fail_times(&b, v4(1), 1, 0), waiting++;
    assert_int_equal(waiting, BACKOFF_MAX_MS / BACKOFF_EACH_MS);
    assert_false(is_full(&b, v4(2), 0));
    assert_true(is_full(&b, v4(1), (BACKOFF_EACH_MS - 1) * MS));
    assert_false(is_full(&b, v4(1), BACKOFF_EACH_MS * MS));
    assert_false(is_full(&b, v4(1), 5000 * MS));
}

static void other_addresses_are_not_delayed(void **state) {
    (void)state;
    backoff b = { 0 };
    fail_times(&b, v4(1), 1000, 0);
    fail_times(&b, address(1, 1), 1000, 0);
    assert_int_equal(delay_ms(&b, v4(2), 0), 0);
    assert_int_equal(delay_ms(&b, address(2, 1), 0), 0);
    // One IPv6 network has unlimited addresses.
    assert_int_equal(delay_ms(&b, address(1, 2), 0), BACKOFF_MAX_MS);
}

static void it_remembers_a_bounded_number_of_addresses(void **state) {
    (void)state;
    backoff b = { 0 };
    fail_times(&b, v4(200), 1000, 0);
    for (int i = 0; i < BACKOFF_ENTRIES; i++) fail_times(&b, address((uint8_t)i, 1), 1, 0);
    for (int i = 0; i < BACKOFF_ENTRIES; i++) fail_times(&b, address((uint8_t)i, 1), 1, 0);
    assert_int_equal(delay_ms(&b, v4(200), 0), BACKOFF_MAX_MS);  // the worst longest
}

GW_TESTS(net_backoff, a_few_failures_are_free, delays_are_bounded, a_full_queue_refuses_handshakes,
         other_addresses_are_not_delayed, it_remembers_a_bounded_number_of_addresses);
