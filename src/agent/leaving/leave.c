// The messages of workers that leave. docs/protocol/shutdown.md.
#include "agent/leaving/leave_internal.h"

#include "agent/leaving/awaits.h"
#include "agent/members/member_table.h"
#include "base/failpoint.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

void leaving_set_timer(agent *a, timer *t, void (*fire)(timer *t), int64_t seconds) {
    t->fire = fire;
    env_set_timer(a->env, t, env_now_ns(a->env) + seconds * SECOND);
}

void leaving_disarm(agent *a, timer *t) {
    if (t->armed) env_set_timer(a->env, t, ENV_NEVER);
}

void leaving_stop_on_loop(agent *a) {
    leaving_disarm(a, &a->leaving.bound);
    leaving_disarm(a, &a->leaving.patience);
    leaving_disarm(a, &a->leaving.pause);
    leaving_disarm(a, &a->leaving.reminder);
    leaving_disarm(a, &a->leaving.again);
}

// The thread in gw_rpc_shutdown does the rest: sessions do not end inside callbacks.
void leaving_finish_on_loop(agent *a, const gw_error *error) {
    leaving *l = &a->leaving;
    if (l->over) return;
    l->over = true;
    if (error) l->error = *error;
    leaving_stop_on_loop(a);
    if (l->waiting) env_wake(a->env, l->waiting);
}

// ---- The work of this worker --------------------------------------------------------------------

static pending find_pending(const agent *a) {
    pending p = { 0 };
    for (int i = 0; i < a->service_count; i++)
        if (a->services[i].service->pending) a->services[i].service->pending(a, &p);
    return p;
}

static bool is_idle(const agent *a) {
    return list_is_empty(&a->loopback) && !a->deferred.count && !find_pending(a).count;
}

leaving_sums leaving_sum(agent *a) {
    leaving_sums sums = { 0 };
    for (int rank = 0; rank < a->member_count; rank++) {
        const member *m = agent_member(a, rank);
        if (m->lost) continue;
        sums.members ^= m->worker.incarnation;
        sums.sent += m->sent;
        sums.received += m->received;
    }
    return sums;
}

// ---- Sending ------------------------------------------------------------------------------------

enum { AGAIN_MS = 100 };

static void write_state(agent *a, bytes *body) {
    pending missing = find_pending(a);
    leaving_sums sums = leaving_sum(a);
    bytes_put_u32(body, a->leaving.owed_wave);
    bytes_put_u8(body, is_idle(a));
    bytes_put_u64(body, sums.sent);
    bytes_put_u64(body, sums.received);
    bytes_put_u64(body, sums.members);
    bytes_put_text(body, missing.text);
}

// "w1 awaits 1 reply; w2 serves 1 call"; empty if all have ended.
static void write_missing(agent *a, bytes *body) {
    char text[LEAVE_TEXT_MAX] = "";
    size_t at = 0;
    for (int rank = 0; rank < a->member_count && !a->leaving.clean; rank++) {
        const member *m = agent_member(a, rank);
        if (m->lost || !m->missing[0] || at >= sizeof text) continue;
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s %s", at ? "; " : "", m->name,
                               m->missing);
    }
    bytes_put_text(body, text);
}

// The coordinator's, or a question to it.
static void write_unasked(agent *a, bytes *body) {
    char names[LEAVE_TEXT_MAX];
    bool answers = !a->leaving.asks_missing;
    if (answers) coordinator_name_missing(a, names, sizeof names);
    bytes_put_u8(body, answers);
    bytes_put_text(body, answers ? names : "");
}

static void write_body(agent *a, leaving_kind kind, bytes *body) {
    leaving *l = &a->leaving;
    switch (kind) {
    case KIND_ASK_LEAVE: bytes_put_u8(body, a->phase == AGENT_DRAINING); break;
    case KIND_WAVE: bytes_put_u32(body, l->sent_wave); break;
    case KIND_STATE: write_state(a, body); break;
    case KIND_LEAVE:
        bytes_put_u8(body, l->clean);
        write_missing(a, body);
        break;
    case KIND_MISSING: write_unasked(a, body); break;
    default: break;
    }
}

static bool send(agent *a, int to, leaving_kind kind) {
    message *m = agent_message_on_loop(a, (uint8_t)kind);
    if (!m) return false;
    write_body(a, kind, &m->head);
    return agent_post_on_loop(a, to, m);
}

static uint32_t bit_of(leaving_kind kind) {
    return 1u << (kind - KIND_ASK_LEAVE);
}

static void send_again(timer *t);
static void handle(agent *a, int from, leaving_kind kind, reader *r);

// Without memory the message is sent later, with the state of then. The coordinator handles its own message at once.
void leaving_send_on_loop(agent *a, int to, leaving_kind kind) {
    if (to == a->rank) {
        uint8_t buffer[1024];
        bytes body = { .data = buffer, .capacity = sizeof buffer };
        write_body(a, kind, &body);
        reader r = reader_of(body.data, body.size);
        handle(a, to, kind, &r);
    } else if (!send(a, to, kind)) {
        leaving *l = &a->leaving;
        agent_member(a, to)->owed |= bit_of(kind);
        if (!l->failing_ns) l->failing_ns = env_now_ns(a->env);
        l->again.fire = send_again;
        env_set_timer(a->env, &l->again, env_now_ns(a->env) + AGAIN_MS * INT64_C(1000000));
    }
}

void leaving_send_all_on_loop(agent *a, leaving_kind kind) {
    for (int rank = a->member_count - 1; rank >= 0; rank--)
        if (!agent_member(a, rank)->lost) leaving_send_on_loop(a, rank, kind);
}

static void give_up(agent *a) {
    gw_error error;
    error_set(&error, GW_NO_MEMORY, "gw_rpc_shutdown: no memory to notify the other workers");
    leaving_finish_on_loop(a, &error);
}

static void send_again(timer *t) {
    agent *a = list_entry(t, agent, leaving.again);
    int64_t since_ns = a->leaving.failing_ns;
    a->leaving.failing_ns = 0;
    for (int rank = 0; rank < a->member_count; rank++) {
        uint32_t owed = agent_member(a, rank)->owed;
        agent_member(a, rank)->owed = 0;
        for (leaving_kind kind = KIND_ASK_LEAVE; owed && kind <= KIND_LEAVE; kind++)
            if ((owed & bit_of(kind)) && !agent_member(a, rank)->lost)
                leaving_send_on_loop(a, rank, kind);
    }
    if (!a->leaving.failing_ns) return;
    a->leaving.failing_ns = since_ns;
    if (env_now_ns(a->env) - since_ns > BOUND_S * SECOND) give_up(a);
}

static void send_state(agent *a) {
    leaving_disarm(a, &a->leaving.patience);
    leaving_send_on_loop(a, a->leaving.wave_from, KIND_STATE);
}

static void out_of_patience(timer *t) {
    send_state(list_entry(t, agent, leaving.patience));
}

void leaving_check_on_loop(agent *a) {
    leaving *l = &a->leaving;
    awaits_check_on_loop(a);
    if (!(l->patience.armed || l->alone) || !is_idle(a)) return;
    if (l->alone) {
        leaving_finish_on_loop(a, NULL);
    } else {
        send_state(a);
    }
}

// ---- Every worker -------------------------------------------------------------------------------

bool leaving_together(const agent *a) {
    return (a->phase == AGENT_ASKED || a->phase == AGENT_DRAINING) && !a->leaving.alone;
}

// SHUT-6.
static bool has_asked(const agent *a, int from) {
    return leaving_together(a) && from == member_table_coordinator(a);
}

static void out_of_own_time(timer *t) {
    agent *a = list_entry(t, agent, leaving.bound);
    gw_error error;
    error_set(&error, GW_TIMEOUT,
              "gw_rpc_shutdown: %s has not confirmed within %d s that this worker may leave",
              agent_member(a, member_table_coordinator(a))->name, OWN_BOUND_S);
    leaving_finish_on_loop(a, &error);
}

static void release_all(agent *a) {
    for (int i = 0; i < a->service_count; i++)
        if (a->services[i].service->release) a->services[i].service->release(a);
}

static void all_asked(agent *a, int from) {
    leaving *l = &a->leaving;
    if (a->phase != AGENT_ASKED || !has_asked(a, from)) return;
    a->phase = AGENT_DRAINING;
    l->all_asked = true;
    if (l->waiting) env_wake(a->env, l->waiting);  // from now on it waits for the end
    // The worker that receives *leave* first may be gone before the last one does.
    for (int rank = 0; rank < a->member_count; rank++) peers_expect_loss(a->peers, rank);
    if (!l->coordinates) leaving_set_timer(a, &l->bound, out_of_own_time, OWN_BOUND_S);
    failpoint("draining");
    release_all(a);
}

static void wave_received(agent *a, int from, reader *r) {
    leaving *l = &a->leaving;
    uint32_t wave = reader_u32(r);
    if (r->failed || !has_asked(a, from)) return;
    l->owed_wave = wave;
    l->wave_from = from;
    if (is_idle(a)) {
        send_state(a);
    } else {
        leaving_set_timer(a, &a->leaving.patience, out_of_patience, PATIENCE_S);
    }
}

static void leave_received(agent *a, int from, reader *r) {
    gw_error error;
    char missing[LEAVE_TEXT_MAX];
    bool clean = reader_u8(r) != 0;
    reader_text(r, missing, sizeof missing);
    if (r->failed || !has_asked(a, from)) return;
    if (!clean)
        error_set(&error, GW_TIMEOUT,
                  "gw_rpc_shutdown: calls and references have not ended within %d s: %s", BOUND_S,
                  missing);
    leaving_finish_on_loop(a, clean ? NULL : &error);
}

// ---- Missing workers ----------------------------------------------------------------------------

static void take_names(agent *a, const char *names) {
    leaving *l = &a->leaving;
    if (a->phase != AGENT_ASKED || !names[0]) return;
    snprintf(l->unasked, sizeof l->unasked, "%s", names);
    if (l->reminds)
        log_info("%s waits in gw_rpc_shutdown for %s, which %s not called it", a->name, names,
                 strstr(names, ", ") ? "have" : "has");
    l->reminds = false;
    if (l->waiting) env_wake(a->env, l->waiting);
}

// Without memory the question is not repeated: the names are for people.
void leaving_ask_missing_on_loop(agent *a) {
    int to = member_table_coordinator(a);
    char names[LEAVE_TEXT_MAX];
    if (to == a->rank) {
        coordinator_name_missing(a, names, sizeof names);
        take_names(a, names);
        return;
    }
    a->leaving.asks_missing = true;
    send(a, to, KIND_MISSING);
    a->leaving.asks_missing = false;
}

static void missing_received(agent *a, int from, reader *r) {
    char names[LEAVE_TEXT_MAX];
    bool answers = reader_u8(r);
    reader_text(r, names, sizeof names);
    if (r->failed) return;
    if (answers)
        take_names(a, names);
    else
        send(a, from, KIND_MISSING);
}

// SHUT-1. A worker that serves calls waits because others call it.
static void remind(timer *t) {
    agent *a = list_entry(t, agent, leaving.reminder);
    if (a->phase != AGENT_ASKED || a->leaving.has_served) return;
    a->leaving.reminds = true;
    leaving_ask_missing_on_loop(a);
}

static void handle(agent *a, int from, leaving_kind kind, reader *r) {
    switch (kind) {
    case KIND_ASK_LEAVE: coordinator_asked_on_loop(a, from, r); break;
    case KIND_ALL_ASKED: all_asked(a, from); break;
    case KIND_WAVE: wave_received(a, from, r); break;
    case KIND_STATE: coordinator_state_received_on_loop(a, from, r); break;
    case KIND_MISSING: missing_received(a, from, r); break;
    default: leave_received(a, from, r); break;
    }
}

gw_status leaving_received_on_loop(agent *a, int from, message *m, gw_error *error) {
    reader r = reader_of(m->head.data, m->head.size);
    handle(a, from, (leaving_kind)m->kind, &r);
    message_release(m);
    if (!r.failed) return GW_OK;
    return error_set(error, GW_PROTOCOL,
                     "a message of gw_rpc_shutdown or gw_rpc_leave is truncated");
}

// ---- Asking -------------------------------------------------------------------------------------

void leaving_ask_on_loop(agent *a) {
    a->phase = AGENT_ASKED;
    leaving_set_timer(a, &a->leaving.reminder, remind, REMINDER_S);
    awaits_check_on_loop(a);
    leaving_send_on_loop(a, member_table_coordinator(a), KIND_ASK_LEAVE);
}

static void out_of_time_alone(timer *t) {
    agent *a = list_entry(t, agent, leaving.bound);
    pending missing = find_pending(a);
    gw_error error;
    error_set(&error, GW_TIMEOUT,
              "gw_rpc_leave: calls and references of this worker have not ended within %d s: the "
              "worker %s",
              BOUND_S, missing.text);
    leaving_finish_on_loop(a, &error);
}

void leaving_ask_alone_on_loop(agent *a) {
    a->leaving.alone = true;
    a->leaving.alone_until_ns = env_now_ns(a->env) + BOUND_S * SECOND;
    a->phase = AGENT_DRAINING;
    leaving_set_timer(a, &a->leaving.bound, out_of_time_alone, BOUND_S);
    release_all(a);
    leaving_check_on_loop(a);
}

// ---- Lost members and new coordinators ----------------------------------------------------------

void leaving_coordinator_changed_on_loop(agent *a) {
    leaving *l = &a->leaving;
    if (!leaving_together(a) || l->over) return;
    // A worker that has sent *ask leave* sends it to the new coordinator, which begins again.
    if (a->phase == AGENT_DRAINING) leaving_set_timer(a, &l->bound, out_of_own_time, OWN_BOUND_S);
    leaving_disarm(a, &l->patience);
    leaving_send_on_loop(a, member_table_coordinator(a), KIND_ASK_LEAVE);
}

void leaving_lost_on_loop(agent *a, int rank) {
    if (a->leaving.wave_from == rank) leaving_disarm(a, &a->leaving.patience);
    coordinator_check_asked_on_loop(a);
    coordinator_check_answered_on_loop(a);
    leaving_check_on_loop(a);  // nothing is awaited from it any more
}
