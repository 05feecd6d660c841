// Making the remote part of an optimizer.
#include "distributed/optim/optimizer.h"

#include "reference/references.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

static bool is_here(gw_scope *s, gw_rref *r, gw_value *out) {
    if (!gw_ok(s) || !gw_rref_is_owner(r)) return false;
    *out = gw_rref_local_value(s, r);
    return true;
}

static void free_owners(owners *e) {
    if (!e) return;
    for (int i = 0; i < e->count; i++) handle_release(e->items[i].object);
    mem_free(e->items);
    mem_free(e->owner_of);
    mem_free(e->sent);
    mem_free(e);
}

static void close_part(remote_part *part) {
    free_owners((owners *)part);
}

// ---- Groups -------------------------------------------------------------------------------------
// A request to one owner: to make an object, if it has none yet, or to add a group to it.
typedef struct request {
    owner owner;
    bool is_new;
    gw_list *numbers, *parameters;
    gw_future *reply;
} request;

static gw_list *group_of(gw_scope *w, const gw_optimizer *o, const optimizer_group *g,
                         gw_list *numbers, gw_list *parameters) {
    gw_list *group = gw_list_open(w), *options = gw_list_open(w);
    for (int k = 0; k < o->rule->option_count; k++)
        gw_list_add(w, options, option_get(&o->rule->options[k], g));
    gw_list_add(w, group, options);
    gw_list_add(w, group, numbers);
    gw_list_add(w, group, parameters);
    return group;
}

static void send_request(gw_scope *w, const gw_optimizer *o, uint64_t id, const optimizer_group *g,
                         request *r) {
    gw_list *group = group_of(w, o, g, r->numbers, r->parameters);
    if (!r->is_new) {
        r->reply = gw_rpc_async(w, r->owner.object, "add_group", group);
        return;
    }
    gw_list *groups = gw_list_open(w), *none = gw_list_open(w);
    for (int i = 0; i < o->group_count; i++)
        gw_list_add(w, groups, group_of(w, o, &o->groups[i], none, none));
    gw_list_add(w, groups, group);
    r->owner.object = gw_remote(w, r->owner.rank, "gw.optimizer", o->rule->name, id, groups);
    r->reply = gw_rpc_async(w, r->owner.object, "group_count");
}

// Fills |out| with one request for each owner: those that have an object, and the other owners of
// |refs|. Returns how many.
static int plan_requests(gw_scope *w, const owners *e, const gw_value *refs, const int *numbers,
                         int count, request *out) {
    int request_count = e ? e->count : 0;
    for (int i = 0; i < request_count; i++) out[i] = (request){ .owner = e->items[i] };
    for (int i = 0; i < count; i++) {
        int rank = reference_owner(refs[i].as.rref), k = 0;
        while (k < request_count && out[k].owner.rank != rank) k++;
        if (k == request_count)
            out[request_count++] = (request){ .owner.rank = rank, .is_new = true };
        if (!out[k].numbers) out[k].numbers = gw_list_open(w);
        if (!out[k].parameters) out[k].parameters = gw_list_open(w);
        gw_list_add(w, out[k].numbers, numbers[i]);
        gw_list_add_with(w, out[k].parameters, refs[i]);
    }
    for (int k = 0; k < request_count; k++) {
        if (!out[k].numbers) out[k].numbers = gw_list_open(w);
        if (!out[k].parameters) out[k].parameters = gw_list_open(w);
    }
    return request_count;
}

// Adds the new objects and numbers to the remote part. Takes all memory first, so that it changes
// everything or nothing.
static bool take_over(gw_scope *w, gw_optimizer *o, uint64_t id, const request *requests,
                      int request_count, const int *numbers, const gw_value *refs, int count) {
    owners *e = owners_of(o) ? owners_of(o) : mem_calloc(sizeof *e);
    int last = count ? numbers[count - 1] + 1 : e ? e->number_count : 0;
    void *items = NULL, *owner_of = NULL;
    if (e) items = mem_realloc(e->items, (size_t)request_count * sizeof(owner));
    if (items) e->items = items;
    if (items) owner_of = mem_realloc(e->owner_of, ((size_t)last + 1) * sizeof(int));
    if (owner_of) e->owner_of = owner_of;
    if (!owner_of) {
        if (e != owners_of(o)) free_owners(e);
        scope_fail(w, GW_NO_MEMORY, "no memory");
        return false;
    }
    while (e->number_count < last) e->owner_of[e->number_count++] = -1;
    for (int k = 0; k < request_count; k++) {
        e->items[k] = requests[k].owner;
        if (requests[k].is_new) handle_retain(e->items[k].object);
    }
    e->count = request_count;
    for (int i = 0; i < count; i++) {
        int k = 0;
        while (e->items[k].rank != reference_owner(refs[i].as.rref)) k++;
        e->owner_of[numbers[i]] = k;
    }
    e->sent_count = 0;
    e->id = id;
    e->part.class = &owners_class;
    o->remote = &e->part;
    return true;
}

// OPT-1: sends the owners that have or may have the new group a request to remove it. New objects end with
// their references.
static void undo(gw_scope *s, const gw_optimizer *o, const request *requests, int count) {
    gw_scope *u = agent_scope_open(s->agent, 0, 0, ENV_NEVER);
    for (int k = 0; k < count; k++) {
        if (requests[k].is_new || !requests[k].reply) continue;
        gw_rpc_notify(u, requests[k].owner.object, "keep_groups", o->group_count);
        gw_scope_clear(u);  // an owner that is lost needs no message
    }
    scope_close_unread(u);
}

// An object that could not be made replies to every method with its error: removes the name of the method, which means
// nothing to the program.
static void drop_method(gw_error *error) {
    const gw_trace *t = &error->trace;
    if (t->calls != 1 || t->function != error_trace_function("group_count")) return;
    memmove(error->text, error->text + t->first, strlen(error->text + t->first) + 1);
    error->trace = (gw_trace){ 0 };
}

// Waits for all replies, also after one has failed, so that no owner adds the group after undo.
static void wait_for_replies(gw_scope *w, const request *requests, int count) {
    for (int k = 0; k < count; k++) {
        if (!requests[k].reply) continue;
        gw_scope *t = scope_open_regardless(w);
        gw_wait(t, requests[k].reply);
        gw_error error = gw_scope_close(t);
        drop_method(&error);
        if (error.status && gw_ok(w)) scope_fail_with(w, &error);
    }
}

static uint64_t new_id(gw_scope *s) {
    gw_scope *fresh = gw_scope_open(s);
    uint64_t id = gw_scope_id(fresh);
    gw_scope_close_up(fresh);
    return id;
}

static bool add_group(gw_scope *s, gw_optimizer *o, const optimizer_group *g, const gw_value *refs,
                      const int *numbers, int count) {
    char what[32];
    snprintf(what, sizeof what, "gw_%s", o->rule->name);
    if (!calls_may_wait(s, what)) return false;
    gw_scope *w = calls_open(s);
    uint64_t id = owners_of(o) ? owners_of(o)->id : new_id(w);
    int room = count + (owners_of(o) ? owners_of(o)->count : 0);
    request *requests = gw_alloc(w, (size_t)room * sizeof *requests);
    int request_count =
        requests ? plan_requests(w, owners_of(o), refs, numbers, count, requests) : 0;
    for (int k = 0; k < request_count && gw_ok(w); k++) send_request(w, o, id, g, &requests[k]);
    wait_for_replies(w, requests, request_count);
    bool ok = gw_ok(w) && take_over(w, o, id, requests, request_count, numbers, refs, count);
    if (!ok) undo(s, o, requests, request_count);
    gw_scope_close_up(w);  // hands its error to |s|
    return ok;
}

const remote_part_class owners_class = {
    .kind = "owners",
    .is_here = is_here,
    .add_group = add_group,
    .close = close_part,
    .step = owners_step,
    .write = owners_write,
    .load = owners_load,
    .squares = owners_squares,
    .scale = owners_scale,
    .unscale = owners_unscale,
};
