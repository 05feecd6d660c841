#include "future/future.h"

#include "agent/bodies/observe.h"
#include "base/error_value.h"
#include "base/mem.h"
#include "base/mutation.h"

#include <assert.h>
#include <string.h>

typedef struct future_wait {
    list_node link;
    waiter waiter;
    const gw_future *future;
} future_wait;

static void free_future(gw_future *f) {
    assert(!f->call && !f->promise);
    result *r = future_result(f);
    if (!r) {  // it may be on a list of unresolved futures
        env_enter(f->agent->env);
        list_remove(&f->sibling);
        env_leave(f->agent->env);
        r = future_result(f);
    }
    if (r) result_release(r);
    if (f->source && f->source->free) f->source->free(f);
    agent_release(f->agent);
    mem_give(f, sizeof *f + f->name_size);
}

// Note [Abandoned futures]
//
// A future of gw_future_open is completed by a holder of a handle of it. Continuations, and waiters
// that send its value, do not have one: they have a count of their own. So when the last handle
// goes, the waiters get an error. They never get a handle again, and only they release the counts
// that are left.
static void fail_abandoned(gw_future *f) {
    gw_error error;
    error_set(&error, GW_WRONG_STATE,
              "the future can no longer be completed: the last handle of the program was dropped");
    env_enter(f->agent->env);
    future_fail_on_loop(f, &error);
    env_leave(f->agent->env);
}

static uint32_t count_awaits(const gw_future *f) {
    return atomic_load_explicit(&((gw_future *)f)->awaits, memory_order_acquire);
}

static bool was_last_await(gw_future *f) {
    return atomic_fetch_sub_explicit(&f->awaits, 1, memory_order_acq_rel) == 1;
}

static void destroy_future(gw_handle *h) {
    gw_future *f = (gw_future *)h;
    if (f->opened && count_awaits(f) > 1 && !future_result(f)) fail_abandoned(f);
    if (was_last_await(f)) free_future(f);
}

static const handle_class future_class = { .name = "future", .destroy = destroy_future };

gw_future future_poison = { .handle = { &future_class, HANDLE_IMMORTAL } };

gw_future *future_open(agent *a, const char *function) {
    uint32_t name_size = (uint32_t)strlen(function) + 1;
    gw_future *f = mem_take(sizeof *f + name_size);
    if (!f) return NULL;
    memset(f, 0, sizeof *f);
    handle_init(&f->handle, &future_class);
    f->agent = agent_retain(a);
    list_init(&f->waits);
    list_init(&f->nexts);
    list_init(&f->forwards);
    atomic_init(&f->awaits, 1);
    f->to = -1;
    f->producer = -1;
    f->name_size = name_size;
    memcpy(f->function, function, name_size);
    return f;
}

static void free_later(task *t) {
    destroy_future(&list_entry(t, gw_future, deferred_free)->handle);
}

// Frees the future in a task, because its result may run a user's destructors, which need the loop
// lock released.
void future_release_on_loop(gw_future *f) {
    if (atomic_fetch_sub_explicit(&f->handle.count, 1, memory_order_acq_rel) != 1) return;
    f->deferred_free.run = free_later;
    env_defer(f->agent->env, &f->deferred_free);
}

gw_future *future_await_retain(gw_future *f) {
    if (!f->opened) return handle_retain(f);
    atomic_fetch_add_explicit(&f->awaits, 1, memory_order_relaxed);
    return f;
}

void future_await_release(gw_future *f) {
    if (!f->opened)
        handle_release(f);
    else if (was_last_await(f))
        free_future(f);
}

static void free_awaited_later(task *t) {
    free_future(list_entry(t, gw_future, deferred_free));
}

void future_await_release_on_loop(gw_future *f) {
    if (!f->opened) {
        future_release_on_loop(f);
    } else if (was_last_await(f)) {
        f->deferred_free.run = free_awaited_later;
        env_defer(f->agent->env, &f->deferred_free);
    }
}

bool future_is_sole(const gw_future *f) {
    return handle_is_sole(&f->handle) && count_awaits(f) == 1;
}

// Runs the continuations of futures that have resolved; inside itself nothing, so that a chain of futures
// has any length.
static void continue_on_loop(agent *a) {
    if (a->continues) return;
    a->continues = true;
    for (list_node *l; (l = list_take(&a->continuations));) {
        continuation *c = list_entry(l, continuation, link);
        c->run(c);
    }
    a->continues = false;
}

void future_complete_on_loop(gw_future *f, result *r) {
    assert(env_held(f->agent->env));
    if (future_result(f)) {
        result_release_on_loop(f->agent, r);
        return;
    }
    atomic_store_explicit(&f->result, r, memory_order_release);
    if (!f->call) list_remove(&f->sibling);
    if (f->deadline.armed) env_set_timer(f->agent->env, &f->deadline, ENV_NEVER);
    list_each(l, &f->waits) {
        waiter *w = &list_entry(l, future_wait, link)->waiter;
        if (has_mutation(MUTATION_LOST_WAKE_UP) && !w->parked) continue;
        env_wake(f->agent->env, w);
    }
    list_splice(&f->agent->continuations, &f->nexts);
    list_init(&f->nexts);
    if (f->keep) f->keep(f);
    continue_on_loop(f->agent);
}

void future_fail_on_loop(gw_future *f, const gw_error *error) {
    if (!future_result(f)) future_complete_on_loop(f, result_of_error(error));
}

static void begin(gw_future *f) {
    if (f->source && f->source->start) f->source->start(f);
}

bool future_await_on_loop(gw_future *f, continuation *c) {
    begin(f);
    if (future_result(f)) return false;
    list_append(&f->nexts, &c->link);
    return true;
}

static void describe_wait(const waiter *x, trace_activity *out) {
    const gw_future *f = list_entry(x, future_wait, waiter)->future;
    activity_set_site(out, f->called_at);
    if (f->source && f->source->describe) f->source->describe(f, out);
}

bool future_wait_on_loop(gw_future *f, gw_scope *s, int64_t until_ns) {
    begin(f);
    if (future_result(f)) return true;
    future_wait w = { .waiter = { .what = f->function, .describe = describe_wait }, .future = f };
    list_append(&f->waits, &w.link);
    context_wait_on_loop(f->agent, s, &w.waiter, until_ns);
    list_remove(&w.link);
    return future_result(f) != NULL;
}

// ---- Following ----------------------------------------------------------------------------------

typedef struct follow {
    continuation next;
    canceller stop;
    gw_future *out, *in;
} follow;

// The count on |in| is the caller's.
static void free_follow(follow *w) {
    w->out->makers--;
    future_release_on_loop(w->out);
    mem_free(w);
}

static void followed(continuation *c) {
    follow *w = (follow *)(void *)c;
    w->out->on_cancel = NULL;
    future_complete_on_loop(w->out, result_retain(future_result(w->in)));
    future_await_release_on_loop(w->in);
    free_follow(w);
}

static void stop_following(canceller *c) {
    follow *w = list_entry(c, follow, stop);
    continuation_cancel_on_loop(&w->next);
    future_drop_on_loop(w->in);
    free_follow(w);
}

static gw_future *in_of_follow(const canceller *c, int i) {
    const follow *w = list_entry(c, follow, stop);
    return i ? NULL : w->in;
}

typedef struct visit {
    const gw_future *at;
    int next;  // index of its input
} visit;

enum { VISITS_MAX = 10000, VISITS_DEEP = 256 };

// Whether |f| waits for |out|, as far as VISITS_MAX visits show.
static bool waits_for(const gw_future *f, const gw_future *out) {
    visit stack[VISITS_DEEP] = { { f, 0 } };
    int depth = 1;
    for (int visits = 0; depth && visits < VISITS_MAX; visits++) {
        visit *top = &stack[depth - 1];
        if (top->at == out) return true;
        const canceller *c = future_result(top->at) ? NULL : top->at->on_cancel;
        gw_future *next = c && c->waits_for ? c->waits_for(c, top->next++) : NULL;
        if (!next) {
            depth--;
        } else if (depth < VISITS_DEEP) {
            stack[depth++] = (visit){ next, 0 };
        }
    }
    return false;
}

gw_status future_follow_on_loop(gw_future *out, gw_future *in, gw_error *error) {
    if (future_result(out)) return GW_OK;  // cancelled meanwhile
    if (waits_for(in, out))
        return error_set(
            error, GW_INVALID,
            "a future cannot resolve to a future that waits for it: both would wait for ever");
    if (future_result(in)) {
        future_complete_on_loop(out, result_retain(future_result(in)));
        return GW_OK;
    }
    follow *w = mem_calloc(sizeof *w);
    if (!w) return error_set(error, GW_NO_MEMORY, "no memory for a future");
    *w = (follow){ .next.run = followed,
                   .stop = { stop_following, in_of_follow },
                   .out = handle_retain(out),
                   .in = future_await_retain(in) };
    out->makers++;
    out->on_cancel = &w->stop;
    future_await_on_loop(in, &w->next);
    return GW_OK;
}

// ---- Results ------------------------------------------------------------------------------------

static gw_error no_memory_error = { .status = GW_NO_MEMORY, .text = "no memory for an error" };
static result no_memory_result = { .count = 1, .error = &no_memory_error };

static result *open_result(void) {
    result *r = mem_take_zeros(sizeof *r);
    if (!r) return NULL;
    atomic_init(&r->count, 1);
    return r;
}

result *result_of_value(gw_value v) {
    result *r = open_result();
    if (!r) return NULL;
    if (value_copy(&r->value, v)) return r;
    mem_give(r, sizeof *r);
    return NULL;
}

result *result_of_error(const gw_error *error) {
    assert(error->status != GW_OK);
    result *r = open_result();
    if (r) r->error = mem_alloc(sizeof *r->error);
    if (!r || !r->error) {
        if (r) mem_give(r, sizeof *r);
        return &no_memory_result;
    }
    *r->error = *error;
    r->error->value = error_value_retain(error->value);
    return r;
}

result *result_of_incoming(incoming *p, size_t value_at, bool pins) {
    result *r = open_result();
    if (!r) return NULL;
    r->incoming = p;
    r->value_at = value_at;
    r->pins = pins;
    const message *m = p->message;
    for (uint32_t i = 0; pins && i < m->segment_count; i++) {
        block_pin(m->segments[i].block);
        m->segments[i].shared = true;  // readers may outlive the result
    }
    return r;
}

result *result_retain(result *r) {
    if (r != &no_memory_result) atomic_fetch_add_explicit(&r->count, 1, memory_order_relaxed);
    return r;
}

static void unpin_message(result *r) {
    if (!r->pins) return;
    const message *m = r->incoming->message;
    for (uint32_t i = 0; i < m->segment_count; i++) block_unpin(m->segments[i].block);
}

static void free_result(result *r) {
    if (r->incoming) {
        unpin_message(r);
        incoming_close(r->incoming);
    }
    if (r->error) error_value_release(r->error->value);
    mem_free(r->error);
    value_free(r->value);
    mem_give(r, sizeof *r);
}

static bool is_last(result *r) {
    return r != &no_memory_result &&
           atomic_fetch_sub_explicit(&r->count, 1, memory_order_acq_rel) == 1;
}

void result_release(result *r) {
    if (is_last(r)) free_result(r);
}

static void free_result_later(task *t) {
    free_result(list_entry(t, result, deferred_free));
}

void result_release_on_loop(agent *a, result *r) {
    if (!is_last(r)) return;
    r->deferred_free.run = free_result_later;
    env_defer(a->env, &r->deferred_free);
}

// ---- Reading ------------------------------------------------------------------------------------

static gw_value decode(result *r, gw_scope *s) {
    decoder d = incoming_decoder(r->incoming, r->value_at, s);
    gw_value v = gw_none();
    gw_error error = { 0 };
    if (decode_value(&d, &v, &error) && !s->error) scope_fail_with(s, &error);
    return s->error ? gw_none() : v;
}

static void *copy_into(gw_scope *s, const void *from, size_t size) {
    char *to = gw_alloc(s, size + 1);
    if (to) memcpy(to, from, size);
    return to;
}

static gw_value copy_value(gw_value v, gw_scope *s) {
    switch (v.kind) {
    case GW_STRING:
    case GW_BYTES: v.as.bytes = copy_into(s, v.as.bytes, v.size); break;
    case GW_ERROR: v.as.bytes = copy_into(s, v.as.error, sizeof *v.as.error); break;
    case GW_WORKER: v.as.worker = copy_into(s, v.as.worker, strlen(v.as.worker)); break;
    default:
        if (value_handle(v)) gw_keep_handle(s, value_handle(v));
    }
    return s->error ? gw_none() : v;
}

gw_value result_give(result *r, gw_scope *s) {
    if (s->error) return gw_none();
    if (r->error) {
        scope_fail_with(s, r->error);
        return gw_none();
    }
    if (!r->incoming) return copy_value(r->value, s);
    return decode(r, s);
}
