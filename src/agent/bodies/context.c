#include "agent/bodies/context.h"

#include "agent/bodies/observe.h"
#include "base/log.h"
#include "base/mem.h"
#include "trace/record.h"

#include <assert.h>
#include <stdio.h>
#include <time.h>

#define LONG_NS INT64_C(100000000)  // for what runs where nothing else can meanwhile
#define RECENT_NS INT64_C(10000000)

void context_attach(context *c) {
    assert(!c->scope->slots[SCOPE_TURN].data);
    list_init(&c->turns);
    scope_set_slot(c->scope, SCOPE_TURN, c, NULL);
}

// The context at or above |*at|, which moves on behind it: from an object to the context that has its turn, and from
// there upward.
static context *next_context(gw_scope **at) {
    for (gw_scope *s = *at; s; s = s->parent) {
        context *c = s->slots[SCOPE_TURN].data;
        if (!c) continue;
        *at = c->scope->parent;
        return c;
    }
    return NULL;
}

context *context_of(gw_scope *s) {
    return next_context(&s);
}

int context_caller(gw_scope *s) {
    for (context *c; (c = next_context(&s));)
        if (c->serves) return c->caller;
    return -1;
}

// "the GW_INLINE function scale".
typedef struct body_name {
    char text[LIMIT_NAME_BYTES + 32];
} body_name;

static body_name name_of_body(const context *c) {
    body_name out;
    snprintf(out.text, sizeof out.text, "%s%s",
             c->function ? "the GW_INLINE function "
                         : "a function that a future calls (gw_then, gw_on_done)",
             c->function ? c->function : "");
    return out;
}

// What this thread has computed, by the system's clock.
static int64_t cpu_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

// The same as it was at |now_ns| or up to RECENT_NS before: the system's clock costs more than a short body.
static int64_t cpu_recently_ns(int64_t now_ns) {
    static _Thread_local struct { int64_t now_ns, cpu_ns; } last;
    if (!last.cpu_ns || now_ns < last.now_ns || now_ns - last.now_ns > RECENT_NS) {
        last.now_ns = now_ns;
        last.cpu_ns = cpu_now_ns();
    }
    return last.cpu_ns;
}

body_start context_body_starts(const context *c) {
    int64_t now_ns = env_now_ns(c->agent->env);
    return (body_start){ now_ns, c->may_wait ? 0 : cpu_recently_ns(now_ns) };
}

int64_t context_report_if_long(const context *c, body_start began) {
    int64_t passed_ns = env_now_ns(c->agent->env) - began.now_ns;
    if (c->may_wait || passed_ns < LONG_NS) return passed_ns;
    int64_t took_ns = cpu_now_ns() - began.cpu_ns;
    if (took_ns < LONG_NS) return passed_ns;
    log_line("%s: %s ran for %lld ms, and other calls had to wait for it: register long functions "
             "as GW_POOL",
             c->agent->name, name_of_body(c).text, (long long)(took_ns / 1000000));
    return passed_ns;
}

gw_status context_check_wait(gw_scope *s, gw_error *error) {
    context *c = context_of(s);
    if (c ? c->may_wait : s->may_wait) return GW_OK;
    if (!c)
        return error_set(error, GW_WOULD_BLOCK,
                         "a wait in a function that must not block, such as the hook of a gw_ddp, "
                         "or a gw_register_hook hook in a pass of another worker");
    return error_set(error, GW_WOULD_BLOCK,
                     "a wait in %s, which must not block: only GW_POOL functions may block",
                     name_of_body(c).text);
}

int64_t context_deadline_ns(gw_scope *s) {
    int64_t least = s->deadline_ns;
    for (context *c; (c = next_context(&s));)
        if (c->deadline_ns < least) least = c->deadline_ns;
    return least;
}

int64_t context_deadline_within_ns(const agent *a, gw_scope *s, int64_t timeout_ms) {
    int64_t outer = context_deadline_ns(s);
    int64_t own = deadline_after_ms(env_now_ns(a->env), timeout_ms);
    return own < outer ? own : outer;
}

// ---- Cancelling ---------------------------------------------------------------------------------

work *context_work_on_loop(context *c) {
    if (!c->work) c->work = work_open();
    if (c->work) c->work->cancelled = c->cancelled;
    return c->work;
}

static cancel_reason reason_of(const context *c) {
    uint8_t reason = atomic_load_explicit(&c->cancelled, memory_order_acquire);
    if (!reason && c->work)
        reason = atomic_load_explicit(&c->work->cancelled, memory_order_acquire);
    return (cancel_reason)reason;
}

void context_cancel_on_loop(context *c, cancel_reason reason) {
    if (c->cancelled) return;
    atomic_store_explicit(&c->cancelled, (uint8_t)reason, memory_order_release);
    if (c->work) work_cancel_on_loop(c->work, reason);
    if (c->waiting) env_wake(c->agent->env, c->waiting);
}

static const char *describe(cancel_reason reason) {
    switch (reason) {
    case CANCELLED_CALLER_LOST: return "cancelled, since its caller is lost";
    case CANCELLED_BY_LEAVING: return "cancelled, since this worker leaves";
    default: return "cancelled by its caller";
    }
}

gw_status context_check_cancelled(gw_scope *s, gw_error *error) {
    if (s->is_interrupted) return error_set(error, GW_CANCELLED, "interrupted by the program");
    for (context *c; (c = next_context(&s));)
        if (reason_of(c)) return error_set(error, GW_CANCELLED, "%s", describe(reason_of(c)));
    return GW_OK;
}

bool gw_cancelled(gw_scope *s) {
    int64_t deadline_ns = context_deadline_ns(s);
    if (deadline_ns != ENV_NEVER && scope_now_ns(s) >= deadline_ns) return true;
    for (context *c; (c = next_context(&s));)
        if (reason_of(c)) return true;
    return false;
}

// ---- Waiting ------------------------------------------------------------------------------------

enum { POLL_NS = 100 * 1000 * 1000 };  // gw_scope_set_interrupt

// What the wait is for may have happened while the function ran: then the next wait of |s| ends instead, which may be of
// the same operation.
static void end_by_interrupt(gw_scope *s, bool ends, bool has_happened) {
    s->is_interrupted = ends && !has_happened;
    s->next_is_interrupted = ends && has_happened;
}

// An operation of several short waits polls as one long wait does. A time that has long passed is that of an earlier
// operation.
static int64_t next_poll_ns(agent *a, gw_scope *s) {
    int64_t now_ns = env_now_ns(a->env);
    if (s->poll_due_ns + POLL_NS < now_ns || !s->poll_due_ns) s->poll_due_ns = now_ns + POLL_NS;
    return s->poll_due_ns;
}

// As env_wait; the function of gw_scope_set_interrupt may end the wait, once for |s|: what follows in |s| is the end of its
// operation. That function may take locks of the program, so the loop lock is released.
static void wait_unless_interrupted(agent *a, gw_scope *s, waiter *w, int64_t until_ns) {
    if (!s->interrupt || s->is_interrupted) {
        env_wait(a->env, w, until_ns);
        return;
    }
    if (s->next_is_interrupted) {
        end_by_interrupt(s, true, false);
        return;
    }
    w->until_signal = true;
    while (!w->woken) {
        int64_t next_ns = next_poll_ns(a, s);
        if (env_wait(a->env, w, next_ns < until_ns ? next_ns : until_ns)) break;
        env_leave(a->env);
        bool ends = s->interrupt(s->interrupt_context);
        env_enter(a->env);
        s->poll_due_ns = 0;
        end_by_interrupt(s, ends, w->woken);
        if (s->is_interrupted || env_now_ns(a->env) >= until_ns) break;
    }
}

static void pause(agent *a, gw_scope *s, waiter *w) {
    for (context *c; (c = next_context(&s));) {
        c->waiting = w;
        list_each(l, &c->turns) turn_pause_on_loop(list_entry(l, held_turn, link));
        if (c->has_place) pool_give_place_on_loop(&a->pool);
    }
}

// The turn with the least number that is not held: every context takes several turns in this order (OBJ-2).
static held_turn *next_to_take(gw_scope *s, context **out_context) {
    held_turn *least = NULL;
    for (context *c; (c = next_context(&s));) {
        list_each(l, &c->turns) {
            held_turn *h = list_entry(l, held_turn, link);
            if (h->holds || (least && least->turn->number < h->turn->number)) continue;
            least = h;
            *out_context = c;
        }
    }
    return least;
}

typedef struct turn_wait {
    turn_request request;
    waiter waiter;
    agent *agent;
    const turn *turn;
    bool granted;
} turn_wait;

static void turn_granted(turn_request *r) {
    turn_wait *w = (turn_wait *)(void *)r;
    w->granted = true;
    env_wake(w->agent->env, &w->waiter);
}

static void describe_turn(const waiter *x, trace_activity *out) {
    const turn_wait *w = list_entry(x, turn_wait, waiter);
    out->kind = TRACE_WAITS_TURN;
    activity_add_turn(out, w->agent, w->turn);
}

// A wait of |s| that is one of the agent's |waits|. |entering| may interrupt it; NULL: it is not interrupted.
static void wait_as(agent *a, gw_scope *s, gw_scope *entering, waiter *w, int64_t until_ns) {
    context_wait here = { .waiter = w, .scope = s, .tid = trace_thread_id() };
    list_append(&a->waits, &here.link);
    observe_begin_on_loop(a);
    if (entering)
        wait_unless_interrupted(a, entering, w, until_ns);
    else
        env_wait(a->env, w, until_ns);
    list_remove(&here.link);
}

// A turn that was released is taken again in any case; one that is new for |entering| until |until_ns|, or until |c| is
// cancelled or |entering| interrupted.
static bool wait_for_turn(agent *a, turn *t, context *c, gw_scope *entering, int64_t until_ns) {
    turn_wait w = { .request.granted = turn_granted,
                    .waiter = { .what = "a turn", .describe = describe_turn },
                    .agent = a,
                    .turn = t };
    if (turn_take_on_loop(t, &w.request)) return true;
    if (!entering) {
        wait_as(a, c->scope, NULL, &w.waiter, ENV_NEVER);
        return true;
    }
    gw_error ignored;
    c->waiting = &w.waiter;
    if (!context_check_cancelled(c->scope, &ignored))
        wait_as(a, c->scope, entering, &w.waiter, until_ns);
    c->waiting = NULL;
    if (!w.granted) turn_cancel_on_loop(&w.request);
    return w.granted;
}

// Waiting is over for all of |s|. Turns are taken first: the context that has one may wait for a worker thread slot.
static void regain_slots(agent *a, gw_scope *s) {
    for (context *c; (c = next_context(&s));)
        if (c->has_place) pool_regain_place_on_loop(&a->pool);
}

// Takes all turns of |s| again. |entering|, if there is one, is new among them and has until
// |until_ns|; false if that was not enough, and then it is none of them any more.
static bool resume(agent *a, gw_scope *s, held_turn *entering, int64_t until_ns) {
    gw_scope *at = s;
    for (context *c; (c = next_context(&at));) c->waiting = NULL;
    bool entered = true;
    held_turn *h;
    for (context *c; (h = next_to_take(s, &c));) {
        if (wait_for_turn(a, h->turn, c, h == entering ? h->scope : NULL, until_ns)) {
            turn_resume_on_loop(h, c);
        } else {
            turn_end_on_loop(h);
            entered = false;
        }
    }
    regain_slots(a, s);
    return entered;
}

static void give_up_and_wait(agent *a, gw_scope *s, waiter *w, int64_t until_ns) {
    // Most waits are of scopes with nothing to give up.
    context *c = context_of(s);
    gw_error ignored;
    if (!c) {
        wait_unless_interrupted(a, s, w, until_ns);
    } else if (!context_check_cancelled(c->scope, &ignored)) {
        // The scope of an object does not lead to |c| while its turn is released.
        pause(a, c->scope, w);
        wait_unless_interrupted(a, s, w, until_ns);
        resume(a, c->scope, NULL, ENV_NEVER);
    }
}

bool context_wait_on_loop(agent *a, gw_scope *s, waiter *w, int64_t until_ns) {
    context_wait here = { .waiter = w, .scope = s, .tid = trace_thread_id() };
    uint64_t begun = trace_wait_begins();
    list_append(&a->waits, &here.link);
    observe_begin_on_loop(a);
    bool was_interrupted = s->is_interrupted;
    give_up_and_wait(a, s, w, until_ns);
    // Turns have been taken again meanwhile.
    if (w->woken && s->is_interrupted && !was_interrupted) end_by_interrupt(s, true, true);
    list_remove(&here.link);
    trace_wait_ends(begun, a->observer.row, w->what);
    return w->woken;
}

// ---- Entering an object -------------------------------------------------------------------------

bool context_has_turn(gw_scope *s, const turn *t) {
    for (context *c; (c = next_context(&s));)
        list_each(l, &c->turns) if (list_entry(l, held_turn, link)->turn == t) return true;
    return false;
}

static bool is_within(const gw_scope *s, const gw_scope *outer) {
    while (s && s != outer) s = s->parent;
    return s != NULL;
}

turn *context_turn_on_loop(gw_scope *s) {
    const context *c = context_of(s);
    if (!c || list_is_empty(&c->turns)) return NULL;
    const held_turn *latest = list_entry(c->turns.next, held_turn, link);
    list_each(l, &c->turns) {
        const held_turn *h = list_entry(l, held_turn, link);
        if (h->turn->own && is_within(s, h->turn->own)) return h->turn;
        if (h->scope && is_within(s, h->scope)) latest = h;
    }
    return latest->turn;
}

static void leave_turns(gw_scope *s, void *data) {
    context *c = data;
    env_enter(c->agent->env);
    list_each(l, &c->turns) {
        held_turn *h = list_entry(l, held_turn, link);
        if (h->scope != s) continue;
        // No caller is left that an error in the object's scope could be reported to.
        if (h->holds && h->turn->own) gw_scope_clear(h->turn->own);
        turn_end_on_loop(h);
        if (h->left) h->left(h);
    }
    env_leave(c->agent->env);
    if (c->own_memory && c->scope == s) mem_free(c);
}

// The context whose turn an object entered in |s| is: the handler's, or one of the scope's own.
static context *context_for(agent *a, gw_scope *s, gw_error *error) {
    context *c = context_of(s);
    // The scope of an object leads to the context that has its turn, too, but outlives it.
    if (c && !is_within(s, c->scope) && !(c->ending && is_within(s, c->ending))) {
        error_set(error, GW_INVALID,
                  "gw_local was called with the scope of an object, which outlives the call: use "
                  "the scope of the call");
        return NULL;
    }
    if (!c) {
        c = mem_calloc(sizeof *c);
        if (!c) {
            error_set(error, GW_NO_MEMORY, "no memory for a turn");
            return NULL;
        }
        *c = (context){ .scope = s,
                        .agent = a,
                        .may_wait = s->may_wait,
                        .deadline_ns = ENV_NEVER,
                        .own_memory = true };
        context_attach(c);
    }
    c->entered = true;
    scope_set_slot(s, SCOPE_TURN, c, leave_turns);
    return c;
}

int64_t context_until_ns(const agent *a, gw_scope *s) {
    int64_t until_ns = context_deadline_ns(s);
    return until_ns != ENV_NEVER ? until_ns : deadline_after_ms(env_now_ns(a->env), a->timeout_ms);
}

gw_status context_enter(agent *a, gw_scope *s, turn *t, held_turn *h, gw_error *error) {
    context *c = context_for(a, s, error);
    if (!c) return error->status;
    h->scope = s;
    gw_status status = GW_OK;
    env_enter(a->env);
    if (!t->taken) {
        t->taken = true;
        turn_begin_on_loop(h, t, c, true);
    } else if ((status = context_check_wait(s, error)) == GW_OK) {
        // All others are given up, so that they are taken again in order with this one.
        pause(a, c->scope, NULL);
        turn_begin_on_loop(h, t, c, false);
        if (!resume(a, c->scope, h, context_until_ns(a, s)) &&
            !(status = context_check_cancelled(s, error)))
            status = t->own ? error_set(error, GW_TIMEOUT,
                                        "other calls were still using the object of class %s when "
                                        "the deadline passed",
                                        t->class_name)
                            : error_set(error, GW_TIMEOUT,
                                        "other calls were still using parameters of this worker "
                                        "when the deadline passed");
    }
    env_leave(a->env);
    return status;
}
