// Stall reports of groups, in the simulator: the current activity of the members that a call waits for, circles over
// several groups, and the last collectives of a group that has failed.
#include "base/log.h"
#include "base/map.h"
#include "base/scope.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOG_BYTES = 1 << 16, CIRCLE_SEEDS = 120 };

// ---- The log ------------------------------------------------------------------------------------

static char written[LOG_BYTES];

static void keep_line(const char *line) {
    size_t at = strlen(written);
    snprintf(written + at, sizeof written - at, "%s\n", line);
}

static void listen(void) {
    written[0] = '\0';
    log_hook = keep_line;
}

static void expect_written(const char *text) {
    if (!strstr(written, text)) fail_msg("\"%s\" is not among\n%s", text, written);
}

static int count_written(const char *text) {
    int count = 0;
    for (const char *at = written; (at = strstr(at, text)); at++) count++;
    return count;
}

static void expect(gw_scope *s, gw_status status, const char *text) {
    const gw_error *e = gw_scope_error(s);
    if (!strstr(e->text, text)) fail_msg("\"%s\" instead of \"%s\"", e->text, text);
    assert_int_equal(e->status, status);
    gw_scope_clear(s);
}

// Time passes while no thread waits in the library.
static void compute_ms(gw_scope *s, int64_t ms) {
    waiter w = { .what = "computing" };
    env_enter(s->env);
    env_wait(s->env, &w, env_now_ns(s->env) + ms * 1000000);
    env_leave(s->env);
}

static void run(int workers, cluster_main *play, void *context) {
    for (uint64_t seed = 1; seed <= 10; seed++) {
        listen();
        cluster_run(seed, (cluster_options){ .world_size = workers }, play, context);
    }
    log_hook = NULL;
}

// ---- Activity of missing members ----------------------------------------------------------------

static void compute_long(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_barrier(s, g);
    if (rank == 1) compute_ms(s, 15000);
    if (rank == 2) compute_ms(s, 100);
    gw_barrier(s, g);
    assert_true(gw_ok(s));
    if (rank != 0) return;
    expect_written("group \"world\": barrier (stall_report_sim_test.c:");
    expect_written("has waited 10 s for w1: w1 computes (its collective 1 ended 10 s ago)\n");
    assert_int_equal(count_written("has waited"), 2);  // by w0, and by w2
    assert_int_equal(count_written("circle"), 0);
}

static void a_long_wait_reports_that_others_compute(void **state) {
    (void)state;
    run(3, compute_long, NULL);
}

GW_FUNCTION(stall_slow, GW_POOL) {
    (void)a;
    compute_ms(s, 15000);
    return gw_none();
}

static void call_long(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    if (rank == 1) gw_rpc_sync(s, "w2", "stall_slow");
    gw_barrier(s, g);
    assert_true(gw_ok(s));
    if (rank == 0)
        expect_written("for w1: w1 waits for stall_slow of w2 (stall_report_sim_test.c:");
}

static void a_long_wait_reports_that_others_wait_for_a_call(void **state) {
    (void)state;
    run(3, call_long, NULL);
}

static gw_group *open_pair(gw_scope *s, gw_group *world, int i, int j, const char *name) {
    int ranks[] = { i, j };
    return gw_group_of(s, world, ranks, 2, .name = name, .timeout_ms = 20000);
}

// w2 computes, w1 waits for it, and w0 for w1.
static void wait_in_a_row(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *world = gw_group_world(s);
    gw_group *a = rank < 2 ? open_pair(s, world, 0, 1, "a") : NULL;
    gw_group *b = rank > 0 ? open_pair(s, world, 1, 2, "b") : NULL;
    if (rank == 2) compute_ms(s, 15000);
    if (b) gw_barrier(s, b);
    if (a) gw_barrier(s, a);
    assert_true(gw_ok(s));
    if (rank != 0) return;
    expect_written("group \"a\": barrier (stall_report_sim_test.c:");
    expect_written("for w1: w1 waits in group \"b\" for w2 (collective 1, barrier (");
    expect_written("for w2: w2 computes\n");
    assert_int_equal(count_written("circle"), 0);
}

static void a_long_wait_reports_that_others_wait_in_another_group(void **state) {
    (void)state;
    run(3, wait_in_a_row, NULL);
}

static void agree_long(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *world = gw_group_world(s);
    if (rank == 2) compute_ms(s, 15000);
    if (rank > 0) gw_group_agree(s, open_pair(s, world, 1, 2, "b"), 1);
    gw_barrier(s, world);
    assert_true(gw_ok(s));
    if (rank == 0) expect_written("w1 agrees in group \"b\"");
}

static void a_long_wait_reports_that_others_agree_in_another_group(void **state) {
    (void)state;
    run(3, agree_long, NULL);
}

static void stop_for_a_while(sim *s, void *context) {
    (void)context;
    sim_stop(s, 1);
}

static void resume(sim *s, void *context) {
    (void)context;
    sim_continue(s, 1);
}

static void plan_stop(sim *s, void *context) {
    assert_true(sim_at(s, 10 * SIM_SECOND, stop_for_a_while, context));
    assert_true(sim_at(s, 15 * SIM_SECOND, resume, context));
}

static void be_stopped(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    if (rank == 1) compute_ms(s, 16000);
    gw_barrier(s, g);
    assert_true(gw_ok(s));
    if (rank == 0) expect_written("for w1: w1 has not answered for 3.0 s\n");
}

static void a_long_wait_reports_that_others_do_not_answer(void **state) {
    (void)state;
    listen();
    cluster_run(1, (cluster_options){ .world_size = 3, .direct = plan_stop }, be_stopped, NULL);
    log_hook = NULL;
}

static void be_late(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_barrier(s, g);
    if (rank == 1) compute_ms(s, 3000);
    gw_barrier(s, g, .timeout_ms = 1000);
    expect(s, GW_TIMEOUT, "has passed; w1 has not entered: w1 computes (its collective 1 ended ");
    gw_barrier(s, g);
    assert_true(gw_ok(s));
}

static void the_timeout_error_of_all_members_reports_it(void **state) {
    (void)state;
    run(3, be_late, NULL);
}

// ---- Circles ------------------------------------------------------------------------------------

typedef struct ring {
    int size;
    const char *text;
    int reported;
} ring;

// Each member calls the barrier with the next member before the one with the previous member.
static void wait_in_a_circle(gw_scope *s, int rank, void *context) {
    ring *x = context;
    static const char *const names[] = { "a", "b", "c", "d" };
    gw_group *world = gw_group_world(s), *own, *other;
    int next = (rank + 1) % x->size, before = (rank + x->size - 1) % x->size;
    gw_barrier(s, world);
    own = open_pair(s, world, rank, next, names[rank]);
    other = open_pair(s, world, before, rank, names[before]);
    gw_barrier(s, own);
    // The member with the first error continues and may enter the barrier for which the previous member waits, which
    // then is in no circle any more.
    bool in_circle = strstr(gw_scope_error(s)->text, "in a circle");
    x->reported += in_circle;
    if (!gw_ok(s)) expect(s, GW_TIMEOUT, in_circle ? x->text : "has passed");
    gw_barrier(s, other);
    gw_scope_clear(s);
    gw_barrier(s, world);
    assert_true(gw_ok(s));
    if (rank == 0) expect_written(x->text + 4);
}

static void a_circle_is_reported_by_all_deadlines_and_in_the_log(void **state) {
    (void)state;
    ring two = {
        .size = 2,
        .text = "at that time, in a circle: w0 waited in \"a\" for w1, which waited in \"b\" for w0"
    };
    ring three = { .size = 3,
                   .text = "at that time, in a circle: w0 waited in \"a\" for w1, which waited in "
                           "\"b\" for w2, which waited in \"c\" for w0" };
    run(2, wait_in_a_circle, &two);
    run(3, wait_in_a_circle, &three);
    assert_true(two.reported >= 10 && three.reported >= 10);  // by each seed
}

static gw_module *open_replica(gw_scope *s, gw_group *g) {
    gw_module *m = gw_nn_linear(s, 2, 2);
    gw_ddp_open(s, m, .group = g);
    return m;
}

// Each member differentiates through two models, in opposite orders.
static void differentiate_in_a_circle(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s, .timeout_ms = 12000);
    gw_module *models[] = { open_replica(s, g), open_replica(s, g) };
    gw_scope *t = gw_scope_open(s);
    gw_tensor *x = gw_ones(t, GW_F32, 1, 2);
    for (int i = 0; i < 2; i++)
        gw_backward(t, gw_sum(t, gw_module_call(t, models[(i + rank) % 2], x)));
    expect(t, GW_TIMEOUT,
           "at that time, in a circle: w0 waited in \"world");  // #1, or in the barrier by then
    gw_scope_close_up(t);
    gw_barrier(s, g);
    assert_true(gw_ok(s));
}

static void a_circle_of_passes_through_two_models_is_reported(void **state) {
    (void)state;
    run(2, differentiate_in_a_circle, NULL);
}

// Members call barriers of several groups in orders that the seed decides, and compute in between. find_stuck computes
// which members cannot end.
enum { WALKERS = 4, WALK_GROUPS = 4, WALK_CALLS = 6 };

typedef struct walk {
    uint64_t seed;
    unsigned members[WALK_GROUPS];  // as bits
    int calls[WALKERS][WALK_CALLS];
    int call_count[WALKERS];
    bool is_stuck[WALKERS];
    bool reported;
} walk;

static uint64_t choose(const walk *w, int what, uint64_t below) {
    return hash_u64(w->seed * 977 + (uint64_t)what) % below;
}

// All members of a group call it equally often, so that only the order of calls is wrong.
static void plan_walk(walk *w) {
    for (int g = 0; g < WALK_GROUPS; g++) {
        int first = (int)choose(w, g, WALKERS), other = (int)choose(w, 10 + g, WALKERS - 1);
        w->members[g] = 1u << first | 1u << (first + 1 + other) % WALKERS;
        if (choose(w, 20 + g, 4) == 0) w->members[g] |= 1u << choose(w, 30 + g, WALKERS);
    }
    for (int i = 0; i < WALK_CALLS; i++) {
        int g = (int)choose(w, 40 + i, WALK_GROUPS);
        for (int m = 0; m < WALKERS; m++)
            if (w->members[g] >> m & 1) w->calls[m][w->call_count[m]++] = g;
    }
    for (int m = 0; m < WALKERS; m++) {
        int n = w->call_count[m];
        if (n < 2 || choose(w, 50 + m, 3)) continue;
        int at = (int)choose(w, 60 + m, (uint64_t)n - 1), g = w->calls[m][at];
        w->calls[m][at] = w->calls[m][at + 1];
        w->calls[m][at + 1] = g;
    }
}

// A call ends when all members of its group are at it. A member that has calls left when no call can end is stuck.
static void find_stuck(walk *w) {
    int at[WALKERS] = { 0 };
    for (bool moves = true; moves;) {
        moves = false;
        for (int g = 0; g < WALK_GROUPS; g++) {
            bool all = true;
            for (int m = 0; m < WALKERS; m++)
                if (w->members[g] >> m & 1)
                    all &= at[m] < w->call_count[m] && w->calls[m][at[m]] == g;
            for (int m = 0; m < WALKERS && all; m++) at[m] += w->members[g] >> m & 1;
            moves |= all;
        }
    }
    for (int m = 0; m < WALKERS; m++) w->is_stuck[m] = at[m] < w->call_count[m];
}

static void walk_along(gw_scope *root, int rank, void *context) {
    walk *w = context;
    gw_group *world = gw_group_world(root), *groups[WALK_GROUPS] = { NULL };
    for (int g = 0; g < WALK_GROUPS; g++) {
        int ranks[WALKERS], count = 0;
        char name[8];
        for (int m = 0; m < WALKERS; m++)
            if (w->members[g] >> m & 1) ranks[count++] = m;
        snprintf(name, sizeof name, "g%d", g);
        if (w->members[g] >> rank & 1)
            groups[g] = gw_group_of(root, world, ranks, count, .name = name, .timeout_ms = 400000);
    }
    gw_barrier(root, world);
    gw_scope *s = gw_scope_open(root);
    for (int i = 0; i < w->call_count[rank] && gw_ok(s); i++) {
        if (choose(w, 100 + rank * 16 + i, 3) == 0)
            compute_ms(root, (int64_t)choose(w, 200 + rank * 16 + i, 5000));
        gw_barrier(s, groups[w->calls[rank][i]]);
    }
    if (gw_ok(s) == w->is_stuck[rank])
        fail_msg("w%d: %s", rank, gw_ok(s) ? "not stuck" : gw_scope_error(s)->text);
    w->reported |= strstr(gw_scope_error(s)->text, "in a circle") != NULL;
    gw_scope_clear(s);
    gw_scope_close_up(s);
    gw_scope_clear(root);
}

static void walk_with_seed(uint64_t seed, void *context) {
    int *stuck_count = context;
    walk w = { .seed = seed };
    bool any = false;
    plan_walk(&w);
    find_stuck(&w);
    for (int m = 0; m < WALKERS; m++) any |= w.is_stuck[m];
    *stuck_count += any;
    listen();
    bool is_slow = choose(&w, 300, 2);
    sim_options network = is_slow ? sim_varied(seed, 0) : (sim_options){ 0 };
    cluster_run(seed, (cluster_options){ .world_size = WALKERS, .network = network }, walk_along,
                &w);
    // On a slow network replies may arrive too late for the deadline.
    if (is_slow ? w.reported && !any : any != w.reported)
        fail_msg("%s\n%s", any ? "a circle is not reported" : "there is no circle", written);
    if (any != (count_written("in a circle") > 0)) fail_msg("in the log: %s", written);
}

static void circles_are_reported_only_where_they_exist(void **state) {
    (void)state;
    int stuck = 0;
    testing_for_seeds(CIRCLE_SEEDS, walk_with_seed, &stuck);
    log_hook = NULL;
    printf("%d were stuck\n", stuck);
    if (!getenv("SEED") && testing_scaled(CIRCLE_SEEDS) == CIRCLE_SEEDS) assert_true(stuck > 0);
}

// Delays messages from w2 to w1.
static void hold(sim *s, void *context) {
    (void)context;
    sim_partition(s, 2, 1, true, false);
}

static void release(sim *s, void *context) {
    (void)context;
    sim_heal(s);
}

static void plan_delay(sim *s, void *context) {
    assert_true(sim_at(s, 12 * SIM_SECOND, hold, context));
    assert_true(sim_at(s, 16 * SIM_SECOND, release, context));
}

// w0 waits for w1, w1 for a message that w2 has sent already, and w2 for w0.
static void wait_for_a_message(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *world = gw_group_world(s);
    gw_group *a = rank < 2 ? open_pair(s, world, 0, 1, "a") : NULL;
    gw_group *b = rank > 0 ? open_pair(s, world, 1, 2, "b") : NULL;
    gw_group *c = rank != 1 ? open_pair(s, world, 0, 2, "c") : NULL;
    gw_barrier(s, world);
    compute_ms(s, (rank ? 12500 : 4000) - env_now_ns(s->env) / 1000000);
    if (b) gw_barrier(s, b);
    if (rank == 2) gw_barrier(s, c);
    if (a) gw_barrier(s, a);
    if (rank == 0) gw_barrier(s, c);
    assert_true(gw_ok(s));
    if (rank == 0) expect_written("w1 waits in group \"b\" for w2");
    assert_int_equal(count_written("circle"), 0);
}

static void wait_for_a_message_by_seed(uint64_t seed, void *context) {
    listen();
    cluster_run(seed, (cluster_options){ .world_size = 3, .direct = plan_delay },
                wait_for_a_message, context);
}

static void a_message_on_its_way_closes_no_circle(void **state) {
    (void)state;
    testing_for_seeds(5, wait_for_a_message_by_seed, NULL);
    log_hook = NULL;
}

// A collective under way for which the program does not wait delays no member.
static void overlap(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *world = gw_group_world(s);
    gw_group *a = open_pair(s, world, 0, 1, "a"), *b = open_pair(s, world, 0, 1, "b");
    gw_future *f = gw_barrier_async(s, rank ? b : a);
    if (rank) compute_ms(s, 15000);
    gw_barrier(s, rank ? a : b);
    gw_wait(s, f);
    assert_true(gw_ok(s));
    assert_int_equal(count_written("circle"), 0);
}

static void members_that_overlap_two_groups_are_in_no_circle(void **state) {
    (void)state;
    run(2, overlap, NULL);
}

// ---- The last collectives -----------------------------------------------------------------------

static void differ(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_all_reduce(s, g, gw_ones(s, GW_F32, 3), GW_SUM);
    gw_barrier(s, g, .key = 7);
    gw_barrier(s, g, .key = 7);
    for (int i = 0; i < 2; i++) {
        if (rank == 1) compute_ms(s, 100);
        if (rank == 1)
            gw_all_gather(s, g, gw_ones(s, GW_F32, 3));
        else
            gw_all_reduce(s, g, gw_ones(s, GW_F32, 2, 2), GW_SUM);
        expect(s, GW_MISMATCH, "w0, w2 do all_reduce sum f32 2x2 (stall_report_sim_test.c:");
        gw_barrier(s, g);
    }
    gw_barrier(s, g);
    if (rank != 0) return;
    expect_written("w1 does all_gather f32 3 (stall_report_sim_test.c:");
    expect_written("; the last collectives of group \"world\" on w0:\n"
                   "    collective 1: all_reduce sum f32 3 (stall_report_sim_test.c:");
    expect_written("    collective 2 with .key = 7: barrier (stall_report_sim_test.c:");
    expect_written("    collective 2: all_reduce sum f32 2x2 (stall_report_sim_test.c:");
    expect_written("): under way for ");
    // One member logs each failure once, and each ended collective once.
    assert_int_equal(count_written("the last collectives"), 2);
    assert_int_equal(count_written("    collective 1: "), 1);
    assert_int_equal(count_written("    collective 2 with .key = 7: "), 1);
    assert_int_equal(count_written("    collective 2: "), 2);  // under way, and failed later
    expect_written("): failed (mismatch) after ");
}

static void a_failure_is_logged_with_the_last_collectives(void **state) {
    (void)state;
    run(3, differ, NULL);
}

static void differ_at_last(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    for (int i = 0; i < 40; i++) gw_barrier(s, g);
    for (int i = 0; i < 5; i++) gw_all_reduce(s, g, gw_ones(s, GW_F32, i < 2 ? 2 : 4), GW_SUM);
    if (rank == 1) compute_ms(s, 100);
    if (rank == 1)
        gw_all_gather(s, g, gw_ones(s, GW_F32, 3));
    else
        gw_all_reduce(s, g, gw_ones(s, GW_F32, 2, 2), GW_SUM);
    expect(s, GW_MISMATCH, "all_gather f32 3");
    gw_barrier(s, g);
    if (rank != 0) return;
    expect_written("    collectives 1 to 40: barrier (stall_report_sim_test.c:");
    expect_written("): 40 done, each in ");
    expect_written("    collective 41: all_reduce sum f32 2 (stall_report_sim_test.c:");
    expect_written("    collective 42: all_reduce sum f32 2 (stall_report_sim_test.c:");
    expect_written("    collectives 43 to 45: all_reduce sum f32 4 (stall_report_sim_test.c:");
    expect_written("): 3 done, each in ");
    assert_int_equal(count_written("\n    collective"), 5);
    const char *all = gw_group_history(s, g);  // a line for each
    int lines = 1;
    for (; *all; all++) lines += *all == '\n';
    assert_int_equal(lines, 47);
}

static void equal_collectives_of_a_loop_are_one_line(void **state) {
    (void)state;
    run(3, differ_at_last, NULL);
}

static void fail_in_a_pass(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_module *model = gw_nn_linear(s, 2, 2);
    gw_ddp_open(s, model, .group = g);
    for (int i = 0; i < 20; i++) {
        gw_scope *step = gw_scope_open(s);
        gw_backward(step, gw_sum(step, gw_module_call(step, model, gw_ones(step, GW_F32, 1, 2))));
        assert_int_equal(gw_scope_close(step).status, GW_OK);
    }
    gw_scope *step = gw_scope_open(s);
    gw_module_call(step, model, gw_ones(step, GW_F32, 1, 2));
    if (rank == 1) gw_fail(step, GW_INVALID, "no more digits");
    gw_backward(step, gw_sum(step, gw_module_call(step, model, gw_ones(step, GW_F32, 1, 2))));
    assert_int_equal(gw_scope_close(step).status, GW_INVALID);
    gw_barrier(s, g);
    if (rank == 0) expect_written("    collective 1 of DDP pass 1 to 20: all_reduce avg f32 8");
}

static void equal_collectives_of_passes_are_one_line(void **state) {
    (void)state;
    run(3, fail_in_a_pass, NULL);
}

static void lose_one(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_barrier(s, g);
    if (rank == 0) compute_ms(s, 20000);
    if (rank == 0) return;
    gw_barrier(s, g);
    expect(s, GW_DISCONNECTED, "w0");
    cluster_pause_ms(s, 1000);
    assert_int_equal(count_written("the last collectives"), 0);
    assert_int_equal(count_written("w0 (rank 0) "), 2);
}

static void crash_w0(sim *s, void *context) {
    (void)context;
    sim_crash(s, 0);
}

static void plan_crash(sim *s, void *context) {
    assert_true(sim_at(s, 5 * SIM_SECOND, crash_w0, context));
}

static void a_death_is_one_line_of_each_remaining_member(void **state) {
    (void)state;
    listen();
    cluster_run(1, (cluster_options){ .world_size = 3, .fails = true, .direct = plan_crash },
                lose_one, NULL);
    log_hook = NULL;
}

static void end_without_failure(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_barrier(s, g);
    if (rank == 1) gw_rpc_leave(s);
    if (rank == 1) return;
    gw_future *f = gw_barrier_async(s, open_pair(s, g, 0, 2, "a"));
    gw_cancel(s, f);
    gw_wait(s, f);
    gw_scope_clear(s);
    cluster_pause_ms(s, 3000);
    assert_int_equal(count_written("the last collectives"), 0);
}

static void successful_and_cancelled_collectives_log_nothing(void **state) {
    (void)state;
    run(3, end_without_failure, NULL);
}

static void look_back(gw_scope *s, int rank, void *context) {
    (void)context, (void)rank;
    gw_group *g = gw_group_world(s);
    assert_string_equal(gw_group_history(s, g), "");
    for (int i = 0; i < 70; i++) gw_all_reduce(s, g, gw_ones(s, GW_F32, i + 1), GW_SUM);
    gw_future *f = gw_barrier_async(s, g);
    char text[1 << 15];
    snprintf(text, sizeof text, "%s", gw_group_history(s, g));
    gw_wait(s, f);
    int lines = 1;
    for (const char *c = text; *c; c++) lines += *c == '\n';
    assert_int_equal(lines, 64);
    assert_ptr_equal(strstr(text, "collective 8: all_reduce sum f32 8 (stall_report_sim_test.c:"),
                     text);
    assert_non_null(
        strstr(text, "\ncollective 70: all_reduce sum f32 70 (stall_report_sim_test.c:"));
    assert_non_null(strstr(text, "): done in "));
    assert_non_null(strstr(text, "\ncollective 71: barrier ("));
    gw_group_history(s, NULL);
    expect(s, GW_INVALID, "gw_group_history: the group is NULL");
}

static void the_history_has_the_last_64_collectives(void **state) {
    (void)state;
    run(2, look_back, NULL);
}

GW_TESTS_WITH_LIMIT(
    stall_report_sim, 120, a_long_wait_reports_that_others_compute,
    a_long_wait_reports_that_others_wait_for_a_call,
    a_long_wait_reports_that_others_wait_in_another_group,
    a_long_wait_reports_that_others_agree_in_another_group,
    a_long_wait_reports_that_others_do_not_answer, the_timeout_error_of_all_members_reports_it,
    a_circle_is_reported_by_all_deadlines_and_in_the_log,
    a_circle_of_passes_through_two_models_is_reported, circles_are_reported_only_where_they_exist,
    a_message_on_its_way_closes_no_circle, members_that_overlap_two_groups_are_in_no_circle,
    a_failure_is_logged_with_the_last_collectives, equal_collectives_of_a_loop_are_one_line,
    equal_collectives_of_passes_are_one_line, a_death_is_one_line_of_each_remaining_member,
    successful_and_cancelled_collectives_log_nothing, the_history_has_the_last_64_collectives);
