// Fetching: copies a value from its owner to a holder of a reference.
#include "reference/references.h"

#include "base/mem.h"
#include "call/call.h"
#include "call/error_trace.h"
#include "call/protocol.h"
#include "trace/record.h"

#include <string.h>

// ---- The owner ----------------------------------------------------------------------------------

typedef struct fetch {
    continuation made;
    turn *turn;  // the turn that it reads the value in; NULL: none
    turn_request request;
    task task;
    agent *agent;
    entry *entry;
    int from;  // the holder
    // the answer: a reply to the holder, or a promise value to another worker
    call_kind kind;
    uint64_t id;
    int to;
    timer expiry;    // until the value has been made, and it has the turn
    list_node link;  // in |fetches|
} fetch;

static void explain_object(const entry *e, gw_error *out) {
    agent *a = e->agent;
    error_set(out, GW_INVALID,
              "%s: the reference is to a %s, an object, which has methods but no value",
              agent_member(a, a->rank)->name, e->object->class->name);
    out->outcome = GW_NOT_DELIVERED;
}

result *fetch_result(const entry *e) {
    if (!e->object) return result_retain(e->result);
    gw_error error;
    explain_object(e, &error);
    return result_of_error(&error);
}

static void free_on_loop(fetch *f) {
    agent *a = f->agent;
    if (f->expiry.armed) env_set_timer(a->env, &f->expiry, ENV_NEVER);
    list_remove(&f->link);
    entry_release_on_loop(f->entry);
    reference_peer_of(a, f->from)->fetch_count--;
    mem_free(f);
    leaving_check_on_loop(a);
}

static void finish(fetch *f) {
    agent *a = f->agent;
    result *r = fetch_result(f->entry);
    reply_result(a, f->to, f->kind, f->id, r);
    result_release(r);
    env_enter(a->env);
    if (f->turn) turn_give_on_loop(f->turn);
    free_on_loop(f);
    env_leave(a->env);
}

static void finish_task(task *t) {
    finish(list_entry(t, fetch, task));
}

static void turn_granted(turn_request *r) {
    fetch *f = list_entry(r, fetch, request);
    if (f->expiry.armed) env_set_timer(f->agent->env, &f->expiry, ENV_NEVER);
    f->task.run = finish_task;
    env_defer(f->agent->env, &f->task);
}

// The owner reads parameters in the turn in which optimizers change them.
static void made(continuation *c) {
    fetch *f = (fetch *)(void *)c;
    f->turn = entry_turn_on_loop(f->entry);
    f->request.granted = turn_granted;
    if (!f->turn || turn_take_on_loop(f->turn, &f->request)) turn_granted(&f->request);
}

static void refuse(agent *a, const fetch *f, gw_error *error) {
    outgoing sh;
    error->outcome = GW_NOT_DELIVERED;
    error_add_trace(error, agent_member(a, a->rank)->name, "");
    bool filled = !reply_fill(&sh, a, f->kind, f->id, SCOPE_NOT_TRACKED, "", gw_none(), error);
    reply_send_on_loop(&sh, a, f->to, f->kind, f->id, filled, false);
    outgoing_fini(&sh);
}

// Else it has all that it needs, and ends by itself.
static bool waits(const fetch *f) {
    return list_has(&f->made.link) || list_has(&f->request.link);
}

static bool stop_waiting(fetch *f) {
    if (!waits(f)) return false;
    continuation_cancel_on_loop(&f->made);
    turn_cancel_on_loop(&f->request);
    return true;
}

static void expired(timer *t) {
    fetch *f = list_entry(t, fetch, expiry);
    gw_error error;
    if (!stop_waiting(f)) return;
    error_set(&error, GW_TIMEOUT, "the value was not computed within the deadline");
    refuse(f->agent, f, &error);
    free_on_loop(f);
}

// One of a value whose creating request has not arrived does not block leaving: if that is under
// way, so is a message (SHUT-4).
size_t fetches_pending(const agent *a) {
    size_t count = 0;
    list_each(l, &references_of(a)->fetches) {
        const fetch *f = list_entry(l, fetch, link);
        count += f->entry->requested || f->entry->made;
    }
    return count;
}

void fetches_lost_on_loop(agent *a, int rank) {
    list_each(l, &references_of(a)->fetches) {
        fetch *f = list_entry(l, fetch, link);
        if ((f->from == rank || f->to == rank) && stop_waiting(f)) free_on_loop(f);
    }
}

static gw_status check_capacity(agent *a, int from, gw_error *error) {
    uint32_t count = reference_peer_of(a, from)->fetch_count;
    if (count < LIMIT_FETCHES_PER_PEER) return GW_OK;
    return error_set(error, GW_OVERLOADED,
                     "%u values that %s has requested are still waiting to be sent", count,
                     agent_member(a, from)->name);
}

static gw_status open_fetch(agent *a, const fetch *given, uint64_t id, uint64_t fork, fetch **out,
                            gw_error *error) {
    entry *e;
    gw_status status = check_capacity(a, given->from, error);
    if (!status) status = entry_find_on_loop(a, given->from, id, fork, &e, error);
    if (status) return status;
    fetch *f = mem_alloc(sizeof *f);
    if (!f) {
        entry_release_on_loop(e);
        return error_set(error, GW_NO_MEMORY, "no memory for a fetch");
    }
    *f = *given;
    f->entry = e;
    *out = f;
    return GW_OK;
}

static void expire_after(fetch *f, uint64_t time_left_ns) {
    int64_t due_ns = deadline_after_ns(env_now_ns(f->agent->env), time_left_ns);
    if (due_ns == ENV_NEVER) return;
    f->expiry.fire = expired;
    env_set_timer(f->agent->env, &f->expiry, due_ns);
}

// |time_left_ns| of 0: no deadline.
static void start(agent *a, const fetch *given, uint64_t id, uint64_t fork, uint64_t time_left_ns) {
    gw_error failed;
    fetch *f = NULL;
    if (open_fetch(a, given, id, fork, &f, &failed)) {
        refuse(a, given, &failed);
        return;
    }
    reference_peer_of(a, f->from)->fetch_count++;
    list_append(&references_of(a)->fetches, &f->link);
    if (!entry_await_on_loop(f->entry, &f->made)) made(&f->made);
    if (waits(f)) expire_after(f, time_left_ns);
}

gw_status fetch_received_on_loop(agent *a, int from, message *m, gw_error *error) {
    reader in = reader_of(m->head.data, m->head.size);
    uint64_t call = reader_u64(&in), id = reader_u64(&in), fork = reader_u64(&in);
    uint64_t time_left_ns = reader_u64(&in);
    message_release(m);
    if (in.failed) return error_set(error, GW_PROTOCOL, "fetch: cut off");
    fetch f = {
        .made.run = made, .agent = a, .from = from, .kind = KIND_REPLY, .id = call, .to = from
    };
    start(a, &f, id, fork, time_left_ns);
    return GW_OK;
}

gw_status fetch_forward_received_on_loop(agent *a, int from, message *m, gw_error *error) {
    reader in = reader_of(m->head.data, m->head.size);
    uint64_t id = reader_u64(&in), fork = reader_u64(&in);
    uint32_t consumer = reader_u32(&in);
    uint64_t promise = reader_u64(&in);
    message_release(m);
    if (in.failed || consumer >= (uint32_t)a->member_count || id_rank(promise) != (uint64_t)from)
        return error_set(error, GW_PROTOCOL, "malformed forward value message: invalid fields");
    if (agent_member(a, (int)consumer)->lost) return GW_OK;
    fetch f = { .made.run = made,
                .agent = a,
                .from = from,
                .kind = KIND_PROMISE_VALUE,
                .id = promise,
                .to = (int)consumer };
    start(a, &f, id, fork, 0);
    return GW_OK;
}

// ---- The holder ---------------------------------------------------------------------------------

// Fills in the fields that are set only when the fetch is sent.
static void amend(bytes *head, uint64_t call, uint64_t time_left_ns) {
    if (head->failed) return;
    memcpy(head->data, &call, sizeof call);
    memcpy(head->data + 3 * sizeof call, &time_left_ns, sizeof time_left_ns);
}

gw_status fetch_send_on_loop(call *c, const gw_rref *r) {
    uint64_t id, fork;
    gw_status status = reference_check_on_loop(r, &id, &fork, &c->error);
    if (status) return status;
    status = outgoing_init(&c->outgoing, c->agent, KIND_FETCH, &c->error);
    if (status) return status;
    c->amend = amend;
    bytes *head = &c->outgoing.message->head;
    bytes_put_u64(head, 0);
    bytes_put_u64(head, id);
    bytes_put_u64(head, fork);
    bytes_put_u64(head, 0);
    return call_send_on_loop(c);
}

static gw_value fetch_recorded(gw_scope *s, gw_rref *r) {
    call c;
    call_init_fetch(&c, s, r->owner);
    agent *a = c.agent;
    env_enter(a->env);
    call_await_flow_on_loop(&c);
    if (!c.error.status && !fetch_send_on_loop(&c, r) &&
        !future_wait_on_loop(c.future, s, c.deadline_ns))
        call_end_wait_on_loop(c.future, s);
    env_leave(a->env);
    gw_value v = gw_none();
    if (c.error.status) {
        if (!c.error.outcome) c.error.outcome = GW_NOT_DELIVERED;
        scope_fail_with(s, &c.error);
    } else {
        v = result_give(future_result(c.future), s);
    }
    call_fini(&c);
    return v;
}

static gw_value fetch_value(gw_scope *s, gw_rref *r) {
    gw_error error;
    if (context_check_wait(s, &error)) {
        scope_fail_with(s, &error);
        return gw_none();
    }
    uint64_t id = trace_is_on(TRACE_REF) ? trace_unique_id() : 0;
    int row = r->agent->observer.row;
    if (id) trace_record(TRACE_FETCH_BEGUN, row, id, (uint64_t)r->owner, 0);
    gw_value v = fetch_recorded(s, r);
    if (id) trace_record(TRACE_FETCH_ENDED, row, id, scope_error(s)->status, 0);
    return v;
}

// ---- On the owner itself ------------------------------------------------------------------------

typedef struct entry_wait {
    continuation made;
    waiter waiter;
    env *env;
} entry_wait;

static void wake(continuation *c) {
    entry_wait *w = (entry_wait *)(void *)c;
    env_wake(w->env, &w->waiter);
}

static gw_status wait_until_made(gw_scope *s, entry *e, gw_error *error) {
    agent *a = e->agent;
    if (e->made) return GW_OK;
    gw_status status = context_check_wait(s, error);
    if (status) return status;
    entry_wait w = { .made.run = wake, .waiter.what = "a value to be made", .env = a->env };
    entry_await_on_loop(e, &w.made);
    context_wait_on_loop(a, s, &w.waiter, context_deadline_within_ns(a, s, a->timeout_ms));
    continuation_cancel_on_loop(&w.made);
    if (e->made) return GW_OK;
    if ((status = context_check_cancelled(s, error))) return status;
    return error_set(error, GW_TIMEOUT,
                     "the value of a reference was not computed within the deadline");
}

// The entry is held by the handle, which belongs to the caller's scope.
gw_status local_entry(gw_scope *s, gw_rref *r, gw_error *error) {
    agent *a = r->agent;
    if (!r->entry) {
        gw_status status = rref_check(r, error);
        if (status) return status;
        return error_set(error, GW_INVALID, "the reference is to a value of %s, not of %s",
                         agent_member(a, r->owner)->name, agent_member(a, a->rank)->name);
    }
    env_enter(a->env);
    gw_status status = wait_until_made(s, r->entry, error);
    env_leave(a->env);
    return status;
}

static gw_value local_value(gw_scope *s, gw_rref *r) {
    gw_error error;
    if (local_entry(s, r, &error)) {
        scope_fail_with(s, &error);
        return gw_none();
    }
    if (r->entry->object) {
        scope_fail(s, GW_INVALID, "the reference is to a %s, an object: use gw_local for it",
                   r->entry->object->class->name);
        return gw_none();
    }
    return result_give(r->entry->result, s);
}

gw_value gw_rref_local_value(gw_scope *s, gw_rref *r) {
    return rref_is_usable(s, r) ? local_value(s, r) : gw_none();
}

gw_value gw_to_here_value(gw_scope *s, gw_rref *r) {
    if (!rref_is_usable(s, r)) return gw_none();
    return r->entry ? local_value(s, r) : fetch_value(s, r);
}

gw_tensor *gw_to_here(gw_scope *s, gw_rref *r) {
    return gw_tensor_of(s, gw_to_here_value(s, r));
}
