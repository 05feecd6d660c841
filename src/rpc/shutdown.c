// Leaving together. docs/PROTOCOL.md, "Shutdown".
#include "rpc/context.h"

#include "base/log.h"
#include "rpc/upward.h"

#include <stdio.h>
#include <string.h>

#define SECOND INT64_C(1000000000)

enum { PATIENCE_S = 1, BOUND_S = 30, OWN_BOUND_S = 35, GOODBYE_S = 1 };

static void set_timer(agent *a, timer *t, void (*fire)(timer *t), int64_t seconds) {
    t->fire = fire;
    env_set_timer(a->env, t, env_now_ns(a->env) + seconds * SECOND);
}

static void disarm(agent *a, timer *t) {
    if (t->armed) env_set_timer(a->env, t, ENV_NEVER);
}

void leaving_stop_on_loop(agent *a) {
    disarm(a, &a->leaving.bound);
    disarm(a, &a->leaving.patience);
}

// The thread in gw_rpc_shutdown does the rest: sessions do not end inside callbacks.
static void finish(agent *a, const gw_error *error) {
    leaving *l = &a->leaving;
    if (l->over) return;
    l->over = true;
    if (error) l->error = *error;
    leaving_stop_on_loop(a);
    if (l->waiting) env_wake(a->env, l->waiting);
}

// ---- What this worker is doing ----

static bool is_idle(const agent *a) {
    return !a->calls.count && !a->body_count && !a->promises.count && list_is_empty(&a->loopback) &&
           !references_pending(a);
}

typedef struct words {
    char text[256];
} words;

static void add_words(words *w, const char *verb, size_t count, const char *noun,
                      const char *ending) {
    size_t at = strlen(w->text);
    if (!count) return;
    snprintf(w->text + at, sizeof w->text - at, "%s%s %zu %s%s", at ? ", " : "", verb, count, noun,
             count == 1 ? (ending[0] == 'i' ? "y" : "") : ending);
}

// "awaits 1 reply, serves 2 calls".
static words describe(const agent *a) {
    words w = { "" };
    add_words(&w, "awaits", a->calls.count, "repl", "ies");
    add_words(&w, "serves", (size_t)a->body_count, "call", "s");
    add_words(&w, "awaits", a->promises.count, "promise", "s");
    add_words(&w, "counts", references_pending(a), "reference", "s");
    return w;
}

static void count_messages(agent *a, uint64_t *out_sent, uint64_t *out_received) {
    *out_sent = *out_received = 0;
    for (int rank = 0; rank < a->world_size; rank++) {
        const member *m = agent_member(a, rank);
        if (m->lost) continue;
        *out_sent += m->sent;
        *out_received += m->received;
    }
}

// ---- Sending ----

static void received_here(agent *a, int from, message_kind kind, reader *r);

// Rank 0 tells itself at once.
static void tell(agent *a, int to, message_kind kind, const bytes *body) {
    if (to == a->rank) {
        reader r = reader_of(body->data, body->size);
        received_here(a, to, kind, &r);
        return;
    }
    message *m = message_open((uint8_t)kind);
    if (!m) return;
    bytes_put(&m->head, body->data, body->size);
    agent_send_on_loop(a, to, m, true, NULL);
}

static void tell_all(agent *a, message_kind kind, const bytes *body) {
    for (int rank = a->world_size - 1; rank >= 0; rank--)
        if (!agent_member(a, rank)->lost) tell(a, rank, kind, body);
}

static void send_state(agent *a) {
    leaving *l = &a->leaving;
    uint64_t sent, received;
    words missing = describe(a);
    count_messages(a, &sent, &received);
    bytes body;
    bytes_init(&body);
    bytes_put_u32(&body, l->owed_wave);
    bytes_put_u8(&body, is_idle(a));
    bytes_put_u64(&body, sent);
    bytes_put_u64(&body, received);
    bytes_put_text(&body, missing.text);
    l->owed_wave = 0;
    disarm(a, &l->patience);
    if (!body.failed) tell(a, 0, KIND_STATE, &body);
    bytes_fini(&body);
}

static void out_of_patience(timer *t) {
    send_state(list_entry(t, agent, leaving.patience));
}

void leaving_check_on_loop(agent *a) {
    if (a->leaving.owed_wave && is_idle(a)) send_state(a);
}

// ---- Rank 0 ----

static void send_leave(agent *a, bool clean) {
    bytes body;
    bytes_init(&body);
    bytes_put_u8(&body, clean);
    bytes_put_text(&body, clean ? "" : a->leaving.missing);
    if (!body.failed) tell_all(a, KIND_LEAVE, &body);
    bytes_fini(&body);
}

static void add_missing(agent *a, int rank, const char *what) {
    char *missing = a->leaving.collected;
    size_t at = strlen(missing), size = sizeof a->leaving.collected;
    if (at + 1 < size)
        snprintf(missing + at, size - at, "%s%s %s", at ? "; " : "", agent_member(a, rank)->name,
                 what);
}

static void out_of_time(timer *t) {
    agent *a = list_entry(t, agent, leaving.bound);
    leaving *l = &a->leaving;
    // A wave that is younger than its answers need says nothing about who is silent.
    if (!l->missing[0] || env_now_ns(a->env) - l->wave_start_ns > 2 * PATIENCE_S * SECOND) {
        for (int rank = 0; rank < a->world_size; rank++) {
            const member *m = agent_member(a, rank);
            if (!m->lost && !m->answered) add_missing(a, rank, "does not say what it is doing");
        }
        memcpy(l->missing, l->collected, sizeof l->missing);
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
    memcpy(l->missing, l->collected, sizeof l->missing);
    l->collected[0] = '\0';
    for (int rank = 0; rank < a->world_size; rank++) agent_member(a, rank)->answered = false;
    bytes body;
    bytes_init(&body);
    bytes_put_u32(&body, l->sent_wave);
    if (!body.failed) tell_all(a, KIND_WAVE, &body);
    bytes_fini(&body);
}

static bool has_ended(const leaving *l) {
    return l->all_idle && l->before_was_idle && l->sent == l->received &&
           l->before_sent == l->before_received && l->sent == l->before_sent;
}

static void end_wave_if_answered(agent *a) {
    if (!a->leaving.sent_wave || a->leaving.over) return;
    for (int rank = 0; rank < a->world_size; rank++) {
        const member *m = agent_member(a, rank);
        if (!m->lost && !m->answered) return;
    }
    if (has_ended(&a->leaving)) {
        send_leave(a, true);
    } else {
        start_wave(a);
    }
}

static void state_came(agent *a, int from, reader *r) {
    leaving *l = &a->leaving;
    char missing[256];
    uint32_t wave = reader_u32(r);
    bool idle = reader_u8(r) != 0;
    uint64_t sent = reader_u64(r), received = reader_u64(r);
    reader_text(r, missing, sizeof missing);
    if (r->failed || a->rank != 0 || wave != l->sent_wave || agent_member(a, from)->answered)
        return;
    agent_member(a, from)->answered = true;
    l->sent += sent;
    l->received += received;
    if (!idle) {
        l->all_idle = false;
        add_missing(a, from, missing);
    }
    end_wave_if_answered(a);
}

static void check_all_asked(agent *a) {
    if (a->rank != 0 || a->leaving.all_asked) return;
    for (int rank = 0; rank < a->world_size; rank++) {
        const member *m = agent_member(a, rank);
        if (!m->lost && !m->asked) return;
    }
    a->leaving.all_asked = true;
    tell_all(a, KIND_ALL_ASKED, &(bytes){ 0 });
    set_timer(a, &a->leaving.bound, out_of_time, BOUND_S);
    start_wave(a);
}

// ---- Every worker ----

static void out_of_own_time(timer *t) {
    agent *a = list_entry(t, agent, leaving.bound);
    gw_error error;
    error_set(&error, GW_TIMEOUT, "shutdown: %s has not let this worker leave within %d s",
              agent_member(a, 0)->name, OWN_BOUND_S);
    finish(a, &error);
}

static void all_asked(agent *a) {
    if (a->phase != AGENT_ASKED) return;
    a->phase = AGENT_DRAINING;
    if (a->rank != 0) set_timer(a, &a->leaving.bound, out_of_own_time, OWN_BOUND_S);
    references_give_back_on_loop(a);
}

static void wave_came(agent *a, reader *r) {
    a->leaving.owed_wave = reader_u32(r);
    if (is_idle(a)) {
        send_state(a);
    } else {
        set_timer(a, &a->leaving.patience, out_of_patience, PATIENCE_S);
    }
}

static void leave_came(agent *a, reader *r) {
    gw_error error;
    char missing[sizeof a->leaving.missing];
    bool clean = reader_u8(r) != 0;
    reader_text(r, missing, sizeof missing);
    if (!clean)
        error_set(&error, GW_TIMEOUT, "shutdown: not everything has ended within %d s: %s", BOUND_S,
                  missing);
    finish(a, clean ? NULL : &error);
}

static void received_here(agent *a, int from, message_kind kind, reader *r) {
    switch (kind) {
    case KIND_ASK_LEAVE:
        agent_member(a, from)->asked = true;
        check_all_asked(a);
        break;
    case KIND_ALL_ASKED: all_asked(a); break;
    case KIND_WAVE: wave_came(a, r); break;
    case KIND_STATE: state_came(a, from, r); break;
    default: leave_came(a, r); break;
    }
}

gw_status leaving_received_on_loop(agent *a, int from, message *m, gw_error *error) {
    reader r = reader_of(m->head.data, m->head.size);
    // Only rank 0 is told, and only rank 0 tells.
    bool to_coordinator = m->kind == KIND_ASK_LEAVE || m->kind == KIND_STATE;
    gw_status status = GW_OK;
    if (to_coordinator ? a->rank != 0 : from != 0)
        status = error_set(error, GW_PROTOCOL, "a message about leaving from rank %d", from);
    else
        received_here(a, from, m->kind, &r);
    message_release(m);
    return status;
}

static void leave_without_coordinator(agent *a) {
    references_give_back_on_loop(a);
    finish(a, NULL);
}

void leaving_lost_on_loop(agent *a, int rank) {
    if (rank == 0 && (a->phase == AGENT_ASKED || a->phase == AGENT_DRAINING))
        leave_without_coordinator(a);
    check_all_asked(a);
    end_wave_if_answered(a);
}

// ---- gw_rpc_shutdown ----

static void ask(agent *a) {
    a->phase = AGENT_ASKED;
    if (agent_member(a, 0)->lost) {
        leave_without_coordinator(a);
    } else {
        tell(a, 0, KIND_ASK_LEAVE, &(bytes){ 0 });
    }
}

// The others are let go by a message that must arrive.
static void wait_until_drained(agent *a) {
    waiter w = { .what = "the last messages to be received" };
    if (a->rank != 0 || peers_is_drained(a->peers)) return;
    peers_on_drained(a->peers, &w);
    env_wait(a->env, &w, env_now_ns(a->env) + GOODBYE_S * SECOND);
    peers_on_drained(a->peers, NULL);
}

static void shut_down_on_loop(agent *a, gw_scope *root) {
    leaving *l = &a->leaving;
    waiter w = { .what = "the others to ask for shutdown" };
    l->waiting = &w;
    ask(a);
    while (!l->over) {
        w.woken = false;
        context_wait_on_loop(a, root, &w, ENV_NEVER);
    }
    l->waiting = NULL;
    wait_until_drained(a);
    agent_leave_on_loop(a);
    if (l->error.status) scope_fail_with(root, &l->error);
}

void gw_rpc_shutdown(gw_scope *root) {
    agent *a = root->slots[SCOPE_AGENT].data;
    gw_error error;
    if (!a) {
        // Joining may have failed, and said so.
        if (root->agent)
            scope_fail(root, GW_WRONG_STATE,
                       "gw_rpc_shutdown is for the scope that gw_rpc_init was given");
        else if (!root->error)
            scope_fail(root, GW_WRONG_STATE, "gw_rpc_shutdown without gw_rpc_init");
        return;
    }
    env_enter(a->env);
    if (a->phase != AGENT_SERVING) {
        if (a->phase != AGENT_LEFT)
            scope_fail(root, GW_WRONG_STATE, "gw_rpc_shutdown is under way");
    } else if (context_check_wait(root, &error)) {
        scope_fail_with(root, &error);
    } else {
        shut_down_on_loop(a, root);
    }
    env_leave(a->env);
}
