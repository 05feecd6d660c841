// The value of a reference as a future: as an argument of a call, the owner sends it straight to
// the worker that is called.
#include "reference/references.h"

#include "base/mem.h"
#include "call/call.h"

typedef struct by_value {
    continuation made;  // on the owner: the value
    gw_rref *rref;      // one count
    gw_future *future;  // not counted, but while |made| waits
    bool started;

    // of the scope that called gw_by_value
    int64_t deadline_ns;
    uint8_t depth;
} by_value;

static const future_source by_value_source;

static by_value *by_value_of(const gw_future *f) {
    return f->source_state;
}

// ---- Fetching, once a thread here waits ---------------------------------------------------------

static void complete(gw_future *f, entry *e) {
    future_complete_on_loop(f, fetch_result(e));
}

static void made(continuation *c) {
    by_value *b = (by_value *)(void *)c;
    complete(b->future, b->rref->entry);
    future_release_on_loop(b->future);
}

static void await_entry(gw_future *f) {
    by_value *b = f->source_state;
    b->made.run = made;
    if (!entry_await_on_loop(b->rref->entry, &b->made)) {
        complete(f, b->rref->entry);
    } else {
        handle_retain(f);
    }
}

static void fetch_from_owner(gw_future *f) {
    const by_value *b = f->source_state;
    agent *a = f->agent;
    int64_t own_ns = deadline_after_ms(env_now_ns(a->env), a->timeout_ms);
    call c = { .agent = a,
               .future = f,
               .to = b->rref->owner,
               .fixed.depth = b->depth,
               .deadline_ns = own_ns < b->deadline_ns ? own_ns : b->deadline_ns };
    f->length_ms = call_length_ms(a, c.deadline_ns);
    if (fetch_send_on_loop(&c, b->rref)) {
        if (!c.error.outcome) c.error.outcome = GW_NOT_DELIVERED;
        future_fail_on_loop(f, &c.error);
    } else if (c.deadline_ns != ENV_NEVER) {
        env_set_timer(a->env, &f->deadline, c.deadline_ns);
    }
    outgoing_fini(&c.outgoing);
}

static void fetch(gw_future *f) {
    by_value *b = f->source_state;
    if (b->started || future_result(f)) return;
    b->started = true;
    if (b->rref->entry) {
        await_entry(f);
    } else {
        fetch_from_owner(f);
    }
}

// ---- As an argument -----------------------------------------------------------------------------

static int producer(const gw_future *f) {
    const gw_rref *r = by_value_of(f)->rref;
    gw_error error;
    return r->entry || rref_check(r, &error) ? -1 : r->owner;
}

static bool forward_value(gw_future *f, int consumer, uint64_t promise) {
    const gw_rref *r = by_value_of(f)->rref;
    message *m = agent_message_on_loop(f->agent, KIND_FORWARD_VALUE);
    if (!m) return false;
    bytes_put_u64(&m->head, r->id);
    bytes_put_u64(&m->head, r->fork);
    bytes_put_u32(&m->head, (uint32_t)consumer);
    bytes_put_u64(&m->head, promise);
    // Sending fails only if the owner is lost; the consumer finds that out by itself.
    agent_send_on_loop(f->agent, r->owner, m, true, NULL);
    return true;
}

// ---- Futures ------------------------------------------------------------------------------------

static void free_source(gw_future *f) {
    by_value *b = f->source_state;
    handle_release(b->rref);
    mem_free(b);
}

static const future_source by_value_source = {
    .cancel = call_cancel_on_loop,  // of the fetch
    .start = fetch,
    .producer = producer,
    .forward = forward_value,
    .is_owner = true,
    .free = free_source,
};

gw_future *by_value_open(gw_rref *r) {
    by_value *b = mem_calloc(sizeof *b);
    gw_future *f = future_open(r->agent, "gw_to_here");
    if (!b || !f) {
        mem_free(b);
        handle_release(f);
        return NULL;
    }
    b->rref = handle_retain(r);
    b->future = f;
    b->deadline_ns = ENV_NEVER;
    b->depth = 1;
    f->source = &by_value_source;
    f->source_state = b;
    // A value of this worker that is made is ready at once.
    env_enter(r->agent->env);
    if (r->entry && r->entry->made) fetch(f);
    env_leave(r->agent->env);
    return f;
}

static gw_future *open_in(gw_scope *s, gw_rref *r) {
    if (!rref_is_usable(s, r)) return NULL;
    gw_future *f = by_value_open(r);
    if (!f) {
        scope_fail(s, GW_NO_MEMORY, "no memory for a future");
        return NULL;
    }
    const context *c = context_of(s);
    by_value_of(f)->deadline_ns = context_deadline_ns(s);
    by_value_of(f)->depth = (uint8_t)((c ? c->depth : 0) + 1);
    return scope_own(s, f);
}

gw_future *gw_by_value(gw_scope *s, gw_rref *r) {
    gw_future *f = open_in(s, r);
    return f ? f : &future_poison;
}

gw_future *gw_to_here_async(gw_scope *s, gw_rref *r) {
    gw_future *f = open_in(s, r);
    if (!f) return &future_poison;
    env_enter(f->agent->env);
    fetch(f);
    env_leave(f->agent->env);
    return f;
}
