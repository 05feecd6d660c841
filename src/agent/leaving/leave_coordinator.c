// The coordinator's part in leaving together. docs/protocol/shutdown.md.
#include "agent/leaving/leave_internal.h"

#include "agent/members/member_table.h"
#include "agent/members/members.h"

#include <stdio.h>

enum { PAUSE_FIRST_MS = 5, PAUSE_MAX_MS = 500 };

static bool is_present(const member *m) {
    return m->known && !m->lost;
}

static void send_leave(agent *a, bool clean) {
    a->leaving.clean = clean;
    leaving_send_all_on_loop(a, KIND_LEAVE);
}

static void out_of_time(timer *t) {
    agent *a = list_entry(t, agent, leaving.bound);
    // During a wave that is younger than its answers need, no member counts as silent.
    bool late = env_now_ns(a->env) - a->leaving.wave_start_ns > 2 * PATIENCE_S * SECOND;
    for (int rank = 0; rank < a->member_count && late; rank++) {
        member *m = agent_member(a, rank);
        if (is_present(m) && !m->answered)
            snprintf(m->missing, sizeof m->missing, "does not report its state");
    }
    send_leave(a, false);
}

static void start_wave(agent *a) {
    leaving *l = &a->leaving;
    l->before_was_quiet = l->sent_wave && l->all_idle && l->all_agree;
    l->before = l->sums;
    l->sent_wave++;
    l->all_idle = l->all_agree = true;
    l->sums = (leaving_sums){ .members = leaving_sum(a).members };
    l->wave_start_ns = env_now_ns(a->env);
    for (int rank = 0; rank < a->member_count; rank++) agent_member(a, rank)->answered = false;
    leaving_send_all_on_loop(a, KIND_WAVE);
}

static void pause_is_over(timer *t) {
    start_wave(list_entry(t, agent, leaving.pause));
}

static int64_t longer_pause_ns(int64_t pause_ns) {
    const int64_t first = PAUSE_FIRST_MS * (SECOND / 1000), max = PAUSE_MAX_MS * (SECOND / 1000);
    if (!pause_ns) return first;
    return 2 * pause_ns < max ? 2 * pause_ns : max;
}

// A busy worker answers late, and two quiet waves in a row are enough. But while all are idle and the sums differ, a
// message is under way, or some views differ: the next wave waits, so as not to delay them.
//
// Even without a pause the wave begins in another turn: this worker answers it at once, and the work deferred to the end
// of this turn, such as releases of the handles of a message, is not counted.
static void start_next_wave(agent *a) {
    leaving *l = &a->leaving;
    bool differ =
        l->all_idle && (l->before_was_quiet || !l->all_agree || l->sums.sent != l->sums.received);
    l->pause_ns = differ ? longer_pause_ns(l->pause_ns) : 0;
    l->pause.fire = pause_is_over;
    env_set_timer(a->env, &l->pause, env_now_ns(a->env) + l->pause_ns);
}

// Four equal sums count only if they are of the same members.
static bool has_ended(const leaving *l) {
    return l->all_idle && l->all_agree && l->before_was_quiet &&
           l->sums.members == l->before.members && l->sums.sent == l->sums.received &&
           l->before.sent == l->before.received && l->sums.sent == l->before.sent;
}

void coordinator_check_answered_on_loop(agent *a) {
    leaving *l = &a->leaving;
    if (!l->coordinates || l->over || l->pause.armed) return;
    for (int rank = 0; rank < a->member_count; rank++) {
        const member *m = agent_member(a, rank);
        if (is_present(m) && !(m->answered && m->asked)) return;
    }
    // A member that was lost meanwhile was asked, and need not have answered.
    if (l->sums.members != leaving_sum(a).members) l->all_agree = false;
    if (has_ended(l)) {
        send_leave(a, true);
    } else {
        start_next_wave(a);
    }
}

void coordinator_state_received_on_loop(agent *a, int from, reader *r) {
    leaving *l = &a->leaving;
    char missing[96];
    uint32_t wave = reader_u32(r);
    bool idle = reader_u8(r) != 0;
    uint64_t sent = reader_u64(r), received = reader_u64(r), members = reader_u64(r);
    reader_text(r, missing, sizeof missing);
    if (r->failed || !l->coordinates || wave != l->sent_wave || agent_member(a, from)->answered)
        return;
    agent_member(a, from)->answered = true;
    l->sums.sent += sent;
    l->sums.received += received;
    if (!idle) l->all_idle = false;
    if (members != l->sums.members) l->all_agree = false;
    snprintf(agent_member(a, from)->missing, sizeof agent_member(a, from)->missing, "%s", missing);
    coordinator_check_answered_on_loop(a);
}

void coordinator_name_missing(const agent *a, char *out, size_t size) {
    size_t at = 0;
    out[0] = '\0';
    for (int rank = 0; rank < a->member_count && at < size; rank++) {
        const member *m = agent_member(a, rank);
        if (!is_present(m) || m->asked) continue;
        at += (size_t)snprintf(out + at, size - at, "%s%s", at ? ", " : "", m->name);
    }
}

void coordinator_asked_on_loop(agent *a, int from, reader *r) {
    leaving *l = &a->leaving;
    bool draining = reader_u8(r) != 0;
    if (r->failed) return;
    // A coordinator before this one has found that all had asked, this worker among them.
    if (draining && leaving_together(a)) l->all_asked = true;
    agent_member(a, from)->asked = true;
    if (!l->coordinates) {
        coordinator_check_asked_on_loop(a);
    } else {
        // It has ignored the messages that it received before it sent *ask leave*.
        leaving_send_on_loop(a, from, KIND_ALL_ASKED);
        if (!agent_member(a, from)->answered) leaving_send_on_loop(a, from, KIND_WAVE);
        coordinator_check_answered_on_loop(a);
    }
}

static void check_asked_again(timer *t) {
    coordinator_check_asked_on_loop(list_entry(t, agent, leaving.pause));
}

void coordinator_check_asked_on_loop(agent *a) {
    leaving *l = &a->leaving;
    if (!leaving_together(a) || l->coordinates || l->over || member_table_coordinator(a) != a->rank)
        return;
    // Members that have ended meanwhile may have continued without this worker, and not sent *ask leave*.
    if (membership_is_in_doubt(a->membership->machine)) {
        leaving_set_timer(a, &l->pause, check_asked_again, 1);
        return;
    }
    for (int rank = 0; rank < a->member_count; rank++) {
        const member *m = agent_member(a, rank);
        if (is_present(m) && !m->asked) return;
    }
    leaving_disarm(a, &l->pause);
    l->coordinates = true;
    l->all_asked = true;
    leaving_send_all_on_loop(a, KIND_ALL_ASKED);
    leaving_set_timer(a, &l->bound, out_of_time, BOUND_S);
    start_wave(a);
}
