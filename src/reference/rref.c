// gw_rref: the handles on references.
#include "reference/references.h"

#include "base/args.h"
#include "base/mem.h"

#include <assert.h>
#include <string.h>

static void free_rref(gw_rref *r) {
    if (r->failed) result_release(r->failed);
    agent_release(r->agent);
    mem_give(r, sizeof *r);
}

// The last handle is dropped. Entries and forks are freed or released with the loop lock held.
static void destroy_rref(gw_handle *h) {
    gw_rref *r = (gw_rref *)h;
    agent *a = r->agent;
    if (agent_is_closed(a)) {
        if (r->entry) entry_release_on_loop(r->entry);
        free_rref(r);
        return;
    }
    env_enter(a->env);
    bool gone = true;
    if (r->entry) {
        entry_release_on_loop(r->entry);
    } else {
        r->dropped = true;
        gone = false;
        release_on_loop(r);
    }
    env_leave(a->env);
    if (gone) free_rref(r);
}

static const handle_class rref_class = { .name = "reference", .destroy = destroy_rref };

gw_rref rref_poison = { .handle = { &rref_class, HANDLE_IMMORTAL }, .owner = -1, .parent = -1 };

gw_rref *rref_open_on_loop(agent *a, int owner, entry *e) {
    gw_rref *r = mem_take_zeros(sizeof *r);
    if (!r) return NULL;
    handle_init(&r->handle, &rref_class);
    r->agent = agent_retain(a);
    r->owner = owner;
    r->entry = e;
    r->parent = -1;
    r->since_ns = env_now_ns(a->env);
    r->origin = "";
    if (!e) list_append(&references_of(a)->users, &r->link);
    return r;
}

gw_rref *rref_of_handle(gw_handle *h) {
    return h && h->class == &rref_class ? (gw_rref *)h : NULL;
}

void rref_forget_on_loop(gw_rref *r) {
    assert(r->dropped);
    list_remove(&r->link);
    list_remove(&r->out);
    free_rref(r);
}

void rref_fail_on_loop(gw_rref *r, fork_event event, const gw_error *why) {
    if (r->failed) return;
    r->failed = result_of_error(why);
    fork_apply_on_loop(r, event);
}

void rref_lose_on_loop(gw_rref *r) {
    gw_error error;
    promise_explain_lost_owner(agent_member(r->agent, r->owner), &error);
    rref_fail_on_loop(r, FORK_LOST, &error);
}

gw_status rref_check(const gw_rref *r, gw_error *error) {
    if (r->failed) return error_copy(error, result_error(r->failed));
    if (r->state == FORK_RELEASED || r->leaving)
        return error_set(error, GW_WRONG_STATE,
                         "the reference is to a value of %s, and cannot be used after shutdown",
                         agent_member(r->agent, r->owner)->name);
    return GW_OK;
}

bool rref_is_usable(gw_scope *s, const gw_rref *r) {
    if (s->error) return false;
    if (!r || !r->agent)
        return scope_fail(s, GW_INVALID, "%s",
                          r ? "the reference is the result of a call that failed in another scope"
                            : "the reference is NULL");
    gw_error error;
    bool left = agent_is_closed(r->agent);
    if (!left) {
        env_enter(r->agent->env);
        left = r->agent->phase == AGENT_LEFT;
        env_leave(r->agent->env);
    }
    if (left) {
        agent_left_error(r->agent, "a reference", &error);
        scope_fail_with(s, &error);
    } else if (s->agent != r->agent) {
        scope_fail(s, GW_INVALID, "the reference belongs to another agent than the scope");
    }
    return gw_ok(s);
}

// ---- For calls and the distributed room ---------------------------------------------------------

int reference_owner(const gw_rref *r) {
    return r->owner;
}

const agent *reference_agent(const gw_rref *r) {
    return r->agent;
}

turn *reference_turn_on_loop(const gw_rref *r) {
    turn *t = entry_turn_on_loop(r->entry);
    return t ? t : references_of(r->agent)->turn;
}

gw_status reference_check_on_loop(const gw_rref *r, uint64_t *out_id, uint64_t *out_fork,
                                  gw_error *error) {
    gw_status status = rref_check(r, error);
    if (status) return status;
    if (r->entry && !entry_name_on_loop(r->entry))
        return error_set(error, GW_NO_MEMORY, "no memory for a reference");
    *out_id = r->entry ? r->entry->id : r->id;
    *out_fork = r->fork;
    return GW_OK;
}

// ---- The public functions -----------------------------------------------------------------------

gw_rref *gw_rref_of(gw_scope *s, gw_value v) {
    if (s->error) return &rref_poison;
    if (v.kind == GW_RREF) return v.as.rref;
    scope_fail(s, GW_INVALID, "gw_rref_of: expected reference, got %s", gw_kind_name(v.kind));
    return &rref_poison;
}

gw_rref *gw_arg_rref(gw_scope *s, const gw_args *a, int index) {
    return gw_rref_of(s, arg_of(s, a, index, GW_RREF));
}

gw_rref *gw_rref_open_with(gw_scope *s, gw_value v, const char *origin) {
    agent *a = s->error ? NULL : agent_of(s);
    if (!a) return &rref_poison;
    result *kept = result_of_value(v);
    gw_rref *r = NULL;
    env_enter(a->env);
    entry *e = kept ? entry_open_on_loop(a, 0) : NULL;
    if (e) {
        entry_make_on_loop(e, result_retain(kept), NULL);
        entry_set_origin_on_loop(e, origin_base(origin), strlen(origin_base(origin)));
        entry_set_turn_on_loop(e, context_turn_on_loop(s));
        r = rref_open_on_loop(a, a->rank, e);
        if (!r) entry_release_on_loop(e);
    }
    env_leave(a->env);
    if (kept) result_release(kept);
    if (!r) scope_fail(s, GW_NO_MEMORY, "no memory for a reference");
    return scope_own_or(s, r, &rref_poison);
}

gw_worker gw_rref_owner(gw_scope *s, const gw_rref *r) {
    if (!rref_is_usable(s, r)) return (gw_worker){ .name = "", .rank = -1 };
    return agent_member(r->agent, r->owner)->worker;
}

const char *gw_rref_owner_name(gw_scope *s, const gw_rref *r) {
    return gw_rref_owner(s, r).name;
}

bool gw_rref_is_owner(const gw_rref *r) {
    return r && r->agent && r->owner == r->agent->rank;
}

bool gw_rref_is_confirmed(const gw_rref *r) {
    if (!r) return false;
    return r->entry || atomic_load_explicit(&((gw_rref *)r)->confirmed, memory_order_acquire);
}

int gw_rref_owned_count(gw_scope *s) {
    agent *a = agent_of(s);
    if (!a) return 0;
    env_enter(a->env);
    int count = references_of(a)->entry_count;
    env_leave(a->env);
    return count;
}
