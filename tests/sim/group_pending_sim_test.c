// Pending groups, in the simulator: some members have opened the group, and others, its leader among them, have not. A
// failure ends the collective for all members at once or at the deadline, and a member that opens the group later
// continues with the others.
#include "base/env.h"
#include "base/map.h"
#include "base/scope.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_MS = 1000, SOON_MS = 1000, SEEDS = 60, LATE_SEEDS = 120 };

static int64_t now_ms(gw_scope *s) {
    return env_now_ns(s->env) / 1000000;
}

static void wait_until_ms(gw_scope *s, int64_t at_ms) {
    if (now_ms(s) < at_ms) cluster_pause_ms(s, at_ms - now_ms(s));
    gw_scope_clear(s);
}

static void expect_ok(gw_scope *s) {
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

static void expect(gw_scope *s, gw_status status, const char *part) {
    const gw_error *e = gw_scope_error(s);
    if (e->status != status || !strstr(e->text, part))
        fail_msg("\"%s\" (%d) instead of \"%s\"", e->text, e->status, part);
}

// The text of one error, the same on all members.
typedef struct report {
    char text[GW_ERROR_TEXT_MAX];
} report;

static void expect_alike(report *t, gw_scope *s) {
    const char *text = strstr(gw_scope_error(s)->text, "group \"");
    if (!text) fail_msg("\"%s\"", gw_scope_error(s)->text);
    if (!t->text[0]) snprintf(t->text, sizeof t->text, "%s", text);
    assert_string_equal(text, t->text);
    gw_scope_clear(s);
}

static gw_group *open_late(gw_scope *s, int64_t timeout_ms) {
    gw_group *g = gw_group_world(s, .name = "late", .timeout_ms = timeout_ms);
    expect_ok(s);
    return g;
}

static void expect_sum(gw_scope *s, gw_group *g, int rank) {
    gw_tensor *sum = gw_all_reduce(s, g, gw_full(s, GW_F32, rank, 4), GW_SUM);
    int n = gw_group_size(g);
    double all = gw_item(s, gw_sum(s, sum));
    expect_ok(s);
    assert_true(all == 4 * n * (n - 1) / 2.0);
}

static void expect_soon(gw_scope *s, int64_t since_ms, int64_t timeout_ms) {
    int64_t took_ms = now_ms(s) - since_ms;
    if (took_ms > timeout_ms + SOON_MS) fail_msg("it has taken %lld ms", (long long)took_ms);
}

static void run(cluster_main *main, int members) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        report t = { "" };
        testing_note("seed %d", (int)seed);
        cluster_run(seed, (cluster_options){ .world_size = members }, main, &t);
    }
}

// ---- The leader is late -------------------------------------------------------------------------

static const char deadline_text[] = "group \"late\": collective 1: the deadline of w";
static const char missing[] =
    " has passed; w0 has not entered: w0 waits for a future (it has not opened the group)";

static void wait_for_the_leader(gw_scope *s, int rank, void *context) {
    report *t = context;
    gw_barrier(s, gw_group_world(s));
    int64_t since_ms = now_ms(s);
    if (rank == 0) wait_until_ms(s, since_ms + 10000);
    gw_group *g = open_late(s, TIMEOUT_MS);
    if (rank > 0) {
        gw_barrier(s, g);
        expect(s, GW_TIMEOUT, deadline_text);
        expect(s, GW_TIMEOUT, missing);
        expect_soon(s, since_ms, TIMEOUT_MS);
        expect_alike(t, s);
        wait_until_ms(s, since_ms + 10000);
    } else {
        gw_barrier(s, g);  // returns the error of the call that it has missed
        expect_alike(t, s);
    }
    for (int i = 0; i < 3; i++) expect_sum(s, g, rank);
}

static void a_leader_that_has_not_opened_the_group_is_named_soon(void **state) {
    (void)state;
    run(wait_for_the_leader, 2);
    run(wait_for_the_leader, 3);
    run(wait_for_the_leader, 6);
}

// The shortest deadline ends the collective for all members.
static void wait_longer(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_barrier(s, gw_group_world(s));
    int64_t since_ms = now_ms(s);
    if (rank == 0) {
        wait_until_ms(s, since_ms + 5000);
        return;  // it never opens the group
    }
    gw_group *g = open_late(s, rank == 1 ? TIMEOUT_MS : 60000);
    for (int i = 0; i < 3; i++) {
        gw_barrier(s, g);
        expect(s, GW_TIMEOUT, "w0 has not entered: w0 ");
        expect(s, GW_TIMEOUT, "(it has not opened the group)");
        expect_soon(s, since_ms, TIMEOUT_MS);
        gw_scope_clear(s);
        since_ms = now_ms(s);
    }
}

static void a_member_that_never_opens_the_group_is_named_by_each_collective(void **state) {
    (void)state;
    run(wait_longer, 2);
    run(wait_longer, 4);
}

static void name_all(gw_scope *s, int rank, void *context) {
    report *t = context;
    gw_barrier(s, gw_group_world(s));
    int64_t since_ms = now_ms(s);
    if (rank != 2) wait_until_ms(s, since_ms + 10000 + 1000 * rank);
    gw_group *g = open_late(s, TIMEOUT_MS);
    gw_barrier(s, g);
    expect(s, GW_TIMEOUT, "; w0, w1, w3 have not entered: w0 ");
    expect(s, GW_TIMEOUT, "(it has not opened the group); w1 ");
    if (rank == 2) expect_soon(s, since_ms, TIMEOUT_MS);
    expect_alike(t, s);
    wait_until_ms(s, since_ms + 20000);
    expect_sum(s, g, rank);
}

static void all_members_that_have_not_opened_the_group_are_named(void **state) {
    (void)state;
    run(name_all, 4);
}

// ---- Failures before the leader has opened the group --------------------------------------------

static void differ(gw_scope *s, int rank, void *context) {
    report *t = context;
    gw_barrier(s, gw_group_world(s));
    int64_t since_ms = now_ms(s);
    if (rank == 0) wait_until_ms(s, since_ms + 10000);
    gw_group *g = open_late(s, 60000);
    if (rank == 1)
        gw_broadcast(s, g, gw_ones(s, GW_F32, 3), 1);
    else
        gw_all_reduce(s, g, gw_ones(s, GW_F32, 4), GW_SUM);
    if (rank == 1 && gw_ok(s))
        gw_barrier(s, g);  // the call of a member that only sends may have succeeded
    expect(s, GW_MISMATCH, "group \"late\": collective 1: w1 does broadcast");
    expect(s, GW_MISMATCH, "w2 does all_reduce");
    expect(s, GW_MISMATCH, "; w0 has not entered: w0 ");
    if (rank) expect_soon(s, since_ms, 0);
    expect_alike(t, s);
    wait_until_ms(s, since_ms + 20000);
    expect_sum(s, g, rank);
}

static void a_mismatch_among_the_others_is_reported_at_once(void **state) {
    (void)state;
    run(differ, 3);
}

static void fail_before(gw_scope *s, int rank, void *context) {
    report *t = context;
    gw_barrier(s, gw_group_world(s));
    int64_t since_ms = now_ms(s);
    if (rank == 0) wait_until_ms(s, since_ms + 10000);
    gw_group *g = open_late(s, 60000);
    gw_scope *inner = gw_scope_open(s);
    if (rank == 1) gw_fail(inner, GW_INVALID, "no more digits");
    gw_barrier(inner, g);
    expect(inner, GW_INVALID, "no more digits");
    if (rank) expect_soon(s, since_ms, 0);
    if (rank == 1)
        gw_scope_clear(inner);
    else
        expect_alike(t, inner);
    gw_scope_close_up(inner);
    wait_until_ms(s, since_ms + 20000);
    expect_sum(s, g, rank);
}

static void a_failed_scope_is_reported_at_once(void **state) {
    (void)state;
    run(fail_before, 3);
}

static void break_it(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_barrier(s, gw_group_world(s));
    int64_t since_ms = now_ms(s);
    if (rank == 0) wait_until_ms(s, since_ms + 10000);
    gw_group *g = open_late(s, TIMEOUT_MS);
    if (rank) gw_barrier(s, g);
    if (rank) expect(s, GW_TIMEOUT, "(it has not opened the group)");
    gw_scope_clear(s);
    wait_until_ms(s, since_ms + 3000);
    if (rank == 2) gw_group_fail(s, g, GW_INVALID, "out of digits");
    wait_until_ms(s, since_ms + 5000);
    gw_barrier(s, g);
    expect(s, GW_INVALID, "out of digits");
    gw_scope_clear(s);
    if (rank == 0) gw_barrier(s, g);
    if (rank == 0) expect(s, GW_INVALID, "out of digits");
    gw_scope_clear(s);
    wait_until_ms(s, since_ms + 20000);
    gw_drop(s, g);
    expect_sum(s, open_late(s, 60000), rank);  // the next group of this name
}

static void a_broken_group_is_broken_when_it_is_opened_later(void **state) {
    (void)state;
    run(break_it, 3);
}

static void open_others(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *world = gw_group_world(s);
    gw_barrier(s, world);
    int64_t since_ms = now_ms(s);
    if (rank == 0) wait_until_ms(s, since_ms + 5000);
    const int two[] = { 0, 2 };
    gw_group *g = rank ? open_late(s, TIMEOUT_MS)
                       : gw_group_of(s, world, two, 2, .name = "late", .timeout_ms = TIMEOUT_MS);
    gw_barrier(s, g);
    if (rank)
        expect(s, GW_TIMEOUT, "(it has not opened the group)");
    else
        expect(s, GW_MISMATCH,
               "group \"late\": the members of the group on w1 differ from those on w0");
    gw_scope_clear(s);
    wait_until_ms(s, since_ms + 10000);
    gw_barrier(s, g);
    expect(s, GW_MISMATCH, "group \"late\": the members of the group on w");
    gw_scope_clear(s);
}

static void a_group_opened_later_with_other_members_is_a_mismatch(void **state) {
    (void)state;
    run(open_others, 3);
}

static void lose_one(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *world = gw_group_world(s);
    gw_barrier(s, world);
    int64_t since_ms = now_ms(s);
    if (rank == 0) {
        const int all[] = { 0, 1, 2 };
        wait_until_ms(s, since_ms + 20000);
        gw_group_of(s, world, all, 3, .name = "late");
        expect(s, GW_DISCONNECTED, "w2");
        gw_scope_clear(s);
        return;
    }
    gw_group *g = open_late(s, TIMEOUT_MS);
    gw_barrier(s, g);
    expect(s, GW_TIMEOUT, "(it has not opened the group)");
    gw_scope_clear(s);
    if (rank == 2) wait_until_ms(s, since_ms + 20000);
    if (rank == 2) return;  // it has crashed
    gw_barrier(s, g, .timeout_ms = 60000);
    expect(s, GW_DISCONNECTED, "w2");
    gw_scope_clear(s);
}

static void crash_w2(sim *s, void *context) {
    (void)context;
    sim_crash(s, 2);
}

static void plan_crash(sim *s, void *context) {
    assert_true(sim_at(s, 5 * SIM_SECOND, crash_w2, context));
}

static void a_loss_breaks_the_group_for_members_that_have_opened_it(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        cluster_run(seed, (cluster_options){ .world_size = 3, .fails = true, .direct = plan_crash },
                    lose_one, NULL);
}

// ---- Opening at any time ------------------------------------------------------------------------

enum { MEMBERS_MAX = 6, CALLS = 5, TRIES = 40, REPORTS_MAX = 256 };

typedef struct opening_walk {
    uint64_t seed;
    int members;
    bool is_slow;
    int report_count;
    char reports[REPORTS_MAX][GW_ERROR_TEXT_MAX];
    int failed;
} opening_walk;

static uint64_t choose(const opening_walk *w, int what, uint64_t below) {
    return hash_u64(w->seed * 1009 + (uint64_t)what) % below;
}

static size_t subject_of(const char *text) {
    const char *collective = strstr(text, ": collective ");
    const char *end = collective ? strstr(collective + 2, ": ") : NULL;
    return end ? (size_t)(end - text) : 0;
}

// All members that get an error of one collective get the same text.
static void check_report(opening_walk *w, const gw_error *e) {
    const char *text = strstr(e->text, "group \"");
    size_t size = text ? subject_of(text) : 0;
    if (!size) fail_msg("nothing explains \"%s\"", e->text);
    for (int i = 0; i < w->report_count; i++) {
        if (strncmp(w->reports[i], text, size + 1) != 0) continue;
        assert_string_equal(w->reports[i], text);
        return;
    }
    assert_true(w->report_count < REPORTS_MAX);
    snprintf(w->reports[w->report_count++], sizeof w->reports[0], "%s", text);
}

static void take_error(opening_walk *w, gw_scope *s, int64_t since_ms, int64_t timeout_ms) {
    const gw_error *e = gw_scope_error(s);
    if (e->status != GW_TIMEOUT && e->status != GW_MISMATCH && e->status != GW_INVALID)
        fail_msg("nothing explains \"%s\" (%d)", e->text, e->status);
    if (!w->is_slow) expect_soon(s, since_ms, timeout_ms);
    if (strstr(e->text, "group \"late\"")) check_report(w, e);
    w->failed++;
    gw_scope_clear(s);
}

static void call_one(opening_walk *w, gw_scope *s, gw_group *g, int rank, int i) {
    int64_t timeout_ms = 500 + (int64_t)choose(w, 100 + 16 * rank + i, 3000), since_ms = now_ms(s);
    uint64_t mistake = choose(w, 200 + 16 * rank + i, 12), key = choose(w, 300 + i, 2) * 7;
    gw_scope *t = gw_scope_open(s);
    if (mistake == 0) gw_fail(t, GW_INVALID, "wrong on purpose");
    gw_all_reduce(t, g, gw_ones(t, GW_F32, mistake == 1 ? 3 : 4), GW_SUM, .key = key,
                  .timeout_ms = timeout_ms);
    if (!gw_ok(t)) take_error(w, t, since_ms, timeout_ms);
    gw_scope_close_up(t);
}

// A missed error fails a barrier that gets no number, so that the next one pairs.
static void resynchronize(opening_walk *w, gw_scope *s, gw_group *g, uint64_t key) {
    for (int i = 0; i < TRIES; i++) {
        int64_t since_ms = now_ms(s);
        gw_barrier(s, g, .key = key, .timeout_ms = 600000);
        if (gw_ok(s)) return;
        take_error(w, s, since_ms, 600000);
    }
    fail_msg("no barrier succeeds");
}

static void open_at_any_time(gw_scope *s, int rank, void *context) {
    opening_walk *w = context;
    gw_barrier(s, gw_group_world(s));
    expect_ok(s);
    int64_t since_ms = now_ms(s);
    wait_until_ms(s, since_ms + (int64_t)choose(w, rank, choose(w, 50 + rank, 2) ? 12000 : 1500));
    gw_group *g = open_late(s, 0);
    for (int i = 0; i < CALLS; i++) call_one(w, s, g, rank, i);
    wait_until_ms(s, since_ms + 200000);
    resynchronize(w, s, g, 0);
    resynchronize(w, s, g, 7);
    expect_sum(s, g, rank);
}

static void walk_with_seed(uint64_t seed, void *context) {
    int *failed = context;
    static opening_walk w;
    w = (opening_walk){ .seed = seed };
    w.members = 2 + (int)choose(&w, 60, MEMBERS_MAX - 1);
    w.is_slow = choose(&w, 61, 4) == 0;
    sim_options network = w.is_slow ? sim_varied(seed, 0) : (sim_options){ 0 };
    cluster_run(seed, (cluster_options){ .world_size = w.members, .network = network },
                open_at_any_time, &w);
    *failed += w.failed;
}

static void members_that_open_the_group_at_any_time_continue_together(void **state) {
    (void)state;
    int failed = 0;
    testing_for_seeds(LATE_SEEDS, walk_with_seed, &failed);
    printf("%d calls have failed\n", failed);
    if (!getenv("SEED")) assert_true(failed > 0);
}

GW_TESTS_WITH_LIMIT(group_pending_sim, 120, a_leader_that_has_not_opened_the_group_is_named_soon,
                    a_member_that_never_opens_the_group_is_named_by_each_collective,
                    all_members_that_have_not_opened_the_group_are_named,
                    a_mismatch_among_the_others_is_reported_at_once,
                    a_failed_scope_is_reported_at_once,
                    a_broken_group_is_broken_when_it_is_opened_later,
                    a_group_opened_later_with_other_members_is_a_mismatch,
                    a_loss_breaks_the_group_for_members_that_have_opened_it,
                    members_that_open_the_group_at_any_time_continue_together);
