// gw_remote: a call whose result stays on the worker that makes it.
#include "reference/references.h"

#include "call/call.h"

#include <string.h>

static gw_status open_rref(call *c, gw_scope *s, gw_rref **out) {
    agent *a = c->agent;
    *out = rref_open_on_loop(a, c->to >= 0 ? c->to : a->rank, NULL);
    if (*out) return GW_OK;
    scope_fail(s, GW_NO_MEMORY, "no memory for a reference");
    return GW_NO_MEMORY;
}

// A call to this worker itself: makes the entry at once, and the handle for it.
static gw_status name_own(call *c, gw_rref *r) {
    entry *e = entry_open_on_loop(c->agent, c->fixed.result);
    if (!e) return error_set(&c->error, GW_NO_MEMORY, "no memory for a reference");
    e->requested = true;
    r->entry = e;
    list_remove(&r->link);
    return GW_OK;
}

static gw_status name_held(call *c, gw_rref *r) {
    agent *a = c->agent;
    r->id = c->fixed.result;
    r->fork = c->fixed.result_fork = id_of(a->rank, ++references_of(a)->last_id);
    r->origin = origin_keep_on_loop(references_of(a), origin_base(c->origin),
                                    strlen(origin_base(c->origin)));
    if (!map_put(&references_of(a)->pending, r->fork, r))
        return error_set(&c->error, GW_NO_MEMORY, "no memory for a reference");
    fork_apply_on_loop(r, FORK_REQUESTED);
    return GW_OK;
}

static void fail(call *c, gw_rref *r) {
    if (r->entry) {
        entry_make_on_loop(r->entry, result_of_error(&c->error), NULL);
    } else {
        map_take(&references_of(c->agent)->pending, r->fork);
        rref_fail_on_loop(r, FORK_REFUSED, &c->error);
    }
}

static void send(call *c, gw_rref *r) {
    agent *a = c->agent;
    gw_status status = c->error.status;
    if (!status) {
        c->fixed.result = id_of(a->rank, ++references_of(a)->last_id);
        status = c->to == a->rank ? name_own(c, r) : name_held(c, r);
    }
    if (!status) status = call_send_on_loop(c);
    if (status) fail(c, r);
}

gw_rref *gw_remote_with(gw_scope *s, gw_target to, const char *function, gw_values args,
                        gw_call_options options) {
    agent *a = s->error ? NULL : agent_of(s);
    if (!a) return &rref_poison;
    call c;
    gw_rref *r;
    call_init(&c, s, options, to, function, args.count, args.items, false);
    env_enter(a->env);
    call_await_flow_on_loop(&c);
    if (open_rref(&c, s, &r) == GW_OK) send(&c, r);
    env_leave(a->env);
    call_report_interrupt(&c);
    call_fini(&c);
    return scope_own_or(s, r, &rref_poison);
}
