// A step of an optimizer with owners, as its trainer runs it: OPT-2 to OPT-4.
#include "distributed/optim/optimizer.h"

#include "base/failpoint.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// A step fails after so many transactions that other trainers' steps were in the way of.
enum { TRIES_MAX = 50 };

// ---- Calls --------------------------------------------------------------------------------------
// The owners' ranks and the options, as an argument; none if every owner has them.
static gw_value new_options(gw_scope *w, const gw_optimizer *o) {
    owners *e = owners_of(o);
    int count = options_count(o);
    double *now = gw_alloc(w, (size_t)count * sizeof *now);
    if (!now) return gw_none();
    options_write(o, now);
    if (e->sent_count == count && !memcmp(e->sent, now, (size_t)count * sizeof *now))
        return gw_none();
    double *sent = mem_realloc(e->sent, (size_t)count * sizeof *sent);
    if (!sent) {
        scope_fail(w, GW_NO_MEMORY, "gw_optimizer_step: no memory");
        return gw_none();
    }
    memcpy(sent, now, (size_t)count * sizeof *sent);
    e->sent = sent;
    e->sent_count = 0;  // until all owners have taken the options
    gw_list *list = gw_list_open(w);
    for (int i = 0; i < count; i++) gw_list_add(w, list, now[i]);
    gw_list *ranks = gw_list_open(w), *both = gw_list_open(w);
    for (int i = 0; i < e->count; i++) gw_list_add(w, ranks, e->items[i].rank);
    gw_list_add(w, both, ranks);
    gw_list_add(w, both, list);
    return gw_value_of(both);
}

static gw_future *call(gw_scope *w, const gw_optimizer *o, const owner *at, const char *method,
                       gw_value options) {
    return gw_rpc_async(w, at->object, method, owners_of(o)->transaction, options);
}

// Waits for all replies, also after one has failed. False if one has failed; the first error fails
// |w|.
static bool wait_for_all(gw_scope *w, gw_future *const *fs, int count) {
    gw_wait_all(w, fs, count);
    return gw_ok(w);
}

static const char *name_of(gw_scope *s, const owner *at) {
    return agent_member(s->agent, at->rank)->name;
}

// Whether |at| is lost for the whole job. Not known to a fenced worker, which sees all others as lost.
static bool is_gone(gw_scope *s, const owner *at) {
    agent *a = s->agent;
    env_enter(a->env);
    bool gone = agent_member(a, at->rank)->lost && !a->fence.status;
    env_leave(a->env);
    return gone;
}

// Fails |s| with |why|, behind a text that names the step of each worker.
static void fail_behind(gw_scope *s, const gw_error *why, const char *error_text) {
    gw_error error = *why;
    error_prefix(&error, error_text);
    scope_fail_with(s, &error);
}

// ---- With one owner: it computes and commits in one call ----------------------------------------
// Whether the step has certainly changed no parameter that still exists.
static bool has_changed_nothing(gw_scope *s, const owner *at, const gw_error *e) {
    return e->outcome == GW_NOT_DELIVERED || e->outcome == GW_RAN_AND_FAILED || is_gone(s, at);
}

static void step_one(gw_scope *s, gw_scope *w, gw_optimizer *o) {
    owners *e = owners_of(o);
    const owner *at = &e->items[0];
    gw_value options = new_options(w, o);
    if (!optimizer_reserve(s, o)) return;
    gw_future *f = call(w, o, at, "step", options);
    optimizer_compute(o);
    gw_wait(w, f);
    if (gw_ok(w)) {
        optimizer_commit(o);
        e->sent_count = options_count(o);
        return;
    }
    optimizer_abort(o);
    const gw_error *why = scope_error(w);
    char error_text[256];
    if (has_changed_nothing(s, at, why))
        snprintf(error_text, sizeof error_text, "gw_optimizer_step: nothing has changed");
    else
        snprintf(error_text, sizeof error_text,
                 "gw_optimizer_step: %s may be at step %lld, but this worker is at step %lld",
                 name_of(s, at), (long long)o->step_count + 1, (long long)o->step_count);
    fail_behind(s, why, error_text);
}

// ---- With several owners: two-phase commit ------------------------------------------------------
static void abort_all(gw_scope *s, const owners *e) {
    gw_scope *u = agent_scope_open(s->agent, 0, 0, ENV_NEVER);
    for (int i = 0; i < e->count; i++) {
        gw_rpc_notify(u, e->items[i].object, "abort", e->transaction);
        gw_scope_clear(u);  // an owner that is lost needs no abort
    }
    scope_close_unread(u);
}

typedef struct error_text {
    char text[256];
    size_t size;
    int more;  // owners that are missing and do not fit into |text|
} error_text;

__attribute__((format(printf, 2, 3))) static bool append(error_text *to, const char *format, ...) {
    enum { ROOM_FOR_THE_END = 80 };
    size_t room = sizeof to->text - ROOM_FOR_THE_END - to->size;
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(to->text + to->size, room, format, arguments);
    va_end(arguments);
    bool fits = size >= 0 && (size_t)size < room;
    if (fits) to->size += (size_t)size;
    to->text[to->size] = '\0';
    return fits;
}

// Appends that |at| has not confirmed the commit after which this worker is at step |steps|.
static void append_missing(gw_scope *s, error_text *to, const owner *at, int64_t steps) {
    bool fits = is_gone(s, at) ? append(to, "%s is lost, ", name_of(s, at))
                               : append(to, "%s may still be at step %lld, ", name_of(s, at),
                                        (long long)steps - 1);
    to->more += !fits;
}

static void append_rest(error_text *to, int64_t steps) {
    char *end = to->text + to->size;
    size_t room = sizeof to->text - to->size;
    if (to->more)
        snprintf(end, room, "as may %d more, and all others are at step %lld", to->more,
                 (long long)steps);
    else
        snprintf(end, room, "and all others are at step %lld", (long long)steps);
}

// The transaction is decided: sends all commits and waits for the replies without a deadline.
static void commit_all(gw_scope *s, gw_optimizer *o, gw_future **fs) {
    owners *e = owners_of(o);
    gw_scope *u = agent_scope_open(s->agent, 0, 0, ENV_NEVER);
    gw_no_grad(u);
    for (int i = 0; i < e->count; i++) {
        fs[i] = gw_rpc_async_with(u, gw_to(e->items[i].object), "commit", GW_ARGS(e->transaction),
                                  GW_OPTIONS(gw_call_options, .timeout_ms = GW_NO_TIMEOUT));
        gw_scope_clear(u);  // the other owners get their commits all the same
    }
    optimizer_commit(o);
    failpoint("step_commit_sent");
    gw_error why = { .status = GW_OK };
    error_text missing = { .size = 0 };
    append(&missing, "gw_optimizer_step: ");
    for (int i = 0; i < e->count; i++) {
        gw_scope *t = gw_scope_open(s);
        t->deadline_ns = ENV_NEVER;
        gw_wait(t, fs[i]);
        gw_error error = gw_scope_close(t);
        if (!error.status) continue;
        append_missing(s, &missing, &e->items[i], o->step_count);
        if (!why.status) why = error;
    }
    scope_close_unread(u);
    if (!why.status) return;
    append_rest(&missing, o->step_count);
    fail_behind(s, &why, missing.text);
}

static void step_all(gw_scope *s, gw_scope *w, gw_optimizer *o) {
    owners *e = owners_of(o);
    gw_future **fs = gw_alloc(w, (size_t)e->count * sizeof(gw_future *));
    gw_value options = new_options(w, o);
    if (!gw_ok(w) || !optimizer_reserve(s, o)) return;
    for (int i = 0; i < e->count; i++) fs[i] = call(w, o, &e->items[i], "prepare", options);
    optimizer_compute(o);
    if (!wait_for_all(w, fs, e->count)) {
        optimizer_abort(o);
        abort_all(s, e);
        fail_behind(s, scope_error(w), "gw_optimizer_step: nothing has changed");
        return;
    }
    e->sent_count = options_count(o);
    failpoint("step_decided");
    commit_all(s, o, fs);
}

// ---- Concurrent: each owner computes and commits on its own -------------------------------------
static void step_each(gw_scope *s, gw_scope *w, gw_optimizer *o) {
    owners *e = owners_of(o);
    gw_future **fs = gw_alloc(w, (size_t)e->count * sizeof(gw_future *));
    gw_value options = new_options(w, o);
    for (int i = 0; i < e->count && gw_ok(w); i++)
        fs[i] = call(w, o, &e->items[i], "step", options);
    if (!gw_ok(w) || !optimizer_step(s, o)) return;
    if (wait_for_all(w, fs, e->count))
        e->sent_count = options_count(o);
    else
        fail_behind(s, scope_error(w),
                    "gw_optimizer_step: each owner makes its step independently (.concurrent), and "
                    "the step of one owner has failed");
}

static void try_step(gw_scope *s, gw_optimizer *o) {
    gw_scope *w = calls_open(s);
    owners_of(o)->transaction++;
    if (o->groups[0].concurrent)
        step_each(s, w, o);
    else if (owners_of(o)->count == 1)
        step_one(s, w, o);
    else
        step_all(s, w, o);
    gw_scope_close_up(w);
}

// Trainers of different rank wait differently long, so that their steps do not collide again.
static void pause(gw_scope *s, int try) {
    const agent *a = s->agent;
    gw_scope *t = gw_scope_open(s);
    gw_scope_set_timeout(t, 1 + (int64_t)try * (1 + a->rank % 8));
    gw_wait(t, gw_future_open(t));
    scope_close_unread(t);
}

void owners_step(gw_scope *s, gw_optimizer *o) {
    if (!calls_may_wait(s, "gw_optimizer_step")) return;
    for (int try = 0;; try++) {
        try_step(s, o);
        // OPT-3: another trainer's step of the same parameters is prepared; nothing has changed.
        bool again = scope_error(s)->status == GW_OVERLOADED && !o->groups[0].concurrent;
        if (!again || try == TRIES_MAX) return;
        gw_scope_clear(s);
        pause(s, try);
    }
}
