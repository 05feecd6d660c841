// Clocks of several hosts: offsets from bounds, and images whose true times are known.
#include "testing/testing.h"

#include <gradwire/status.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/images.h"
#include "timeline/clocks.h"
#include "timeline/offsets.h"
#include "trace/kinds.h"

// ---- Random numbers -----------------------------------------------------------------------------

static uint64_t seed_now;

static uint64_t draw(void) {
    seed_now += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = (seed_now ^ seed_now >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static double draw_between(double low, double high) {
    return low + (high - low) * ((double)(draw() >> 11) * 0x1p-53);
}

// Mostly small, at times very large.
static int64_t draw_delay(double least) {
    return (int64_t)(least * exp(draw_between(0, 7)));
}

// ---- Offsets ------------------------------------------------------------------------------------

enum { US = 1000, MS = 1000 * US };
#define S (INT64_C(1000) * MS)

// A clock, by the true time.
typedef struct clock_of {
    double offset, drift;
} clock_of;

static clock_of draw_clock(void) {
    return (clock_of){ floor(draw_between(0, 1e15)), draw_between(-2e-4, 2e-4) };
}

static int64_t show(const clock_of *c, int64_t at) {
    return at + (int64_t)c->offset + (int64_t)floor(c->drift * (double)at);
}

// Messages in both directions at random times of |length|: what the clocks showed when they were sent and received.
static offsets_points draw_points(const clock_of *a, const clock_of *b, int64_t length, int count) {
    offsets_points p = { 0 };
    for (int i = 0; i < count; i++) {
        int64_t sent = (int64_t)draw_between(0, (double)length),
                received = sent + draw_delay(5 * US);
        bool is_upper = i < 2 ? i : (int)(draw() % 2);
        if (is_upper)  // from b to a
            offsets_add(&p, show(b, sent), show(a, received) - show(b, sent), true);
        else
            offsets_add(&p, show(b, received), show(a, sent) - show(b, received), false);
    }
    return p;
}

static void expect_bounds_kept(const offsets_points *p, const offsets *o) {
    for (int is_upper = 0; is_upper < 2; is_upper++)
        for (size_t i = 0; i < p->counts[is_upper]; i++) {
            const offsets_point *b = &p->points[is_upper][i];
            int64_t at = offsets_map(o, b->x), bound = b->x + b->y;
            if (is_upper ? at > bound : at < bound) fail_msg("a bound is not kept");
            int64_t back = offsets_unmap(o, bound);
            if (is_upper ? back < b->x : back > b->x) fail_msg("a bound is not kept back");
        }
}

// Times of |b| between which there are bounds.
static void find_times(const offsets_points *p, int64_t *out_from, int64_t *out_until) {
    *out_from = INT64_MAX;
    *out_until = INT64_MIN;
    for (int is_upper = 0; is_upper < 2; is_upper++)
        for (size_t i = 0; i < p->counts[is_upper]; i++) {
            int64_t x = p->points[is_upper][i].x;
            if (x < *out_from) *out_from = x;
            if (x > *out_until) *out_until = x;
        }
}

static void expect_truth(const clock_of *a, const clock_of *b, int64_t length,
                         const offsets_points *p, const offsets *o) {
    int64_t from, until;
    find_times(p, &from, &until);
    for (int i = 0; i <= 50; i++) {
        int64_t at = length / 50 * i, x = show(b, at);
        if (x < from || x > until) continue;
        int64_t error = llabs(offsets_map(o, x) - show(a, at));
        if (error > o->uncertainty + 2)
            fail_msg("seed %llu: the error is %lld, the uncertainty %lld",
                     (unsigned long long)seed_now, (long long)error, (long long)o->uncertainty);
        assert_true(llabs(offsets_unmap(o, offsets_map(o, x)) - x) <= 2);
    }
}

static void the_true_offset_is_within_the_uncertainty(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10000; seed++) {
        seed_now = seed;
        clock_of a = draw_clock(), b = draw_clock();
        int64_t length = (int64_t)exp(draw_between(log(1e6), log(6e10)));
        offsets_points p = draw_points(&a, &b, length, 2 + (int)(draw() % 100));
        offsets_points sorted = p;
        offsets o;
        if (offsets_find(&sorted, &o) != OFFSETS_FOUND)
            fail_msg("seed %llu: not found", (unsigned long long)seed);
        expect_bounds_kept(&p, &o);
        expect_truth(&a, &b, length, &p, &o);
        offsets_fini(&o);
        offsets_points_fini(&p);
    }
}

static void many_messages_make_it_small(void **state) {
    (void)state;
    seed_now = 7;
    clock_of a = draw_clock(), b = draw_clock();
    offsets_points p = draw_points(&a, &b, 99 * S, 200000);
    offsets o;
    assert_int_equal(offsets_find(&p, &o), OFFSETS_FOUND);
    assert_int_equal(o.windows, 10);
    assert_in_range(o.uncertainty, 1, 20 * US);
    expect_bounds_kept(&p, &o);
    offsets_fini(&o);
    offsets_points_fini(&p);
}

static void bounds_from_one_side_are_not_enough(void **state) {
    (void)state;
    for (int is_upper = 0; is_upper < 2; is_upper++) {
        offsets_points p = { 0 };
        offsets o;
        assert_int_equal(offsets_find(&p, &o), OFFSETS_ONE_SIDED);
        for (int i = 0; i < 10; i++) offsets_add(&p, i * MS, 5, is_upper);
        assert_int_equal(offsets_find(&p, &o), OFFSETS_ONE_SIDED);
        offsets_points_fini(&p);
    }
}

static void a_clock_that_is_set_contradicts(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        seed_now = seed;
        clock_of a = draw_clock(), b = draw_clock(), set = b;
        set.offset += draw() % 2 ? 1e9 : -1e9;
        offsets_points p = draw_points(&a, &b, 2 * S, 100),
                       later = draw_points(&a, &set, 2 * S, 100);
        for (int is_upper = 0; is_upper < 2; is_upper++)
            for (size_t i = 0; i < later.counts[is_upper]; i++)
                offsets_add(&p, later.points[is_upper][i].x, later.points[is_upper][i].y, is_upper);
        offsets o;
        assert_int_equal(offsets_find(&p, &o), OFFSETS_CONTRADICTORY);
        offsets_points_fini(&p);
        offsets_points_fini(&later);
    }
}

static void times_beyond_all_do_no_harm(void **state) {
    (void)state;
    static const int64_t times[] = { INT64_MIN, -1, 0, 1, INT64_C(1) << 60, INT64_MAX };
    enum { COUNT = sizeof times / sizeof times[0] };
    offsets_points p = { 0 };
    offsets o;
    for (int i = 0; i < COUNT * COUNT * 2; i++)
        offsets_add(&p, times[i / 2 % COUNT], times[i / 2 / COUNT], i % 2);
    for (int i = 0; i < 1000; i++)
        offsets_add(&p, (int64_t)(draw() >> 4), (int64_t)(draw() >> 4), i % 2);
    if (offsets_find(&p, &o) == OFFSETS_FOUND) {
        for (int i = 0; i < COUNT; i++) offsets_unmap(&o, offsets_map(&o, times[i]));
        offsets_fini(&o);
    }
    offsets_points_fini(&p);
}

// ---- Images -------------------------------------------------------------------------------------

// A job whose true times are known. Its workers are on hosts of their own.
typedef struct world {
    images x;
    clock_of clocks[IMAGES_MAX];
    int64_t *truth[IMAGES_MAX];  // by record
    int64_t now;
    uint64_t number;
    // pairs of records of which the first was before the second
    struct {
        int image, record;
    } pairs[20000][2];
    int pair_count;
} world;

static world *open_world(uint64_t seed, int count) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    seed_now = seed;
    images_open(&w->x, count);
    for (int i = 0; i < count; i++) {
        image *x = &w->x.of[i];
        snprintf(x->host, sizeof x->host, "host%d", i);
        w->clocks[i] = draw_clock();
        // Wall clocks are wrong by an hour.
        x->opened = (trace_moment){ .monotonic_ns = show(&w->clocks[i], 0),
                                    .wall_ns = 3600 * S * (int64_t)(draw() % 3) };
        x->taken.monotonic_ns = show(&w->clocks[i], 20 * S);
    }
    w->now = 1 * MS;
    return w;
}

static void close_world(world *w) {
    for (int i = 0; i < w->x.count; i++) free(w->truth[i]);
    images_close(&w->x);
    free(w);
}

// Returns the number of the record.
static int record(world *w, int image_index, int kind, int64_t at, uint64_t id, uint64_t value,
                  const char *name) {
    images_record(&w->x, image_index, kind, show(&w->clocks[image_index], at), name);
    image_thread *t = &w->x.of[image_index].threads[0];
    image_record *r = &t->records[t->record_count - 1];
    r->id = id;
    r->value = value;
    w->truth[image_index] =
        realloc(w->truth[image_index], t->record_count * sizeof *w->truth[image_index]);
    assert_non_null(w->truth[image_index]);
    w->truth[image_index][t->record_count - 1] = at;
    return (int)t->record_count - 1;
}

static void before(world *w, int a, int a_record, int b, int b_record) {
    if (w->pair_count == (int)(sizeof w->pairs / sizeof w->pairs[0])) return;
    w->pairs[w->pair_count][0].image = a;
    w->pairs[w->pair_count][0].record = a_record;
    w->pairs[w->pair_count][1].image = b;
    w->pairs[w->pair_count++][1].record = b_record;
}

static void call(world *w, int from, int to) {
    uint64_t id = trace_call_id(from, ++w->number);
    int made = record(w, from, TRACE_CALL_MADE, w->now, id, (uint64_t)to, "f");
    w->now += draw_delay(10 * US);
    int begun = record(w, to, TRACE_BODY_BEGUN, w->now, id, (uint64_t)from, "f");
    w->now += draw_delay(1 * US);
    int ended = record(w, to, TRACE_BODY_ENDED, w->now, id, 0, "f");
    w->now += draw_delay(10 * US);
    int replied = record(w, from, TRACE_CALL_ENDED, w->now, id, 0, "f");
    before(w, from, made, to, begun);
    before(w, to, ended, from, replied);
}

static void pass(world *w, int from, int to) {
    uint64_t id = ++w->number;
    int begun = record(w, from, TRACE_PASS_BEGUN, w->now, id, 0, "");
    w->now += draw_delay(10 * US);
    int part = record(w, to, TRACE_PART_BEGUN, w->now, id, (uint64_t)from, "");
    before(w, from, begun, to, part);
}

// Members enter in any order, and end after the last.
static void collective(world *w, const char *operation, gw_status status) {
    uint64_t id = trace_collective_id(7, 1, ++w->number);
    int entries[IMAGES_MAX], last = (int)(draw() % (uint64_t)w->x.count);
    for (int k = 1; k <= w->x.count; k++) {
        int i = (last + k) % w->x.count;
        entries[i] = record(w, i, TRACE_COLLECTIVE_ENTERED, w->now, id, 4096, operation);
        if (i != last) w->now += draw_delay(1 * US);
    }
    w->now += draw_delay(10 * US);
    for (int i = 0; i < w->x.count; i++) {
        int end =
            record(w, i, TRACE_COLLECTIVE_ENDED, w->now + draw_delay(1 * US), id, status, "world");
        if (i != last) before(w, last, entries[last], i, end);
    }
    w->now += 2 * MS;
}

static clocks align(world *w) {
    clocks c;
    assert_true(clocks_align(w->x.of, w->x.count, &c));
    return c;
}

// No pair leads back in time, and no record is farther from its true time than the uncertainty.
static void expect_aligned(const world *w, const clocks *c) {
    for (int i = 0; i < w->pair_count; i++) {
        const image_record *r[2];
        for (int k = 0; k < 2; k++)
            r[k] = &w->x.of[w->pairs[i][k].image].threads[0].records[w->pairs[i][k].record];
        if (r[0]->at_ns > r[1]->at_ns)
            fail_msg("a pair leads back by %lld ns", (long long)(r[0]->at_ns - r[1]->at_ns));
    }
    for (int i = 0; i < w->x.count; i++)
        for (uint32_t k = 0; k < w->x.of[i].threads[0].record_count; k++) {
            int64_t true_ns = show(&w->clocks[0], w->truth[i][k]);
            int64_t error = llabs(w->x.of[i].threads[0].records[k].at_ns - true_ns);
            if (error > c->hosts[i].uncertainty_ns + 3)
                fail_msg("the error is %lld, the uncertainty %lld", (long long)error,
                         (long long)c->hosts[i].uncertainty_ns);
        }
}

static void expect_by_messages(const clocks *c, int count) {
    assert_int_equal(c->host_count, count);
    assert_int_equal(c->hosts[0].method, CLOCKS_REFERENCE);
    for (int i = 1; i < count; i++) {
        assert_int_equal(c->hosts[i].method, CLOCKS_BY_MESSAGES);
        assert_int_equal(c->hosts[i].reason, CLOCKS_NO_REASON);
        assert_true(c->hosts[i].uncertainty_ns > 0);
    }
    assert_int_equal(c->back_count, 0);
}

static void calls_align_two_hosts(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        world *w = open_world(seed, 2);
        for (int i = 0; i < 50; i++) call(w, i % 2, 1 - i % 2);
        clocks c = align(w);
        expect_by_messages(&c, 2);
        expect_aligned(w, &c);
        clocks_fini(&c);
        close_world(w);
    }
}

// As with the levels that are on by default.
static void collectives_alone_align_hosts(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        world *w = open_world(seed, 2 + (int)(seed % 4));
        for (int i = 0; i < 30; i++) collective(w, i % 2 ? "all_reduce" : "barrier", GW_OK);
        clocks c = align(w);
        expect_by_messages(&c, w->x.count);
        expect_aligned(w, &c);
        clocks_fini(&c);
        close_world(w);
    }
}

// Host 2 exchanges messages with host 1 only.
static void hosts_are_aligned_through_others(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        world *w = open_world(seed, 3);
        for (int i = 0; i < 50; i++) {
            call(w, 0, 1);
            call(w, 2, 1);
        }
        call(w, 0, 1);  // so that those of host 2 are in between
        clocks c = align(w);
        expect_by_messages(&c, 3);
        assert_int_equal(c.hosts[2].parent, 1);
        assert_true(c.hosts[2].uncertainty_ns > c.hosts[1].uncertainty_ns);
        expect_aligned(w, &c);
        clocks_fini(&c);
        close_world(w);
    }
}

static void no_arrow_leads_back_between_any_hosts(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        world *w = open_world(seed, 2 + (int)(seed % 5));
        uint64_t count = (uint64_t)w->x.count;
        collective(w, "barrier", GW_OK);
        for (int i = 0; i < 100; i++) {
            int from = (int)(draw() % count), to = (int)((uint64_t)from + 1 + draw() % (count - 1));
            int what = (int)(draw() % 8);
            to %= (int)count;
            if (what == 0) collective(w, "all_gather", GW_OK);
            if (what == 1) pass(w, from, to);
            if (what > 1) call(w, from, to);
            if (draw() % 10 == 0) w->now += draw_delay(1 * MS);
        }
        collective(w, "barrier", GW_OK);
        clocks c = align(w);
        expect_by_messages(&c, w->x.count);
        expect_aligned(w, &c);
        clocks_fini(&c);
        close_world(w);
    }
}

static void passes_bound_the_offset_too(void **state) {
    (void)state;
    world *w = open_world(3, 2);
    for (int i = 0; i < 20; i++) pass(w, i % 2, 1 - i % 2);
    clocks c = align(w);
    expect_by_messages(&c, 2);
    expect_aligned(w, &c);
    clocks_fini(&c);
    close_world(w);
}

static void expect_wall_time(world *w, clocks_reason reason) {
    clocks c = align(w);
    assert_int_equal(c.hosts[1].method, CLOCKS_BY_WALL_TIME);
    assert_int_equal(c.hosts[1].reason, reason);
    clocks_fini(&c);
    close_world(w);
}

static void messages_in_one_direction_are_not_enough(void **state) {
    (void)state;
    world *w = open_world(5, 2);
    for (int i = 0; i < 20; i++) pass(w, 0, 1);
    expect_wall_time(w, CLOCKS_NO_MESSAGES);
}

// A broadcast ends at its source before others enter, and an error ends a collective at any time.
static void other_collectives_bound_nothing(void **state) {
    (void)state;
    world *w = open_world(5, 2);
    for (int i = 0; i < 20; i++) collective(w, "broadcast", GW_OK);
    for (int i = 0; i < 20; i++) collective(w, "all_reduce", GW_TIMEOUT);
    expect_wall_time(w, CLOCKS_NO_MESSAGES);
}

static void messages_that_contradict_are_not_used(void **state) {
    (void)state;
    world *w = open_world(6, 2);
    for (int i = 0; i < 20; i++) call(w, 0, 1);
    w->clocks[1].offset += 1e9;
    for (int i = 0; i < 20; i++) call(w, 0, 1);
    expect_wall_time(w, CLOCKS_CONTRADICTION);
}

// The next attempt of a worker uses the ids of its calls again.
static void ids_of_other_attempts_are_not_mixed_up(void **state) {
    (void)state;
    world *w = open_world(8, 4);
    snprintf(w->x.of[2].host, sizeof w->x.of[2].host, "host0");
    snprintf(w->x.of[3].host, sizeof w->x.of[3].host, "host1");
    w->clocks[2] = w->clocks[0];
    w->clocks[3] = w->clocks[1];
    for (int i = 0; i < 2; i++) {
        w->x.of[2 + i].agents[0].rank = i;
        w->x.of[2 + i].attempt = 1;
    }
    for (int i = 0; i < 20; i++) call(w, 0, 1);
    w->number = 0;
    w->now += 1 * S;
    for (int i = 0; i < 20; i++) {
        // The same as between 0 and 1.
        uint64_t id = trace_call_id(0, ++w->number);
        int made = record(w, 2, TRACE_CALL_MADE, w->now, id, 1, "f");
        w->now += draw_delay(10 * US);
        int begun = record(w, 3, TRACE_BODY_BEGUN, w->now, id, 0, "f");
        before(w, 2, made, 3, begun);
        w->now += 1 * MS;
    }
    clocks c = align(w);
    expect_by_messages(&c, 2);
    clocks_fini(&c);
    close_world(w);
}

static void an_arrow_that_leads_back_is_noted(void **state) {
    (void)state;
    world *w = open_world(9, 2);
    record(w, 0, TRACE_CALL_MADE, 5 * S, trace_call_id(0, 1), 1, "f");
    record(w, 1, TRACE_BODY_BEGUN, 5 * S + 10, trace_call_id(0, 1), 0, "f");
    w->clocks[0].offset = w->clocks[1].offset = 0;
    for (int i = 0; i < 2; i++) {
        // By wall time, the body began a second before the call was made.
        w->x.of[i].opened = (trace_moment){ .monotonic_ns = 1, .wall_ns = i ? -S : 0 };
        w->x.of[i].threads[0].records[0].at_ns = 5 * S + i;
    }
    clocks c = align(w);
    assert_int_equal(c.hosts[1].method, CLOCKS_BY_WALL_TIME);
    assert_int_equal(c.back_count, 1);
    assert_true(clocks_leads_back(&c, TRACE_CALL_MADE, trace_call_id(0, 1)));
    assert_false(clocks_leads_back(&c, TRACE_BODY_ENDED, trace_call_id(0, 1)));
    clocks_fini(&c);
    close_world(w);
}

GW_TESTS(trace_clocks, the_true_offset_is_within_the_uncertainty, many_messages_make_it_small,
         bounds_from_one_side_are_not_enough, a_clock_that_is_set_contradicts,
         times_beyond_all_do_no_harm, calls_align_two_hosts, collectives_alone_align_hosts,
         hosts_are_aligned_through_others, no_arrow_leads_back_between_any_hosts,
         passes_bound_the_offset_too, messages_in_one_direction_are_not_enough,
         other_collectives_bound_nothing, messages_that_contradict_are_not_used,
         ids_of_other_attempts_are_not_mixed_up, an_arrow_that_leads_back_is_noted);
