// The rules by which gradwire run starts ranks again, with time and processes that do not exist.
#include "testing/testing.h"

#include "options/budget.c"
#include "options/failures.c"

enum { SLOTS = 3, MEMORY = 8 };

typedef struct fixture {
    budget b;
    budget_slot slots[SLOTS];
    int64_t restarts_ms[MEMORY];
} fixture;

static void open_budget(fixture *f, int max, int64_t window_ms, int64_t backoff_ms) {
    *f = (fixture){ 0 };
    f->b = (budget){ .max = max,
                     .window_ms = window_ms,
                     .backoff_ms = backoff_ms,
                     .restarts_ms = f->restarts_ms,
                     .slots = f->slots };
}

// The failure of an attempt that had run for |ran_ms|, of a job that has joined.
static budget_decision fail_at(fixture *f, int slot, int64_t now_ms, int64_t ran_ms,
                               bool has_joined, int64_t *out_start_ms) {
    budget_failure failure = { .slot = slot,
                               .started_ms = now_ms - ran_ms,
                               .now_ms = now_ms,
                               .has_joined = has_joined,
                               .job_has_begun = true,
                               .job_has_joined = true };
    return budget_fail(&f->b, &failure, out_start_ms);
}

static void the_job_has_one_budget(void **state) {
    (void)state;
    fixture f;
    int64_t start_ms;
    open_budget(&f, 3, 0, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(budget_left(&f.b, 0), 3 - i);
        assert_int_equal(fail_at(&f, i, 1000 * i, 20000, true, &start_ms), BUDGET_RESTART);
    }
    assert_int_equal(budget_left(&f.b, 0), 0);
    // None is forgotten without a window.
    assert_int_equal(fail_at(&f, 0, INT64_MAX / 2, 20000, true, &start_ms), BUDGET_SPENT);
}

static void without_a_budget_nothing_starts_again(void **state) {
    (void)state;
    fixture f;
    int64_t start_ms;
    open_budget(&f, 0, 0, 0);
    assert_int_equal(fail_at(&f, 0, 50000, 20000, true, &start_ms), BUDGET_SPENT);
}

static void older_restarts_than_the_window_do_not_count(void **state) {
    (void)state;
    fixture f;
    int64_t start_ms;
    open_budget(&f, 2, 1000, 0);
    assert_int_equal(fail_at(&f, 0, 100000, 20000, true, &start_ms), BUDGET_RESTART);
    assert_int_equal(fail_at(&f, 0, 100500, 20000, true, &start_ms), BUDGET_RESTART);
    assert_int_equal(fail_at(&f, 0, 100999, 20000, true, &start_ms), BUDGET_SPENT);
    assert_int_equal(fail_at(&f, 0, 101000, 20000, true, &start_ms), BUDGET_RESTART);
    assert_int_equal(fail_at(&f, 0, 101499, 20000, true, &start_ms), BUDGET_SPENT);
    assert_int_equal(budget_left(&f.b, 101500), 1);
    assert_int_equal(budget_left(&f.b, 102000), 2);
}

static void a_second_restart_within_a_minute_is_delayed(void **state) {
    (void)state;
    fixture f;
    int64_t now_ms = 100000, start_ms = 0;
    open_budget(&f, MEMORY, 0, 1000);
    static const int64_t delays_ms[] = { 0, 1000, 2000, 4000, 8000, 16000, 30000, 30000 };
    for (int i = 0; i < MEMORY; i++) {
        assert_int_equal(fail_at(&f, 1, now_ms, 1000, true, &start_ms), BUDGET_RESTART);
        assert_int_equal(start_ms, now_ms + delays_ms[i]);
        now_ms = start_ms + 59999;
    }
}

static void a_delay_is_of_one_slot_and_ends_after_a_minute(void **state) {
    (void)state;
    fixture f;
    int64_t start_ms;
    open_budget(&f, MEMORY, 0, 1000);
    assert_int_equal(fail_at(&f, 0, 100000, 1000, true, &start_ms), BUDGET_RESTART);
    assert_int_equal(fail_at(&f, 1, 100000, 1000, true, &start_ms), BUDGET_RESTART);
    assert_int_equal(start_ms, 100000);
    assert_int_equal(fail_at(&f, 0, 101000, 1000, true, &start_ms), BUDGET_RESTART);
    assert_int_equal(start_ms, 102000);
    assert_int_equal(fail_at(&f, 0, 162000, 1000, true, &start_ms), BUDGET_RESTART);
    assert_int_equal(start_ms, 162000);
    assert_int_equal(fail_at(&f, 0, 163000, 1000, true, &start_ms), BUDGET_RESTART);
    assert_int_equal(start_ms, 164000);
}

static void a_delay_beyond_30_s_is_the_users(void **state) {
    (void)state;
    fixture f;
    int64_t start_ms = 100000;
    open_budget(&f, MEMORY, 0, 45000);
    assert_int_equal(fail_at(&f, 0, start_ms, 1000, true, &start_ms), BUDGET_RESTART);
    for (int i = 0; i < 2; i++) {
        int64_t now_ms = start_ms + 1000;
        assert_int_equal(fail_at(&f, 0, now_ms, 1000, true, &start_ms), BUDGET_RESTART);
        assert_int_equal(start_ms, now_ms + 45000);
    }
}

static void three_early_failures_of_a_slot_are_a_crash_loop(void **state) {
    (void)state;
    fixture f;
    int64_t start_ms;
    open_budget(&f, MEMORY, 0, 0);
    assert_int_equal(fail_at(&f, 0, 10000, 9999, false, &start_ms), BUDGET_RESTART);
    assert_int_equal(fail_at(&f, 1, 10000, 9999, false, &start_ms), BUDGET_RESTART);
    assert_int_equal(fail_at(&f, 0, 20000, 9999, false, &start_ms), BUDGET_RESTART);
    assert_int_equal(fail_at(&f, 1, 20000, 10000, false, &start_ms), BUDGET_RESTART);
    assert_int_equal(fail_at(&f, 0, 30000, 9999, false, &start_ms), BUDGET_CRASH_LOOP);
    // The other slot has had one that was not early, and one that had joined.
    assert_int_equal(fail_at(&f, 1, 30000, 10, false, &start_ms), BUDGET_RESTART);
    assert_int_equal(fail_at(&f, 1, 30000, 10, true, &start_ms), BUDGET_RESTART);
    assert_int_equal(fail_at(&f, 1, 30000, 10, false, &start_ms), BUDGET_RESTART);
}

static void a_failure_before_any_worker_has_joined_ends_the_job(void **state) {
    (void)state;
    // A program that reports nothing counts as one that works once it has run for 10 s.
    static const struct {
        bool job_has_begun, job_has_joined;
        int64_t ran_ms;
        budget_decision decision;
    } rows[] = {
        { false, false, 9999, BUDGET_NEVER_JOINED }, { false, false, 10000, BUDGET_RESTART },
        { true, false, 9999, BUDGET_NEVER_JOINED },  { true, false, 60000, BUDGET_NEVER_JOINED },
        { true, true, 10, BUDGET_RESTART },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fixture f;
        int64_t start_ms;
        open_budget(&f, 1, 0, 0);
        budget_failure failure = { .slot = 0,
                                   .started_ms = 5000,
                                   .now_ms = 5000 + rows[i].ran_ms,
                                   .job_has_begun = rows[i].job_has_begun,
                                   .job_has_joined = rows[i].job_has_joined };
        assert_int_equal(budget_fail(&f.b, &failure, &start_ms), rows[i].decision);
        assert_int_equal(budget_left(&f.b, failure.now_ms), rows[i].decision != BUDGET_RESTART);
    }
}

static failure_survivors survivors(bool are_elastic) {
    return (failure_survivors){ are_elastic, are_elastic, .has_state = are_elastic };
}

// Of a rank that ends with a code other than 0 or by a signal, also by that of the launcher when it was silent.
static void each_policy_has_an_action_for_each_failure(void **state) {
    (void)state;
    static const struct {
        failure_policy policy;
        bool are_elastic;
        failure_action granted, refused;
    } rows[] = {
        { FAILURE_STOP, false, ACTION_END_JOB, ACTION_END_JOB },
        { FAILURE_STOP, true, ACTION_END_JOB, ACTION_END_JOB },
        { FAILURE_KEEP, false, ACTION_CONTINUE, ACTION_CONTINUE },
        { FAILURE_KEEP, true, ACTION_CONTINUE, ACTION_CONTINUE },
        { FAILURE_RESTART, false, ACTION_START_RANK, ACTION_END_JOB },
        { FAILURE_RESTART, true, ACTION_START_RANK, ACTION_END_JOB },
        { FAILURE_RESTART_ALL, false, ACTION_START_ALL, ACTION_END_JOB },
        { FAILURE_RESTART_ALL, true, ACTION_START_ALL, ACTION_END_JOB },
        { FAILURE_AUTO, false, ACTION_START_ALL, ACTION_END_JOB },
        { FAILURE_AUTO, true, ACTION_START_RANK, ACTION_END_JOB },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        failure_policy p = rows[i].policy;
        failure_survivors left = survivors(rows[i].are_elastic);
        assert_int_equal(failures_act(p, left, BUDGET_RESTART), rows[i].granted);
        assert_int_equal(failures_act(p, left, BUDGET_SPENT), rows[i].refused);
        assert_int_equal(failures_act(p, left, BUDGET_NEVER_JOINED), rows[i].refused);
        assert_int_equal(failures_act(p, left, BUDGET_CRASH_LOOP), rows[i].refused);
    }
}

// LAUN-22: the next attempt alone could not join, or would begin the work again.
static void what_is_left_of_the_job_decides_how_it_starts_again(void **state) {
    (void)state;
    static const struct {
        failure_policy policy;
        failure_survivors left;
        failure_action action;
    } rows[] = {
        { FAILURE_RESTART, { .is_elastic = true }, ACTION_START_ALL },
        { FAILURE_AUTO, { .is_elastic = true, .are_elastic = true }, ACTION_START_ALL },
        { FAILURE_RESTART, { .is_elastic = true, .has_state = true }, ACTION_START_RANK },
        { FAILURE_RESTART, { .is_elastic = false }, ACTION_START_RANK },
        { FAILURE_RESTART, { .is_elastic = true, .is_finished = true }, ACTION_START_RANK },
        { FAILURE_AUTO, { .is_finished = true }, ACTION_START_RANK },
        { FAILURE_RESTART_ALL, { .is_finished = true }, ACTION_START_RANK },
        { FAILURE_RESTART_ALL, { .has_state = true, .are_elastic = true }, ACTION_START_ALL },
        { FAILURE_KEEP, { .is_finished = true }, ACTION_CONTINUE },
        { FAILURE_STOP, { .is_finished = true }, ACTION_END_JOB },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        testing_note("row %d", (int)i);
        assert_int_equal(failures_act(rows[i].policy, rows[i].left, BUDGET_RESTART),
                         rows[i].action);
    }
}

static void each_policy_has_an_action_for_the_loss_of_a_host(void **state) {
    (void)state;
    static const struct {
        failure_policy policy;
        bool continues[2][2];  // [a worker has joined][all are elastic]
    } rows[] = {
        { FAILURE_STOP, { { false, false }, { false, false } } },
        { FAILURE_KEEP, { { true, true }, { true, true } } },
        { FAILURE_RESTART, { { false, false }, { true, true } } },
        { FAILURE_RESTART_ALL, { { false, false }, { false, false } } },
        { FAILURE_AUTO, { { false, false }, { false, true } } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int joined = 0; joined < 2; joined++)
            for (int elastic = 0; elastic < 2; elastic++)
                assert_int_equal(failures_survive_host(rows[i].policy, elastic, joined),
                                 rows[i].continues[joined][elastic]);
}

static void a_rank_that_exits_with_0_fails_if_it_has_not_left(void **state) {
    (void)state;
    for (failure_policy p = FAILURE_STOP; p <= FAILURE_AUTO; p++) {
        bool restarts = p != FAILURE_STOP && p != FAILURE_KEEP;
        assert_false(failures_has_failed(p, true, false));
        assert_int_equal(failures_has_failed(p, true, true), restarts);
        assert_true(failures_has_failed(p, false, false));
        assert_true(failures_has_failed(p, false, true));
    }
}

// ---- Events and policies --------------------------------------------------------------------------

enum { DONE = -1, POLICIES = 6 };

// stop, keep, restart, restart-all, and auto in a job of a world size and in an elastic one.
static const struct {
    failure_policy policy;
    bool are_elastic;
} policies[POLICIES] = {
    { FAILURE_STOP, false },        { FAILURE_KEEP, false }, { FAILURE_RESTART, true },
    { FAILURE_RESTART_ALL, false }, { FAILURE_AUTO, false }, { FAILURE_AUTO, true },
};

// The end of a worker, after |before| failures of its slot that were granted.
typedef struct event {
    const char *what;
    bool exits_with_0, leaves_members, has_joined, none_has_joined;
    int before;
    int actions[POLICIES];
} event;

#define ENDS ACTION_END_JOB
#define RUNS ACTION_CONTINUE
#define ONE ACTION_START_RANK
#define ALL ACTION_START_ALL

static const event events[] = {
    { "is killed, crashes, or has another code", .has_joined = true,
      .actions = { ENDS, RUNS, ONE, ALL, ALL, ONE } },
    { "is killed before it has joined, while others have",
      .actions = { ENDS, RUNS, ONE, ALL, ALL, ONE } },
    { "exits with 0, and had left", .exits_with_0 = true, .has_joined = true,
      .actions = { DONE, DONE, DONE, DONE, DONE, DONE } },
    { "exits with 0, and had not left", .exits_with_0 = true, .leaves_members = true,
      .has_joined = true, .actions = { DONE, DONE, ONE, ALL, ALL, ONE } },
    { "fails before any has joined", .none_has_joined = true,
      .actions = { ENDS, RUNS, ENDS, ENDS, ENDS, ENDS } },
    { "fails for the third time at its beginning", .before = 2,
      .actions = { ENDS, RUNS, ENDS, ENDS, ENDS, ENDS } },
    { "fails when the budget is used up", .has_joined = true, .before = 3,
      .actions = { ENDS, RUNS, ENDS, ENDS, ENDS, ENDS } },
};

static int act_on(const event *e, int policy) {
    fixture f;
    int64_t start_ms;
    failure_policy p = policies[policy].policy;
    open_budget(&f, p < FAILURE_RESTART ? 0 : 3, 0, 0);
    if (!failures_has_failed(p, e->exits_with_0, e->leaves_members)) return DONE;
    for (int i = 0; i < e->before; i++) fail_at(&f, 0, 50000, 10, e->has_joined, &start_ms);
    budget_failure failure = { .slot = 0,
                               .started_ms = 50000,
                               .now_ms = 50010,
                               .has_joined = e->has_joined,
                               .job_has_begun = true,
                               .job_has_joined = !e->none_has_joined };
    failure_survivors left = survivors(policies[policy].are_elastic);
    return failures_act(p, left, budget_fail(&f.b, &failure, &start_ms));
}

static void each_end_of_a_worker_has_an_action_under_each_policy(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
        for (int k = 0; k < POLICIES; k++) {
            testing_note("a worker %s; policy %d", events[i].what, k);
            assert_int_equal(act_on(&events[i], k), events[i].actions[k]);
        }
    }
}

GW_TESTS(run_budget, each_end_of_a_worker_has_an_action_under_each_policy, the_job_has_one_budget,
         without_a_budget_nothing_starts_again, older_restarts_than_the_window_do_not_count,
         a_second_restart_within_a_minute_is_delayed,
         a_delay_is_of_one_slot_and_ends_after_a_minute, a_delay_beyond_30_s_is_the_users,
         three_early_failures_of_a_slot_are_a_crash_loop,
         a_failure_before_any_worker_has_joined_ends_the_job,
         each_policy_has_an_action_for_each_failure,
         what_is_left_of_the_job_decides_how_it_starts_again,
         each_policy_has_an_action_for_the_loss_of_a_host,
         a_rank_that_exits_with_0_fails_if_it_has_not_left);
