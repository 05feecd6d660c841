#include "agent/leaving/awaits.h"

#include "agent/bodies/observe.h"
#include "agent/members/member_table.h"
#include "agent/messages/kinds.h"
#include "agent/messages/send.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "trace/record.h"
#include "wire/codec.h"

#include <stdio.h>
#include <string.h>

// WAIT-2, WAIT-5.
#define PATIENCE_NS INT64_C(200000000)
#define AGAIN_NS INT64_C(10000000000)
enum { QUESTIONS_MAX = 4096, ALL_ANSWERED = LIMIT_WORKERS };

// The role of the worker asked: the member that is awaited, the caller of the function that waits, or the
// worker whose program waits.
typedef enum role { ROLE_MEMBER, ROLE_CALLER, ROLE_PROGRAM, ROLE_COUNT } role;

// What both messages say.
typedef struct question {
    uint8_t role;
    uint64_t id;
    uint32_t about;   // the rank that is awaited
    uint32_t waiter;  // by this one
    int32_t caller;   // in a function called by this one; -1
} question;

// One of another worker that has no answer yet.
typedef struct open_question {
    list_node link;
    int from;
    question question;
} open_question;

// ---- What this worker does ----------------------------------------------------------------------

static bool is_leaving(const agent *a) {
    return a->phase == AGENT_ASKED || a->phase == AGENT_DRAINING;
}

static bool acts(const agent *a) {
    for (int i = 0; i < a->service_count; i++) {
        const service *s = a->services[i].service;
        if (s->acts && s->acts(a)) return true;
    }
    return !list_is_empty(&a->loopback);
}

bool awaits_is_idle_on_loop(const agent *a) {
    bool has_acted = !acts(a) || has_mutation(MUTATION_IDLE_BEFORE_REPLY);
    return (is_leaving(a) || a->awaits.failure) && has_acted;
}

gw_status awaits_check_acts_on_loop(const agent *a, gw_error *error) {
    if (!is_leaving(a) || acts(a)) return GW_OK;
    return error_set(error, GW_WRONG_STATE,
                     "%s has called %s: it can now enter collectives and agreements only in "
                     "functions that other workers call",
                     a->name, a->leaving.alone ? "gw_rpc_leave" : "gw_rpc_shutdown");
}

void activity_add_await(trace_activity *out, const await *w) {
    if (!w->class) return;
    for (int at = 0, rank; (rank = w->class->next(w, &at)) >= 0;)
        trace_activity_add_rank(out, rank);
}

static bool has_called(const agent *a, uint32_t rank) {
    for (int i = 0; i < a->service_count; i++) {
        const service *s = a->services[i].service;
        if (s->has_called && s->has_called(a, (int)rank)) return true;
    }
    return false;
}

// Messages of |rank| have arrived that are not handled yet.
static bool has_unread(const agent *a, int rank) {
    const member *m = agent_member(a, rank);
    if (!list_is_empty(&m->deferred) || !list_is_empty(&m->incomplete)) return true;
    for (int i = 0; i < a->service_count; i++) {
        const service *s = a->services[i].service;
        if (s->has_unread && s->has_unread(a, rank)) return true;
    }
    return false;
}

int awaits_caller_on_loop(const agent *a, gw_scope *s) {
    int caller = context_caller(s);
    if (caller >= 0 || context_of(s)) return caller;
    while (s->parent) s = s->parent;
    if (s == a->root) return -1;
    // A scope of the library's, which works for what runs here.
    for (int i = 0; i < a->service_count && caller < 0; i++) {
        const service *x = a->services[i].service;
        if (x->serves_for) caller = x->serves_for(a);
    }
    return caller;
}

// Where the error |why| of this program arose.
static uint64_t find_origin(const agent *a, const gw_error *why) {
    for (int rank = 0; rank < a->member_count && why->worker[0]; rank++) {
        const member *m = agent_member(a, rank);
        if (m->known && !m->lost && strcmp(m->name, why->worker) == 0) return m->worker.incarnation;
    }
    return a->incarnation;
}

// The launcher finds the first failure by its time: LAUN-15.
static void report_to_launcher(agent *a, const gw_error *why) {
    char text[GW_ERROR_TEXT_MAX + 32];
    if (a->phase == AGENT_LEFT || !why == !a->awaits.failure) return;
    if (!why) {
        agent_notify_launcher(a, "continues", a->incarnation, "");
        return;
    }
    snprintf(text, sizeof text, "%lld %s", (long long)env_now_ns(a->env), why->text);
    agent_notify_launcher(a, "failed", find_origin(a, why), text);
    trace_record_text(TRACE_FAILED, a->observer.row, a->root->id, why->status, why->text);
}

// WAIT-6.
void awaits_note_root(gw_scope *s) {
    agent *a = s->agent;
    if (!a || a->root != s || is_process_fork(a->mark)) return;
    if (!s->error && !a->awaits.failure) return;
    env_enter(a->env);
    report_to_launcher(a, s->error);
    error_forget(&a->awaits.failure);
    if (s->error) error_keep(&a->awaits.failure, s->error);
    awaits_check_on_loop(a);
    env_leave(a->env);
}

// The reason that the others get.
static void reason(const agent *a, gw_error *out) {
    const gw_error *e = a->awaits.failure ? error_kept(a->awaits.failure) : NULL;
    if (!e) {
        error_set(out, GW_DISCONNECTED, "%s has called %s", a->name,
                  a->leaving.alone ? "gw_rpc_leave" : "gw_rpc_shutdown");
        error_set_lost(out, GW_LOSS_LEFT, a->rank, a->incarnation, a->name);
    } else {
        bool is_own = e->status == GW_FENCED || e->status == GW_TIMEOUT;
        error_set(out, is_own ? GW_DISCONNECTED : e->status, "%s", e->text);
        error_prefix(out, "has failed");
        char text[GW_ERROR_TEXT_MAX];
        snprintf(text, sizeof text, "%s", out->text);
        error_set(out, out->status, "%s %s", a->name, text);
        out->lost = e->lost;
    }
    snprintf(out->worker, sizeof out->worker, "%s", a->name);
}

// ---- Messages -----------------------------------------------------------------------------------

static void put(bytes *out, const question *q) {
    bytes_put_u8(out, q->role);
    bytes_put_u64(out, q->id);
    bytes_put_u32(out, q->about);
    bytes_put_u32(out, q->waiter);
    bytes_put_u32(out, (uint32_t)q->caller);
}

static bool take(reader *in, question *out) {
    *out = (question){ .role = reader_u8(in) };
    out->id = reader_u64(in);
    out->about = reader_u32(in);
    out->waiter = reader_u32(in);
    out->caller = (int32_t)reader_u32(in);
    return !in->failed && out->role < ROLE_COUNT;
}

// False without memory.
static bool send(agent *a, int to, uint8_t kind, const question *q) {
    message *m = agent_message_on_loop(a, kind);
    gw_error why;
    if (!m) return false;
    put(&m->head, q);
    if (kind == KIND_IDLE && q->role == ROLE_MEMBER) {
        bytes_put_u8(&m->head, a->awaits.failure != NULL);
        reason(a, &why);
        encode_error(&m->head, &why);
    }
    return agent_post_on_loop(a, to, m);
}

static bool is_there(const agent *a, int64_t rank) {
    return rank >= 0 && rank < a->member_count && agent_member(a, (int)rank)->known &&
           !agent_member(a, (int)rank)->lost;
}

// ---- Asking -------------------------------------------------------------------------------------

static question question_of(const await *w, role role, int rank) {
    return (question){ .role = (uint8_t)role,
                       .id = w->question,
                       .about = (uint32_t)rank,
                       .waiter = (uint32_t)w->waiter,
                       .caller = w->caller };
}

// WAIT-3: first the worker that could make the member do it, if it is not gone.
static void ask_about(const await *w, int rank) {
    agent *a = w->agent;
    question q = question_of(w, w->caller < 0 ? ROLE_PROGRAM : ROLE_CALLER, rank);
    int to = w->caller < 0 ? w->waiter : w->caller;
    if (!is_there(a, to) || has_mutation(MUTATION_CALLER_NOT_QUERIED)) {
        q.role = ROLE_MEMBER;
        to = rank;
    }
    if (is_there(a, to)) send(a, to, KIND_AWAIT, &q);
}

static void keep_why_lost(await *w, int rank) {
    const member *m = rank >= 0 ? agent_member(w->agent, rank) : NULL;
    if (!m || !m->known || !m->lost) return;
    gw_error why = agent_why_lost(m);
    why.status = GW_DISCONNECTED;
    error_keep(&w->why, &why);
}

// Of |any|: asks about the next present member; without one, no member will do it.
static void ask_next(await *w) {
    agent *a = w->agent;
    gw_error why;
    while (!is_there(a, w->candidate)) {
        keep_why_lost(w, w->candidate);
        w->candidate = w->class->next(w, &w->at);
        if (w->candidate >= 0) continue;
        error_set(&why, GW_DISCONNECTED, "no other worker is present");
        if (w->why) why = *error_kept(w->why);
        w->class->end(w, -1, &why);
        return;
    }
    ask_about(w, w->candidate);
}

static void ask_member(const await *w, int rank) {
    question q = question_of(w, ROLE_MEMBER, rank);
    if (is_there(w->agent, rank)) send(w->agent, rank, KIND_AWAIT, &q);
}

static int only_member(const await *w) {
    int at = 0;
    return w->class->next(w, &at);
}

// Of |by_all|: one worker after the other, and then the member.
static void ask_next_caller(await *w) {
    agent *a = w->agent;
    int rank = only_member(w);
    while (w->at < a->member_count && (!is_there(a, w->at) || w->at == rank)) w->at++;
    if (w->at == a->member_count) {
        w->candidate = ALL_ANSWERED;
        ask_member(w, rank);
        return;
    }
    w->candidate = w->at++;
    bool is_own = w->candidate == w->waiter && w->caller < 0;
    question q = question_of(w, is_own ? ROLE_PROGRAM : ROLE_CALLER, rank);
    send(a, w->candidate, KIND_AWAIT, &q);
}

// A member that has failed answers so at once.
static void ask_all(await *w) {
    w->at = 0;
    ask_member(w, only_member(w));
    ask_next_caller(w);
}

static void ask(await *w) {
    w->question = w->agent->awaits.last_question;
    w->due_ns = env_now_ns(w->agent->env) + AGAIN_NS;
    if (w->class->any) {
        ask_next(w);
        return;
    }
    if (w->class->by_all) {
        ask_all(w);
        return;
    }
    int at = 0;
    for (int rank; (rank = w->class->next(w, &at)) >= 0;) ask_about(w, rank);
}

static void arm(agent *a) {
    int64_t due_ns = ENV_NEVER;
    list_each(l, &a->awaits.open) {
        const await *w = list_entry(l, await, link);
        if (w->due_ns < due_ns) due_ns = w->due_ns;
    }
    if (due_ns != ENV_NEVER) env_set_timer(a->env, &a->awaits.timer, due_ns);
}

static await *find_due(const agent *a, int64_t now_ns) {
    list_each(l, &a->awaits.open) {
        await *w = list_entry(l, await, link);
        if (w->due_ns <= now_ns) return w;
    }
    return NULL;
}

static void fire(timer *t) {
    agent *a = list_entry(t, agent, awaits.timer);
    int64_t now_ns = env_now_ns(a->env);
    a->awaits.last_question++;
    for (await *w; (w = find_due(a, now_ns));) ask(w);
    arm(a);
}

static void set_due(await *w, int64_t due_ns) {
    timer *t = &w->agent->awaits.timer;
    w->due_ns = due_ns;
    if (t->armed && t->due_ns <= due_ns) return;
    t->fire = fire;
    env_set_timer(w->agent->env, t, due_ns);
}

// A member that has been idle before is asked at once.
static bool needs_idle_member(const await *w) {
    int at = 0;
    for (int rank; w->agent->awaits.knows_idle && (rank = w->class->next(w, &at)) >= 0;)
        if (agent_member(w->agent, rank)->was_idle) return true;
    return false;
}

void awaits_open_on_loop(agent *a, await *w, const await_class *class, int waiter, int caller) {
    *w = (await){ .agent = a, .class = class, .waiter = waiter, .caller = caller, .candidate = -1 };
    list_append(&a->awaits.open, &w->link);
    set_due(w, env_now_ns(a->env) + (needs_idle_member(w) ? 0 : PATIENCE_NS));
}

void awaits_close_on_loop(await *w) {
    if (!w->agent) return;
    list_remove(&w->link);
    error_forget(&w->why);
    w->agent = NULL;
}

// ---- Answers ------------------------------------------------------------------------------------

static bool needs(const await *w, int rank, bool has_failed) {
    int at = 0;
    if (w->class->any) return w->candidate == rank;
    if (w->class->by_all && !has_failed && w->candidate != ALL_ANSWERED) return false;
    for (int r; (r = w->class->next(w, &at)) >= 0;)
        if (r == rank) return true;
    return false;
}

static bool is_about(const await *w, const question *q) {
    return w->question && w->question <= q->id && w->waiter == (int)q->waiter &&
           w->caller == q->caller;
}

static await *find_met(const agent *a, const question *q, bool has_failed) {
    list_each(l, &a->awaits.open) {
        await *w = list_entry(l, await, link);
        if (is_about(w, q) && needs(w, (int)q->about, has_failed)) return w;
    }
    return NULL;
}

// WAIT-4. What ends may close others, so each search begins again.
static void member_is_idle(agent *a, const question *q, bool has_failed, const gw_error *why) {
    int rank = (int)q->about;
    bool waits = has_unread(a, rank);
    agent_member(a, rank)->was_idle = a->awaits.knows_idle = true;
    for (await *w; (w = find_met(a, q, has_failed));) {
        w->question = 0;
        if (waits) {
            set_due(w, env_now_ns(a->env) + PATIENCE_NS);
        } else if (w->class->any) {
            error_keep(&w->why, why);
            w->candidate = -1;
            set_due(w, env_now_ns(a->env));
        } else {
            w->class->end(w, rank, why);
        }
    }
}

static void caller_is_idle(agent *a, int from, const question *q) {
    list_each(l, &a->awaits.open) {
        await *w = list_entry(l, await, link);
        if (w->class->by_all && is_about(w, q) && w->candidate == from &&
            only_member(w) == (int)q->about)
            ask_next_caller(w);
    }
}

// The worker that could make the member do it does not: now the member is asked.
static gw_status answered(agent *a, int from, reader *in, gw_error *error) {
    question q;
    gw_error why;
    if (!take(in, &q))
        return error_set(error, GW_PROTOCOL, "malformed idle message: invalid fields");
    if (q.role != ROLE_MEMBER) {
        caller_is_idle(a, from, &q);
        q.role = ROLE_MEMBER;
        if (is_there(a, q.about)) send(a, (int)q.about, KIND_AWAIT, &q);
        return GW_OK;
    }
    uint8_t has_failed = reader_u8(in);
    if (decode_error(in, &why, error)) return error->status;
    if (!why.status || q.about != (uint32_t)from)
        return error_set(error, GW_PROTOCOL, "malformed idle message: invalid fields");
    member_is_idle(a, &q, has_failed, &why);
    return GW_OK;
}

// ---- Questions of others ------------------------------------------------------------------------

static bool holds(const agent *a, const question *q) {
    switch ((role)q->role) {
    case ROLE_PROGRAM: return !has_called(a, q->about);
    case ROLE_CALLER: return awaits_is_idle_on_loop(a) && !has_called(a, q->about);
    default: return awaits_is_idle_on_loop(a);
    }
}

static void drop(agent *a, open_question *x) {
    list_remove(&x->link);
    a->awaits.question_count--;
    mem_free(x);
}

static bool is_same(const open_question *x, int from, const question *q) {
    return x->from == from && x->question.role == q->role && x->question.about == q->about &&
           x->question.waiter == q->waiter && x->question.caller == q->caller;
}

// Without memory the sender repeats the question: WAIT-5.
static void keep(agent *a, int from, const question *q) {
    list_each(l, &a->awaits.questions) {
        open_question *x = list_entry(l, open_question, link);
        if (!is_same(x, from, q)) continue;
        x->question.id = q->id;
        return;
    }
    open_question *x = a->awaits.question_count < QUESTIONS_MAX ? mem_alloc(sizeof *x) : NULL;
    if (!x) return;
    *x = (open_question){ .from = from, .question = *q };
    list_append(&a->awaits.questions, &x->link);
    a->awaits.question_count++;
}

void awaits_check_on_loop(agent *a) {
    if (!a->awaits.question_count || a->phase == AGENT_LEFT) return;
    list_each(l, &a->awaits.questions) {
        open_question *x = list_entry(l, open_question, link);
        if (holds(a, &x->question) && send(a, x->from, KIND_IDLE, &x->question)) drop(a, x);
    }
}

static gw_status asked(agent *a, int from, reader *in, gw_error *error) {
    question q;
    if (!take(in, &q))
        return error_set(error, GW_PROTOCOL, "malformed await message: invalid fields");
    if (!holds(a, &q) || !send(a, from, KIND_IDLE, &q)) keep(a, from, &q);
    return GW_OK;
}

gw_status awaits_received_on_loop(agent *a, int from, message *m, gw_error *error) {
    reader in = reader_of(m->head.data, m->head.size);
    gw_status status =
        m->kind == KIND_AWAIT ? asked(a, from, &in, error) : answered(a, from, &in, error);
    message_release(m);
    return status;
}

// ---- Ends ---------------------------------------------------------------------------------------

void awaits_lost_on_loop(agent *a, int rank) {
    list_each(l, &a->awaits.questions) {
        open_question *x = list_entry(l, open_question, link);
        if (x->from == rank) drop(a, x);
    }
    list_each(l, &a->awaits.open) {
        await *w = list_entry(l, await, link);
        if (w->caller == rank || w->candidate == rank) set_due(w, env_now_ns(a->env));
    }
}

void awaits_stop_on_loop(agent *a) {
    if (a->awaits.timer.armed) env_set_timer(a->env, &a->awaits.timer, ENV_NEVER);
    list_each(l, &a->awaits.questions) drop(a, list_entry(l, open_question, link));
}
