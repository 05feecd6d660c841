// One future for several: gw_collect_all, gw_collect_fail_fast, gw_collect_first.
#include "future/collect.h"

#include "base/mem.h"
#include "base/value.h"
#include "future/future.h"

typedef struct collected {
    continuation next;
    struct collect *of;
    gw_future *in;  // one count of those that wait; NULL once it is let go
} collected;

typedef struct collect {
    task task;
    canceller stop;
    gw_future *out;  // one count
    int count, missing;
    collect_mode mode;
    collected items[];
} collect;

// Without the loop lock, because the results may run a user's destructors.
static void free_collect(collect *c) {
    for (int i = 0; i < c->count; i++)
        if (c->items[i].in) future_await_release(c->items[i].in);
    handle_release(c->out);
    mem_free(c);
}

static gw_list *list_of(collect *c, gw_scope *s) {
    gw_list *list = gw_list_open(s);
    for (int i = 0; i < c->count; i++)
        gw_list_add_with(s, list, result_give(future_result(c->items[i].in), s));
    return list;
}

static const gw_error *first_error(collect *c) {
    const gw_error *error = NULL;
    for (int i = 0; i < c->count && !error; i++)
        error = result_error(future_result(c->items[i].in));
    return error;
}

static result *result_of(collect *c, gw_scope *s) {
    const gw_error *error = first_error(c);
    if (error) return result_of_error(error);
    gw_list *list = list_of(c, s);
    result *r = s->error ? NULL : result_of_value(gw_value_of_list(list));
    if (!r) scope_fail(s, GW_NO_MEMORY, "no memory for a list of results");
    return r ? r : result_of_error(s->error);
}

static void finish(task *t) {
    collect *c = list_entry(t, collect, task);
    env *e = c->out->agent->env;
    if (!future_result(c->out)) {
        gw_scope *s = agent_scope_open(c->out->agent, 0, 0, ENV_NEVER);
        result *r = result_of(c, s);
        env_enter(e);
        future_complete_on_loop(c->out, r);
        env_leave(e);
        scope_close_unread(s);
    }
    env_enter(e);
    c->out->makers--;
    env_leave(e);
    free_collect(c);
}

// No later result can change |out|: stops waiting for the others.
static void end_on_loop(collect *c) {
    c->out->on_cancel = NULL;
    for (int i = 0; i < c->count; i++) continuation_cancel_on_loop(&c->items[i].next);
    c->task.run = finish;
    env_defer(c->out->agent->env, &c->task);
}

// Whether |out| resolves to |r|, whatever the results of the others are.
static bool decides(const collect *c, const result *r) {
    return c->mode == COLLECT_FIRST || (c->mode == COLLECT_FAIL_FAST && result_error(r));
}

static void end_with_on_loop(collect *c, result *r) {
    end_on_loop(c);
    future_complete_on_loop(c->out, result_retain(r));
}

static void input_done(continuation *next) {
    collected *x = list_entry(next, collected, next);
    collect *c = x->of;
    if (decides(c, future_result(x->in))) {
        end_with_on_loop(c, future_result(x->in));
    } else if (--c->missing == 0) {
        end_on_loop(c);
    }
}

static void stop(canceller *x) {
    collect *c = list_entry(x, collect, stop);
    end_on_loop(c);
    for (int i = 0; i < c->count; i++) {
        gw_future *in = c->items[i].in;
        c->items[i].in = NULL;
        future_drop_on_loop(in);
    }
}

static gw_future *in_of(const canceller *x, int i) {
    const collect *c = list_entry(x, collect, stop);
    return i < c->count ? c->items[i].in : NULL;
}

static collect *open_collect(agent *a, gw_future *const *fs, int count, collect_mode mode) {
    collect *c = mem_calloc(sizeof *c + (size_t)count * sizeof c->items[0]);
    gw_future *out = c ? future_open(a, "") : NULL;
    if (!out) {
        mem_free(c);
        return NULL;
    }
    c->stop = (canceller){ stop, in_of };
    c->out = out;
    c->count = count;
    c->mode = mode;
    out->makers = 1;
    for (int i = 0; i < count; i++) {
        c->items[i].next.run = input_done;
        c->items[i].of = c;
        c->items[i].in = future_await_retain(fs[i]);
    }
    return c;
}

static void start_on_loop(collect *c) {
    c->out->on_cancel = &c->stop;
    for (int i = 0; i < c->count; i++) c->missing += !future_result(c->items[i].in);
    for (int i = 0; i < c->count; i++) {
        result *r = future_result(c->items[i].in);
        if (!r) {
            future_await_on_loop(c->items[i].in, &c->items[i].next);
        } else if (decides(c, r)) {
            end_with_on_loop(c, r);
            return;
        }
    }
    if (!c->missing) end_on_loop(c);
}

gw_future *collect_start(gw_scope *s, agent *a, gw_future *const *fs, int count,
                         collect_mode mode) {
    collect *c = open_collect(a, fs, count, mode);
    if (!c) {
        scope_fail(s, GW_NO_MEMORY, "no memory for a future");
        return &future_poison;
    }
    gw_future *out = handle_retain(c->out);
    env_enter(a->env);
    start_on_loop(c);
    env_leave(a->env);
    return scope_own_or(s, out, &future_poison);
}

// False with |s| failed.
static bool are_usable(gw_scope *s, agent *a, const char *function, gw_future *const *fs,
                       int count) {
    if (count < 0 || (count && !fs))
        return scope_fail(s, GW_INVALID, "%s: %d futures were given%s", function, count,
                          fs ? "" : ", but the array is NULL");
    for (int i = 0; i < count; i++) {
        if (fs[i] && fs[i] != &future_poison && fs[i]->agent == a) continue;
        return scope_fail(
            s, GW_INVALID,
            "future %d is NULL, belongs to another agent, or is the result of a call that failed",
            i);
    }
    return true;
}

static gw_future *gather(gw_scope *s, const char *function, gw_future *const *fs, int count,
                         collect_mode mode) {
    agent *a = s->error ? NULL : agent_of(s);
    if (!a || !are_usable(s, a, function, fs, count)) return &future_poison;
    if (count || mode != COLLECT_FIRST) return collect_start(s, a, fs, count, mode);
    scope_fail(s, GW_INVALID, "%s: no future was given", function);
    return &future_poison;
}

gw_future *gw_collect_all(gw_scope *s, gw_future *const *fs, int count) {
    return gather(s, "gw_collect_all", fs, count, COLLECT_ALL);
}

gw_future *gw_collect_fail_fast(gw_scope *s, gw_future *const *fs, int count) {
    return gather(s, "gw_collect_fail_fast", fs, count, COLLECT_FAIL_FAST);
}

gw_future *gw_collect_first(gw_scope *s, gw_future *const *fs, int count) {
    return gather(s, "gw_collect_first", fs, count, COLLECT_FIRST);
}
