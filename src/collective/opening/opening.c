// Groups of the library's own, which all members open together: so all members have the same group, though some may
// have opened others alone, and all open the same object. GRP-22.
#include "base/value.h"
#include "collective/group/groups_state.h"
#include "collective/opening/opening.h"
#include "collective/api/requests.h"
#include "collective/run/run.h"

#include <gradwire/membership.h>
#include <string.h>

// ---- The group of all workers -------------------------------------------------------------------
// If the program names no group, the parent is one of the library's: one for each list of workers, kept until the
// agent ends.

// A world that has broken though no worker is lost is followed by another one, on all members.
static gw_group *take_broken_on_loop(groups *x) {
    for (map_cursor e = { 0 }; map_next(&x->worlds, &e);) {
        gw_group *g = e.value;
        if (g->broken.status) return map_take(&x->worlds, e.key);
    }
    return NULL;
}

static void release_broken(agent *a) {
    gw_group *g;
    do {
        env_enter(a->env);
        g = take_broken_on_loop(groups_of(a));
        env_leave(a->env);
        handle_release(g);
    } while (g);
}

void openings_close(agent *a) {
    groups *x = groups_of(a);
    for (map_cursor e = { 0 }; map_next(&x->worlds, &e);)
        handle_release(map_take(&x->worlds, e.key));
}

static gw_group *find_world(agent *a, uint64_t list) {
    env_enter(a->env);
    gw_group *g = map_find(&groups_of(a)->worlds, list);
    if (g) handle_retain(g);
    env_leave(a->env);
    return g;
}

// |s| gets a count.
static gw_group *find_or_open_world(gw_scope *s) {
    int count;
    const gw_worker *workers = gw_rpc_workers(s, &count);
    if (!gw_ok(s)) return &group_poison;
    agent *a = s->agent;
    group_peer *peers = gw_alloc(s, (size_t)count * sizeof *peers);
    for (int i = 0; peers && i < count; i++)
        peers[i] = (group_peer){ workers[i].rank, workers[i].incarnation };
    if (!peers) return &group_poison;
    release_broken(a);
    gw_group *g = find_world(a, group_list_of(peers, count));
    if (!g) return group_open_world(s, a, workers, count);
    return scope_own_or(s, g, &group_poison);
}

static bool is_broken(gw_group *g) {
    env_enter(g->agent->env);
    bool broken = g->broken.status != GW_OK;
    env_leave(g->agent->env);
    return broken;
}

// A world that another member has broken before this one received that is not used.
static gw_group *world_of(gw_scope *s) {
    enum { ATTEMPTS = 8 };
    gw_group *g = find_or_open_world(s);
    for (int i = 1; i < ATTEMPTS && gw_ok(s) && is_broken(g); i++) g = find_or_open_world(s);
    return g;
}

void group_allow_shadows(gw_group *g) {
    env_enter(g->agent->env);
    g->is_own = false;
    env_leave(g->agent->env);
}

gw_group *group_take_world(gw_scope *s) {
    if (!s->agent) agent_of(s);
    if (!s->agent) return &group_poison;
    gw_scope *t = agent_scope_open(s->agent, 0, 0, ENV_NEVER);
    gw_group *g = handle_retain(world_of(t));
    gw_error error = gw_scope_close(t);
    if (error.status) scope_fail_with(s, &error);
    if (g != &group_poison) group_allow_shadows(g);
    return g;
}

// ---- Gathering ----------------------------------------------------------------------------------

static const char *title_of(gw_scope *s, const opening *o) {
    return o->of ? gw_format(s, "%s of %s", o->function, o->of) : o->function;
}

static gw_value description_of(gw_scope *s, const opening *o) {
    gw_list *all = gw_list_open(s);
    gw_list_add(s, all, title_of(s, o));
    gw_list_add(s, all, o->function);
    gw_list_add(s, all, o->options ? o->options : gw_list_open(s));
    gw_list_add_with(s, all, o->own);
    return gw_value_of(all);
}

// The inputs of all members. |*out_number| is the number of the collective.
static gw_list *gather(gw_scope *s, gw_group *of, const opening *o, uint64_t *out_number) {
    run_place place = { 0 };
    const char *what = title_of(s, o);
    gw_collective_options options =
        GW_OPTIONS(gw_collective_options, .key = GROUP_KEY_OPENING, .origin = what);
    run_request r = request_of(OPERATION_ALL_GATHER, CONTENT_VALUES, -1, options);
    r.own_value = gw_ok(s) ? description_of(s, o) : gw_none();
    r.as_list = true;
    r.out_place = &place;
    s->has_own_keys = true;
    bool is_usable = request_may_wait(s, of, what, GROUP_KEY_OPENING) &&
                     request_is_usable(s, of, what, GROUP_KEY_OPENING);
    s->has_own_keys = false;
    if (!is_usable) return NULL;
    gw_value v = request_wait(s, request_start(s, of, what, r, NULL));
    *out_number = place.number;
    return gw_ok(s) ? gw_list_of(s, v) : NULL;
}

// ---- Comparing ----------------------------------------------------------------------------------

static const char *member_name(gw_scope *s, const gw_group *g, int rank) {
    return gw_group_worker(s, g, rank).name;
}

static const char *line_of(gw_scope *s, const gw_list *lines, int i) {
    return i < gw_list_count(lines) ? gw_string_of(s, gw_list_get(s, lines, i)) : "nothing";
}

static void compare_options(gw_scope *s, const gw_group *g, const gw_list *first,
                            const gw_list *other, int rank) {
    int count = gw_list_count(first);
    if (gw_list_count(other) > count) count = gw_list_count(other);
    for (int i = 0; gw_ok(s) && i < count; i++) {
        const char *a = line_of(s, first, i), *b = line_of(s, other, i);
        if (gw_ok(s) && strcmp(a, b) != 0)
            scope_fail(s, GW_MISMATCH, "%s on %s, and %s on %s", a, member_name(s, g, 0), b,
                       member_name(s, g, rank));
    }
}

// The texts of member |rank|. A member whose join has no more input contributes none: its shadow collective answers.
static gw_list *words_of(gw_scope *s, const gw_group *g, const gw_list *all, int rank) {
    gw_value v = gw_list_get(s, all, rank);
    if (gw_ok(s) && v.kind != GW_LIST)
        scope_fail(s, GW_MISMATCH,
                   "%s has no more input (gw_join_close), and does not make this call",
                   member_name(s, g, rank));
    return gw_list_of(s, v);
}

// The same error text on all members.
static gw_list *compare(gw_scope *s, const gw_group *g, const gw_list *all) {
    gw_list *inputs = gw_list_open(s), *first = words_of(s, g, all, 0);
    for (int rank = 0; gw_ok(s) && rank < g->count; rank++) {
        gw_list *theirs = words_of(s, g, all, rank);
        if (gw_ok(s) && strcmp(line_of(s, first, 1), line_of(s, theirs, 1)) != 0)
            scope_fail(s, GW_MISMATCH, "%s calls %s, and %s calls %s", member_name(s, g, 0),
                       line_of(s, first, 0), member_name(s, g, rank), line_of(s, theirs, 0));
        gw_list *a = gw_list_of(s, gw_list_get(s, first, 2));
        gw_list *b = gw_list_of(s, gw_list_get(s, theirs, 2));
        if (gw_ok(s)) compare_options(s, g, a, b, rank);
        if (gw_ok(s)) gw_list_add_with(s, inputs, gw_list_get(s, theirs, 3));
    }
    return inputs;
}

// ---- Opening ------------------------------------------------------------------------------------

gw_group *group_open_own(gw_scope *s, gw_scope *owner, gw_group *of, opening *o) {
    gw_scope *t = gw_scope_open(s);
    uint64_t number = 0;
    gw_group *parent = of ? of : world_of(t), *g = &group_poison;
    gw_list *all = gw_ok(t) ? gather(t, parent, o, &number) : NULL;
    gw_list *inputs = all ? compare(t, parent, all) : NULL;
    if (gw_ok(t)) g = group_open_child(owner, parent, number, o->function);
    if (gw_ok(t) && !gw_ok(owner)) {
        scope_fail_with(t, scope_error(owner));
        gw_scope_clear(owner);
    }
    if (gw_ok(t)) o->inputs = gw_keep(s, inputs);
    gw_error error = gw_scope_close(t);
    if (error.status) {
        error_prefix(&error, title_of(s, o));
        scope_fail_with(s, &error);
    }
    return gw_ok(s) ? g : &group_poison;
}

void group_open_own_failed(gw_scope *s, gw_group *of) {
    if (!s->agent || gw_ok(s)) return;
    gw_scope *t = agent_scope_open(s->agent, 0, 0, ENV_NEVER);
    gw_group *parent = of ? of : world_of(t);
    if (gw_ok(t) && parent != &group_poison && parent->agent == s->agent) {
        gw_error error = *scope_error(s);
        if (error.status == GW_TIMEOUT)
            error.status = GW_CANCELLED;  // not the timeout of this collective
        scope_fail_with(t, &error);
        run_enter_failed(t, s, parent, GROUP_KEY_OPENING);
    }
    scope_close_unread(t);
}
