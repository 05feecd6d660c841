// Values of this worker under names, and waiters for names.
#include "reference/references.h"

#include "agent/leaving/awaits.h"
#include "agent/settings/options.h"
#include "base/args.h"
#include "base/map.h"
#include "base/mem.h"
#include "call/call.h"
#include "call/registry.h"
#include "future/future.h"

#include <stdio.h>
#include <string.h>

// A call of gw.named whose name does not exist yet; its reply is the future.
typedef struct named_waiter {
    char *name;
    gw_future *future;  // one count
} named_waiter;

typedef struct names {
    map entries;  // by name, one local handle each
    named_waiter *waiters;
    size_t count, capacity;
    bool is_leaving;
} names;

static const service_data data = { 0 };

static names *names_of(const agent *a) {
    return agent_state(a, &data);
}

// ---- Waiting ------------------------------------------------------------------------------------
static void free_waiter_on_loop(named_waiter *w) {
    future_release_on_loop(w->future);
    mem_free(w->name);
}

// Forgets waiters whose calls have ended, so that there are never many more than calls.
static void sweep_on_loop(names *n) {
    size_t kept = 0;
    for (size_t i = 0; i < n->count; i++) {
        named_waiter *w = &n->waiters[i];
        if (future_is_sole(w->future) || gw_future_done(w->future))
            free_waiter_on_loop(w);
        else
            n->waiters[kept++] = *w;
    }
    n->count = kept;
}

static bool add_waiter_on_loop(names *n, const char *name, gw_future *f) {
    if (n->count == n->capacity) sweep_on_loop(n);
    if (2 * n->count >= n->capacity) {
        size_t capacity = n->capacity ? 2 * n->capacity : 8;
        named_waiter *more = mem_realloc(n->waiters, capacity * sizeof *more);
        if (!more) return false;
        n->waiters = more;
        n->capacity = capacity;
    }
    char *copy = mem_strdup(name);
    if (!copy) return false;
    n->waiters[n->count++] = (named_waiter){ copy, handle_retain(f) };
    return true;
}

// The future of one that waits for |name|, which then no longer does; NULL if none is left.
static gw_future *take_waiter_on_loop(names *n, const char *name) {
    for (size_t i = 0; i < n->count; i++) {
        named_waiter w = n->waiters[i];
        if (strcmp(w.name, name)) continue;
        n->waiters[i] = n->waiters[--n->count];
        mem_free(w.name);
        return w.future;
    }
    return NULL;
}

// ---- Finding ------------------------------------------------------------------------------------
static gw_status find_on_loop(agent *a, const char *name, gw_future *later, gw_rref **out,
                              gw_error *error) {
    names *n = names_of(a);
    entry *e = map_find_name(&n->entries, name);
    if (e) {
        *out = rref_open_on_loop(a, a->rank, entry_retain_on_loop(e));
        if (*out) return GW_OK;
        entry_release_on_loop(e);
        return error_set(error, GW_NO_MEMORY, "no memory for a reference");
    }
    if (n->is_leaving)
        return error_set(error, GW_NOT_FOUND,
                         "%s leaves the job without having named a value \"%.64s\"", a->name, name);
    if (add_waiter_on_loop(n, name, later)) return GW_OK;
    return error_set(error, GW_NO_MEMORY, "no memory for a name");
}

static gw_value serve_named(gw_scope *s, const gw_args *args) {
    const char *name = gw_arg_string(s, args, 0);
    agent *a = agent_of(s);
    gw_future *later = gw_future_open(s);
    if (!gw_ok(s)) return gw_none();
    gw_error error;
    gw_rref *found = NULL;
    env_enter(a->env);
    gw_status status = find_on_loop(a, name, later, &found, &error);
    env_leave(a->env);
    if (status) scope_fail_with(s, &error);
    if (!found) return gw_value_of(later);
    gw_drop(s, later);
    found = scope_own(s, found);
    return gw_value_of(found);
}

static const function name_functions[] = {
    { .name = (char *)"gw.named",
      .where = GW_INLINE,
      .signature = TAKES(1 << GW_STRING),
      .body = serve_named,
      .starts_unserved = true },
    { 0 },
};

static void explain_timeout(gw_scope *s, const char *name) {
    char what[GW_NAME_MAX + 64];
    snprintf(what, sizeof what, "gw_named: no value has been named \"%.*s\"", GW_NAME_MAX, name);
    scope_explain_error(s, what);
}

gw_rref *gw_named_with(gw_scope *s, gw_target to, const char *name) {
    gw_value args[] = { gw_value_of(name) };
    gw_error error;
    awaits_note_root(s);
    bool was_ok = gw_ok(s);
    if (was_ok && context_check_wait(s, &error)) scope_fail_with(s, &error);
    gw_future *f =
        gw_rpc_async_with(s, to, "gw.named", (gw_values){ 1, args }, GW_OPTIONS(gw_call_options));
    call_needs_program(s, f, true);
    gw_value v = gw_wait(s, f);
    gw_drop(s, f);
    if (was_ok && s->error && s->error->status == GW_TIMEOUT) explain_timeout(s, name);
    return gw_rref_of(s, v);
}

// ---- Naming -------------------------------------------------------------------------------------
static gw_status put_on_loop(agent *a, gw_rref *r, const char *name, gw_error *error) {
    names *n = names_of(a);
    if (n->is_leaving)
        return error_set(error, GW_WRONG_STATE, "gw_rref_set_name: %s is leaving the job", a->name);
    if (map_find_name(&n->entries, name))
        return error_set(error, GW_DUPLICATE, "%s has named another value \"%s\"", a->name, name);
    if (!map_put_name(&n->entries, name, r->entry))
        return error_set(error, GW_NO_MEMORY, "no memory for a name");
    entry_retain_on_loop(r->entry);
    return GW_OK;
}

static bool check_naming(gw_scope *s, gw_rref *r, const char *name) {
    if (!rref_is_usable(s, r)) return false;
    if (!name || !options_is_name(name))
        scope_fail(s, GW_INVALID, "\"%.140s\" is not a name: 1 to %d of A-Z a-z 0-9 _ : . -",
                   name ? name : "", LIMIT_NAME_BYTES);
    else if (!gw_rref_is_owner(r))
        scope_fail(s, GW_INVALID, "only %s can give its value the name \"%s\", not %s",
                   gw_rref_owner_name(s, r), name, gw_rpc_self(s).name);
    return gw_ok(s);
}

// Resolves a waiter. One whose call has ended meanwhile needs nothing.
static void resolve(gw_scope *s, gw_future *f, gw_rref *r) {
    gw_future_set(s, f, r);
    gw_scope_clear(s);
    handle_release(f);
}

void gw_rref_set_name(gw_scope *s, gw_rref *r, const char *name) {
    if (!check_naming(s, r, name)) return;
    agent *a = r->agent;
    gw_error error;
    env_enter(a->env);
    gw_status status = put_on_loop(a, r, name, &error);
    env_leave(a->env);
    if (status) scope_fail_with(s, &error);
    // Also without a waiter, or random numbers drawn later would depend on the order of arrival.
    gw_scope *t = gw_scope_open(s);
    for (gw_future *f = NULL; !status;) {
        env_enter(a->env);
        f = take_waiter_on_loop(names_of(a), name);
        env_leave(a->env);
        if (!f) break;
        resolve(t, f, r);
    }
    gw_scope_close_up(t);
}

// ---- The service --------------------------------------------------------------------------------
static gw_status open_names(agent *a, const gw_rpc_options *options, void **state,
                            gw_error *error) {
    (void)a, (void)options;
    *state = mem_calloc(sizeof(names));
    return *state ? GW_OK : error_set(error, GW_NO_MEMORY, "no memory for names");
}

static void forget_names(names *n) {
    for (map_cursor e = { 0 }; map_next(&n->entries, &e);) entry_release_on_loop(e.value);
    map_fini(&n->entries);
}

static void release(agent *a) {
    names *n = names_of(a);
    gw_error why;
    n->is_leaving = true;
    forget_names(n);
    for (size_t i = 0; i < n->count; i++) {
        named_waiter *w = &n->waiters[i];
        error_set(&why, GW_NOT_FOUND, "%s leaves the job without having named a value \"%.64s\"",
                  a->name, w->name);
        if (!gw_future_done(w->future)) future_fail_on_loop(w->future, &why);
        free_waiter_on_loop(w);
    }
    n->count = 0;
}

static void stop(agent *a, const gw_error *why) {
    (void)why;
    release(a);
}

static void free_names(void *state) {
    names *n = state;
    map_fini(&n->entries);
    mem_free(n->waiters);
    mem_free(n);
}

static const function *const functions[] = { name_functions, NULL };

const service name_service = {
    .name = "name",
    .data = &data,
    .functions = functions,
    .open = open_names,
    .release = release,
    .stop = stop,
    .free = free_names,
};
