// What host 0 decides for all hosts of a job, with hosts and time that do not exist. The rules for budgets are linked with
// run_budget_test.c.
#include "testing/testing.h"

#include <string.h>

#include "hosts/coordinator.c"
#include "hosts/message.c"
#include "hosts/roster.c"

enum {
    HOSTS = 3,
    RANKS = 2,
    LONG_MS = 20000,
    ALL_JOINED = LINK_HAS_BEGUN | LINK_HAS_JOINED | LINK_HAS_STATE
};

// Three hosts with two ranks each.
static coordinator *open_job(failure_policy p, int max_restarts) {
    const run_options o = { .node_min = HOSTS,
                            .node_max = HOSTS,
                            .node_count = HOSTS,
                            .rank_count = RANKS,
                            .on_failure = p,
                            .max_restarts = max_restarts,
                            .backoff_ms = 1000 };
    coordinator *c = coordinator_open(&o);
    assert_non_null(c);
    return c;
}

static void expect_none(coordinator *c) {
    link_message m;
    assert_false(coordinator_next(c, &m));
}

static link_message expect(coordinator *c, link_kind kind) {
    link_message m = { 0 };
    assert_true(coordinator_next(c, &m));
    assert_int_equal(m.kind, kind);
    return m;
}

static void report(coordinator *c, int node, link_kind kind, int number, int flags) {
    link_message m = message_of(kind, number, "why");
    m.node = node;
    m.flags = flags;
    coordinator_take(c, &m, 100000);
}

// An attempt of an elastic worker that had joined, unless |flags| states otherwise.
static void fail_with(coordinator *c, int rank, int attempt, int flags, int64_t ran_ms) {
    link_message m = message_of(LINK_RANK_FAILED, 10 + rank, "how");
    m.node = rank / RANKS;
    m.rank = rank;
    m.attempt = attempt;
    m.flags = flags;
    m.ms = ran_ms;
    coordinator_take(c, &m, 100000);
}

static void lose_rank(coordinator *c, int rank, int attempt) {
    fail_with(c, rank, attempt, LINK_HAS_JOINED | LINK_IS_ELASTIC, LONG_MS);
}

// All hosts that are not lost reply to the question, the last one with |last_flags|.
static void reply_with(coordinator *c, int flags, int last_flags) {
    int question = expect(c, LINK_ASK).number, last = HOSTS - 1;
    while (!c->hosts.hosts[last].is_in) last--;
    for (int node = 0; node < last; node++) {
        if (!c->hosts.hosts[node].is_in) continue;
        expect_none(c);
        report(c, node, LINK_STATE, question, flags);
    }
    report(c, last, LINK_STATE, question, last_flags);
}

static void reply(coordinator *c) {
    reply_with(c, ALL_JOINED | LINK_IS_ELASTIC, ALL_JOINED | LINK_IS_ELASTIC);
}

static void done(coordinator *c, int node, int round, int code, int successes) {
    link_message m = message_of(LINK_DONE, code, "");
    m.node = node;
    m.attempt = round;
    m.count = successes;
    coordinator_take(c, &m, 100000);
}

static void end_round(coordinator *c, int node, int round) {
    link_message m = message_of(LINK_ROUND_ENDED, 0, "");
    m.node = node;
    m.attempt = round;
    coordinator_take(c, &m, 100000);
}

// ---- Failures ---------------------------------------------------------------------------------------

// Each policy with restarts, with each kind of rank and of others, in a job that has joined and in one that has not.
static void a_failure_is_decided_by_the_policy_and_the_states_of_all_hosts(void **state) {
    (void)state;
    static const failure_policy policies[] = { FAILURE_RESTART, FAILURE_RESTART_ALL, FAILURE_AUTO };
    static const link_kind wanted[3][4] = {
        // by whether the rank and the others are elastic
        { LINK_RESTART, LINK_RESTART, LINK_RESTART, LINK_RESTART },
        { LINK_RESTART_ALL, LINK_RESTART_ALL, LINK_RESTART_ALL, LINK_RESTART_ALL },
        { LINK_RESTART_ALL, LINK_RESTART_ALL, LINK_RESTART_ALL, LINK_RESTART },
    };
    for (int p = 0; p < 3; p++) {
        for (int cell = 0; cell < 8; cell++) {
            int rank_flag = cell & 1 ? LINK_IS_ELASTIC : 0;
            int others_flag = cell & 2 ? LINK_IS_ELASTIC : 0;
            int joined = cell & 4 ? ALL_JOINED : LINK_HAS_BEGUN;
            coordinator *c = open_job(policies[p], 1);
            fail_with(c, 3, 0, rank_flag, LONG_MS);
            reply_with(c, LINK_HAS_BEGUN | LINK_IS_ELASTIC, joined | others_flag);
            link_message m = expect(c, cell & 4 ? wanted[p][cell & 3] : LINK_FAILED);
            assert_int_equal(m.rank, 3);
            if (cell & 4) assert_int_equal(m.attempt, 1);
            if (!(cell & 4)) assert_int_equal(m.refusal, BUDGET_NEVER_JOINED);
            expect_none(c);
            coordinator_close(c);
        }
    }
}

// LAUN-22 and LAUN-23: on any host, a rank that has the state, or a worker that has finished, is enough.
static void
a_rank_of_an_elastic_job_starts_again_alone_if_one_with_the_state_is_left(void **state) {
    (void)state;
    enum { NONE = LINK_HAS_BEGUN | LINK_HAS_JOINED | LINK_IS_ELASTIC };
    static const struct {
        int flags, last_flags;
        link_kind wanted;
    } rows[] = {
        { NONE, NONE, LINK_RESTART_ALL },
        { NONE, NONE | LINK_HAS_STATE, LINK_RESTART },
        { NONE | LINK_HAS_STATE, NONE, LINK_RESTART },
        { NONE, NONE | LINK_IS_FINISHED, LINK_RESTART },
    };
    for (int p = 0; p < 2; p++) {
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            coordinator *c = open_job(p ? FAILURE_AUTO : FAILURE_RESTART, 2);
            // What was true before an earlier question does not count.
            lose_rank(c, 0, 0);
            reply(c);
            expect(c, LINK_RESTART);
            lose_rank(c, 3, 0);
            reply_with(c, rows[i].flags, rows[i].last_flags);
            expect(c, rows[i].wanted);
            coordinator_close(c);
        }
    }
}

// LAUN-32: ranks that join on other hosts wait for it, also after the outcome.
static void the_end_of_the_work_is_reported_to_all_hosts(void **state) {
    (void)state;
    coordinator *c = open_job(FAILURE_AUTO, 2);
    report(c, 1, LINK_FINISHED, 0, 0);
    assert_int_equal(expect(c, LINK_FINISHED).node, 1);
    expect_none(c);
    for (int node = 0; node < HOSTS; node++) done(c, node, 0, 0, RANKS);
    expect(c, LINK_DONE);
    report(c, 2, LINK_FINISHED, 0, 0);
    expect(c, LINK_FINISHED);
    coordinator_close(c);
}

static void a_decision_has_what_all_hosts_need(void **state) {
    (void)state;
    coordinator *c = open_job(FAILURE_RESTART, 3);
    for (int attempt = 0; attempt < 2; attempt++) {
        lose_rank(c, 4, attempt);
        reply(c);
        link_message m = expect(c, LINK_RESTART);
        assert_int_equal(m.node, 2);
        assert_int_equal(m.rank, 4);
        assert_int_equal(m.attempt, attempt + 1);
        assert_int_equal(m.count, 2 - attempt);
        assert_int_equal(m.ms, attempt ? 1000 : 0);  // --backoff
        assert_string_equal(m.text, "how");
    }
    coordinator_close(c);
}

// N restarts are granted, whatever hosts the failures are on; the failure after them ends the job with its own code.
static void the_budget_is_of_the_whole_job(void **state) {
    (void)state;
    for (int max = 1; max <= 3; max++) {
        coordinator *c = open_job(FAILURE_RESTART, max);
        for (int i = 0; i < max; i++) {
            lose_rank(c, 2 * i % (HOSTS * RANKS), 0);
            reply(c);
            assert_int_equal(expect(c, LINK_RESTART).count, max - 1 - i);
        }
        lose_rank(c, 5, 0);
        reply(c);
        link_message m = expect(c, LINK_FAILED);
        assert_int_equal(m.number, 15);
        assert_int_equal(m.refusal, BUDGET_SPENT);
        expect_none(c);
        coordinator_close(c);
    }
}

// The second one arrives before the first is decided, and is asked about after that.
static void two_failures_at_once_on_two_hosts_cost_two(void **state) {
    (void)state;
    for (int max = 1; max <= 2; max++) {
        coordinator *c = open_job(FAILURE_RESTART, max);
        lose_rank(c, 0, 0);
        int question = expect(c, LINK_ASK).number;
        lose_rank(c, 3, 0);
        for (int node = 0; node < HOSTS; node++)
            report(c, node, LINK_STATE, question, ALL_JOINED | LINK_IS_ELASTIC);
        assert_int_equal(expect(c, LINK_RESTART).rank, 0);
        reply(c);
        link_message m = expect(c, max == 2 ? LINK_RESTART : LINK_FAILED);
        assert_int_equal(m.rank, 3);
        expect_none(c);
        coordinator_close(c);
    }
}

// One question for all that have arrived before it, and one for all that have arrived since.
static void many_failures_at_once_need_two_questions(void **state) {
    (void)state;
    coordinator *c = open_job(FAILURE_RESTART, 10);
    lose_rank(c, 0, 0);
    int question = expect(c, LINK_ASK).number;
    for (int rank = 1; rank < HOSTS * RANKS; rank++) lose_rank(c, rank, 0);
    expect_none(c);
    for (int node = 0; node < HOSTS; node++)
        report(c, node, LINK_STATE, question, ALL_JOINED | LINK_IS_ELASTIC);
    assert_int_equal(expect(c, LINK_RESTART).rank, 0);
    reply(c);
    for (int rank = 1; rank < HOSTS * RANKS; rank++)
        assert_int_equal(expect(c, LINK_RESTART).rank, rank);
    expect_none(c);
    coordinator_close(c);
}

static void a_late_reply_is_none_to_the_next_question(void **state) {
    (void)state;
    coordinator *c = open_job(FAILURE_AUTO, 2);
    lose_rank(c, 0, 0);
    reply(c);
    expect(c, LINK_RESTART);
    lose_rank(c, 1, 0);
    int question = expect(c, LINK_ASK).number;
    for (int node = 0; node < HOSTS; node++)
        report(c, node, LINK_STATE, question - 1, ALL_JOINED | LINK_IS_ELASTIC);
    expect_none(c);
    coordinator_close(c);
}

static void a_crash_loop_ends_the_job(void **state) {
    (void)state;
    coordinator *c = open_job(FAILURE_RESTART, 100);
    for (int attempt = 0; attempt < 3; attempt++) {
        fail_with(c, 5, attempt, LINK_IS_ELASTIC, 100);
        reply(c);
        if (attempt < 2) expect(c, LINK_RESTART);
    }
    assert_int_equal(expect(c, LINK_FAILED).refusal, BUDGET_CRASH_LOOP);
    coordinator_close(c);
}

// ---- All ranks start again --------------------------------------------------------------------------

static void all_ranks_start_when_they_have_ended_on_all_hosts(void **state) {
    (void)state;
    coordinator *c = open_job(FAILURE_RESTART_ALL, 2);
    for (int round = 1; round <= 2; round++) {
        lose_rank(c, 0, round - 1);
        reply(c);
        assert_int_equal(expect(c, LINK_RESTART_ALL).attempt, round);
        end_round(c, 2, round);
        end_round(c, 2, round);
        end_round(c, 0, round);
        end_round(c, 1, round - 1);  // of another round
        expect_none(c);
        end_round(c, 1, round);
        assert_int_equal(expect(c, LINK_START_ROUND).attempt, round);
        expect_none(c);
    }
    coordinator_close(c);
}

// Those before the decision that were not decided, those during the round, and those that were sent before it.
static void a_failure_while_all_ranks_end_adds_nothing(void **state) {
    (void)state;
    coordinator *c = open_job(FAILURE_RESTART_ALL, 3);
    lose_rank(c, 0, 0);
    int question = expect(c, LINK_ASK).number;
    lose_rank(c, 2, 0);
    for (int node = 0; node < HOSTS; node++)
        report(c, node, LINK_STATE, question, ALL_JOINED | LINK_IS_ELASTIC);
    assert_int_equal(expect(c, LINK_RESTART_ALL).count, 2);
    lose_rank(c, 4, 0);
    expect_none(c);
    for (int node = 0; node < HOSTS; node++) end_round(c, node, 1);
    expect(c, LINK_START_ROUND);
    lose_rank(c, 5, 0);
    expect_none(c);
    lose_rank(c, 5, 1);
    reply(c);
    assert_int_equal(expect(c, LINK_RESTART_ALL).count, 1);
    coordinator_close(c);
}

// All attempts have one number, the next that no rank has had.
static void the_attempts_of_all_ranks_have_one_number(void **state) {
    (void)state;
    coordinator *c = open_job(FAILURE_AUTO, 5);
    for (int attempt = 0; attempt < 2; attempt++) {
        lose_rank(c, 1, attempt);
        reply(c);
        expect(c, LINK_RESTART);
    }
    lose_rank(c, 4, 0);
    reply_with(c, ALL_JOINED, ALL_JOINED);
    assert_int_equal(expect(c, LINK_RESTART_ALL).attempt, 3);
    coordinator_close(c);
}

// ---- Lost hosts -------------------------------------------------------------------------------------

static void the_loss_of_a_host_is_decided_by_the_policy_and_the_states(void **state) {
    (void)state;
    static const struct {
        failure_policy policy;
        bool asks;
        link_kind fresh, fixed,
            elastic;  // before any worker has joined; then by the ranks that run
    } rows[] = {
        { FAILURE_STOP, false, LINK_LOST, LINK_LOST, LINK_LOST },
        { FAILURE_KEEP, false, LINK_GONE, LINK_GONE, LINK_GONE },
        { FAILURE_RESTART, true, LINK_LOST, LINK_GONE, LINK_GONE },
        { FAILURE_RESTART_ALL, false, LINK_LOST, LINK_LOST, LINK_LOST },
        { FAILURE_AUTO, true, LINK_LOST, LINK_LOST, LINK_GONE },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const link_kind wanted[] = { rows[i].fresh, rows[i].fixed, rows[i].elastic };
        static const int flags[] = { LINK_HAS_BEGUN | LINK_IS_ELASTIC, ALL_JOINED,
                                     ALL_JOINED | LINK_IS_ELASTIC };
        for (int k = 0; k < 3; k++) {
            coordinator *c = open_job(rows[i].policy, 1);
            report(c, 2, LINK_LOST, 0, 0);
            if (rows[i].asks) reply_with(c, flags[k], flags[k]);
            link_message m = expect(c, wanted[k]);
            assert_int_equal(m.node, 2);
            assert_string_equal(m.text, "why");
            expect_none(c);
            report(c, 2, LINK_LOST, 0, 0);  // it is lost once
            expect_none(c);
            coordinator_close(c);
        }
    }
}

static void the_loss_of_host_0_ends_the_job(void **state) {
    (void)state;
    for (failure_policy p = FAILURE_STOP; p <= FAILURE_AUTO; p++) {
        coordinator *c = open_job(p, 1);
        report(c, 0, LINK_LOST, 0, 0);
        assert_int_equal(expect(c, LINK_LOST).node, 0);
        expect_none(c);
        coordinator_close(c);
    }
}

static void a_host_that_is_lost_is_not_waited_for(void **state) {
    (void)state;
    coordinator *c = open_job(FAILURE_RESTART, 2);
    lose_rank(c, 4, 0);  // of host 2
    lose_rank(c, 0, 0);
    int question = expect(c, LINK_ASK).number;
    report(c, 0, LINK_STATE, question, ALL_JOINED);
    report(c, 1, LINK_STATE, question, ALL_JOINED);
    expect_none(c);
    report(c, 2, LINK_LOST, 0, 0);
    // The failure on the lost host is forgotten.
    link_message m = expect(c, LINK_RESTART);
    assert_int_equal(m.rank, 0);
    assert_int_equal(m.count, 1);
    reply(c);
    expect(c, LINK_GONE);
    done(c, 0, 0, 0, 2);
    expect_none(c);
    done(c, 1, 0, 0, 2);
    assert_int_equal(expect(c, LINK_DONE).number, 0);
    coordinator_close(c);
}

// The replies count for the first failure alone, also when a failure before the second one is forgotten.
static void a_loss_does_not_answer_for_later_failures(void **state) {
    (void)state;
    coordinator *c = open_job(FAILURE_AUTO, 5);
    lose_rank(c, 0, 0);
    int question = expect(c, LINK_ASK).number;
    lose_rank(c, 4, 0);
    lose_rank(c, 2, 0);
    report(c, 2, LINK_LOST, 0, 0);
    for (int node = 0; node < 2; node++)
        report(c, node, LINK_STATE, question, ALL_JOINED | LINK_IS_ELASTIC);
    assert_int_equal(expect(c, LINK_RESTART).rank, 0);
    reply(c);
    assert_int_equal(expect(c, LINK_RESTART).rank, 2);
    expect(c, LINK_GONE);
    coordinator_close(c);
}

static void all_ranks_cannot_start_again_without_a_host(void **state) {
    (void)state;
    coordinator *c = open_job(FAILURE_AUTO, 2);  // while they end
    lose_rank(c, 0, 0);
    reply_with(c, ALL_JOINED, ALL_JOINED);
    expect(c, LINK_RESTART_ALL);
    report(c, 1, LINK_LOST, 0, 0);
    expect(c, LINK_LOST);
    coordinator_close(c);
    c = open_job(FAILURE_AUTO, 2);  // after the job has continued without it
    report(c, 1, LINK_LOST, 0, 0);
    reply(c);
    expect(c, LINK_GONE);
    lose_rank(c, 0, 0);
    reply_with(c, ALL_JOINED, ALL_JOINED);
    link_message m = expect(c, LINK_FAILED);
    assert_int_equal(m.refusal, BUDGET_NO_HOST);
    assert_int_equal(m.number, 10);
    coordinator_close(c);
}

// ---- The end ----------------------------------------------------------------------------------------

static void the_job_is_done_when_all_hosts_are(void **state) {
    (void)state;
    coordinator *c = open_job(FAILURE_STOP, 0);
    done(c, 1, 0, 0, 2);
    done(c, 1, 0, 0, 2);
    done(c, 2, 0, 4, 1);
    expect_none(c);
    done(c, 0, 0, 5, 1);
    assert_int_equal(expect(c, LINK_DONE).number, 4);
    coordinator_close(c);
}

// A host that was done before all ranks start again is so a second time; a report of the first time has no effect.
static void a_host_is_done_after_the_last_round(void **state) {
    (void)state;
    coordinator *c = open_job(FAILURE_RESTART_ALL, 2);
    done(c, 1, 0, 0, 2);
    lose_rank(c, 0, 0);
    reply(c);
    expect(c, LINK_RESTART_ALL);
    done(c, 2, 0, 0, 2);
    for (int node = 0; node < HOSTS; node++) end_round(c, node, 1);
    expect(c, LINK_START_ROUND);
    done(c, 2, 0, 0, 2);
    done(c, 0, 1, 0, 2);
    done(c, 1, 1, 0, 2);
    expect_none(c);
    done(c, 2, 1, 0, 2);
    expect(c, LINK_DONE);
    coordinator_close(c);
    c = open_job(FAILURE_RESTART_ALL, 2);
    done(c, 1, 0, 0, 2);
    lose_rank(c, 0, 0);
    reply(c);
    expect(c, LINK_RESTART_ALL);
    for (int node = 0; node < HOSTS; node++) end_round(c, node, 1);
    expect(c, LINK_START_ROUND);
    done(c, 0, 1, 0, 2);
    done(c, 2, 1, 0, 2);
    expect_none(c);
    coordinator_close(c);
}

static void a_pending_failure_precedes_the_end(void **state) {
    (void)state;
    coordinator *c = open_job(FAILURE_RESTART, 1);
    done(c, 0, 0, 0, 2);
    lose_rank(c, 2, 0);
    done(c, 2, 0, 0, 2);
    reply(c);
    expect(c, LINK_RESTART);
    expect_none(c);
    done(c, 1, 0, 0, 2);
    expect(c, LINK_DONE);
    coordinator_close(c);
}

static void enough_ranks_of_all_hosts_that_succeed_are_a_success(void **state) {
    (void)state;
    static const struct {
        int min_success, code;
        bool is_lost;  // host 2, whose ranks count as failed
    } rows[] = { { 0, 7, false },  { 4, 0, false }, { 5, 7, false },
                 { 0, 125, true }, { 3, 0, true },  { 4, 125, true } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        coordinator *c = open_job(FAILURE_KEEP, 0);
        c->options.min_success = rows[i].min_success;
        if (rows[i].is_lost) {
            report(c, 2, LINK_LOST, 0, 0);
            expect(c, LINK_GONE);
        } else {
            done(c, 2, 0, 0, 1);
        }
        done(c, 0, 0, 7, 1);
        done(c, 1, 0, 0, 2);
        assert_int_equal(expect(c, LINK_DONE).number, rows[i].code);
        coordinator_close(c);
    }
}

static void a_failure_or_signal_ends_the_job_whatever_is_pending(void **state) {
    (void)state;
    static const link_kind ends[] = { LINK_FAILED, LINK_SIGNAL };
    for (int stage = 0; stage < 3; stage++) {
        for (int i = 0; i < 2; i++) {
            coordinator *c = open_job(FAILURE_RESTART_ALL, 1);
            if (stage > 0) lose_rank(c, 0, 0);
            if (stage == 1) expect(c, LINK_ASK);
            if (stage == 2) reply(c);
            if (stage == 2) expect(c, LINK_RESTART_ALL);
            report(c, 1, ends[i], 2, 0);
            assert_int_equal(expect(c, ends[i]).number, 2);
            lose_rank(c, 2, 1);
            report(c, 2, LINK_LOST, 0, 0);
            report(c, 2, LINK_FAILED, 3, 0);
            for (int node = 0; node < HOSTS; node++) end_round(c, node, 1);
            for (int node = 0; node < HOSTS; node++) done(c, node, 1, 0, 2);
            expect_none(c);
            report(c, 2, LINK_SIGNAL, 15, 0);
            assert_int_equal(expect(c, LINK_SIGNAL).number, 15);
            coordinator_close(c);
        }
    }
}

static void reports_about_members_are_passed_on(void **state) {
    (void)state;
    coordinator *c = open_job(FAILURE_RESTART, 1);
    report(c, 1, LINK_DEAD, 0, 0);
    expect(c, LINK_DEAD);
    report(c, 1, LINK_ABSENT, 0, 0);
    expect(c, LINK_ABSENT);
    expect_none(c);
    coordinator_close(c);
}

static void numbers_that_no_host_has_are_ignored(void **state) {
    (void)state;
    coordinator *c = open_job(FAILURE_RESTART, 1);
    report(c, -1, LINK_FAILED, 1, 0);
    report(c, HOSTS, LINK_FAILED, 1, 0);
    link_message m = message_of(LINK_RANK_FAILED, 1, "");
    m.node = 1;
    for (m.rank = -1; m.rank <= HOSTS * RANKS; m.rank++)
        if (m.rank / RANKS != m.node || m.rank < 0) coordinator_take(c, &m, 0);
    expect_none(c);
    m.rank = 2;
    for (int i = 0; i < 100; i++) coordinator_take(c, &m, 0);
    expect(c, LINK_ASK);
    expect_none(c);
    coordinator_close(c);
}

GW_TESTS(run_coordinator, a_failure_is_decided_by_the_policy_and_the_states_of_all_hosts,
         a_rank_of_an_elastic_job_starts_again_alone_if_one_with_the_state_is_left,
         the_end_of_the_work_is_reported_to_all_hosts, a_decision_has_what_all_hosts_need,
         the_budget_is_of_the_whole_job, two_failures_at_once_on_two_hosts_cost_two,
         many_failures_at_once_need_two_questions, a_late_reply_is_none_to_the_next_question,
         a_crash_loop_ends_the_job, all_ranks_start_when_they_have_ended_on_all_hosts,
         a_failure_while_all_ranks_end_adds_nothing, the_attempts_of_all_ranks_have_one_number,
         the_loss_of_a_host_is_decided_by_the_policy_and_the_states,
         the_loss_of_host_0_ends_the_job, a_host_that_is_lost_is_not_waited_for,
         a_loss_does_not_answer_for_later_failures, all_ranks_cannot_start_again_without_a_host,
         the_job_is_done_when_all_hosts_are, a_host_is_done_after_the_last_round,
         a_pending_failure_precedes_the_end, enough_ranks_of_all_hosts_that_succeed_are_a_success,
         a_failure_or_signal_ends_the_job_whatever_is_pending, reports_about_members_are_passed_on,
         numbers_that_no_host_has_are_ignored);
