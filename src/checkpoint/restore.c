// gw_checkpoint_restore: which checkpoint all members take. CKPT-11 and CKPT-12 of docs/protocol/checkpoint.md.
#include "checkpoint/home.h"
#include "checkpoint/reading.h"

#include "base/log.h"
#include <gradwire/collective.h>

#include <string.h>

#undef GW_ORIGIN
#define GW_ORIGIN "gw_checkpoint_restore"  // of the calls in this file, in errors

typedef struct restoring {
    gw_scope *scope, *out;  // of the call; the result is |out|'s
    const char *home;
    gw_group *group;  // NULL: this process alone
    int rank, members;
    gw_map **out_own;  // NULL: not asked for
    home_name at;      // of rank 0
} restoring;

// ---- What the members agree on ------------------------------------------------------------------

// The path of the next older checkpoint; NULL: there is none.
static const char *next_path(restoring *r) {
    gw_scope *s = r->scope;
    gw_value own = gw_none();
    if (r->rank == 0 && gw_ok(s) && !home_check(s, r->home)) scope_explain_error(s, r->home);
    if (r->rank == 0 && gw_ok(s)) r->at = home_find_newest(r->home, r->at);
    if (r->rank == 0 && gw_ok(s) && r->at.step >= 0)
        own = gw_value_of(home_path(s, r->home, r->at));
    gw_value v = own;
    // Not a broadcast, which rank 0 would leave before the others have entered.
    if (r->group) v = gw_list_get(s, gw_all_gather_value(s, r->group, own), 0);
    return gw_ok(s) && v.kind == GW_STRING ? gw_string_of(s, v) : NULL;
}

// Whether none of the members has an error. Rank 0 logs the first one.
static bool all_can(restoring *r, const char *path, const gw_error *own) {
    gw_scope *s = r->scope;
    gw_list *all = gw_list_open(s);
    if (r->group)
        all = gw_all_gather_value(s, r->group, own->status ? gw_value_of(own->text) : gw_none());
    else if (own->status)
        gw_list_add(s, all, own->text);
    for (int rank = 0; gw_ok(s) && rank < gw_list_count(all); rank++) {
        gw_value v = gw_list_get(s, all, rank);
        if (v.kind != GW_STRING) continue;
        if (r->rank == 0)
            log_line("%.300s is skipped, because it is not a complete checkpoint: %s", path,
                     gw_string_of(s, v));
        return false;
    }
    return gw_ok(s);
}

// ---- One checkpoint -----------------------------------------------------------------------------

typedef struct outcome {
    gw_map *values, *own;
    int members;  // that have written it
    bool has_own;
} outcome;

static void load(restoring *r, gw_scope *t, const char *path, outcome *out) {
    reading x;
    reading_open(&x, t, path);
    out->members = x.index.members;
    out->has_own = x.index.own > 0;
    bool wants_own = r->out_own && out->has_own && out->members == r->members;
    gw_map *values = gw_ok(t) ? reading_values(&x, t) : NULL;
    gw_map *own = gw_ok(t) && wants_own ? reading_own(&x, r->rank, t) : NULL;
    if (gw_ok(t)) out->values = gw_keep(r->out, values);
    if (gw_ok(t) && own) out->own = gw_keep(r->out, own);
    reading_close(&x);
}

static bool try(restoring *r, const char *path, outcome *out) {
    *out = (outcome){ 0 };
    gw_scope *t = scope_open_unrecorded(r->scope);
    if (gw_ok(t)) load(r, t, path, out);
    gw_error e = gw_scope_close(t);
    // No damage of the files: an older checkpoint is no remedy.
    if (e.status == GW_NO_MEMORY) scope_fail_with(r->scope, &e);
    if (all_can(r, path, &e)) return true;
    gw_drop(r->out, out->values);
    gw_drop(r->out, out->own);
    return false;
}

static gw_map *take(restoring *r, const outcome *x) {
    if (r->out_own && x->has_own && x->members != r->members) {
        scope_fail(r->scope, GW_MISMATCH,
                   "the checkpoint has values of %d members (.own), but %d members restore it",
                   x->members, r->members);
        return NULL;
    }
    if (r->out_own) *r->out_own = x->own;
    return x->values;
}

static gw_map *restore(restoring *r) {
    const char *path;
    outcome x;
    while ((path = next_path(r)))
        if (try(r, path, &x)) return take(r, &x);
    if (gw_ok(r->scope) && r->out_own) *r->out_own = NULL;
    return NULL;
}

gw_map *gw_checkpoint_restore_with(gw_scope *s, const char *folder, gw_group *group,
                                   gw_checkpoint_restore_options options) {
    gw_scope *t = gw_scope_open(s);
    if (gw_ok(t) && (!folder || !*folder))
        scope_fail(t, GW_INVALID, "gw_checkpoint_restore: no folder is given");
    restoring r = {
        .scope = t,
        .out = s,
        .home = folder,
        .group = group,
        .rank = group ? gw_group_rank(group) : 0,
        .members = group ? gw_group_size(group) : 1,
        .out_own = options.own,
        .at.step = -1,
    };
    gw_map *values = restore(&r);
    gw_scope_close_up(t);
    return gw_ok(s) ? values : NULL;
}
