// Groups after a loss, in the simulator: agreements, re-forming, admission.
#include "runtime/runtime.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <stdio.h>
#include <string.h>

enum { SEEDS = 20 };

static cluster_options workers(int count) {
    return (cluster_options){ .world_size = count };
}

static void expect(gw_scope *s, gw_status status, const char *text) {
    const gw_error *e = gw_scope_error(s);
    if (!strstr(e->text, text) || e->status != status)
        fail_msg("\"%s\" instead of \"%s\"", e->text, text);
    assert_int_equal(e->status, status);
    gw_scope_clear(s);
}

static void expect_ok(gw_scope *s) {
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

static void expect_sum(gw_scope *s, gw_group *g) {
    int n = gw_group_size(g);
    gw_tensor *sum = gw_all_reduce(s, g, gw_full(s, GW_F32, gw_group_rank(g) + 1, 1), GW_SUM);
    expect_ok(s);
    assert_int_equal((int)gw_item(s, sum), n * (n + 1) / 2);
}

static void for_seeds(int count, cluster_options o, cluster_main *play, void *context) {
    for (uint64_t seed = 1; seed <= (uint64_t)count; seed++) cluster_run(seed, o, play, context);
}

// ---- Agreements ---------------------------------------------------------------------------------

static void agree_often(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    for (uint64_t i = 0; i < 5; i++) {
        gw_agreement a = gw_group_agree(s, g, ~(UINT64_C(1) << rank) << i);
        expect_ok(s);
        assert_int_equal(a.missing_count, 0);
        uint64_t all = UINT64_MAX;
        for (int j = 0; j < gw_group_size(g); j++) all &= ~(UINT64_C(1) << j) << i;
        assert_true(a.flags == all);
        expect_sum(s, g);
    }
}

static void members_agree_on_the_flags_that_all_have_given(void **state) {
    (void)state;
    for (int n = 1; n <= 5; n++) for_seeds(4, workers(n), agree_often, NULL);
}

static const int leaves_as_leader = 0, leaves_as_member = 2;

// Two barriers: a member may have completed the first one that the others have not.
static void lose(gw_scope *s, gw_group *g) {
    gw_barrier(s, g);
    gw_barrier(s, g);
}

static void leave_first(gw_scope *s, int rank, void *context) {
    const int *who = context;
    gw_group *g = gw_group_world(s);
    if (rank == *who) {
        gw_barrier(s, g);
        gw_rpc_leave(s);
        return;
    }
    lose(s, g);
    expect(s, GW_DISCONNECTED, *who ? "w2" : "w0");
    gw_agreement a = gw_group_agree(s, g, rank == 1 ? 6 : 3);
    expect_ok(s);
    assert_int_equal(a.flags, 2);
    assert_int_equal(a.missing_count, 1);
    assert_int_equal(a.missing[0], *who);
}

static void a_broken_group_agrees_without_lost_members(void **state) {
    (void)state;
    for_seeds(SEEDS, workers(4), leave_first, (void *)&leaves_as_leader);
    for_seeds(SEEDS, workers(4), leave_first, (void *)&leaves_as_member);
}

static void shut_down_early(gw_scope *s, int rank, void *context) {
    const int *who = context;
    gw_group *g = gw_group_world(s);
    expect_sum(s, g);
    if (rank == *who) return;
    gw_agreement a = gw_group_agree(s, g, 1);
    expect_ok(s);
    assert_int_equal(a.missing_count, 1);
    assert_int_equal(a.missing[0], *who);
    if (rank == 1) return;
    gw_group *next = gw_group_reform(s, g);
    expect_ok(s);
    assert_int_equal(gw_group_size(next), 2);
    expect_sum(s, next);
}

static void a_member_that_has_shut_down_is_not_waited_for(void **state) {
    (void)state;
    for_seeds(SEEDS, workers(4), shut_down_early, (void *)&leaves_as_leader);
    for_seeds(SEEDS, workers(4), shut_down_early, (void *)&leaves_as_member);
}

static void close_group(gw_scope *s, int rank, void *context) {
    const int *who = context;
    gw_scope *t = gw_scope_open(s);
    gw_group *g = gw_group_world(t);
    expect_sum(t, g);
    if (rank != *who) {
        gw_agreement a = gw_group_agree(t, g, 1);
        expect_ok(t);
        assert_int_equal(a.missing_count, 1);
        assert_int_equal(a.missing[0], *who);
    }
    gw_error e = gw_scope_close(t);
    assert_string_equal(e.text, "");
    if (rank == *who) cluster_pause_ms(s, 2000);
}

static void a_member_that_has_closed_the_group_is_not_waited_for(void **state) {
    (void)state;
    for_seeds(SEEDS, workers(3), close_group, (void *)&leaves_as_leader);
    for_seeds(SEEDS, workers(3), close_group, (void *)&leaves_as_member);
}

static void be_late(gw_scope *s, int rank, void *context) {
    const int *who = context;
    gw_group *g = gw_group_world(s, .timeout_ms = 1000);
    expect_sum(s, g);
    if (rank == *who) cluster_pause_ms(s, 5000);
    gw_group_agree(s, g, 1);
    char missing[64];
    snprintf(missing, sizeof missing, "has passed; w%d has not proposed", *who);
    if (*who)
        expect(s, GW_TIMEOUT, missing);
    else
        expect(s, GW_TIMEOUT, "has passed");
    if (rank != *who) cluster_pause_ms(s, 4500);
    gw_agreement a = gw_group_agree(s, g, 1);
    expect_ok(s);
    assert_int_equal(a.flags, 1);
    expect_sum(s, g);
}

static void a_late_member_gets_the_error_of_the_others(void **state) {
    (void)state;
    for_seeds(SEEDS, workers(3), be_late, (void *)&leaves_as_member);
    for_seeds(SEEDS, workers(3), be_late, (void *)&leaves_as_leader);
}

static void fail_before(gw_scope *s, int rank, void *context) {
    const int *who = context;
    gw_group *g = gw_group_world(s);
    gw_scope *t = gw_scope_open(s);
    if (rank == *who) gw_fail(t, GW_INVALID, "this is wrong on purpose");
    gw_agreement a = gw_group_agree(t, g, 1);
    assert_int_equal(a.flags, 0);
    expect(t, GW_INVALID, "this is wrong on purpose");
    gw_scope_close_up(t);
    a = gw_group_agree(s, g, 1);
    expect_ok(s);
    assert_int_equal(a.flags, 1);
}

static void a_scope_that_has_failed_fails_the_agreement_of_all(void **state) {
    (void)state;
    for_seeds(SEEDS, workers(3), fail_before, (void *)&leaves_as_member);
    for_seeds(SEEDS, workers(3), fail_before, (void *)&leaves_as_leader);
}

static void differ(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    if (rank == 1)
        gw_group_reform(s, g, .min = 2);
    else
        gw_group_agree(s, g, 1);
    expect(s, GW_MISMATCH,
           "group \"world\": agreement 1: w0 agrees on flags; w1 re-forms the group with at least "
           "2 members");
    expect_sum(s, g);
}

static void members_that_differ_get_the_request_of_each(void **state) {
    (void)state;
    for_seeds(SEEDS, workers(3), differ, NULL);
}

// The group of all, once it has lost |who|; NULL on the worker that leaves.
static gw_group *world_without(gw_scope *s, int rank, int who) {
    gw_group *g = gw_group_world(s, .timeout_ms = 20000);
    if (rank == who) {
        gw_barrier(s, g);
        gw_rpc_leave(s);
        return NULL;
    }
    lose(s, g);
    expect(s, GW_DISCONNECTED, "w");
    return g;
}

// Some members re-form the group after a loss while others agree in it.
static void differ_after_a_loss(gw_scope *s, int rank, void *context) {
    const int *who = context;
    gw_group *g = world_without(s, rank, *who);
    if (!g) return;
    if (rank == 1 || rank == 3) {
        gw_agreement a = gw_group_agree(s, g, 1);
        assert_int_equal(a.flags, 0);
        char text[80];
        snprintf(text, sizeof text, "agreement 1: w%d is gone, and w%d re-forms the group", *who,
                 *who ? 0 : 2);
        expect(s, GW_DISCONNECTED, text);
    }
    gw_group *next = gw_group_reform(s, g, .min = 2);
    expect_ok(s);
    assert_int_equal(gw_group_size(next), 4);
    expect_sum(s, next);
}

// One member is late when the others differ.
static void be_late_after_a_loss(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s, .timeout_ms = 20000);
    gw_barrier(s, g);
    if (rank == 3) {
        gw_rpc_leave(s);
        return;
    }
    cluster_pause_ms(s, rank == 2 ? 3000 : 1000);
    if (rank == 1) {
        gw_group_agree(s, g, 1);
        expect(s, GW_DISCONNECTED, "w3 is gone, and w0 re-forms the group");
    }
    expect_sum(s, gw_group_reform(s, g));
}

static void a_member_that_agrees_while_others_re_form_gets_the_reason_and_joins_them(void **state) {
    (void)state;
    for_seeds(SEEDS, workers(5), differ_after_a_loss, (void *)&leaves_as_leader);
    for_seeds(SEEDS, workers(5), differ_after_a_loss, (void *)&leaves_as_member);
    for_seeds(SEEDS, workers(4), be_late_after_a_loss, NULL);
}

// Errors of groups of the same name are not confused.
static void take_an_error_along(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s, .timeout_ms = 5000);
    gw_scope *t = gw_scope_open(s);
    gw_all_reduce(t, g, gw_ones(t, GW_F32, rank == 1 ? 2 : 3), GW_SUM);
    assert_int_equal(gw_scope_error(t)->status, GW_MISMATCH);
    for (int i = 0; i < 2; i++) {
        gw_group *other = i ? gw_group_reform(s, g) : gw_group_world(s, .timeout_ms = 5000);
        expect_ok(s);
        for (int k = 0; k < 3; k++) {  // so that its numbers are higher
            gw_all_reduce(s, other, gw_ones(s, GW_F32, rank == 1 ? 2 : 3), GW_SUM);
            expect(s, GW_MISMATCH,
                   i ? "group \"world\" (re-formed once): collective"
                     : "group \"world\" (opened 2 times): collective");
        }
        gw_barrier(rank == 2 ? t : s, other);
        if (rank != 2) expect(s, GW_MISMATCH, "w2: group \"world\": collective 1: ");
        expect_sum(s, other);
    }
    gw_scope_clear(t);
    gw_scope_close_up(t);
}

static void an_error_of_another_group_of_that_name_is_reported(void **state) {
    (void)state;
    for_seeds(SEEDS, workers(3), take_an_error_along, NULL);
}

static void revoke(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    if (rank == 1)
        gw_group_fail(s, g, GW_INVALID, "my sensor is gone");
    else
        gw_barrier(s, g);
    if (rank != 1) expect(s, GW_INVALID, "w1: my sensor is gone");
    gw_barrier(s, g);
    expect(s, GW_INVALID, "my sensor is gone");
    gw_group *next = gw_group_reform(s, g, .min = 3);
    expect_sum(s, next);
}

static void a_group_that_was_failed_ends_for_all_and_is_formed_again(void **state) {
    (void)state;
    for_seeds(SEEDS, workers(3), revoke, NULL);
}

// ---- Re-forming ---------------------------------------------------------------------------------

static void reform_without(gw_scope *s, int rank, void *context) {
    const int *who = context;
    gw_group *g = world_without(s, rank, *who);
    if (!g) return;
    gw_group *next = gw_group_reform(s, g);
    expect_ok(s);
    assert_int_equal(gw_group_size(next), 3);
    assert_int_equal(gw_group_generation(next), 1);
    assert_string_equal(gw_group_name(next), "world");
    assert_int_equal(gw_group_rank(next), rank - (rank > *who));
    expect_sum(s, next);
    gw_barrier(s, g);
    assert_false(gw_ok(s));
    gw_scope_clear(s);
    gw_group_agree(s, g, 1);
    expect(s, GW_WRONG_STATE,
           "group \"world\" was re-formed: use the group that gw_group_reform returned");
    gw_group *third = gw_group_reform(s, next);
    assert_int_equal(gw_group_generation(third), 2);
    expect_sum(s, third);
    gw_barrier(s, next);
    expect(s, GW_WRONG_STATE,
           "group \"world\": the group was re-formed: use the group that gw_group_reform returned");
}

static void survivors_continue_as_the_next_generation(void **state) {
    (void)state;
    for_seeds(SEEDS, workers(4), reform_without, (void *)&leaves_as_leader);
    for_seeds(SEEDS, workers(4), reform_without, (void *)&leaves_as_member);
}

// One member has called one collective more than the others, which no later collective has detected.
static void fall_out_of_step(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s, .timeout_ms = 2000);
    gw_future *extra = rank == 1 ? gw_all_reduce_async(s, g, gw_ones(s, GW_F32, 1), GW_SUM,
                                                       .timeout_ms = GW_NO_TIMEOUT)
                                 : NULL;
    gw_group *next = gw_group_reform(s, g);
    expect_ok(s);
    expect_sum(s, next);
    if (!extra) return;
    gw_wait(s, extra);
    expect(s, GW_WRONG_STATE, "was re-formed");
}

static void members_out_of_step_are_in_step_again(void **state) {
    (void)state;
    for_seeds(SEEDS, workers(3), fall_out_of_step, NULL);
}

// ---- Admission ----------------------------------------------------------------------------------

static void admit(gw_scope *s, int rank, void *context) {
    const gw_reform_options *how = context;
    gw_scope *t = gw_scope_open(s);
    gw_group *g;
    if (rank < 3) {
        gw_group *old = cluster_open_group(t, 0, 3, "trainers", 20000);
        while (gw_group_pending(old) < 2 && gw_ok(t)) cluster_pause_ms(t, 10);
        g = gw_group_reform_with(s, old, *how);
    } else {
        g = gw_group_join(s, "trainers", .timeout_ms = 60000);
    }
    expect_ok(s);
    assert_string_equal(gw_group_name(g), "trainers");
    assert_int_equal(gw_group_size(g), 5);
    assert_int_equal(gw_group_rank(g), rank);
    gw_scope_close_up(t);
    for (int i = 0; i < 3; i++) expect_sum(s, g);
    gw_agreement a = gw_group_agree(s, g, 1);
    assert_int_equal(a.missing_count, 0);
    expect_ok(s);
    assert_int_equal(gw_group_pending(g), 0);
}

static void pending_joiners_are_admitted(void **state) {
    (void)state;
    gw_reform_options grow = { .min = 1, .grow = true }, fill = { .min = 5 };
    for_seeds(SEEDS, workers(5), admit, &grow);
    for_seeds(SEEDS, workers(5), admit, &fill);
}

static void fill_up(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g;
    if (rank < 3) {
        gw_group *old = cluster_open_group(s, 0, 3, "trainers", 20000);
        gw_barrier(s, old);
        if (rank == 0) {
            gw_rpc_leave(s);
            return;
        }
        gw_scope_clear(s);
        g = gw_group_reform(s, old, .min = 3);
    } else {
        cluster_pause_ms(s, 3000);
        g = gw_group_join(s, "trainers");
    }
    expect_ok(s);
    assert_int_equal(gw_group_size(g), 3);
    expect_sum(s, g);
}

static void too_few_survivors_wait_for_a_join_request(void **state) {
    (void)state;
    for_seeds(SEEDS, workers(4), fill_up, NULL);
}

static void stay_too_few(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_group_reform(s, g, .min = 4, .timeout_ms = rank == 1 ? 1000 : 3000);
    expect(s, GW_TIMEOUT,
           "group \"world\": agreement 1: the deadline of w1 has passed; 3 members take part, but "
           ".min is 4");
    gw_group *next = gw_group_reform(s, g, .min = 3);
    expect_sum(s, next);
}

static void too_few_survivors_get_an_error_and_may_retry(void **state) {
    (void)state;
    for_seeds(SEEDS, workers(3), stay_too_few, NULL);
}

static void join_and_give_up(gw_scope *s, int rank, void *context) {
    (void)context;
    if (rank == 2) {
        gw_group_join(s, "trainers", .timeout_ms = 1000);
        expect(s, GW_TIMEOUT, "no member has admitted w2 to group \"trainers\"");
        gw_group_join(s, "");
        expect(s, GW_INVALID, "the name of a group has 1 to 127 bytes");
        return;
    }
    gw_group *g = cluster_open_group(s, 0, 2, "trainers", 20000);
    cluster_pause_ms(s, 3000);
    gw_group *next = gw_group_reform(s, g, .grow = true);
    expect_ok(s);
    assert_int_equal(gw_group_size(next), 2);
    expect_sum(s, next);
}

static void a_withdrawn_join_request_is_not_admitted(void **state) {
    (void)state;
    for_seeds(SEEDS, workers(3), join_and_give_up, NULL);
}

// The joining worker gives up at about the time of its admission: either all members have it, or the collectives of the
// next generation fail with its name, and the generation after that is without it.
static void join_shortly(gw_scope *s, int rank, void *context) {
    const uint64_t *seed = context;
    if (rank == 3) {
        gw_group *g = gw_group_join(s, "trainers", .timeout_ms = 400 + (int64_t)(*seed % 40));
        if (gw_ok(s)) gw_barrier(s, g);
        gw_scope_clear(s);
        return;
    }
    gw_group *g = cluster_open_group(s, 0, 3, "trainers", 20000);
    cluster_pause_ms(s, 400 + 4 * rank);
    for (int i = 0; i < 3; i++) {
        g = gw_group_reform(s, g, .grow = true);
        expect_ok(s);
        gw_barrier(s, g);
        if (gw_ok(s)) return;
        if (!strstr(gw_scope_error(s)->text, "w3")) fail_msg("%s", gw_scope_error(s)->text);
        gw_scope_clear(s);
    }
    fail_msg("the third generation fails, too");
}

static void a_worker_that_gives_up_during_admission_breaks_only_that_generation(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) cluster_run(seed, workers(4), join_shortly, &seed);
}

// ---- Deaths at any moment -----------------------------------------------------------------------

// One worker dies after the n-th send of all workers.
typedef struct death {
    sim *sim;
    uint64_t at;
    int node;
    uint64_t flags[4];           // by number of the agreement: the first that was returned; 0: none
    char generations[8][4][32];  // by generation and rank: its members
} death;

static void die(sim *s, void *context) {
    sim_crash(s, ((death *)context)->node);
}

static void plan_death(sim *s, void *context) {
    death *d = context;
    d->sim = s;
    assert_true(sim_at_send(s, d->at, die, d));
}

// A worker that runs on as a ghost after its death does not count; its results from before do.
static bool is_dead(const death *d, int rank) {
    return rank == d->node && sim_is_crashed(d->sim, rank);
}

static void agree_until_death(gw_scope *s, int rank, void *context) {
    death *d = context;
    gw_group *g = cluster_open_group(s, 0, 3, "three", 20000);
    for (int i = 0; i < 4 && gw_ok(s); i++) {
        gw_agreement a = gw_group_agree(s, g, ~(UINT64_C(1) << (rank + 8 * i)));
        if (is_dead(d, rank)) break;
        if (!gw_ok(s)) fail_msg("w%d: %s", rank, gw_scope_error(s)->text);
        if (d->flags[i] && d->flags[i] != a.flags)
            fail_msg("agreement %d: %llx and, on w%d, %llx", i, (unsigned long long)d->flags[i],
                     rank, (unsigned long long)a.flags);
        d->flags[i] = a.flags;
        assert_int_equal(a.flags & UINT64_C(1) << (rank + 8 * i), 0);
        for (int j = 0; j < 3; j++)
            if (a.missing_count == 0) assert_int_equal(a.flags & UINT64_C(1) << (j + 8 * i), 0);
    }
    gw_scope_clear(s);
}

static void agree_with_seed(uint64_t seed, void *context) {
    death d = { .at = 30 + seed / 3 % 120, .node = (int)(seed % 3) };
    (void)context;
    cluster_run(seed / 360,
                (cluster_options){ .world_size = 3, .fails = true, .direct = plan_death },
                agree_until_death, &d);
}

static void survivors_of_any_death_return_the_same_agreement(void **state) {
    (void)state;
    testing_for_seeds(720, agree_with_seed, NULL);
}

static void write_members(gw_scope *s, const gw_group *g, char out[32]) {
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; i < gw_group_size(g) && at < 32; i++)
        at += (size_t)snprintf(out + at, 32 - at, "%s", gw_group_worker(s, g, i).name);
}

// All members of a generation have the same members.
static void compare_generations(death *d, gw_scope *s, const gw_group *g, int rank) {
    int n = gw_group_generation(g);
    assert_true(n < 8);
    write_members(s, g, d->generations[n][rank]);
    for (int i = 0; i < 4; i++)
        if (d->generations[n][i][0] && strcmp(d->generations[n][i], d->generations[n][rank]) != 0)
            fail_msg("generation %d is %s on w%d and %s on w%d", n, d->generations[n][i], i,
                     d->generations[n][rank], rank);
}

static int count_workers(gw_scope *s) {
    int count;
    gw_rpc_workers(s, &count);
    return gw_ok(s) ? count : 0;
}

// Survivors re-form the group until its collectives succeed; w3 requests to join.
static void reform_until_death(gw_scope *s, int rank, void *context) {
    death *d = context;
    gw_group *g = rank < 3 ? cluster_open_group(s, 0, 3, "three", 20000)
                           : gw_group_join(s, "three", .timeout_ms = 30000);
    if (rank < 3 && !gw_ok(s)) {  // one was lost before it was opened
        gw_scope_clear(s);
        return;
    }
    while (rank < 3 && !gw_group_pending(g) && !is_dead(d, 3) && !is_dead(d, rank) &&
           count_workers(s) == 4)
        cluster_pause_ms(s, 5);
    // After an early death the others continue before they have received the join request.
    bool is_left_out = rank == 3 && (gw_scope_error(s)->status == GW_TIMEOUT ||
                                     gw_scope_error(s)->status == GW_DISCONNECTED);
    for (int tries = 0; !is_left_out; tries++) {
        if (is_dead(d, rank)) break;
        if (rank < 3 || tries) g = gw_group_reform(s, g, .grow = true);
        if (is_dead(d, rank)) break;
        if (!gw_ok(s)) fail_msg("w%d: %s", rank, gw_scope_error(s)->text);
        compare_generations(d, s, g, rank);
        gw_barrier(s, g);
        gw_barrier(s, g);
        if (gw_ok(s)) break;
        gw_scope_clear(s);
        assert_true(tries < 4);
    }
    gw_scope_clear(s);
}

static void reform_with_seed(uint64_t seed, void *context) {
    death d = { .at = 40 + seed / 4 % 120, .node = (int)(seed % 4) };
    (void)context;
    cluster_run(seed / 480,
                (cluster_options){ .world_size = 4, .fails = true, .direct = plan_death },
                reform_until_death, &d);
}

static void survivors_of_any_death_form_one_next_generation(void **state) {
    (void)state;
    testing_for_seeds(960, reform_with_seed, NULL);
}

// ---- A worker that joins the job ----------------------------------------------------------------

typedef struct joiner {
    env *env;
    int node;
    gw_error ended;
    bool is_done;
} joiner;

static void play_joiner(joiner *w, gw_scope *s) {
    gw_group *g;
    if (w->node < 2) {
        while (gw_rpc_world_size(s) < 2 && gw_ok(s)) cluster_pause_ms(s, 20);
        gw_group *old = cluster_open_group(s, 0, 2, "trainers", 60000);
        g = gw_group_reform(s, old, .min = 3);
    } else {
        g = gw_group_join(s, "trainers");
    }
    expect_ok(s);
    assert_int_equal(gw_group_size(g), 3);
    expect_sum(s, g);
    gw_rpc_shutdown(s);
}

static void run_joiner(void *arg) {
    joiner *w = arg;
    gw_scope *root = gw_scope_open(NULL);
    cluster_delay_ms(w->env, w->node * 2000);
    cluster_join(root, w->env, w->node);
    if (gw_ok(root)) play_joiner(w, root);
    w->ended = gw_scope_close(root);
    w->is_done = true;
}

static void a_worker_that_joins_the_job_is_waited_for_and_admitted(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        joiner ws[3] = { 0 };
        sim *s = sim_open(seed, sim_varied(seed, 0));
        assert_non_null(s);
        for (int i = 0; i < 3; i++) {
            ws[i] = (joiner){ .env = sim_env(s, i), .node = i };
            assert_true(sim_spawn(s, i, run_joiner, &ws[i]));
        }
        assert_true(sim_run(s, 300 * SIM_SECOND));
        sim_close(s);
        for (int i = 0; i < 3; i++) assert_string_equal(ws[i].ended.text, "");
    }
}

// ---- Arguments ----------------------------------------------------------------------------------

static void give_wrong_arguments(gw_scope *s, int rank, void *context) {
    (void)rank, (void)context;
    gw_group *g = gw_group_world(s);
    gw_group_agree(s, NULL, 1);
    expect(s, GW_INVALID, "gw_group_agree: the group is NULL");
    gw_group_reform(s, NULL);
    expect(s, GW_INVALID, "gw_group_reform: the group is NULL");
    gw_group_join(s, NULL);
    expect(s, GW_INVALID, "gw_group_join: the name of a group has 1 to 127 bytes");
    gw_group_join(s, "x", .timeout_ms = -1);
    expect(s, GW_INVALID, "gw_group_join: a timeout is negative");
    expect_sum(s, g);
    assert_int_equal(gw_group_pending(NULL), 0);
    assert_int_equal(gw_group_generation(g), 0);
}

static void wrong_arguments_are_refused(void **state) {
    (void)state;
    for_seeds(1, workers(2), give_wrong_arguments, NULL);
}

GW_TESTS_WITH_LIMIT(
    reform_sim, 120, members_agree_on_the_flags_that_all_have_given,
    a_broken_group_agrees_without_lost_members, a_member_that_has_shut_down_is_not_waited_for,
    a_member_that_has_closed_the_group_is_not_waited_for,
    a_late_member_gets_the_error_of_the_others, a_scope_that_has_failed_fails_the_agreement_of_all,
    members_that_differ_get_the_request_of_each,
    a_member_that_agrees_while_others_re_form_gets_the_reason_and_joins_them,
    an_error_of_another_group_of_that_name_is_reported,
    a_group_that_was_failed_ends_for_all_and_is_formed_again,
    survivors_continue_as_the_next_generation, members_out_of_step_are_in_step_again,
    pending_joiners_are_admitted, too_few_survivors_wait_for_a_join_request,
    too_few_survivors_get_an_error_and_may_retry, a_withdrawn_join_request_is_not_admitted,
    survivors_of_any_death_return_the_same_agreement,
    survivors_of_any_death_form_one_next_generation,
    a_worker_that_gives_up_during_admission_breaks_only_that_generation,
    a_worker_that_joins_the_job_is_waited_for_and_admitted, wrong_arguments_are_refused);
