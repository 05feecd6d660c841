// Workers of other hosts on the page of a job: looks of them, with virtual time.
#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/images.h"
#include "monitor/remote_hosts.h"

enum { PEER = 3 };

// A look at a host with the workers of |x|, whose tables are |table_ns| old by its own clock.
static bytes look_of(const images *x) {
    live l = { .now = { .images = (image *)x->of, .count = x->count } };
    bytes out = { 0 };
    look_encode(&l, &out);
    assert_false(out.failed);
    return out;
}

// At |at_ms| of the clock of that host.
static void set_time(images *x, int64_t at_ms, uint64_t calls) {
    for (int i = 0; i < x->count; i++) {
        x->of[i].taken.monotonic_ns = at_ms * 1000000 + 700;
        images_table(x, i)->now_ns = at_ms * 1000000;
        images_table(x, i)->counters[TRACE_CALLS_MADE] = calls;
    }
}

static void take(remote_hosts *h, const images *x, int64_t now_ms) {
    bytes b = look_of(x);
    remote_hosts_take(h, PEER, b.data, b.size, now_ms, now_ms * 1000000);
    bytes_fini(&b);
}

static void rates_are_those_of_tables_on_the_other_clock(void **state) {
    (void)state;
    enum { THEIRS = 500000, OURS = 9000000 };
    remote_hosts h = { .fd = -1 };
    images x;
    images_open(&x, 2);
    set_time(&x, THEIRS, 100);
    take(&h, &x, OURS);
    // The same table again, which arrives later than a second.
    take(&h, &x, OURS + 1300);
    set_time(&x, THEIRS + 2000, 150);
    take(&h, &x, OURS + 2100);
    assert_int_equal(h.count, 1);
    const live *l = &h.of[0]->live;
    assert_int_equal(l->count, 2);
    for (int i = 0; i < 2; i++) {
        assert_true(l->workers[i].rates[TRACE_CALLS_MADE] == 25);
        assert_string_equal(live_agent(l, &l->workers[i])->name, i ? "worker1" : "worker0");
    }
    remote_hosts_close(&h);
    images_close(&x);
}

static void a_silent_host_is_not_shown(void **state) {
    (void)state;
    remote_hosts h = { .fd = -1 };
    images x;
    images_open(&x, 1);
    set_time(&x, 1000, 1);
    take(&h, &x, 5000);
    assert_true(remote_hosts_is_seen(h.of[0], 5000 + REMOTE_HOSTS_SILENT_MS - 1));
    assert_false(remote_hosts_is_seen(h.of[0], 5000 + REMOTE_HOSTS_SILENT_MS));
    take(&h, &x, 90000);
    assert_true(remote_hosts_is_seen(h.of[0], 90001));
    remote_hosts_close(&h);
    images_close(&x);
}

// Each prefix, and each byte changed: a reason, or a look that can be used and freed.
static void wrong_bytes_are_refused(void **state) {
    (void)state;
    images x;
    images_open(&x, 2);
    set_time(&x, 1000, 1);
    bytes b = look_of(&x);
    char why[IMAGE_WHY_SIZE];
    look taken;
    for (size_t size = 0; size < b.size; size++) {
        why[0] = '\0';
        assert_false(look_decode(b.data, size, &taken, why, sizeof why));
        assert_true(why[0] != '\0');
    }
    for (size_t at = 0; at < b.size; at++) {
        remote_hosts h = { .fd = -1 };
        for (int to = 0; to < 256; to += 51) {
            uint8_t before = b.data[at];
            b.data[at] = (uint8_t)to;
            remote_hosts_take(&h, PEER, b.data, b.size, 1000, 1000000000);
            b.data[at] = before;
        }
        remote_hosts_close(&h);
    }
    bytes_fini(&b);
    images_close(&x);
}

GW_TESTS(monitor_hosts, rates_are_those_of_tables_on_the_other_clock, a_silent_host_is_not_shown,
         wrong_bytes_are_refused);
