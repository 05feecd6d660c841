// Rank 0's part in leaving together. docs/PROTOCOL.md, "Shutdown".
#include "rpc/leaving.h"

#include <stdio.h>

// Sessions begin when there is something to say. With one to everybody, rank 0 learns of those who have ended and will
// never ask.
void coordinator_greet_all_on_loop(agent *a) {
    for (int rank = 1; rank < a->member_count; rank++) {
        const member *m = agent_member(a, rank);
        if (!m->lost && !m->asked) leaving_tell_on_loop(a, rank, KIND_WAVE);
    }
}

static void send_leave(agent *a, bool clean) {
    a->leaving.clean = clean;
    leaving_tell_all_on_loop(a, KIND_LEAVE);
}

static void out_of_time(timer *t) {
    agent *a = list_entry(t, agent, leaving.bound);
    // A wave that is younger than its answers need says nothing about who is silent.
    bool late = env_now_ns(a->env) - a->leaving.wave_start_ns > 2 * PATIENCE_S * SECOND;
    for (int rank = 0; rank < a->member_count && late; rank++) {
        member *m = agent_member(a, rank);
        if (!m->lost && !m->answered)
            snprintf(m->missing, sizeof m->missing, "does not say what it is doing");
    }
    send_leave(a, false);
}

static void start_wave(agent *a) {
    leaving *l = &a->leaving;
    l->before_was_idle = l->sent_wave && l->all_idle;
    l->before_sent = l->sent;
    l->before_received = l->received;
    l->sent_wave++;
    l->all_idle = true;
    l->sent = l->received = 0;
    l->wave_start_ns = env_now_ns(a->env);
    for (int rank = 0; rank < a->member_count; rank++) agent_member(a, rank)->answered = false;
    leaving_tell_all_on_loop(a, KIND_WAVE);
}

static bool has_ended(const leaving *l) {
    return l->all_idle && l->before_was_idle && l->sent == l->received &&
           l->before_sent == l->before_received && l->sent == l->before_sent;
}

void coordinator_check_answered_on_loop(agent *a) {
    if (!a->leaving.sent_wave || a->leaving.over) return;
    for (int rank = 0; rank < a->member_count; rank++) {
        const member *m = agent_member(a, rank);
        if (!m->lost && !m->answered) return;
    }
    if (has_ended(&a->leaving)) {
        send_leave(a, true);
    } else {
        start_wave(a);
    }
}

void coordinator_state_came_on_loop(agent *a, int from, reader *r) {
    leaving *l = &a->leaving;
    char missing[96];
    uint32_t wave = reader_u32(r);
    bool idle = reader_u8(r) != 0;
    uint64_t sent = reader_u64(r), received = reader_u64(r);
    reader_text(r, missing, sizeof missing);
    if (r->failed || a->rank != 0 || wave != l->sent_wave || agent_member(a, from)->answered)
        return;
    agent_member(a, from)->answered = true;
    l->sent += sent;
    l->received += received;
    if (!idle) l->all_idle = false;
    snprintf(agent_member(a, from)->missing, sizeof agent_member(a, from)->missing, "%s", missing);
    coordinator_check_answered_on_loop(a);
}

void coordinator_check_asked_on_loop(agent *a) {
    if (a->rank != 0 || a->leaving.all_asked) return;
    for (int rank = 0; rank < a->member_count; rank++) {
        const member *m = agent_member(a, rank);
        if (!m->lost && !m->asked) return;
    }
    a->leaving.all_asked = true;
    leaving_tell_all_on_loop(a, KIND_ALL_ASKED);
    leaving_set_timer(a, &a->leaving.bound, out_of_time, BOUND_S);
    start_wave(a);
}
