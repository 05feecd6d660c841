// Waiting for futures: the functions of gradwire/rpc.h.
#include "future/future.h"

#include <gradwire/binding.h>

bool gw_future_done(const gw_future *f) {
    return !f || f == &future_poison || future_result(f);
}

static void fail_late(gw_scope *s, const gw_future *f) {
    gw_error error;
    if (context_check_cancelled(s, &error)) {
        scope_fail_with(s, &error);
        return;
    }
    if (f->to >= 0) {
        error_set(&error, GW_TIMEOUT,
                  "%s: %s: the scope's deadline has passed before the reply arrived",
                  agent_member(f->agent, f->to)->name, f->function);
        error.outcome = GW_MAY_HAVE_RUN;
    } else {
        error_set(&error, GW_TIMEOUT, "the scope's deadline has passed before a future resolved");
    }
    scope_fail_with(s, &error);
}

static bool is_usable(gw_scope *s, const gw_future *f) {
    if (s->error) return false;
    if (!f || f == &future_poison) {
        scope_fail(s, GW_INVALID,
                   f ? "the future is the result of a call that failed in another scope"
                     : "the future is NULL");
    } else if (is_process_fork(f->agent->mark)) {
        scope_fail(s, GW_WRONG_STATE,
                   "the future belongs to the parent of this process, which was forked");
    } else if (context_of(s) && s->agent != f->agent) {
        // A body that waits gives up its thread slot and turns, which are those of its own agent.
        scope_fail(s, GW_INVALID, "the future belongs to another agent than the scope");
    }
    return gw_ok(s);
}

// False with |s| failed.
static bool wait_for(gw_scope *s, gw_future *f) {
    if (future_result(f)) return true;
    gw_error error;
    if (context_check_wait(s, &error)) return scope_fail_with(s, &error);
    scope_enter(s);
    env_enter(f->agent->env);
    bool done = future_wait_on_loop(f, s, context_deadline_ns(s));
    env_leave(f->agent->env);
    scope_leave(s);
    if (!done) fail_late(s, f);
    return done;
}

static void report_to_source(gw_future *f) {
    if (f->source && f->source->reported && result_error(future_result(f))) f->source->reported(f);
}

gw_value future_give(gw_future *f, gw_scope *s) {
    error_origin = f->called_at;
    gw_value v = result_give(future_result(f), s);
    error_origin = NULL;
    report_to_source(f);
    return v;
}

gw_value gw_wait(gw_scope *s, gw_future *f) {
    if (!is_usable(s, f) || !wait_for(s, f)) return gw_none();
    return future_give(f, s);
}

gw_value gw_future_value(gw_scope *s, gw_future *f) {
    if (!is_usable(s, f)) return gw_none();
    if (future_result(f)) return future_give(f, s);
    scope_fail(s, GW_WRONG_STATE, "the future has not resolved");
    return gw_none();
}

const gw_error *gw_future_error(const gw_future *f) {
    result *r = f && f != &future_poison ? future_result(f) : NULL;
    if (r) report_to_source((gw_future *)f);
    return r ? result_error(r) : NULL;
}

gw_value gw_future_error_value(gw_scope *s, const gw_future *f) {
    return gw_error_value(s, gw_future_error(f));
}

void gw_wait_all(gw_scope *s, gw_future *const *fs, int count) {
    if (count < 0 || (count && !fs)) {
        scope_fail(s, GW_INVALID, "gw_wait_all: %d futures were given%s", count,
                   fs ? "" : ", but the array is NULL");
        return;
    }
    for (int i = 0; i < count; i++)
        if (!is_usable(s, fs[i]) || !wait_for(s, fs[i])) return;
    for (int i = 0; i < count && !s->error; i++) {
        const gw_error *error = result_error(future_result(fs[i]));
        if (error) scope_fail_with(s, error);
        report_to_source(fs[i]);
    }
}

// The first in order of those that are done; -1.
static int find_done(gw_future *const *fs, int count) {
    for (int i = 0; i < count; i++)
        if (gw_future_done(fs[i])) return i;
    return -1;
}

int gw_wait_any(gw_scope *s, gw_future *const *fs, int count) {
    if (s->error) return -1;
    gw_scope *own = gw_scope_open(s);
    gw_future *first = gw_collect_first(own, fs, count);
    if (gw_ok(own) && !wait_for(own, first)) gw_cancel(own, first);  // lets go of the others
    int done = gw_ok(own) ? find_done(fs, count) : -1;
    gw_scope_close_up(own);
    return done;
}
