// Replicas after a loss: in another group, with the numbers of the member that is furthest ahead.
#include "base/value.h"
#include "collective/backend.h"
#include "collective/group.h"
#include "parallel/ddp.h"
#include "parallel/shard.h"

typedef struct place {
    int64_t steps, passes;
    int64_t of_hooks;  // passes that hooks count
} place;

static bool is_ahead(place a, place b) {
    return a.steps != b.steps ? a.steps > b.steps : a.passes > b.passes;
}

static bool check(gw_scope *s, gw_ddp *d, const gw_group *g) {
    env_enter(d->agent->env);
    bool is_busy = !list_is_empty(&d->passes);
    env_leave(d->agent->env);
    int n = gw_group_size(g);
    if (d->join.join || is_busy)
        scope_fail(s, GW_WRONG_STATE, "gw_ddp_reform: %s is under way",
                   is_busy ? "a pass" : "a join");
    else if (d->options.shards && d->options.shards % n)
        scope_fail(s, GW_INVALID, "gw_ddp_reform: %d shards for %d members, who cannot share them",
                   d->options.shards, n);
    return gw_ok(s);
}

// The lowest rank of those that are furthest ahead, whose place goes to |*out|. Fails with |s|.
static int find_first(gw_scope *s, gw_group *g, place own, place *out) {
    gw_list *mine = gw_list_open(s);
    gw_list_add(s, mine, own.steps);
    gw_list_add(s, mine, own.passes);
    gw_list_add(s, mine, own.of_hooks);
    gw_list *all = gw_all_gather_value(s, g, mine);
    place first = { -1, -1, 0 };
    int root = 0, n = gw_ok(s) ? gw_list_count(all) : 0;
    for (int i = 0; gw_ok(s) && i < n; i++) {
        gw_list *theirs = gw_list_of(s, gw_list_get(s, all, i));
        place p = { gw_int_of(s, gw_list_get(s, theirs, 0)),
                    gw_int_of(s, gw_list_get(s, theirs, 1)),
                    gw_int_of(s, gw_list_get(s, theirs, 2)) };
        if (!is_ahead(p, first)) continue;
        first = p;
        root = i;
    }
    *out = first;
    return root;
}

// What the hook remembers, of member |root|.
static void share_hook_state(gw_scope *s, gw_ddp *d, int root, bool is_behind) {
    hook_state h = { d->save_hook, d->load_hook, d->hook_context };
    if (!h.save) h = hook_state_of(d->hook, d->hook_context);
    if (!h.save) return;
    bool leads = d->stats.rank == root && gw_ok(s);
    gw_value state = leads ? gw_value_of(h.save(s, h.context)) : gw_none();
    gw_value given =
        gw_broadcast_value_with(s, d->group, state, root, GW_OPTIONS(gw_collective_options));
    gw_map *map = gw_ok(s) ? gw_map_of(s, given) : NULL;
    if (gw_ok(s)) h.load(s, h.context, map, is_behind);
}

// From here on passes are those of the new group, which begins like one that was opened now.
static bool enter_group(gw_scope *s, gw_ddp *d, gw_group *g) {
    int *keepers = d->keepers;
    d->keepers = NULL;  // until the optimizer shares gradients out among the members of |g|
    layout *l = layout_open(d, NULL);
    if (!l) {
        d->keepers = keepers;
        scope_fail(s, GW_NO_MEMORY, "gw_ddp_reform: no memory for its buckets");
        return false;
    }
    env_enter(d->agent->env);
    d->group = g;
    g->series_name = "pass";
    d->stats.backend = g->backend->name;
    d->stats.timed_pass = 0;
    layout *old = d->layout;
    d->layout = l;
    d->telling = NULL;
    d->gate.gives_away = NULL;
    d->has_means = 0;
    static_forget_on_loop(d);
    d->stats.rebuilt = false;
    d->stats.passes = d->stats.reduced = 0;
    d->stats.buckets = l->bucket_count;
    d->stats.world_size = gw_group_size(g);
    d->stats.rank = gw_group_rank(g);
    env_leave(d->agent->env);
    layout_release(old);
    if (d->shards) shards_reset(d);
    return true;
}

static void give_state(gw_scope *s, gw_optimizer *opt, gw_group *g, int root) {
    bool leads = gw_group_rank(g) == root;
    gw_value state = leads ? gw_value_of(gw_optimizer_state_dict(s, opt)) : gw_none();
    gw_value given = gw_broadcast_value_with(s, g, state, root, GW_OPTIONS(gw_collective_options));
    if (gw_ok(s) && !leads) gw_optimizer_load_state_dict(s, opt, gw_map_of(s, given));
}

void gw_ddp_reform(gw_scope *s, gw_ddp *d, gw_optimizer *opt, gw_group *g) {
    if (!ddp_is_usable(s, "gw_ddp_reform", d) || !group_is_given(s, g, "gw_ddp_reform") ||
        !check(s, d, g))
        return;
    gw_scope *t = gw_scope_open(s);
    place own = { gw_optimizer_steps(opt), d->stats.reduced, d->earlier_passes + d->stats.passes };
    place first = own;
    gw_group *private = group_open_own(d->own, g);
    if (!gw_ok(d->own)) {
        scope_fail_with(t, gw_scope_error(d->own));
        gw_scope_clear(d->own);
    }
    int root = gw_ok(t) ? find_first(t, private, own, &first) : 0;
    bool ok = gw_ok(t) && enter_group(t, d, private) && replicas_compare_models(t, d);
    bool is_sharded = opt && shard_of(opt);
    if (ok && is_sharded) shard_follow(t, opt, d, g);
    if (ok) replicas_broadcast(t, d, true, true, root);
    if (ok && opt && !is_sharded) give_state(t, opt, private, root);
    if (ok) d->earlier_passes = first.of_hooks;
    if (ok) share_hook_state(t, d, root, is_ahead(first, own));
    gw_scope_close_up(t);
}
