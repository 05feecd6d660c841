// Replicas after a loss: in another group, with the numbers of the member that is furthest ahead.
#include "base/value.h"
#include "collective/backend/backend.h"
#include "collective/group/group.h"
#include "collective/opening/opening.h"
#include "parallel/hooks/hooks.h"
#include "parallel/reform.h"
#include "parallel/shard/shard.h"

#undef GW_ORIGIN
#define GW_ORIGIN "gw_ddp_reform"  // of the calls in this file, in errors

typedef struct progress {
    int64_t steps, passes;
    int64_t of_hooks;  // passes that hooks count
} progress;

static bool is_ahead(progress a, progress b) {
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
        scope_fail(s, GW_INVALID,
                   "gw_ddp_reform: %d shards cannot be divided equally among %d members",
                   d->options.shards, n);
    return gw_ok(s);
}

// The lowest rank of those that are furthest ahead; its progress goes to |*out|. Fails with |s|.
static int find_first(gw_scope *s, gw_group *g, progress own, progress *out) {
    gw_list *mine = gw_list_open(s);
    gw_list_add(s, mine, own.steps);
    gw_list_add(s, mine, own.passes);
    gw_list_add(s, mine, own.of_hooks);
    gw_list *all = gw_all_gather_value(s, g, mine);
    progress first = { -2, -2, 0 };
    int root = 0, n = gw_ok(s) ? gw_list_count(all) : 0;
    for (int i = 0; gw_ok(s) && i < n; i++) {
        gw_list *theirs = gw_list_of(s, gw_list_get(s, all, i));
        progress p = { gw_int_of(s, gw_list_get(s, theirs, 0)),
                       gw_int_of(s, gw_list_get(s, theirs, 1)),
                       gw_int_of(s, gw_list_get(s, theirs, 2)) };
        if (!is_ahead(p, first)) continue;
        first = p;
        root = i;
    }
    *out = first;
    return root;
}

// From here on passes are those of the new group, which begins like one that was opened now.
static bool enter_group(gw_scope *s, gw_ddp *d, gw_group *g, progress own) {
    const sharing *shared = d->sharing;
    d->sharing = NULL;  // until the optimizer shares gradients out among the members of |g|
    layout *l = layout_open(d, NULL);
    if (!l) {
        d->sharing = shared;
        return scope_fail(s, GW_NO_MEMORY, "gw_ddp_reform: no memory for its buckets");
    }
    env_enter(d->agent->env);
    d->group = g;
    g->final_name = "DDP pass";
    final_note_on_loop(g, d->hook_text);
    d->stats.backend = g->backend->name;
    d->stats.timed_pass = 0;
    layout *old = d->layout;
    d->layout = l;
    d->finalizing = NULL;
    gate_forget_answers_on_loop(&d->gate);
    d->stats.passes = d->stats.reduced = 0;
    d->earlier_reduced = own.passes;
    d->earlier_passes = own.of_hooks;
    finalize_reset_on_loop(d);
    d->stats.world_size = gw_group_size(g);
    d->stats.rank = gw_group_rank(g);
    env_leave(d->agent->env);
    layout_release(old);
    gate_share(&d->gate, NULL, NULL);
    if (d->shards) shards_reset(d);
    return true;
}

// ---- Giving -------------------------------------------------------------------------------------

// The tensors of member |root|, while they are received. None is put in place before all have arrived, so that a
// loss meanwhile leaves no member with a part. REPL-7.
typedef struct gift {
    int root;
    hook_state hook;
    gw_map *optimizer, *hook_remembers;  // NULL: there is none
    gw_tensor **numbers;                 // NULL: those of this member
} gift;

static gw_map *receive_map(gw_scope *s, gw_ddp *d, gw_map *own, int root) {
    gw_value mine = own && gw_ok(s) ? gw_value_of(own) : gw_none();
    gw_value given = gw_broadcast_value_with(
        s, d->group, mine, root, GW_OPTIONS(gw_collective_options, .origin = GW_ORIGIN));
    return gw_ok(s) ? gw_map_of(s, given) : NULL;
}

static void receive(gw_scope *s, gw_ddp *d, gw_optimizer *opt, gift *x) {
    bool leads = d->stats.rank == x->root;
    int end = d->gate.leaf_count + d->buffer_count;
    if (opt) {
        gw_map *own = leads ? gw_optimizer_state_dict(s, opt) : NULL;
        gw_map *given = receive_map(s, d, own, x->root);
        x->optimizer = leads ? NULL : given;
    }
    x->hook = (hook_state){ d->save_hook, d->load_hook, d->hook_context };
    if (!x->hook.save) x->hook = hook_state_of(d->hook, d->hook_context);
    if (x->hook.save) {
        gw_map *own = leads && gw_ok(s) ? x->hook.save(s, x->hook.context) : NULL;
        x->hook_remembers = receive_map(s, d, own, x->root);
    }
    x->numbers = replicas_receive(s, d, 0, end, x->root);
}

// The count of steps is the progress of this member: it is written last.
static void put(gw_scope *s, gw_ddp *d, gw_optimizer *opt, const gift *x, bool is_behind) {
    int end = d->gate.leaf_count + d->buffer_count;
    if (gw_ok(s) && x->hook_remembers)
        x->hook.load(s, x->hook.context, x->hook_remembers, is_behind);
    replicas_put(s, d, 0, end, x->numbers);
    if (gw_ok(s) && x->optimizer) gw_optimizer_load_state_dict(s, opt, x->optimizer);
}

// The others do not wait for one that fails here alone.
static void break_group(gw_ddp *d, gw_group *g, const gw_error *error) {
    env_enter(d->agent->env);
    group_break_all_on_loop(g, error);
    env_leave(d->agent->env);
}

// In |d->group|, whose members are those of |g|.
static void catch_up(gw_scope *s, gw_ddp *d, gw_optimizer *opt, gw_group *g, gift *x, progress own,
                     progress first) {
    bool is_sharded = opt && shard_of(opt), is_behind = is_ahead(first, own);
    receive(s, d, is_sharded ? NULL : opt, x);
    if (gw_ok(s) && is_sharded) shard_follow(s, opt, d, g);
    if (gw_ok(s)) put(s, d, opt, x, is_behind);
    if (!gw_ok(s)) return;
    d->earlier_passes = first.of_hooks;
    d->earlier_reduced = first.passes;
}

static gw_list *describe(gw_scope *s, const gw_ddp *d, const gw_optimizer *opt) {
    gw_list *all = ddp_describe(s, d, true);
    gw_list_add(s, all,
                !opt            ? "no optimizer"
                : shard_of(opt) ? "a sharded optimizer"
                                : "an optimizer");
    return all;
}

void reform_replicas(gw_scope *s, gw_ddp *d, gw_optimizer *opt, gw_group *g, bool lacks_state) {
    if (!ddp_is_usable(s, "gw_ddp_reform", d) || !group_is_given(s, g, "gw_ddp_reform") ||
        !check(s, d, g)) {
        if (g) group_open_own_failed(s, g);
        return;
    }
    gw_scope *t = scope_open_unrecorded(s);
    progress own = { gw_optimizer_steps(opt), d->earlier_reduced + d->stats.reduced,
                     d->earlier_passes + d->stats.passes };
    progress reported = lacks_state ? (progress){ -1, -1, 0 } : own, first = reported;
    gift x = { 0 };
    opening o = { .function = "gw_ddp_reform",
                  .of = gw_module_name(d->model),
                  .options = describe(t, d, opt),
                  .own = gw_value_of(replicas_describe(t, d)) };
    gw_group *before = d->group, *private = group_open_own(t, d->own, g, &o);
    if (gw_ok(t)) x.root = find_first(t, private, reported, &first);
    if (gw_ok(t) && enter_group(t, d, private, own) && replicas_compare_models(t, d, o.inputs))
        catch_up(t, d, opt, g, &x, reported, first);
    if (!gw_ok(t) && private != &group_poison) break_group(d, private, scope_error(t));
    gw_drop(d->own, d->group == private ? before : private);
    gw_scope_close_up(t);
}

void gw_ddp_reform(gw_scope *s, gw_ddp *d, gw_optimizer *opt, gw_group *g) {
    reform_replicas(s, d, opt, g, false);
}
