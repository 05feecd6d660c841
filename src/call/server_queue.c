// The waits of a served call until its body starts: its call queue, the turn of its object, a
// thread.
#include "call/server_queue.h"

#include "base/failpoint.h"
#include "base/machine.h"
#include "base/mem.h"
#include "base/mutation.h"
#include "call/flow_control.h"
#include "call/server.h"

#include <assert.h>

static uint64_t key_of(const served_call *s) {
    return hash_u64(s->header.fixed.order) + (uint64_t)s->caller;
}

static call_queue *find_or_make(agent *a, uint64_t key) {
    call_queue *t = map_find(&calls_of(a)->queues, key);
    if (t) return t;
    t = mem_take_zeros(sizeof *t);
    if (!t) return NULL;
    t->agent = a;
    t->key = key;
    list_init(&t->waiting);
    list_init(&t->inlined);
    if (map_put(&calls_of(a)->queues, key, t)) return t;
    mem_give(t, sizeof *t);
    return NULL;
}

static void free_if_done(call_queue *t) {
    if (t->admitted || t->running || !list_is_empty(&t->waiting)) return;
    map_take(&calls_of(t->agent)->queues, t->key);
    mem_give(t, sizeof *t);
}

// Calls that wait in one queue keep their order there; other calls wait until those before them have started. CALL-17:
// a call whose request is incomplete keeps its place in the queue, and starts only once the request is whole.
static bool may_admit(const call_queue *t, served_call *s) {
    if (s->incoming->message->incomplete) return false;
    return !t->admitted || t->where == served_call_queue(s);
}

static void admit(call_queue *t, served_call *s) {
    t->admitted++;
    s->admitted = true;
    t->where = served_call_queue(s);
    served_call_admit_on_loop(s);
}

static void admit_waiting(call_queue *t) {
    while (!list_is_empty(&t->waiting)) {
        served_call *s = list_entry(t->waiting.next, served_call, queue_link);
        if (!may_admit(t, s)) return;
        list_remove(&s->queue_link);
        admit(t, s);
    }
}

gw_status call_queue_enter_on_loop(agent *a, served_call *s, gw_error *error) {
    call_queue *t = find_or_make(a, key_of(s));
    if (!t) return error_set(error, GW_NO_MEMORY, "no memory for a call");
    s->queue = t;
    bool is_next = list_is_empty(&t->waiting) || has_mutation(MUTATION_BULK_OVERTAKEN);
    if (is_next && may_admit(t, s)) {
        admit(t, s);
    } else {
        list_append(&t->waiting, &s->queue_link);
    }
    return GW_OK;
}

void call_queue_started_on_loop(served_call *s) {
    call_queue *t = s->queue;
    s->queue = NULL;
    assert(t->admitted > 0);
    t->admitted--;
    admit_waiting(t);
    free_if_done(t);
}

void call_queue_cancel_on_loop(served_call *s) {
    call_queue *t = s->queue;
    if (!t) return;
    list_remove(&s->queue_link);
    if (s->admitted) {
        call_queue_started_on_loop(s);
    } else {
        s->queue = NULL;
        admit_waiting(t);
        free_if_done(t);
    }
}

void call_queue_whole_on_loop(incoming *p) {
    const served_call *s = p->user;
    if (s->queue) admit_waiting(s->queue);
}

// ---- Running inline -----------------------------------------------------------------------------

// Replies of one batch go out together, but none waits for long.
enum { BATCH_NS = 20 * 1000 };

static served_call *take_inlined(call_queue *t) {
    list_node *l = list_take(&t->inlined);
    return l ? list_entry(l, served_call, queue_link) : NULL;
}

static void run_inlined(task *task) {
    call_queue *t = list_entry(task, call_queue, task);
    env *e = t->agent->env;
    served_call *s = t->first;
    int64_t start_ns = env_now_ns(e);
    while (s) s = served_call_run_inline(s, env_now_ns(e) - start_ns > BATCH_NS);
}

void call_queue_run_on_loop(served_call *s) {
    call_queue *t = s->queue;
    if (t->running) {
        list_append(&t->inlined, &s->queue_link);
        return;
    }
    t->running = true;
    t->first = s;
    served_call_apply_on_loop(s, SERVED_STARTED);
    t->task.run = run_inlined;
    pool_run_soon_on_loop(&t->agent->pool, &t->task);
}

served_call *call_queue_next_on_loop(served_call *s) {
    call_queue *t = s->queue;
    served_call *next;
    s->queue = NULL;
    t->admitted--;
    admit_waiting(t);
    if (!list_is_empty(&t->inlined) && !flow_has_capacity_on_loop(t->agent, s->caller))
        while ((next = take_inlined(t))) served_call_apply_on_loop(next, SERVED_BLOCKED);
    next = take_inlined(t);
    if (next) {
        served_call_apply_on_loop(next, SERVED_STARTED);
    } else {
        t->running = false;
        free_if_done(t);
    }
    return next;
}

// ---- From queue to queue ------------------------------------------------------------------------

static bool is_inline(const served_call *s) {
    if (s->op) return message_size(s->incoming->message) <= LIMIT_OPERATOR_BYTES_INLINE;
    const function *f = s->function;
    if (f->is_inline) return f->is_inline(s->object->self, message_size(s->incoming->message));
    return f->where == GW_INLINE;
}

const void *served_call_queue(served_call *s) {
    if (s->object) return s->object;
    return is_inline(s) ? (const void *)s->queue : (const void *)&s->agent->pool;
}

static void run_task(task *t) {
    served_call_run(list_entry(t, served_call, task));
}

static void run_job(pool_job *j) {
    served_call_run(list_entry(j, served_call, job));
}

void served_call_start_on_loop(served_call *s) {
    call_peer_of(s->agent, s->caller)->queued_bytes -= s->queued_bytes;
    s->queued_bytes = 0;
}

static bool job_taken(pool_job *j);

// They keep their order, which they would lose one by one.
static void hold_jobs(agent *a, int caller) {
    list_each(l, &a->pool.queue) {
        pool_job *j = list_entry(l, pool_job, link);
        if (j->taken != job_taken) continue;
        served_call *s = list_entry(j, served_call, job);
        if (s->caller != caller || s->object) continue;
        pool_withdraw_on_loop(&a->pool, j);
        served_call_apply_on_loop(s, SERVED_BLOCKED);
    }
}

static bool job_taken(pool_job *j) {
    served_call *s = list_entry(j, served_call, job);
    if (!s->object && !flow_has_capacity_on_loop(s->agent, s->caller)) {
        served_call_apply_on_loop(s, SERVED_BLOCKED);
        hold_jobs(s->agent, s->caller);
        return false;
    }
    served_call_apply_on_loop(s, SERVED_STARTED);
    call_queue_started_on_loop(s);
    return true;
}

void served_call_schedule_on_loop(served_call *s) {
    bool inline_ = is_inline(s);
    s->context = (context){ .agent = s->agent,
                            .serves = true,
                            .caller = s->caller,
                            .call = s->header.fixed.call,
                            .caller_scope = s->header.fixed.scope,
                            .has_pass = s->header.fixed.has_pass,
                            .may_wait = !inline_,
                            .has_place = !inline_,
                            .depth = s->header.fixed.depth,
                            .deadline_ns = s->deadline_ns,
                            .function = s->header.function };
    list_init(&s->context.turns);
    if (s->object) turn_begin_on_loop(&s->held, s->object->turn, &s->context, true);
    if (!inline_) {
        s->job = (pool_job){ .depth = s->header.fixed.depth, .taken = job_taken, .run = run_job };
        pool_submit_on_loop(&s->agent->pool, &s->job);
        failpoint("queued");
    } else if (s->object) {
        served_call_apply_on_loop(s, SERVED_STARTED);
        s->task.run = run_task;
        pool_run_soon_on_loop(&s->agent->pool, &s->task);
    } else {
        call_queue_run_on_loop(s);
    }
}

bool served_call_may_start_on_loop(const served_call *s) {
    // Those that start unserved do so in the order of their arrival: none waits for room.
    if (calls_of(s->agent)->is_held) return s->function && s->function->starts_unserved;
    return flow_has_capacity_on_loop(s->agent, s->caller);
}

static void turn_granted(turn_request *r) {
    served_call *s = list_entry(r, served_call, turn);
    served_call_apply_on_loop(s,
                              served_call_may_start_on_loop(s) ? SERVED_GRANTED : SERVED_BLOCKED);
}

void served_call_take_turn_on_loop(served_call *s) {
    s->turn.granted = turn_granted;
    if (turn_take_on_loop(s->object->turn, &s->turn)) served_call_apply_on_loop(s, SERVED_GRANTED);
}

void served_call_admit_on_loop(served_call *s) {
    served_call_event event = s->object ? SERVED_TO_OBJECT : SERVED_ADMITTED;
    served_call_apply_on_loop(s, served_call_may_start_on_loop(s) ? event : SERVED_BLOCKED);
}

// ---- Flow control ------------------------------------------------------------------------------

// It is not started until replies to its caller have gone out. |admitted|: by its call queue.
static void wait_for_replies(served_call *s, bool admitted) {
    call_peer *p = call_peer_of(s->agent, s->caller);
    list_append(admitted ? &p->deferred_admitted : &p->deferred, &s->deferred_link);
    if (!calls_of(s->agent)->is_held) peers_await_writable(s->agent->peers, s->caller);
}

void served_calls_resume_on_loop(agent *a, int rank) {
    if (agent_member(a, rank)->lost || a->phase == AGENT_LEFT || calls_of(a)->is_held) return;
    call_peer *p = call_peer_of(a, rank);
    while (flow_has_capacity_on_loop(a, rank)) {
        // Those that their call queue has admitted are first.
        list_node *l = list_take(&p->deferred_admitted);
        if (l) {
            served_call_admit_on_loop(list_entry(l, served_call, deferred_link));
        } else if ((l = list_take(&p->deferred))) {
            served_call_apply_on_loop(list_entry(l, served_call, deferred_link), SERVED_READY);
        } else {
            return;
        }
    }
    peers_await_writable(a->peers, rank);
}

void served_calls_begin_on_loop(agent *a) {
    if (!calls_of(a)->is_held) return;
    calls_of(a)->is_held = false;
    for (int rank = 0; rank < a->member_count; rank++) served_calls_resume_on_loop(a, rank);
}

void gw_rpc_serve(gw_scope *root) {
    agent *a = root->error ? NULL : agent_of(root);
    if (!a) return;
    env_enter(a->env);
    served_calls_begin_on_loop(a);
    env_leave(a->env);
}

// ---- Actions ------------------------------------------------------------------------------------

static void nothing(served_call *s) {
    (void)s;
}

static void defer(served_call *s) {
    wait_for_replies(s, false);
}

static void defer_admitted(served_call *s) {
    wait_for_replies(s, true);
}

static void return_turn(served_call *s) {
    turn_give_on_loop(s->object->turn);
    wait_for_replies(s, true);
}

// Its awaited event may happen during its end, and must not find it.
static void stop_awaiting(served_call *s) {
    continuation_cancel_on_loop(&s->target_made);
    if (s->incoming) incoming_abandon_on_loop(s->incoming);
}

static void leave_deferred(served_call *s) {
    list_remove(&s->deferred_link);
}

static void leave_turn(served_call *s) {
    turn_cancel_on_loop(&s->turn);
}

static void leave_schedule(served_call *s) {
    if (s->object) turn_end_on_loop(&s->held);
}

// ---- The table ----------------------------------------------------------------------------------

typedef MACHINE_RULE(served_call_state, served_call_event, served_call *s) rule;

// clang-format off
static const rule rules[] = {
    { SERVED_ARGUMENTS, SERVED_READY,     SERVED_ORDER,     served_call_enter_queue_on_loop, "calls in one call queue start in the order in which they arrived (CALL-6)" },
    { SERVED_ARGUMENTS, SERVED_BLOCKED,   SERVED_DEFERRED,  defer,                           "the caller does not read its replies: one more reply would only be queued (FLOW-2); or gw_rpc_serve has not been called" },

    { SERVED_ORDER,     SERVED_ADMITTED,  SERVED_SCHEDULED, served_call_schedule_on_loop,    "all calls before it have started, or are ordered by the queue that it enters" },
    { SERVED_ORDER,     SERVED_TO_OBJECT, SERVED_TURN,      served_call_take_turn_on_loop,   "methods of an object run one at a time" },
    { SERVED_ORDER,     SERVED_BLOCKED,   SERVED_DEFERRED,  defer_admitted,                  "its caller has stopped reading replies since the call arrived" },

    { SERVED_TURN,      SERVED_GRANTED,   SERVED_SCHEDULED, served_call_schedule_on_loop,    "no other method of the object runs until the body of the call ends" },
    { SERVED_TURN,      SERVED_BLOCKED,   SERVED_DEFERRED,  return_turn,                     "a call that flow control delays must not keep the turn of its object" },

    { SERVED_SCHEDULED, SERVED_STARTED,   SERVED_RUNNING,   served_call_start_on_loop,       "its arguments no longer count as queued" },
    { SERVED_SCHEDULED, SERVED_BLOCKED,   SERVED_DEFERRED,  defer_admitted,                  "the caller does not read its replies: no body is started for it" },

    { SERVED_DEFERRED,  SERVED_READY,     SERVED_ORDER,     served_call_enter_queue_on_loop, "queued replies were sent; the call enters its queue for the first time" },
    { SERVED_DEFERRED,  SERVED_ADMITTED,  SERVED_SCHEDULED, served_call_schedule_on_loop,    "queued replies were sent; the call had left its queue before" },
    { SERVED_DEFERRED,  SERVED_TO_OBJECT, SERVED_TURN,      served_call_take_turn_on_loop,   "queued replies were sent; the call had left its queue before" },
    { SERVED_DEFERRED,  SERVED_BLOCKED,   SERVED_DEFERRED,  defer_admitted,                  "other deferred calls have filled the queue of replies again" },

    { SERVED_RUNNING,   SERVED_RETURNED,  SERVED_RESULT,    nothing,                         "the reply is sent when the future resolves; no thread waits for that" },
    { SERVED_RUNNING,   SERVED_REPLIED,   SERVED_ENDED,     nothing,                         "the body has returned its result" },
    { SERVED_RESULT,    SERVED_REPLIED,   SERVED_ENDED,     nothing,                         "the future has resolved, or is no longer awaited" },

    { SERVED_ARGUMENTS, SERVED_REFUSED,   SERVED_ENDED,     stop_awaiting,                   "an argument failed, the call was cancelled, or its deadline passed" },
    { SERVED_ORDER,     SERVED_REFUSED,   SERVED_ENDED,     nothing,                         "there is no such method or no memory, or the call was cancelled" },
    { SERVED_DEFERRED,  SERVED_REFUSED,   SERVED_ENDED,     leave_deferred,                  "the call was cancelled" },
    { SERVED_TURN,      SERVED_REFUSED,   SERVED_ENDED,     leave_turn,                      "the call was cancelled" },
    { SERVED_SCHEDULED, SERVED_REFUSED,   SERVED_ENDED,     leave_schedule,                  "the call was cancelled before a thread ran it" },
};
// clang-format on

void served_call_apply_on_loop(served_call *s, served_call_event event) {
    const rule *r = machine_find(rules, sizeof rules, sizeof *rules, s->state, event);
    assert(r);  // all events are local
    s->state = r->to;
    s->seen_ns = 0;
    r->action(s);
}
