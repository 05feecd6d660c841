// Futures that the program completes: continuations (then), and futures of gw_future_open.
#include "base/log.h"
#include "base/mem.h"
#include "base/value.h"
#include "future/future.h"

// ---- Completing ---------------------------------------------------------------------------------

static bool is_own(gw_scope *s, const gw_future *f) {
    if (f && f != &future_poison && !f->source) return true;
    return scope_fail(s, GW_INVALID,
                      "a program can complete only futures that it has opened by gw_future_open");
}

// Fails because |f| is complete: with the reason of fencing, if that has completed it.
static void fail_second(gw_scope *s, gw_future *f) {
    const gw_error *e = result_error(future_result(f));
    if (e && e->status == GW_FENCED)
        scope_fail_with(s, e);
    else
        scope_fail(s, GW_WRONG_STATE, "the future is complete already");
}

// Takes |r|.
static void complete(gw_scope *s, gw_future *f, result *r) {
    env_enter(f->agent->env);
    bool first = !future_result(f) || f->cancelled;
    future_complete_on_loop(f, r);
    env_leave(f->agent->env);
    if (!first) fail_second(s, f);
}

static void follow(gw_scope *s, gw_future *f, gw_future *in) {
    gw_error error;
    if (in == &future_poison || in->agent != f->agent || in == f) {
        error_set(&error, GW_INVALID,
                  "this future cannot be completed by itself, by a future of another agent, or by "
                  "the result of a call that failed");
        complete(s, f, result_of_error(&error));
        return;
    }
    env_enter(f->agent->env);
    bool first = !future_result(f) || f->cancelled;
    gw_status status = future_follow_on_loop(f, in, &error);
    if (status) future_fail_on_loop(f, &error);
    env_leave(f->agent->env);
    if (!first) fail_second(s, f);
}

enum { VISITS_MAX = 10000 };  // of values, for one future

// Whether |v|, or a value in it, contains |f|: then the two would keep each other for ever. Visits
// |*visits| values at most.
static bool leads_to(gw_value v, const gw_future *f, int depth, int *visits) {
    if (--*visits < 0 || depth == 0) return false;
    if (v.kind == GW_FUTURE) {
        if (v.as.future == f) return true;
        result *r = future_result(v.as.future);
        return r && !r->error && leads_to(r->value, f, depth - 1, visits);
    }
    const gw_list *items = v.kind == GW_LIST  ? v.as.list
                           : v.kind == GW_MAP ? &v.as.map->values
                                              : NULL;
    for (int i = 0; items && i < items->count; i++)
        if (leads_to(items->items[i], f, depth - 1, visits)) return true;
    return false;
}

// Resolves |f| with |v|, or with the error of |s| if that has failed.
static void resolve_with(gw_scope *s, gw_future *f, gw_value v) {
    gw_error error;
    if (s->error) {
        complete(s, f, result_of_error(s->error));
    } else if (v.kind == GW_FUTURE) {
        follow(s, f, v.as.future);
    } else if (leads_to(v, f, LIMIT_NESTING, &(int){ VISITS_MAX })) {
        error_set(&error, GW_INVALID, "a %s that contains this future cannot be its value",
                  gw_kind_name(v.kind));
        complete(s, f, result_of_error(&error));
    } else {
        result *r = result_of_value(v);
        if (!r) error_set(&error, GW_NO_MEMORY, "no memory for a value");
        complete(s, f, r ? r : result_of_error(&error));
    }
}

gw_future *gw_future_open(gw_scope *s) {
    agent *a = s->error ? NULL : agent_of(s);
    if (!a) return &future_poison;
    gw_future *f = future_open(a, "");
    if (!f) {
        scope_fail(s, GW_NO_MEMORY, "no memory for a future");
        return &future_poison;
    }
    env_enter(a->env);
    gw_error error;
    bool left = a->phase == AGENT_LEFT;
    if (left) agent_left_error(a, "a future", &error);
    f->opened = true;
    if (!left) list_append(futures_unresolved(a), &f->sibling);
    env_leave(a->env);
    if (left) {
        handle_release(f);
        scope_fail_with(s, &error);
        return &future_poison;
    }
    return scope_own_or(s, f, &future_poison);
}

void gw_future_set_with(gw_scope *s, gw_future *f, gw_value v) {
    if (f == &future_poison) return;
    if (is_own(s, f)) resolve_with(s, f, v);
}

void gw_future_fail(gw_scope *s, gw_future *f, gw_status status, const char *format, ...) {
    if (f == &future_poison || !is_own(s, f)) return;
    gw_error error;
    va_list args;
    va_start(args, format);
    error_set_by_programv(&error, status, format, args);
    va_end(args);
    complete(s, f, result_of_error(&error));
}

// ---- Then ---------------------------------------------------------------------------------------

typedef struct then {
    continuation next;
    canceller stop;
    gw_placement where;
    task task;     // GW_INLINE
    pool_job job;  // GW_POOL
    gw_future *in, *out;
    gw_value (*body)(gw_scope *s, gw_value v, void *context);
    void (*done)(gw_scope *s, gw_future *f, void *context);  // instead of |body|; then no |out|
    void *user;                                              // the context of the program

    // of the scope that called then
    uint64_t key, id;
    int64_t deadline_ns;
    uint8_t depth;
    int caller;  // the worker for which it runs; -1
    bool grad_enabled;
    bool has_pass;  // in the scope of the call that it is part of
    work *work;     // one count, or NULL

    // while it runs
    context *context;
    work_item running;  // in |work|
} then;

static void release_parts_on_loop(then *t) {
    futures_count_then_on_loop(t->in->agent, -1);
    if (t->out) t->out->makers--;
    work_release_on_loop(t->work);
}

// The argument of |done| has to be a handle.
static void release_in(then *t) {
    if (t->out)
        future_await_release(t->in);
    else
        handle_release(t->in);
}

static void free_then(then *t) {
    env_enter(t->in->agent->env);
    release_parts_on_loop(t);
    env_leave(t->in->agent->env);
    release_in(t);
    handle_release(t->out);
    mem_free(t);
}

// |out| was cancelled before the body could run.
static void stop(canceller *c) {
    then *t = list_entry(c, then, stop);
    continuation_cancel_on_loop(&t->next);
    release_parts_on_loop(t);
    future_drop_on_loop(t->in);
    future_release_on_loop(t->out);
    mem_free(t);
}

// Closes the scope of a body; |out| has its error already.
static void close_scope(gw_scope *s) {
    scope_close_unread(s);
}

static gw_future *in_of(const canceller *c, int i) {
    const then *t = list_entry(c, then, stop);
    return i ? NULL : t->in;
}

typedef struct body_run {
    then *then;
    gw_scope *scope;
    gw_value value;  // given, and then the result
} body_run;

static void call_body(void *context) {
    body_run *r = context;
    r->value = r->then->body(r->scope, r->value, r->then->user);
}

static void call_done(void *context) {
    body_run *r = context;
    r->then->done(r->scope, gw_keep(r->scope, r->then->in), r->then->user);
}

// Resolves |out|. run_body closes the scope, while the context can still leave the objects that the
// body has entered.
static void complete_body(then *t, gw_scope *s) {
    gw_error error;
    gw_value v = result_give(future_result(t->in), s);
    if (!s->error && context_check_cancelled(s, &error)) scope_fail_with(s, &error);
    body_run r = { t, s, v };
    scope_lend(s);
    if (!s->error) scope_run(s, call_body, &r);
    scope_take_back(s);
    resolve_with(s, t->out, s->error ? gw_none() : r.value);
}

static void run_done(then *t, gw_scope *s) {
    body_run r = { .then = t, .scope = s };
    scope_lend(s);
    scope_run(s, call_done, &r);
    scope_take_back(s);
    if (s->error)
        log_error("a function that was called after a future has failed: %s", s->error->text);
}

static void cancel_running(work_item *item) {
    const then *t = list_entry(item, then, running);
    context_cancel_on_loop(t->context, (cancel_reason)t->work->cancelled);
}

// From here on a wait of the body ends when the call that it is part of is cancelled.
static void begin_running(then *t, context *c) {
    t->context = c;
    t->running.cancel = cancel_running;
    if (!t->work) return;
    env_enter(c->agent->env);
    if (!t->work->cancelled) list_append(&t->work->items, &t->running.link);
    env_leave(c->agent->env);
}

static void end_running(then *t) {
    if (!t->work) return;
    env_enter(t->in->agent->env);
    list_remove(&t->running.link);
    env_leave(t->in->agent->env);
}

static void run_body(then *t, gw_scope *s) {
    bool is_pooled = t->where == GW_POOL;
    context c = { .scope = s,
                  .agent = t->in->agent,
                  .may_wait = is_pooled,
                  .has_place = is_pooled,
                  .depth = t->depth,
                  .deadline_ns = t->deadline_ns,
                  .serves = t->work != NULL,
                  .caller = t->caller,
                  .caller_scope = t->id,
                  .has_pass = t->has_pass,
                  .work = t->work };
    context_attach(&c);
    s->grad_enabled = t->grad_enabled;
    s->may_wait = is_pooled;
    if (is_pooled) begin_running(t, &c);
    body_start began = context_body_starts(&c);
    if (t->done) {
        run_done(t, s);
    } else {
        complete_body(t, s);
    }
    context_report_if_long(&c, began);
    close_scope(s);
    if (is_pooled) end_running(t);
}

static void run_then(then *t) {
    gw_scope *s = agent_scope_open(t->in->agent, t->key, t->id, t->deadline_ns);
    if (t->out && future_result(t->out)) {
        close_scope(s);  // cancelled
    } else if (s->error) {
        if (t->out) resolve_with(s, t->out, gw_none());
        if (t->done)
            t->done(s, t->in,
                    t->user);  // its values are released, and other waiters are notified
        close_scope(s);
    } else {
        run_body(t, s);
    }
    free_then(t);
}

static void run_task(task *t) {
    run_then(list_entry(t, then, task));
}

static void run_job(pool_job *j) {
    run_then(list_entry(j, then, job));
}

static bool job_taken(pool_job *j) {
    (void)j;
    return true;
}

// A pool that ends takes no job.
static void run_soon_on_loop(then *t) {
    agent *a = t->in->agent;
    if (t->where == GW_POOL && !a->pool.ending) {
        t->job = (pool_job){ .depth = t->depth, .taken = job_taken, .run = run_job };
        pool_submit_on_loop(&a->pool, &t->job);
    } else {
        t->where = GW_INLINE;
        t->task.run = run_task;
        env_defer(a->env, &t->task);
    }
}

static void resolved(continuation *c) {
    then *t = (then *)(void *)c;
    if (t->out) t->out->on_cancel = NULL;
    run_soon_on_loop(t);
}

static then *open_then(gw_scope *s, gw_future *f, bool has_out) {
    then *t = mem_calloc(sizeof *t);
    gw_future *out = has_out ? future_open(f->agent, "") : NULL;
    if (!t || (has_out && !out)) {
        mem_free(t);
        handle_release(out);
        scope_fail(s, GW_NO_MEMORY, "no memory for a future");
        return NULL;
    }
    const context *c = context_of(s);
    t->next.run = resolved;
    t->stop = (canceller){ stop, in_of };
    if (out) out->makers = 1;
    t->in = has_out ? future_await_retain(f) : handle_retain(f);
    t->out = out;
    t->key = scope_call_key(s);
    t->id = gw_scope_id(s);
    t->deadline_ns = context_deadline_ns(s);
    t->depth = c ? c->depth : 0;
    t->caller = context_caller(s);
    t->grad_enabled = s->grad_enabled;
    t->has_pass = s->slots[SCOPE_GRADS].data || (c && c->scope == s && c->has_pass);
    return t;
}

// False if |in| has resolved. The calls of the body belong to the work of |s|.
static bool await_on_loop(then *t, gw_scope *s) {
    futures_count_then_on_loop(t->in->agent, 1);
    context *c = context_of(s);
    if (c && c->serves && c->agent == t->in->agent)
        t->work = work_retain_on_loop(context_work_on_loop(c));
    if (!future_await_on_loop(t->in, &t->next)) return false;
    if (t->out) t->out->on_cancel = &t->stop;
    return true;
}

static bool is_usable(gw_scope *s, const gw_future *f) {
    if (s->error) return false;
    if (!f || f == &future_poison)
        return scope_fail(s, GW_INVALID, "%s",
                          f ? "the future is the result of a call that failed in another scope"
                            : "the future is NULL");
    if (!agent_is_closed(f->agent)) return true;
    return scope_fail(s, GW_WRONG_STATE, "%s",
                      is_process_fork(f->agent->mark)
                          ? "the future belongs to the parent of this process, which was forked"
                          : "the agent of the future is closed");
}

static bool has_body(gw_scope *s, bool has) {
    if (!has) scope_fail(s, GW_INVALID, "the function to run after the future is NULL");
    return has;
}

static bool is_placement(gw_scope *s, gw_then_options o) {
    if (o.where == GW_INLINE || o.where == GW_POOL) return true;
    return scope_fail(s, GW_INVALID,
                      "a function that a future calls runs in GW_INLINE or GW_POOL, not in %d",
                      (int)o.where);
}

static void start(then *t, gw_scope *s) {
    env *e = t->in->agent->env;
    env_enter(e);
    bool is_later = await_on_loop(t, s), is_now = !is_later && t->where == GW_INLINE;
    if (!is_later && !is_now) run_soon_on_loop(t);
    env_leave(e);
    if (is_now) run_then(t);
}

gw_future *gw_then_with(gw_scope *s, gw_future *f,
                        gw_value (*body)(gw_scope *s, gw_value v, void *context), void *context,
                        gw_then_options options) {
    then *t = is_usable(s, f) && has_body(s, body != NULL) && is_placement(s, options)
                  ? open_then(s, f, true)
                  : NULL;
    if (!t) return &future_poison;
    t->body = body;
    t->user = context;
    t->where = options.where;
    gw_future *out = handle_retain(t->out);
    start(t, s);
    return scope_own_or(s, out, &future_poison);
}

void gw_on_done_with(gw_scope *s, gw_future *f,
                     void (*done)(gw_scope *s, gw_future *f, void *context), void *context,
                     gw_then_options options) {
    then *t = is_usable(s, f) && has_body(s, done != NULL) && is_placement(s, options)
                  ? open_then(s, f, false)
                  : NULL;
    if (!t) return;
    t->done = done;
    t->user = context;
    t->where = options.where;
    start(t, s);
}
