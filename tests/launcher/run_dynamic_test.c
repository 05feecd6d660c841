// What host 0 decides about hosts that join, leave and are lost, with hosts and time that do not exist. The rules are linked with
// run_coordinator_test.c.
#include "testing/testing.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "hosts/coordinator.h"

enum {
    MIN = 2,
    MAX = 3,
    RANKS = 2,
    JOIN_MS = 300000,
    LAST_CALL_MS = 5000,
    MIN_TIMEOUT_MS = 60000,
    JOINED = LINK_HAS_BEGUN | LINK_HAS_JOINED | LINK_HAS_STATE,
    ELASTIC = JOINED | LINK_IS_ELASTIC
};

static int64_t now_ms;
static bool rescales;  // jobs that are opened then

static coordinator *open_job(failure_policy p, int max_restarts) {
    const run_options o = { .node_min = MIN,
                            .node_max = MAX,
                            .node_count = 1,
                            .is_dynamic = true,
                            .rank_count = RANKS,
                            .on_failure = p,
                            .max_restarts = max_restarts,
                            .backoff_ms = 1000,
                            .rdzv_timeout_ms = JOIN_MS,
                            .last_call_ms = LAST_CALL_MS,
                            .rescales_now = rescales,
                            .min_timeout_ms = MIN_TIMEOUT_MS };
    coordinator *c = coordinator_open(&o);
    assert_non_null(c);
    now_ms = 1000;
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

// As the link of host 0 does it.
static void take(coordinator *c, int peer, link_message m) {
    m.node = roster_find(coordinator_hosts(c), peer);
    if (m.node == NO_NODE) m.number = peer;
    coordinator_take(c, &m, now_ms);
}

static void report(coordinator *c, int peer, link_kind kind) {
    take(c, peer, message_of(kind, 0, "why"));
}

static void tick(coordinator *c, int64_t after_ms) {
    now_ms += after_ms;
    coordinator_tick(c, now_ms);
}

static void expect_host(coordinator *c, int node, int peer, int attempt, int count) {
    link_message m = expect(c, LINK_ADMIT);
    assert_int_equal(m.node, node);
    assert_int_equal(m.number, peer);
    assert_int_equal(m.attempt, attempt);
    assert_int_equal(m.count, count);
}

static void expect_round(coordinator *c, int attempt, int count, bool is_elastic) {
    link_message m = expect(c, LINK_START_ROUND);
    assert_int_equal(m.attempt, attempt);
    assert_int_equal(m.count, count);
    assert_int_equal(m.flags, is_elastic ? LINK_IS_ELASTIC : 0);
}

// All hosts in the job reply to the question that was asked.
static void reply(coordinator *c, int flags) {
    int question = expect(c, LINK_ASK).number;
    const roster *r = coordinator_hosts(c);
    for (int node = 0; node < r->max; node++) {
        if (!r->hosts[node].is_in) continue;
        expect_none(c);
        link_message m = message_of(LINK_STATE, question, "");
        m.flags = flags;
        take(c, r->hosts[node].peer, m);
    }
}

// A job of hosts 0 to |count| - 1, which are peers of these numbers.
static coordinator *start_job(failure_policy p, int count) {
    coordinator *c = open_job(p, 3);
    for (int peer = 0; peer < count; peer++) {
        report(c, peer, LINK_JOINS);
        if (peer < MAX - 1) expect_none(c);
    }
    if (count < MAX) tick(c, LAST_CALL_MS);
    for (int peer = 0; peer < count; peer++) expect_host(c, peer, peer, 0, count);
    expect_round(c, 0, count, false);
    expect_none(c);
    return c;
}

static void end_round(coordinator *c, int peer, int round) {
    link_message m = message_of(LINK_ROUND_ENDED, 0, "");
    m.attempt = round;
    take(c, peer, m);
}

static void lose_rank(coordinator *c, int peer, int rank, int attempt, int flags) {
    link_message m = message_of(LINK_RANK_FAILED, 9, "how");
    m.rank = rank;
    m.attempt = attempt;
    m.flags = flags;
    m.ms = 20000;
    take(c, peer, m);
}

// ---- The first round --------------------------------------------------------------------------------

static void a_round_starts_at_once_when_all_hosts_are_there(void **state) {
    (void)state;
    coordinator_close(start_job(FAILURE_AUTO, MAX));
}

static void enough_hosts_start_after_the_last_call(void **state) {
    (void)state;
    coordinator *c = open_job(FAILURE_AUTO, 0);
    report(c, 0, LINK_JOINS);
    tick(c, JOIN_MS / 2);
    expect_none(c);
    report(c, 4, LINK_JOINS);
    tick(c, LAST_CALL_MS - 1);
    expect_none(c);
    // The call begins again when fewer than enough have been left.
    report(c, 4, LINK_LEFT);
    tick(c, 1);
    expect_none(c);
    report(c, 5, LINK_JOINS);
    expect_none(c);
    tick(c, LAST_CALL_MS - 1);
    expect_none(c);
    tick(c, 1);
    expect_host(c, 0, 0, 0, 2);
    expect_host(c, 1, 5, 0, 2);
    expect_round(c, 0, 2, false);
    coordinator_close(c);
}

static void too_few_hosts_end_the_job_after_the_time_to_join(void **state) {
    (void)state;
    coordinator *c = open_job(FAILURE_AUTO, 0);
    report(c, 0, LINK_JOINS);
    tick(c, 0);
    tick(c, JOIN_MS - 1);
    expect_none(c);
    tick(c, 1);
    link_message m = expect(c, LINK_FAILED);
    assert_int_equal(m.number, 125);
    assert_string_equal(m.text, "the job needs 2 hosts, but has had 1 for 300 s");
    expect_none(c);
    coordinator_close(c);
}

// ---- Hosts that join --------------------------------------------------------------------------------

// Each policy, with ranks that are elastic and ranks that are not.
static void a_host_joins_while_ranks_run_if_they_can_continue(void **state) {
    (void)state;
    static const struct {
        failure_policy policy;
        int flags;
        bool is_asked, joins;
    } rows[] = {
        { FAILURE_STOP, ELASTIC, false, false },
        { FAILURE_KEEP, JOINED, true, true },
        { FAILURE_KEEP, LINK_HAS_BEGUN, true, true },
        { FAILURE_RESTART, JOINED, true, true },
        { FAILURE_RESTART, LINK_HAS_BEGUN, true, false },
        { FAILURE_RESTART_ALL, ELASTIC, false, false },
        { FAILURE_AUTO, ELASTIC, true, true },
        { FAILURE_AUTO, JOINED, true, false },
        { FAILURE_AUTO, LINK_HAS_BEGUN | LINK_IS_ELASTIC, true, false },
        { FAILURE_AUTO, ELASTIC | LINK_IS_FINISHED, true, false },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        coordinator *c = start_job(rows[i].policy, MIN);
        testing_note("row %zu", i);
        report(c, 7, LINK_JOINS);
        if (rows[i].is_asked) reply(c, rows[i].flags);
        if (rows[i].joins) {
            expect_host(c, 2, 7, 0, 3);
            expect_round(c, 0, 3, true);
        }
        expect_none(c);
        // Ranks may have become elastic meanwhile: the question is asked again, as long as a place is free.
        tick(c, 500);
        if (rows[i].is_asked && !rows[i].joins) expect(c, LINK_ASK);
        expect_none(c);
        coordinator_close(c);
    }
}

// With --rescale=now, all ranks start again on the hosts of the job and the one that joins, at no cost.
static void all_ranks_start_again_for_a_host_that_joins(void **state) {
    (void)state;
    static const struct {
        failure_policy policy;
        int flags;
        bool is_asked, starts;
    } rows[] = {
        { FAILURE_STOP, JOINED, false, false },
        { FAILURE_RESTART_ALL, JOINED, true, true },
        { FAILURE_RESTART_ALL, ELASTIC, true, true },
        { FAILURE_RESTART_ALL, JOINED | LINK_IS_FINISHED, true, false },
        { FAILURE_AUTO, JOINED, true, true },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        rescales = true;
        coordinator *c = start_job(rows[i].policy, MIN);
        rescales = false;
        testing_note("row %zu", i);
        report(c, 7, LINK_JOINS);
        if (rows[i].is_asked) reply(c, rows[i].flags);
        if (rows[i].starts) {
            link_message m = expect(c, LINK_RESTART_ALL);
            assert_int_equal(m.attempt, 1);
            assert_int_equal(m.count, 3);
            assert_string_equal(m.text, "a host joins the job");
            for (int peer = 0; peer < MIN; peer++) end_round(c, peer, 1);
            for (int peer = 0; peer < MIN; peer++) expect_host(c, peer, peer, 1, MIN + 1);
            expect_host(c, MIN, 7, 1, MIN + 1);
            expect_round(c, 1, MIN + 1, false);
        }
        expect_none(c);
        coordinator_close(c);
    }
}

static void more_hosts_wait_and_take_the_number_of_one_that_is_gone(void **state) {
    (void)state;
    coordinator *c = start_job(FAILURE_AUTO, MAX);
    for (int peer = 3; peer < 6; peer++) report(c, peer, LINK_JOINS);
    report(c, 3, LINK_LOST);
    expect_none(c);
    report(c, 1, LINK_LOST);
    reply(c, ELASTIC);
    assert_int_equal(expect(c, LINK_GONE).node, 1);
    reply(c, ELASTIC);
    // A rank in this slot has been attempt 0.
    expect_host(c, 1, 4, 1, 3);
    expect_round(c, 0, 3, true);
    expect_none(c);
    report(c, 4, LINK_LOST);
    reply(c, ELASTIC);
    assert_int_equal(expect(c, LINK_GONE).count, 2);
    reply(c, ELASTIC);
    expect_host(c, 1, 5, 2, 3);
    expect_round(c, 0, 3, true);
    expect_none(c);
    coordinator_close(c);
}

static void no_host_joins_when_ranks_of_the_job_are_done(void **state) {
    (void)state;
    coordinator *c = start_job(FAILURE_AUTO, MIN);
    report(c, 1, LINK_DONE);
    report(c, 7, LINK_JOINS);
    tick(c, 500);
    expect_none(c);
    report(c, 0, LINK_DONE);
    expect(c, LINK_DONE);
    // It has the outcome, too.
    assert_int_equal(coordinator_hosts(c)->spare_count, 1);
    coordinator_close(c);
}

// ---- Hosts that are lost ----------------------------------------------------------------------------

static void the_loss_of_a_host_is_decided_by_the_policy_and_the_states(void **state) {
    (void)state;
    static const struct {
        failure_policy policy;
        int flags;  // 0: not asked
        link_kind wanted;
    } rows[] = {
        { FAILURE_STOP, 0, LINK_LOST },
        { FAILURE_KEEP, 0, LINK_GONE },
        { FAILURE_RESTART, JOINED, LINK_GONE },
        { FAILURE_RESTART, LINK_HAS_BEGUN, LINK_RESTART_ALL },
        { FAILURE_RESTART_ALL, ELASTIC, LINK_RESTART_ALL },
        { FAILURE_AUTO, ELASTIC, LINK_GONE },
        { FAILURE_AUTO, JOINED, LINK_RESTART_ALL },
        { FAILURE_AUTO, LINK_HAS_BEGUN | LINK_IS_ELASTIC, LINK_RESTART_ALL },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        coordinator *c = start_job(rows[i].policy, MAX);
        testing_note("row %zu", i);
        report(c, 2, LINK_LOST);
        if (rows[i].flags) reply(c, rows[i].flags);
        link_message m = expect(c, rows[i].wanted);
        assert_int_equal(m.node, 2);
        // It costs no restart.
        if (rows[i].wanted == LINK_RESTART_ALL) assert_int_equal(m.count, 3);
        expect_none(c);
        report(c, 0, LINK_LOST);
        if (rows[i].wanted != LINK_LOST) expect(c, LINK_LOST);
        coordinator_close(c);
    }
}

static void all_ranks_start_again_on_the_hosts_that_are_left(void **state) {
    (void)state;
    coordinator *c = start_job(FAILURE_AUTO, MAX);
    report(c, 1, LINK_LOST);
    reply(c, JOINED);
    link_message m = expect(c, LINK_RESTART_ALL);
    assert_string_equal(m.text, "host 1 is lost: why");
    assert_int_equal(m.attempt, 1);
    end_round(c, 0, 1);
    expect_none(c);
    end_round(c, 2, 1);
    expect_host(c, 0, 0, 1, 2);
    expect_host(c, 1, 2, 1, 2);
    expect_round(c, 1, 2, false);
    // A failure of the renumbered host, with its new numbers.
    lose_rank(c, 2, 2, 1, LINK_HAS_JOINED);
    reply(c, JOINED);
    m = expect(c, LINK_RESTART_ALL);
    assert_int_equal(m.count, 2);
    coordinator_close(c);
}

static void a_round_waits_for_enough_hosts_and_admits_those_that_wait(void **state) {
    (void)state;
    coordinator *c = start_job(FAILURE_RESTART_ALL, MIN);
    report(c, 1, LINK_LOST);
    reply(c, JOINED);
    expect(c, LINK_RESTART_ALL);
    end_round(c, 0, 1);
    tick(c, MIN_TIMEOUT_MS - 1);
    expect_none(c);
    report(c, 8, LINK_JOINS);
    expect_host(c, 0, 0, 1, 2);
    expect_host(c, 1, 8, 1, 2);
    expect_round(c, 1, 2, false);
    coordinator_close(c);
}

// At each place: before the round has ended on the others, and after.
static void a_host_may_be_lost_while_all_ranks_start_again(void **state) {
    (void)state;
    for (int late = 0; late < 2; late++) {
        coordinator *c = start_job(FAILURE_RESTART_ALL, MAX);
        lose_rank(c, 1, 3, 0, LINK_HAS_JOINED);
        reply(c, JOINED);
        expect(c, LINK_RESTART_ALL);
        end_round(c, 0, 1);
        if (late) end_round(c, 1, 1);
        report(c, 2, LINK_LOST);
        expect(c, LINK_GONE);
        if (!late) expect_none(c);
        if (!late) end_round(c, 1, 1);
        expect_host(c, 0, 0, 1, 2);
        expect_host(c, 1, 1, 1, 2);
        expect_round(c, 1, 2, false);
        coordinator_close(c);
    }
}

static void too_few_hosts_end_a_job_that_runs_after_a_time(void **state) {
    (void)state;
    for (int returns = 0; returns < 2; returns++) {
        coordinator *c = start_job(FAILURE_AUTO, MIN);
        report(c, 1, LINK_LOST);
        reply(c, ELASTIC);
        expect(c, LINK_GONE);
        tick(c, 500);
        tick(c, MIN_TIMEOUT_MS - 1);
        expect_none(c);
        if (returns) {
            report(c, 9, LINK_JOINS);
            reply(c, ELASTIC);
            expect_host(c, 1, 9, 1, 2);
            expect_round(c, 0, 2, true);
        }
        tick(c, 1);
        if (!returns)
            assert_string_equal(expect(c, LINK_FAILED).text,
                                "the job needs 2 hosts, but has had 1 for 60 s");
        expect_none(c);
        coordinator_close(c);
    }
}

// ---- Hosts that leave -------------------------------------------------------------------------------

static void a_host_leaves_a_job_that_continues_without_it(void **state) {
    (void)state;
    coordinator *c = start_job(FAILURE_AUTO, MAX);
    report(c, 1, LINK_LEAVES);
    reply(c, ELASTIC);
    assert_int_equal(expect(c, LINK_LEAVES).node, 1);
    // How its ranks end costs nothing.
    lose_rank(c, 1, 2, 0, ELASTIC);
    expect_none(c);
    report(c, 1, LINK_LEAVES);
    expect_none(c);
    report(c, 1, LINK_LEFT);
    assert_int_equal(expect(c, LINK_LEFT).count, 2);
    expect_none(c);
    report(c, 3, LINK_JOINS);
    reply(c, ELASTIC);
    expect_host(c, 1, 3, 1, 3);
    coordinator_close(c);
}

// Its link leaves when no process of its ranks is left, which the round waits for.
static void all_ranks_start_again_without_a_host_that_leaves(void **state) {
    (void)state;
    coordinator *c = start_job(FAILURE_AUTO, MAX);
    report(c, 1, LINK_LEAVES);
    reply(c, JOINED);
    assert_string_equal(expect(c, LINK_RESTART_ALL).text, "host 1 leaves the job: why");
    end_round(c, 0, 1);
    end_round(c, 2, 1);
    expect_none(c);
    report(c, 1, LINK_LEFT);
    expect(c, LINK_LEFT);
    expect_host(c, 0, 0, 1, 2);
    expect_host(c, 1, 2, 1, 2);
    expect_round(c, 1, 2, false);
    coordinator_close(c);
}

static void a_host_may_leave_while_all_ranks_start_again(void **state) {
    (void)state;
    coordinator *c = start_job(FAILURE_RESTART_ALL, MAX);
    lose_rank(c, 2, 5, 0, LINK_HAS_JOINED);
    reply(c, JOINED);
    expect(c, LINK_RESTART_ALL);
    report(c, 2, LINK_LEAVES);
    expect(c, LINK_LEAVES);
    end_round(c, 0, 1);
    end_round(c, 1, 1);
    expect_none(c);
    report(c, 2, LINK_LOST);
    expect(c, LINK_GONE);
    expect_host(c, 0, 0, 1, 2);
    coordinator_close(c);
}

// With "stop", or without host 0.
static void a_job_that_cannot_continue_without_a_host_ends_when_it_leaves(void **state) {
    (void)state;
    for (int host_0 = 0; host_0 < 2; host_0++) {
        coordinator *c = start_job(host_0 ? FAILURE_AUTO : FAILURE_STOP, MAX);
        take(c, host_0 ? 0 : 1, message_of(LINK_LEAVES, SIGTERM, ""));
        assert_int_equal(expect(c, LINK_SIGNAL).number, SIGTERM);
        expect_none(c);
        coordinator_close(c);
    }
}

static void a_link_that_leaves_without_a_word_is_lost(void **state) {
    (void)state;
    coordinator *c = start_job(FAILURE_AUTO, MAX);
    report(c, 2, LINK_LEFT);
    reply(c, ELASTIC);
    expect(c, LINK_GONE);
    coordinator_close(c);
}

// ---- Walks ------------------------------------------------------------------------------------------

enum { PEERS = 40, EVENTS = 60 };

// A host as it sees itself.
typedef struct host {
    enum { OUT, WAITS, RUNS, ENDS_ROUND, LEAVES, GONE } is;
    int node, round;
    int attempts[MAX];  // the last one that its ranks have had as host |node|
} host;

typedef struct walk {
    coordinator *c;
    host of[PEERS];
    int last_attempt[MAX];  // of the ranks of each number
    int round, restarts;
    bool has_ended;
    uint64_t random;
} walk;

static int below(walk *w, int n) {
    w->random = w->random * 6364136223846793005ULL + 1442695040888963407ULL;
    return (int)((w->random >> 33) % (uint64_t)n);
}

static bool is_in(const host *h) {
    return h->is == RUNS || h->is == ENDS_ROUND || h->is == LEAVES;
}

static void take_admission(walk *w, const link_message *m) {
    assert_in_range(m->node, 0, MAX - 1);
    assert_in_range(m->number, 0, PEERS - 1);
    host *h = &w->of[m->number];
    assert_true(h->is == WAITS || h->is == ENDS_ROUND);
    h->node = m->node;
    for (int peer = 0; peer < PEERS; peer++)
        if (peer != m->number && w->of[peer].is == RUNS)
            assert_int_not_equal(w->of[peer].node, m->node);
    // No two attempts of a slot have the same number: their workers would have one name.
    assert_true(m->attempt > w->last_attempt[m->node]);
    w->last_attempt[m->node] = m->attempt;
    h->is = RUNS;
    h->round = w->round;
}

static void take_decision(walk *w, const link_message *m) {
    switch (m->kind) {
    case LINK_ASK:
        for (int peer = 0; peer < PEERS; peer++) {
            if (!is_in(&w->of[peer])) continue;
            link_message state = message_of(LINK_STATE, m->number, "");
            state.flags = below(w, 2) ? ELASTIC : JOINED;
            take(w->c, peer, state);
        }
        break;
    case LINK_RESTART:
        w->restarts++;
        assert_true(m->attempt > w->last_attempt[m->node]);
        w->last_attempt[m->node] = m->attempt;
        break;
    case LINK_RESTART_ALL:
        w->round = m->attempt;
        for (int peer = 0; peer < PEERS; peer++)
            if (w->of[peer].is == RUNS) w->of[peer].is = ENDS_ROUND;
        break;
    case LINK_ADMIT: take_admission(w, m); break;
    case LINK_START_ROUND: {
        int count = 0;
        assert_int_equal(m->attempt, w->round);
        for (int peer = 0; peer < PEERS; peer++) {
            // A host that has not been given a number in this round would wait for ever.
            assert_int_not_equal(w->of[peer].is, ENDS_ROUND);
            count += is_in(&w->of[peer]);
        }
        assert_int_equal(m->count, count);
        assert_in_range(count, 1, MAX);
        break;
    }
    default: w->has_ended |= coordinator_ends_job(m->kind); break;
    }
}

static void take_decisions(walk *w) {
    for (link_message m; coordinator_next(w->c, &m);) take_decision(w, &m);
}

static void fail_a_rank(walk *w, int peer) {
    host *h = &w->of[peer];
    lose_rank(w->c, peer, h->node * RANKS + below(w, RANKS), w->last_attempt[h->node],
              below(w, 2) ? ELASTIC : LINK_HAS_JOINED);
}

static void happen(walk *w) {
    int peer = below(w, PEERS);
    host *h = &w->of[peer];
    switch (below(w, 6)) {
    case 0:
        if (h->is != OUT) break;
        h->is = WAITS;
        report(w->c, peer, LINK_JOINS);
        break;
    case 1:
        if (peer == 0 || h->is == OUT || h->is == GONE) break;
        h->is = GONE;
        report(w->c, peer, LINK_LOST);
        break;
    case 2:
        if (peer == 0 || !is_in(h)) break;
        h->is = LEAVES;
        report(w->c, peer, LINK_LEAVES);
        break;
    case 3:
        if (h->is == LEAVES || (h->is == WAITS && peer)) {
            h->is = GONE;
            report(w->c, peer, LINK_LEFT);
        }
        break;
    case 4:
        if (h->is == RUNS && below(w, 4) == 0) fail_a_rank(w, peer);
        break;
    default: tick(w->c, 500); break;
    }
}

// All that hosts still owe.
static void settle(walk *w) {
    for (int peer = 0; peer < PEERS && !w->has_ended; peer++) {
        host *h = &w->of[peer];
        if (h->is == LEAVES) {
            h->is = GONE;
            report(w->c, peer, LINK_LEFT);
        } else if (h->is == ENDS_ROUND) {
            end_round(w->c, peer, w->round);
        }
        take_decisions(w);
    }
}

static int count_running(const walk *w) {
    int count = 0;
    for (int peer = 0; peer < PEERS; peer++) count += w->of[peer].is == RUNS;
    return count;
}

// Whatever hosts do: numbers are unique, no attempt is used twice, and the job runs with enough hosts or ends in time.
static void walk_once(failure_policy p, uint64_t seed) {
    rescales = seed % 2;
    walk w = { .c = open_job(p, 3), .random = seed, .last_attempt = { -1, -1, -1 } };
    rescales = false;
    w.of[0].is = WAITS;
    report(w.c, 0, LINK_JOINS);
    for (int i = 0; i < EVENTS && !w.has_ended; i++) {
        happen(&w);
        take_decisions(&w);
        if (below(&w, 3) == 0) settle(&w);
    }
    settle(&w);
    for (int i = 0; i < 2 && !w.has_ended; i++) {
        tick(w.c, JOIN_MS);
        take_decisions(&w);
        settle(&w);
    }
    if (!w.has_ended) assert_in_range(count_running(&w), MIN, MAX);
    assert_true(w.restarts <= 3);
    coordinator_close(w.c);
}

static void walk_with_each_policy(uint64_t seed, void *context) {
    (void)context;
    for (int p = FAILURE_STOP; p <= FAILURE_AUTO; p++) walk_once((failure_policy)p, seed);
}

static void walks_of_joins_losses_and_leaves_keep_the_rules(void **state) {
    (void)state;
    testing_for_seeds(2000, walk_with_each_policy, NULL);
}

GW_TESTS(run_dynamic, a_round_starts_at_once_when_all_hosts_are_there,
         enough_hosts_start_after_the_last_call, too_few_hosts_end_the_job_after_the_time_to_join,
         a_host_joins_while_ranks_run_if_they_can_continue,
         all_ranks_start_again_for_a_host_that_joins,
         more_hosts_wait_and_take_the_number_of_one_that_is_gone,
         no_host_joins_when_ranks_of_the_job_are_done,
         the_loss_of_a_host_is_decided_by_the_policy_and_the_states,
         all_ranks_start_again_on_the_hosts_that_are_left,
         a_round_waits_for_enough_hosts_and_admits_those_that_wait,
         a_host_may_be_lost_while_all_ranks_start_again,
         too_few_hosts_end_a_job_that_runs_after_a_time,
         a_host_leaves_a_job_that_continues_without_it,
         all_ranks_start_again_without_a_host_that_leaves,
         a_host_may_leave_while_all_ranks_start_again, a_link_that_leaves_without_a_word_is_lost,
         a_job_that_cannot_continue_without_a_host_ends_when_it_leaves,
         walks_of_joins_losses_and_leaves_keep_the_rules);
