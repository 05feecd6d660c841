// Leaving together. docs/PROTOCOL.md, "Shutdown".
#include "rpc/context.h"

#include "base/log.h"
#include "rpc/upward.h"

#include <stdio.h>
#include <string.h>

#define SECOND INT64_C(1000000000)

enum { LEAVE_TEXT_MAX = 512 };
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
    disarm(a, &a->leaving.again);
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
    char text[96];
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

enum { AGAIN_MS = 100 };

static void received_here(agent *a, int from, message_kind kind, reader *r);

static void write_state(agent *a, bytes *body) {
    uint64_t sent, received;
    words missing = describe(a);
    count_messages(a, &sent, &received);
    bytes_put_u32(body, a->leaving.owed_wave);
    bytes_put_u8(body, is_idle(a));
    bytes_put_u64(body, sent);
    bytes_put_u64(body, received);
    bytes_put_text(body, missing.text);
}

// "w1 awaits 1 reply; w2 serves 1 call"; empty if all is well.
static void write_missing(agent *a, bytes *body) {
    char text[LEAVE_TEXT_MAX] = "";
    size_t at = 0;
    for (int rank = 0; rank < a->world_size && !a->leaving.clean; rank++) {
        const member *m = agent_member(a, rank);
        if (m->lost || !m->missing[0] || at >= sizeof text) continue;
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s %s", at ? "; " : "", m->name,
                               m->missing);
    }
    bytes_put_text(body, text);
}

static void write_body(agent *a, message_kind kind, bytes *body) {
    leaving *l = &a->leaving;
    switch (kind) {
    case KIND_WAVE: bytes_put_u32(body, l->sent_wave); break;
    case KIND_STATE: write_state(a, body); break;
    case KIND_LEAVE:
        bytes_put_u8(body, l->clean);
        write_missing(a, body);
        break;
    default: break;
    }
}

static bool send(agent *a, int to, message_kind kind) {
    message *m = agent_message_on_loop(a, kind);
    if (!m) return false;
    write_body(a, kind, &m->head);
    if (!m->head.failed) return agent_send_on_loop(a, to, m, true, NULL) != GW_NO_MEMORY;
    message_release(m);
    return false;
}

static uint32_t bit_of(message_kind kind) {
    return 1u << (kind - KIND_ASK_LEAVE);
}

static void tell_again(timer *t);

// Without memory it is told again later, as things are then. Rank 0 tells itself at once.
static void tell(agent *a, int to, message_kind kind) {
    if (to == a->rank) {
        uint8_t buffer[1024];
        bytes body = { .data = buffer, .capacity = sizeof buffer };
        write_body(a, kind, &body);
        reader r = reader_of(body.data, body.size);
        received_here(a, to, kind, &r);
    } else if (!send(a, to, kind)) {
        leaving *l = &a->leaving;
        agent_member(a, to)->owed |= bit_of(kind);
        if (!l->failing_ns) l->failing_ns = env_now_ns(a->env);
        l->again.fire = tell_again;
        env_set_timer(a->env, &l->again, env_now_ns(a->env) + AGAIN_MS * INT64_C(1000000));
    }
}

static void tell_all(agent *a, message_kind kind) {
    for (int rank = a->world_size - 1; rank >= 0; rank--)
        if (!agent_member(a, rank)->lost) tell(a, rank, kind);
}

static void give_up(agent *a) {
    gw_error error;
    error_set(&error, GW_NO_MEMORY, "shutdown: no memory to tell the others");
    finish(a, &error);
}

static void tell_again(timer *t) {
    agent *a = list_entry(t, agent, leaving.again);
    int64_t since_ns = a->leaving.failing_ns;
    a->leaving.failing_ns = 0;
    for (int rank = 0; rank < a->world_size; rank++) {
        uint32_t owed = agent_member(a, rank)->owed;
        agent_member(a, rank)->owed = 0;
        for (message_kind kind = KIND_ASK_LEAVE; owed && kind <= KIND_LEAVE; kind++)
            if ((owed & bit_of(kind)) && !agent_member(a, rank)->lost) tell(a, rank, kind);
    }
    if (!a->leaving.failing_ns) return;
    a->leaving.failing_ns = since_ns;
    if (env_now_ns(a->env) - since_ns > BOUND_S * SECOND) give_up(a);
}

static void send_state(agent *a) {
    disarm(a, &a->leaving.patience);
    tell(a, 0, KIND_STATE);
}

static void out_of_patience(timer *t) {
    send_state(list_entry(t, agent, leaving.patience));
}

void leaving_check_on_loop(agent *a) {
    leaving *l = &a->leaving;
    if (l->patience.armed && is_idle(a)) send_state(a);
}

// ---- Rank 0 ----

static void send_leave(agent *a, bool clean) {
    a->leaving.clean = clean;
    tell_all(a, KIND_LEAVE);
}

static void out_of_time(timer *t) {
    agent *a = list_entry(t, agent, leaving.bound);
    // A wave that is younger than its answers need says nothing about who is silent.
    bool late = env_now_ns(a->env) - a->leaving.wave_start_ns > 2 * PATIENCE_S * SECOND;
    for (int rank = 0; rank < a->world_size && late; rank++) {
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
    for (int rank = 0; rank < a->world_size; rank++) agent_member(a, rank)->answered = false;
    tell_all(a, KIND_WAVE);
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
    end_wave_if_answered(a);
}

static void check_all_asked(agent *a) {
    if (a->rank != 0 || a->leaving.all_asked) return;
    for (int rank = 0; rank < a->world_size; rank++) {
        const member *m = agent_member(a, rank);
        if (!m->lost && !m->asked) return;
    }
    a->leaving.all_asked = true;
    tell_all(a, KIND_ALL_ASKED);
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
    if (!a->leaving.owed_wave) return;
    if (is_idle(a)) {
        send_state(a);
    } else {
        set_timer(a, &a->leaving.patience, out_of_patience, PATIENCE_S);
    }
}

static void leave_came(agent *a, reader *r) {
    gw_error error;
    char missing[LEAVE_TEXT_MAX];
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

// Sessions begin when there is something to say. With one to everybody, rank 0 learns of those who have ended and will
// never ask.
static void greet_all(agent *a) {
    for (int rank = 1; rank < a->world_size; rank++) {
        const member *m = agent_member(a, rank);
        if (!m->lost && !m->asked) tell(a, rank, KIND_WAVE);
    }
}

static void ask(agent *a) {
    a->phase = AGENT_ASKED;
    if (a->rank == 0) greet_all(a);
    if (agent_member(a, 0)->lost) {
        leave_without_coordinator(a);
    } else {
        tell(a, 0, KIND_ASK_LEAVE);
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
