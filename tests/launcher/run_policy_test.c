// The rules by which gradwire run ends a job, with time and processes that do not exist.
#include "testing/testing.h"

#include <signal.h>

#include "options/policy.c"

static void a_failure_stops_the_others_then_kills_them(void **state) {
    (void)state;
    policy p;
    policy_init(&p, 300);
    assert_int_equal(p.deadline_ms, INT64_MAX);
    assert_int_equal(policy_happened(&p, RANK_FAILED, SIGTERM, 1000), SIGTERM);
    assert_int_equal(p.deadline_ms, 1300);
    assert_int_equal(policy_happened(&p, RANK_FAILED, SIGTERM, 1001), 0);
    assert_int_equal(p.deadline_ms, 1300);
    assert_int_equal(policy_happened(&p, TIME_IS_UP, SIGTERM, 1300), SIGKILL);
    assert_int_equal(p.stage, AWAITING_DEATH);
}

static void processes_that_cannot_be_killed_are_left_in_the_end(void **state) {
    (void)state;
    const struct {
        int64_t grace_ms, death_ms;
    } cases[] = { { 0, 5000 }, { 6000, 6000 }, { 3600000, 10000 } };
    for (int i = 0; i < 3; i++) {
        policy p;
        policy_init(&p, cases[i].grace_ms);
        assert_int_equal(policy_happened(&p, USER_SIGNAL, SIGTERM, 0), SIGTERM);
        assert_int_equal(p.deadline_ms, cases[i].grace_ms);
        assert_int_equal(policy_happened(&p, TIME_IS_UP, SIGTERM, p.deadline_ms), SIGKILL);
        assert_int_equal(p.deadline_ms, cases[i].grace_ms + cases[i].death_ms);
        assert_int_equal(policy_happened(&p, TIME_IS_UP, SIGTERM, p.deadline_ms), 0);
        assert_int_equal(p.stage, AWAITING_NOTHING);
        assert_int_equal(p.deadline_ms, INT64_MAX);
        assert_int_equal(policy_happened(&p, USER_SIGNAL, SIGTERM, INT64_MAX), 0);
    }
}

static void a_second_signal_kills_and_a_third_changes_nothing(void **state) {
    (void)state;
    policy p;
    policy_init(&p, 10000);
    assert_int_equal(policy_happened(&p, USER_SIGNAL, SIGINT, 0), SIGINT);
    assert_int_equal(policy_happened(&p, USER_SIGNAL, SIGINT, 500), SIGKILL);
    assert_int_equal(p.deadline_ms, 10500);
    assert_int_equal(policy_happened(&p, USER_SIGNAL, SIGINT, 1000), 0);
    assert_int_equal(p.deadline_ms, 10500);
}

static void two_signals_at_once_are_one_request(void **state) {
    (void)state;
    policy p;
    policy_init(&p, 10000);
    assert_int_equal(policy_happened(&p, USER_SIGNAL, SIGTERM, 0), SIGTERM);
    assert_int_equal(policy_happened(&p, USER_SIGNAL, SIGTERM, 99), 0);
    assert_int_equal(p.stage, AWAITING_STOP);
    assert_int_equal(policy_happened(&p, USER_SIGNAL, SIGTERM, 100), SIGKILL);
}

static void a_signal_to_all_processes_is_one_request_even_if_a_rank_ends_first(void **state) {
    (void)state;
    policy p;
    policy_init(&p, 10000);
    assert_int_equal(policy_happened(&p, RANK_FAILED, SIGTERM, 0), SIGTERM);
    assert_int_equal(policy_happened(&p, USER_SIGNAL, SIGTERM, 1), 0);
    assert_int_equal(policy_happened(&p, USER_SIGNAL, SIGTERM, 1000), SIGKILL);
}

static void leftovers_may_end_by_themselves_at_first(void **state) {
    (void)state;
    policy p;
    policy_init(&p, 300);
    assert_int_equal(policy_happened(&p, LEFTOVERS_FOUND, SIGTERM, 0), 0);
    assert_int_equal(p.deadline_ms, LEFTOVERS_MS);
    assert_int_equal(policy_happened(&p, LEFTOVERS_FOUND, SIGTERM, 10), 0);
    assert_int_equal(policy_happened(&p, TIME_IS_UP, SIGTERM, 200), SIGTERM);
    assert_int_equal(p.deadline_ms, 500);
    assert_int_equal(policy_happened(&p, LEFTOVERS_FOUND, SIGTERM, 300), 0);
    assert_int_equal(policy_happened(&p, TIME_IS_UP, SIGTERM, 500), SIGKILL);
    // Some processes may have been started after that.
    assert_int_equal(policy_happened(&p, LEFTOVERS_FOUND, SIGTERM, 520), SIGKILL);
}

static void a_failed_start_kills_at_once(void **state) {
    (void)state;
    policy p;
    policy_init(&p, 300);
    assert_int_equal(policy_happened(&p, START_FAILED, 0, 0), SIGKILL);
    assert_int_equal(policy_happened(&p, RANK_FAILED, SIGTERM, 1), 0);
}

// ---- All ranks start again ------------------------------------------------------------------------

static void all_ranks_end_before_all_start_again(void **state) {
    (void)state;
    policy p;
    policy_init(&p, 300);
    assert_int_equal(policy_happened(&p, ROUND_FAILED, SIGTERM, 1000), SIGTERM);
    assert_true(policy_ends_round(&p));
    assert_int_equal(p.deadline_ms, 1300);
    // A further failure adds nothing, not even time.
    assert_int_equal(policy_happened(&p, RANK_FAILED, SIGTERM, 1100), 0);
    assert_int_equal(policy_happened(&p, LEFTOVERS_FOUND, SIGTERM, 1200), 0);
    assert_int_equal(p.deadline_ms, 1300);
    assert_int_equal(policy_happened(&p, ROUND_ENDED, 0, 1250), 0);
    assert_int_equal(p.stage, AWAITING_HOSTS);
    assert_true(policy_ends_round(&p));
    assert_int_equal(p.deadline_ms, INT64_MAX);
    assert_int_equal(policy_happened(&p, ROUND_STARTS, 0, 1260), 0);
    assert_int_equal(p.stage, AWAITING_RANKS);
    assert_false(policy_ends_round(&p));
    assert_int_equal(p.deadline_ms, INT64_MAX);
    assert_int_equal(policy_happened(&p, ROUND_FAILED, SIGTERM, 2000), SIGTERM);
}

static void ranks_that_do_not_end_for_a_restart_are_killed(void **state) {
    (void)state;
    policy p;
    policy_init(&p, 300);
    policy_happened(&p, ROUND_FAILED, SIGTERM, 0);
    assert_int_equal(policy_happened(&p, TIME_IS_UP, SIGTERM, 300), SIGKILL);
    assert_true(policy_ends_round(&p));
    assert_int_equal(p.deadline_ms, 300 + DEATH_MS_MIN);
    assert_int_equal(policy_happened(&p, RANK_FAILED, SIGTERM, 310), 0);
    assert_int_equal(policy_happened(&p, LEFTOVERS_FOUND, SIGTERM, 320), SIGKILL);
    policy waits = p;
    assert_int_equal(policy_happened(&p, ROUND_ENDED, 0, 400), 0);
    assert_int_equal(p.stage, AWAITING_HOSTS);
    assert_int_equal(policy_happened(&waits, TIME_IS_UP, 0, 300 + DEATH_MS_MIN), 0);
    assert_int_equal(waits.stage, AWAITING_NOTHING);
}

static void a_signal_of_the_user_cancels_the_restart_of_all(void **state) {
    (void)state;
    policy p;
    policy_init(&p, 300);
    policy_happened(&p, ROUND_FAILED, SIGTERM, 0);
    assert_int_equal(policy_happened(&p, USER_SIGNAL, SIGINT, 10), SIGINT);
    assert_int_equal(p.stage, AWAITING_STOP);
    assert_int_equal(p.deadline_ms, 310);
    assert_int_equal(policy_happened(&p, USER_SIGNAL, SIGINT, 200), SIGKILL);
    policy_init(&p, 300);
    policy_happened(&p, ROUND_FAILED, SIGTERM, 0);
    policy_happened(&p, TIME_IS_UP, SIGTERM, 300);
    assert_int_equal(policy_happened(&p, USER_SIGNAL, SIGINT, 310), SIGKILL);
    assert_int_equal(p.stage, AWAITING_DEATH);
}

// ---- Several hosts ----------------------------------------------------------------------------------

// |p| is in |stage| of a restart of all ranks, at 300 ms.
static void enter_round(policy *p, policy_stage stage) {
    policy_init(p, 300);
    policy_happened(p, ROUND_FAILED, SIGTERM, 0);
    if (stage == AWAITING_ROUND_DEATH) policy_happened(p, TIME_IS_UP, SIGTERM, 300);
    if (stage == AWAITING_HOSTS) policy_happened(p, ROUND_ENDED, 0, 300);
    assert_int_equal(p->stage, stage);
}

static void another_host_ends_the_job_during_the_restart_of_all(void **state) {
    (void)state;
    static const struct {
        policy_stage from, to;
        int signal_number;
    } rows[] = { { AWAITING_ROUND_END, AWAITING_STOP, 0 },
                 { AWAITING_ROUND_DEATH, AWAITING_DEATH, 0 },
                 { AWAITING_HOSTS, AWAITING_STOP, SIGTERM } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        policy p;
        enter_round(&p, rows[i].from);
        assert_int_equal(policy_happened(&p, OTHER_HOST_FAILED, SIGTERM, 310),
                         rows[i].signal_number);
        assert_int_equal(p.stage, rows[i].to);
        assert_false(policy_ends_round(&p));
        assert_true(p.deadline_ms < INT64_MAX);
    }
}

static void a_signal_ends_the_wait_for_the_ranks_of_other_hosts(void **state) {
    (void)state;
    policy p;
    enter_round(&p, AWAITING_HOSTS);
    assert_int_equal(policy_happened(&p, USER_SIGNAL, SIGINT, 310), SIGINT);
    assert_int_equal(p.stage, AWAITING_STOP);
}

// Nothing was left, or processes in any stage of their end; and another host makes all ranks start again after that, or before
// they have ended.
static void a_host_that_is_done_may_start_its_ranks_again(void **state) {
    (void)state;
    static const struct {
        int deadlines;  // that pass after the processes have been found
        policy_stage stage, round;
        int signal_number;
    } rows[] = { { 0, AWAITING_LEFTOVERS, AWAITING_ROUND_END, SIGTERM },
                 { 1, AWAITING_STOP, AWAITING_ROUND_END, 0 },
                 { 2, AWAITING_DEATH, AWAITING_ROUND_DEATH, 0 } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        policy p;
        policy_init(&p, 300);
        policy_happened(&p, LEFTOVERS_FOUND, SIGTERM, 0);
        for (int k = 0; k < rows[i].deadlines; k++)
            policy_happened(&p, TIME_IS_UP, SIGTERM, p.deadline_ms);
        assert_int_equal(p.stage, rows[i].stage);
        policy gone = p;
        assert_int_equal(policy_happened(&gone, LEFTOVERS_GONE, 0, 5000), 0);
        assert_int_equal(gone.stage, AWAITING_RANKS);
        assert_int_equal(gone.deadline_ms, INT64_MAX);
        assert_int_equal(policy_happened(&gone, LEFTOVERS_GONE, 0, 5000), 0);
        assert_int_equal(policy_happened(&gone, ROUND_FAILED, SIGTERM, 6000), SIGTERM);
        assert_int_equal(policy_happened(&p, ROUND_FAILED, SIGTERM, 5000), rows[i].signal_number);
        assert_int_equal(p.stage, rows[i].round);
    }
}

static void each_rule_exists_once_and_has_a_reason(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        assert_ptr_equal(find_rule(rules[i].from, rules[i].event), &rules[i]);
        assert_true(rules[i].why[0]);
    }
}

GW_TESTS(run_policy, a_failure_stops_the_others_then_kills_them,
         processes_that_cannot_be_killed_are_left_in_the_end,
         a_second_signal_kills_and_a_third_changes_nothing, two_signals_at_once_are_one_request,
         a_signal_to_all_processes_is_one_request_even_if_a_rank_ends_first,
         all_ranks_end_before_all_start_again, ranks_that_do_not_end_for_a_restart_are_killed,
         a_signal_of_the_user_cancels_the_restart_of_all,
         another_host_ends_the_job_during_the_restart_of_all,
         a_signal_ends_the_wait_for_the_ranks_of_other_hosts,
         a_host_that_is_done_may_start_its_ranks_again, leftovers_may_end_by_themselves_at_first,
         a_failed_start_kills_at_once, each_rule_exists_once_and_has_a_reason);
