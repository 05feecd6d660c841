// Failure detection, quorums and fencing: seven workers and fewer in virtual time, with every
// fault.
#include "membership/membership.h"

#include "testing/quorum.h"
#include "testing/testing.h"

#include <stdlib.h>
#include <string.h>

#define T_CLOSE QUORUM_SECOND
#define T_DEAD (7 * QUORUM_SECOND)
#define T_DEAD_ALL (11 * QUORUM_SECOND)  // several, the coordinator among them

static int64_t at_s(double s) {
    return (int64_t)(s * 1e9);
}

// ---- Without faults -----------------------------------------------------------------------------
static void rest(uint64_t seed, void *context) {
    int64_t delay_ns = *(int64_t *)context;
    quorum q;
    quorum_open(&q, seed, 7, delay_ns);
    quorum_run(&q, at_s(120));
    for (int i = 0; i < 7; i++) assert_int_equal(q.nodes[i].suspicions, 0);
    assert_int_equal(quorum_check(&q), 7);
    quorum_close(&q);
}

static void it_suspects_no_member_on_a_good_network(void **state) {
    (void)state;
    testing_for_seeds(20, rest, &(int64_t){ QUORUM_MS });
}

static void it_suspects_no_member_for_slow_links(void **state) {
    (void)state;
    testing_for_seeds(50, rest, &(int64_t){ 500 * QUORUM_MS });
}

static void only_the_coordinator_exchanges_heartbeats(void **state) {
    (void)state;
    quorum q;
    quorum_open(&q, 1, 8, 0);
    quorum_run(&q, at_s(2));
    int at_start = q.nodes[0].sent;
    quorum_run(&q, at_s(101));
    for (int i = 1; i < 8; i++) {
        for (int k = 1; k < 8; k++) assert_false(q.nodes[i].is_linked[k]);
        assert_true(q.nodes[i].sent <=
                    10);  // only the first heartbeat, and answers to the coordinator
    }
    assert_true(q.nodes[0].sent - at_start <= 7 * 99);
    quorum_close(&q);
}

// ---- Ends ---------------------------------------------------------------------------------------
typedef struct ending {
    void (*how)(quorum *q, int node);
    int rank;
    int64_t bound_ns;
} ending;

static void end_one(uint64_t seed, void *context) {
    const ending *e = context;
    quorum q;
    quorum_open(&q, seed, 5, 0);
    int64_t begin_ns = at_s(40) + (int64_t)quorum_random(&q, QUORUM_SECOND);
    quorum_run(&q, begin_ns);
    e->how(&q, e->rank);
    quorum_run(&q, begin_ns + e->bound_ns);
    for (int i = 0; i < 5; i++)
        if (i != e->rank) assert_true(q.nodes[i].gone[e->rank]);
    quorum_run(&q, begin_ns + at_s(60));
    for (int i = 0; i < 5; i++) {
        if (i == e->rank) continue;
        assert_false(q.nodes[i].is_fenced);
        for (int k = 0; k < 5; k++) assert_int_equal(q.nodes[i].gone[k], k == e->rank);
    }
    quorum_close(&q);
}

static void it_detects_a_killed_member_within_a_second(void **state) {
    (void)state;
    for (int rank = 0; rank < 5; rank++)
        testing_for_seeds(20, end_one, &(ending){ quorum_crash, rank, T_CLOSE });
}

static void it_detects_a_silent_member_within_seven_seconds(void **state) {
    (void)state;
    for (int rank = 0; rank < 5; rank++)
        testing_for_seeds(50, end_one, &(ending){ quorum_stop, rank, T_DEAD });
}

static void it_detects_members_that_have_left(void **state) {
    (void)state;
    quorum q;
    quorum_open(&q, 1, 4, 0);
    quorum_run(&q, at_s(10));
    quorum_leave(&q, 2);
    quorum_crash(&q, 3);
    quorum_run(&q, at_s(11));
    for (int i = 0; i < 2; i++) {
        assert_true(q.nodes[i].left[2]);
        assert_string_equal(q.nodes[i].why[2], "w2 has left");
        assert_true(q.nodes[i].gone[3] && !q.nodes[i].left[3]);
    }
    assert_int_equal(quorum_check(&q), 2);
    quorum_close(&q);
}

static void it_takes_over_from_a_coordinator_that_ends(void **state) {
    (void)state;
    quorum q;
    quorum_open(&q, 1, 5, 0);
    quorum_run(&q, at_s(10));
    quorum_crash(&q, 0);
    quorum_run(&q, at_s(12));
    for (int i = 1; i < 5; i++) assert_int_equal(membership_coordinator(q.nodes[i].machine), 1);
    quorum_crash(&q, 1);
    quorum_crash(&q, 2);
    quorum_run(&q, at_s(14));
    assert_int_equal(membership_coordinator(q.nodes[3].machine), 3);
    assert_int_equal(membership_coordinator(q.nodes[4].machine), 3);
    assert_int_equal(q.nodes[4].coordinator_changes,
                     2 + (q.nodes[4].gone_ns[1] < q.nodes[4].gone_ns[2]));
    assert_int_equal(quorum_check(&q), 2);
    quorum_close(&q);
}

// The others have never received from the next coordinator, since they monitor only
// the coordinator. They receive from each other once they request answers.
static void pause_the_next(uint64_t seed, void *context) {
    (void)context;
    quorum q;
    quorum_open(&q, seed, 5, 0);
    int64_t begin_ns = at_s(2) + (int64_t)quorum_random(&q, QUORUM_SECOND);
    quorum_run(&q, begin_ns);
    quorum_stop(&q, 1);
    quorum_crash(&q, 0);
    quorum_run(&q, begin_ns + at_s(5));
    quorum_continue(&q, 1);
    quorum_run(&q, begin_ns + at_s(60));
    for (int i = 1; i < 5; i++) assert_false(q.nodes[i].is_fenced);
    assert_int_equal(quorum_check(&q), 4);
    quorum_close(&q);
}

// The last one has not received from the next coordinator yet when that ends too.
static void end_the_next(uint64_t seed, void *context) {
    (void)context;
    quorum q;
    quorum_open(&q, seed, 3, 0);
    quorum_run(&q, at_s(40));
    quorum_crash(&q, 0);
    quorum_run(&q, at_s(40) + (int64_t)quorum_random(&q, QUORUM_SECOND));
    quorum_crash(&q, 1);
    quorum_run(&q, at_s(60));
    assert_int_equal(quorum_check(&q), 1);
    quorum_close(&q);
}

static void it_survives_the_end_of_one_coordinator_after_the_other(void **state) {
    (void)state;
    testing_for_seeds(200, end_the_next, NULL);
}

static void no_member_is_fenced_if_the_next_coordinator_pauses(void **state) {
    (void)state;
    testing_for_seeds(50, pause_the_next, NULL);
}

static void stop_together(uint64_t seed, void *context) {
    (void)context;
    quorum q;
    quorum_open(&q, seed, 9, 0);
    quorum_run(&q, at_s(40));
    unsigned chosen = 1;  // the coordinator and up to three others
    for (int i = 0; i < 3; i++) chosen |= 1u << quorum_random(&q, 9);
    for (int i = 0; i < 9; i++)
        if (chosen >> i & 1) quorum_stop(&q, i);
    quorum_run(&q, at_s(40) + T_DEAD_ALL);
    for (int i = 0; i < 9; i++)
        for (int k = 0; k < 9; k++)
            if (!(chosen >> i & 1)) assert_int_equal(q.nodes[i].gone[k], chosen >> k & 1);
    quorum_close(&q);
}

static void it_survives_the_silence_of_several_with_the_coordinator(void **state) {
    (void)state;
    testing_for_seeds(100, stop_together, NULL);
}

// ---- Doubt --------------------------------------------------------------------------------------
static void cut_one(uint64_t seed, void *context) {
    (void)context;
    quorum q;
    quorum_open(&q, seed, 5, 0);
    quorum_run(&q, at_s(10));
    int a = (int)quorum_random(&q, 5), b = (a + 1 + (int)quorum_random(&q, 4)) % 5;
    bool one_way = quorum_random(&q, 2);
    if (one_way) {
        quorum_cut_one_way(&q, a, b);
    } else {
        quorum_cut(&q, a, b);
    }
    quorum_run(&q, at_s(100));
    assert_int_equal(quorum_check(&q), 5);
    // An end is notified on both sides of a bad link.
    int third = 0;
    while (third == a || third == b) third++;
    quorum_crash(&q, third);
    quorum_run(&q, at_s(103));
    assert_true(q.nodes[a].gone[third] && q.nodes[b].gone[third]);
    quorum_heal_all(&q);
    quorum_run(&q, at_s(160));
    assert_int_equal(quorum_check(&q), 4);
    quorum_close(&q);
}

static void it_declares_no_member_dead_for_one_bad_link(void **state) {
    (void)state;
    testing_for_seeds(100, cut_one, NULL);
}

// Messages to the member that needs something do not arrive. The sender has nothing to send,
// until it receives a call back; then it sends once, as long as there is no answer.
static void an_unreachable_member_connects_back(void **state) {
    (void)state;
    quorum q;
    quorum_open(&q, 1, 3, 0);
    quorum_run(&q, at_s(40));
    quorum_cut_one_way(&q, 2, 1);
    membership_await(q.nodes[2].machine, 1, true);
    assert_int_equal(q.nodes[1].sent_to[2], 0);
    quorum_run(&q, at_s(45));
    assert_int_equal(q.nodes[1].sent_to[2], 1);
    quorum_run(&q, at_s(200));
    assert_int_equal(q.nodes[1].sent_to[2], 1);
    assert_int_equal(quorum_check(&q), 3);
    quorum_close(&q);
}

// Messages of some members are lost, and they receive from the others, which continue without them.
static void mute(uint64_t seed, void *context) {
    const int *count = context;
    quorum q;
    quorum_open(&q, seed, *count, 0);
    int64_t begin_ns = at_s(40) + (int64_t)quorum_random(&q, QUORUM_SECOND);
    quorum_run(&q, begin_ns);
    int mutes = 1 + (int)quorum_random(&q, (uint64_t)(*count - 1) / 2), first = (int)(seed % 2);
    for (int i = 0; i < mutes; i++)
        for (int k = 0; k < *count; k++)
            if (k < first || k >= first + mutes) quorum_cut_one_way(&q, first + i, k);
    quorum_run(&q, begin_ns + at_s(20));
    for (int i = 0; i < *count; i++) {
        bool is_mute = i >= first && i < first + mutes;
        assert_int_equal(q.nodes[i].is_fenced, is_mute);
        for (int k = 0; k < *count; k++) {
            bool may_be_gone = k >= first && k < first + mutes;  // also for another mute member
            assert_true(may_be_gone ? is_mute || q.nodes[i].gone[k] : !q.nodes[i].gone[k]);
            assert_false(is_mute && membership_has_declared(q.nodes[i].machine, k));
        }
    }
    quorum_close(&q);
}

static void a_muted_member_declares_no_other_dead(void **state) {
    (void)state;
    for (int count = 3; count <= 7; count++) testing_for_seeds(40, mute, &count);
}

static void it_refutes_a_suspicion(void **state) {
    (void)state;
    quorum q;
    quorum_open(&q, 1, 3, 0);
    quorum_run(&q, at_s(40));
    quorum_stop(&q, 2);
    quorum_run(&q, at_s(44.9));
    assert_true(q.nodes[0].suspected[2]);
    quorum_continue(&q, 2);
    quorum_run(&q, at_s(45.1));
    assert_false(q.nodes[0].suspected[2]);
    assert_int_equal(quorum_check(&q), 3);
    quorum_close(&q);
}

static void it_monitors_awaited_members(void **state) {
    (void)state;
    quorum q;
    quorum_open(&q, 1, 4, 0);
    quorum_run(&q, at_s(40));
    membership_await(q.nodes[2].machine, 3, true);
    quorum_stop(&q, 3);
    quorum_run(&q, at_s(45));
    assert_true(q.nodes[2].suspected[3]);
    assert_false(q.nodes[1].suspected[3]);
    membership_await(q.nodes[2].machine, 3, false);
    quorum_run(&q, at_s(45.6));
    assert_false(q.nodes[2].suspected[3]);
    quorum_close(&q);
}

// Two workers join, and the founder ends when each of them may be a voter, or not yet. A voter
// continues; a worker that is not admitted is fenced at once.
static void end_founder(uint64_t seed, void *context) {
    int *counts = context, up = 0;
    bool had_joined[3] = { 0 };
    quorum q;
    quorum_open(&q, seed, 1, 0);
    quorum_run(&q, at_s(3));
    assert_true(quorum_join(&q, 0) && quorum_join(&q, 0));
    quorum_run(&q, q.now_ns + (int64_t)quorum_random(&q, 300 * QUORUM_MS));
    for (int i = 1; i < 3; i++) had_joined[i] = membership_has_joined(q.nodes[i].machine);
    quorum_crash(&q, 0);
    quorum_run(&q, q.now_ns + T_CLOSE);
    for (int i = 1; i < 3; i++) {
        if (had_joined[i]) assert_true(q.nodes[i].gone[0] && !q.nodes[i].is_fenced);
        if (!q.nodes[i].is_fenced) continue;
        assert_int_equal(q.nodes[i].fenced_why.status, GW_DISCONNECTED);
        assert_string_equal(q.nodes[i].fenced_why.text,
                            "w0, which has admitted this worker, is lost");
    }
    quorum_run(&q, at_s(60));
    for (int i = 1; i < 3; i++) up += !q.nodes[i].is_fenced;
    assert_int_equal(quorum_check(&q), up);
    counts[up]++;
    quorum_close(&q);
}

static void it_survives_a_founder_that_ends_once_it_has_joined(void **state) {
    (void)state;
    int counts[3] = { 0 };
    testing_for_seeds(300, end_founder, counts);
    if (!getenv("SEED")) assert_true(counts[0] > 0 && counts[2] > 0);
}

// ---- Minorities ---------------------------------------------------------------------------------
static void expect_sides(int count, unsigned side, bool side_survives) {
    quorum q;
    quorum_open(&q, side, count, 0);
    quorum_run(&q, at_s(40));
    quorum_part(&q, side);
    quorum_run(&q, at_s(60));
    for (int i = 0; i < count; i++)
        assert_int_equal(q.nodes[i].is_fenced, ((side >> i & 1) != 0) != side_survives);
    assert_true(quorum_check(&q) > 0);
    quorum_heal_all(&q);
    quorum_run(&q, at_s(80));
    assert_true(quorum_check(&q) > 0);
    quorum_close(&q);
}

static void a_quorum_continues_and_the_others_are_fenced(void **state) {
    (void)state;
    expect_sides(5, 0x03, false);
    expect_sides(5, 0x13, true);
    expect_sides(5, 0x1c, true);
    expect_sides(3, 0x01, false);
    expect_sides(7, 0x70, false);
}

static void the_half_with_the_lowest_rank_continues(void **state) {
    (void)state;
    expect_sides(2, 0x1, true);
    expect_sides(4, 0x3, true);
    expect_sides(4, 0xc, false);
    expect_sides(6, 0x29, true);
}

// All but the coordinator are still about to join when it stops, as when they join through a store on its
// host: a worker that has joined waits for them.
static void it_waits_for_members_that_have_never_joined(void **state) {
    (void)state;
    quorum q;
    quorum_open(&q, 1, 6, 0);
    for (int i = 2; i < 6; i++)
        for (int k = 0; k < i; k++) quorum_cut(&q, i, k);
    quorum_run(&q, at_s(2));
    quorum_stop(&q, 0);
    quorum_run(&q, at_s(11));
    quorum_continue(&q, 0);
    quorum_heal_all(&q);
    quorum_run(&q, at_s(60));
    assert_int_equal(quorum_check(&q), 6);
    quorum_close(&q);
}

static void its_error_explains_the_fencing(void **state) {
    (void)state;
    quorum q;
    quorum_open(&q, 1, 3, 0);
    quorum_run(&q, at_s(40));
    quorum_stop(&q, 2);
    quorum_run(&q, at_s(60));
    quorum_continue(&q, 2);
    quorum_run(&q, at_s(61));
    assert_true(q.nodes[2].is_fenced);
    assert_int_equal(q.nodes[2].fenced_why.status, GW_FENCED);
    assert_non_null(
        strstr(q.nodes[2].fenced_why.text,
               "have declared this worker dead: w2 (rank 2) has sent nothing to w0 for 6."));
    quorum_stop(&q, 0);
    quorum_run(&q, at_s(80));
    assert_true(q.nodes[1].is_fenced);
    assert_non_null(strstr(q.nodes[1].fenced_why.text, "w1 was cut off from most other workers"));
    quorum_close(&q);
}

static double cut_off_s(const quorum_node *n) {
    const char *words = "was cut off from most other workers for ";
    const char *at = strstr(n->fenced_why.text, words);
    assert_non_null(at);
    return strtod(at + strlen(words), NULL);
}

// From the last message of its coordinator, at most 2 s before the cut; or, if it was never in
// contact, from the start.
static void its_error_has_the_time_without_contact(void **state) {
    (void)state;
    quorum q;
    quorum_open(&q, 1, 4, 0);
    quorum_run(&q, at_s(40));
    quorum_part(&q, 0x3);
    quorum_run(&q, at_s(60));
    assert_true(q.nodes[2].is_fenced && q.nodes[3].is_fenced);
    double silence_s = (double)(q.nodes[2].fenced_ns - at_s(40)) / 1e9;
    double before_s = cut_off_s(&q.nodes[2]) - silence_s;
    assert_true(before_s > -0.6 && before_s < 2.6);
    quorum_close(&q);

    quorum_open(&q, 1, 3, 0);
    quorum_part(&q, 0x1);
    quorum_part(&q, 0x2);
    quorum_run(&q, at_s(60));
    assert_in_range(cut_off_s(&q.nodes[1]), 27, 28);
    quorum_close(&q);
}

// The third is answered by both, one after the other. At first only one of them has a decision; and no member acts on a
// decision that no quorum has.
static void change_sides(uint64_t seed, void *context) {
    (void)context;
    quorum q;
    quorum_open(&q, seed, 3, 0);
    int64_t begin_ns = at_s(40) + (int64_t)quorum_random(&q, QUORUM_SECOND);
    quorum_run(&q, begin_ns);
    quorum_part(&q, 0x2);
    quorum_run(&q, begin_ns + (int64_t)quorum_random(&q, 6 * QUORUM_SECOND));
    quorum_heal(&q, 1, 2);
    quorum_cut(&q, 0, 2);
    quorum_run(&q, begin_ns + at_s(40));
    assert_false(q.nodes[0].gone[1] && q.nodes[1].gone[0]);
    quorum_heal_all(&q);
    quorum_run(&q, begin_ns + at_s(80));
    quorum_check(&q);
    quorum_close(&q);
}

static void it_acts_on_no_decision_without_a_quorum(void **state) {
    (void)state;
    testing_for_seeds(300, change_sides, NULL);
}

// One is stopped while the others are new to it, or established, and they end before it continues.
static void stop_one_and_end_others(uint64_t seed, void *context) {
    (void)context;
    quorum q;
    int count = 2 + (int)(seed % 3), last = count - 1;
    quorum_open(&q, seed, count, 0);
    int64_t begin_ns = at_s(seed % 2 ? 0 : 30) + (int64_t)quorum_random(&q, QUORUM_SECOND);
    quorum_run(&q, begin_ns);
    quorum_stop(&q, last);
    quorum_run(&q, begin_ns + at_s(20));
    for (int i = 0; i < last; i++) quorum_crash(&q, i);
    quorum_continue(&q, last);
    int64_t continued_ns = q.now_ns;
    quorum_run(&q, continued_ns + at_s(40));
    assert_true(q.nodes[last].is_fenced);
    assert_in_range(q.nodes[last].fenced_ns - continued_ns, 0, T_CLOSE);
    quorum_close(&q);
}

static void a_worker_in_doubt_is_fenced_when_no_member_is_left(void **state) {
    (void)state;
    testing_for_seeds(100, stop_one_and_end_others, NULL);
}

// Members leave while a worker is stopped: for a time in which they do not miss it, or until they have declared
// it dead.
static void stop_one_while_others_leave(uint64_t seed, void *context) {
    const bool is_declared_dead = context != NULL;
    quorum q;
    int count = 2 + (int)(seed % 3), last = count - 1;
    quorum_open(&q, seed, count, 0);
    int64_t begin_ns = at_s(30) + (int64_t)quorum_random(&q, QUORUM_SECOND);
    quorum_run(&q, begin_ns);
    quorum_stop(&q, last);
    quorum_run(&q, begin_ns + (is_declared_dead ? at_s(20) : at_s(2)));
    bool is_linked = true;  // else a member that leaves cannot send it goodbye
    for (int i = 0; i < last; i++) is_linked = is_linked && q.nodes[i].is_linked[last];
    for (int i = 0; i < last; i++) {
        quorum_leave(&q, (i + (int)seed) % last);
        quorum_run(&q, q.now_ns + (int64_t)quorum_random(&q, QUORUM_SECOND / 4));
    }
    quorum_run(&q, q.now_ns + QUORUM_SECOND / 10);  // their messages are on this side
    quorum_continue(&q, last);
    quorum_run(&q, q.now_ns + at_s(40));
    if (is_linked && q.nodes[last].is_fenced != is_declared_dead)
        fail_msg("%s", q.nodes[last].fenced_why.text);
    for (int i = 0; i < last && is_linked && !is_declared_dead; i++)
        assert_true(q.nodes[last].left[i]);
    quorum_close(&q);
}

static void a_worker_in_doubt_continues_when_all_others_have_left(void **state) {
    (void)state;
    testing_for_seeds(100, stop_one_while_others_leave, NULL);
}

static void a_dead_worker_is_fenced_when_all_others_have_left(void **state) {
    (void)state;
    bool is_declared_dead = true;
    testing_for_seeds(100, stop_one_while_others_leave, &is_declared_dead);
}

static void it_fences_all_when_there_is_no_quorum(void **state) {
    (void)state;
    quorum q;
    quorum_open(&q, 1, 9, 0);
    quorum_run(&q, at_s(40));
    quorum_part(&q, 0x007);
    quorum_part(&q, 0x038);
    quorum_run(&q, at_s(70));
    assert_int_equal(quorum_check(&q), 0);
    quorum_close(&q);
}

// A worker that was stopped, as a whole machine may be, does not declare the others dead.
static void a_stopped_worker_declares_no_other_dead(void **state) {
    (void)state;
    quorum q;
    quorum_open(&q, 1, 4, 0);
    quorum_run(&q, at_s(40));
    for (int i = 0; i < 4; i++) quorum_stop(&q, i);
    quorum_run(&q, at_s(100));
    for (int i = 0; i < 4; i++) quorum_continue(&q, i);
    quorum_run(&q, at_s(160));
    assert_int_equal(quorum_check(&q), 4);
    quorum_close(&q);
}

GW_TESTS(membership_membership, it_suspects_no_member_on_a_good_network,
         it_suspects_no_member_for_slow_links, only_the_coordinator_exchanges_heartbeats,
         it_detects_a_killed_member_within_a_second,
         it_detects_a_silent_member_within_seven_seconds, it_detects_members_that_have_left,
         it_takes_over_from_a_coordinator_that_ends,
         it_survives_the_end_of_one_coordinator_after_the_other,
         no_member_is_fenced_if_the_next_coordinator_pauses,
         it_survives_the_silence_of_several_with_the_coordinator,
         it_declares_no_member_dead_for_one_bad_link, an_unreachable_member_connects_back,
         it_refutes_a_suspicion, a_muted_member_declares_no_other_dead, it_monitors_awaited_members,
         it_survives_a_founder_that_ends_once_it_has_joined,
         a_quorum_continues_and_the_others_are_fenced, the_half_with_the_lowest_rank_continues,
         it_waits_for_members_that_have_never_joined, its_error_explains_the_fencing,
         its_error_has_the_time_without_contact, it_acts_on_no_decision_without_a_quorum,
         it_fences_all_when_there_is_no_quorum, a_worker_in_doubt_is_fenced_when_no_member_is_left,
         a_worker_in_doubt_continues_when_all_others_have_left,
         a_dead_worker_is_fenced_when_all_others_have_left,
         a_stopped_worker_declares_no_other_dead);
