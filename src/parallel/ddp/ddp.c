// The functions of gradwire/ddp.h: opening, closing, statistics, passes without gradients.
#include "parallel/ddp/ddp.h"

#include "autograd/grads.h"
#include "base/mem.h"
#include "base/value.h"
#include "call/protocol.h"
#include "collective/backend/backend.h"
#include "collective/group/group.h"
#include "collective/opening/opening.h"
#include "tensor/tensor.h"
#include <gradwire/ops.h>

#include <stdio.h>
#include <string.h>

// ---- Closing ------------------------------------------------------------------------------------

static void destroy(gw_handle *h) {
    gw_ddp *d = (gw_ddp *)(void *)h;
    gate_share(&d->gate, NULL, NULL);
    if (d->gate.class) gate_unset(&d->gate);
    if (d->model_hook) gw_module_remove_hook(d->own, d->model, d->model_hook);
    layout_release(d->layout);
    layout_release(d->agreed.ordered);
    handle_release(d->taker);
    shards_free(d->shards);
    scope_close_unread(d->own);
    agent_release(d->agent);
    mem_free(d);
}

static const handle_class ddp_class = { .name = "DistributedDataParallel", .destroy = destroy };
static gw_ddp ddp_poison = { .gate = {
                                 .handle = { .class = &ddp_class, .count = HANDLE_IMMORTAL } } };

bool ddp_is_usable(gw_scope *s, const char *what, const gw_ddp *d) {
    if (!d || d == &ddp_poison)
        scope_fail(s, GW_INVALID, "%s: %s", what,
                   d ? "the DistributedDataParallel could not be opened" : "ddp is NULL");
    return gw_ok(s);
}

// ---- Forward ------------------------------------------------------------------------------------

static bool is_check_due(const gw_ddp *d) {
    int64_t every = d->options.check_every;
    if (!every || !d->stats.passes || d->stats.passes % every) return false;
    return !d->join.join ||
           d->join.is_whole;  // a member that has closed a join need not have stepped
}

// Before a forward: an iteration begins, if |d| is the first joinable of a join.
static bool begin_iteration(gw_scope *s, gw_ddp *d) {
    const ddp_in_join *in = &d->join;
    if (!in->join || !in->is_first || in->awaits_pass) return true;
    return in->begin(s, in->join, !s->not_synchronised);
}

// The exchanges before a synchronised pass. Once in an iteration of a join. A scope that has failed enters them as
// failed.
static void prepare_pass(gw_scope *s, gw_ddp *d) {
    if (d->join.join && !d->join.awaits_forward) return;
    d->join.awaits_forward = false;
    if (d->buffer_count && d->options.buffers == GW_BUFFERS_BROADCAST)
        replicas_broadcast(s, d, false, true, d->join.buffer_root);
    if (is_check_due(d)) replicas_compare_numbers(s, d);
}

// Called also if |s| has failed: its pass fails then. REPL-5.
static gw_tensor *before_forward(gw_scope *s, gw_module *m, gw_tensor *x, void *context) {
    gw_ddp *d = context;
    (void)x;
    if (!s->grad_enabled || !m->training || !begin_iteration(s, d)) return NULL;
    if (s->not_synchronised) return NULL;
    gate_note(s, &d->gate);
    if (!d->forward_ns && ddp_is_timed(d->stats.passes + 1))
        d->forward_ns = env_now_ns(d->agent->env);
    prepare_pass(s, d);
    return NULL;
}

// An error here fails the pass on all members.
void ddp_shadow(gw_scope *s, gw_ddp *d, bool synchronised) {
    if (!synchronised) return;
    d->join.shadows = true;
    gw_ddp_skip(s, d);
    d->join.shadows = false;
}

// ---- Opening ------------------------------------------------------------------------------------

static void check_ignored(gw_scope *s, const gw_module *model, const gw_ddp_options *o) {
    for (int i = 0; i < o->ignore_count && gw_ok(s); i++) {
        const char *name = o->ignore[i];
        if (!name)
            scope_fail(s, GW_INVALID, "gw_ddp_open: name %d of the %d names in .ignore is NULL", i,
                       o->ignore_count);
        else if (!gw_module_parameter_find(model, name) && !gw_module_buffer_find(model, name))
            scope_fail(s, GW_INVALID,
                       "gw_ddp_open: .ignore names \"%s\", which is not a parameter or buffer of "
                       "the model",
                       name);
    }
}

// A joining member has a group of its own until gw_ddp_reform. A group that workers can have joined has been re-formed.
static bool opens_alone(const gw_ddp_options *o) {
    const gw_group *g = o->group;
    return o->joining && g && (g->generation || gw_group_size(g) == 1);
}

static bool check_options(gw_scope *s, const gw_module *model, const gw_ddp_options *o) {
    int64_t bucket = o->bucket_bytes < 1 ? o->bucket_bytes : o->first_bucket_bytes;
    if (bucket < 1)
        scope_fail(s, GW_INVALID,
                   "gw_ddp_open: the size of buckets is %lld bytes, but must be 1 or more",
                   (long long)bucket);
    else if (o->shards < 0 || (o->shards & (o->shards - 1)))
        scope_fail(s, GW_INVALID, "gw_ddp_open: .shards is %d, but must be a power of two",
                   o->shards);
    else if (o->check_every < 0)
        scope_fail(s, GW_INVALID,
                   "gw_ddp_open: .check_every is %lld passes, but must not be negative",
                   (long long)o->check_every);
    else if (o->ignore_count < 0 || (o->ignore_count && !o->ignore))
        scope_fail(s, GW_INVALID, "gw_ddp_open: .ignore_count is %d%s", o->ignore_count,
                   o->ignore ? "" : ", but .ignore is NULL");
    else if (o->joining && !o->group)
        scope_fail(s, GW_INVALID, "gw_ddp_open: .joining is set, but no group is given");
    else if (o->joining && !opens_alone(o))
        scope_fail(s, GW_INVALID,
                   "gw_ddp_open: .joining can be set only on a member that has joined the group by "
                   "gw_group_join");
    else if ((unsigned)o->buffers > GW_BUFFERS_AVERAGE)
        scope_fail(s, GW_INVALID, "gw_ddp_open: .buffers is %d, which is not a gw_buffers",
                   (int)o->buffers);
    else
        check_ignored(s, model, o);
    return gw_ok(s);
}

static const char *buffers_name(gw_buffers b) {
    static const char *const names[] = { "GW_BUFFERS_BROADCAST", "GW_BUFFERS_LEFT",
                                         "GW_BUFFERS_WITH_GRADIENTS", "GW_BUFFERS_AVERAGE" };
    return names[b];
}

// Options that may differ between members are left out: check_finite, and where means are kept.
gw_list *ddp_describe(gw_scope *s, const gw_ddp *d, bool with_hook) {
    const gw_ddp_options *o = &d->options;
    gw_list *all = gw_list_open(s);
    if (with_hook)
        gw_list_add(
            s, all,
            gw_format(s, "%s%s", d->hook_text, d->save_hook ? ", whose state is saved" : ""));
    gw_list_add(s, all, gw_format(s, ".shards = %d", o->shards));
    gw_list_add(s, all, gw_format(s, ".bucket_bytes = %lld", (long long)o->bucket_bytes));
    gw_list_add(s, all,
                gw_format(s, ".first_bucket_bytes = %lld", (long long)o->first_bucket_bytes));
    gw_list_add(s, all, gw_format(s, ".buffers = %s", buffers_name(o->buffers)));
    gw_list_add(s, all, gw_format(s, ".static_graph = %s", o->static_graph ? "true" : "false"));
    gw_list_add(s, all, gw_format(s, ".check_every = %lld", (long long)o->check_every));
    return all;
}

void ddp_note_hook(gw_ddp *d) {
    env_enter(d->agent->env);
    final_note_on_loop(d->group, d->hook_text);
    env_leave(d->agent->env);
}

static gw_group *open_alone(gw_scope *s, gw_group *g) {
    int self = gw_group_rank(g);
    return gw_group_of(s, g, &self, 1);
}

static bool take_group(gw_scope *s, gw_ddp *d) {
    gw_scope *t = gw_scope_open(s);
    opening o = { .function = "gw_ddp_open" };
    o.of = gw_format(t, "%s (%s)", gw_module_name(d->model), d->origin);
    o.options = ddp_describe(t, d, false);
    o.own = gw_value_of(replicas_describe(t, d));
    gw_group *of = d->options.group;
    if (d->options.joining) of = open_alone(t, of);
    gw_group *g = gw_ok(t) ? group_open_own(t, d->own, of, &o) : &group_poison;
    if (!gw_ok(t)) {
        gw_scope_close_up(t);
        return false;
    }
    d->group = g;
    g->final_name = "DDP pass";
    ddp_note_hook(d);
    d->stats.backend = g->backend->name;
    d->stats.world_size = gw_group_size(g);
    d->stats.rank = gw_group_rank(g);
    replicas_compare_models(t, d, o.inputs);
    int shards = d->options.shards;
    if (gw_ok(t) && shards && shards % d->stats.world_size)
        scope_fail(t, GW_INVALID,
                   "gw_ddp_open: %d shards cannot be divided equally among %d members", shards,
                   d->stats.world_size);
    gw_scope_close_up(t);
    return gw_ok(s);
}

static void name_dtypes(gw_ddp *d) {
    char *out = d->stats.dtypes;
    size_t at = 0;
    for (gw_dtype dtype = 0; dtype <= GW_BF16; dtype++) {
        bool has = false;
        for (int i = 0; i < d->gate.leaf_count; i++) has |= d->gate.leaves[i]->dtype == dtype;
        if (has)
            at += (size_t)snprintf(out + at, sizeof d->stats.dtypes - at, "%s%s", at ? ", " : "",
                                   gw_dtype_name(dtype));
    }
}

static bool make_buckets(gw_scope *s, gw_ddp *d) {
    d->layout = layout_open(d, NULL);
    if (d->options.shards) d->shards = shards_open(d);
    if (!d->layout || (d->options.shards && !d->shards) || !static_open(d) || !finalize_open(d))
        return scope_fail(s, GW_NO_MEMORY, "gw_ddp_open: no memory for its buckets");
    if (buffers_ride(d) && d->layout->rider < 0)
        return scope_fail(
            s, GW_INVALID,
            "gw_ddp_open: .buffers sends buffers with gradients of f32 or f64, but no "
            "parameter of the model has f32 or f64");
    name_dtypes(d);
    d->stats.parameters = d->gate.leaf_count;
    d->stats.buckets = d->layout->bucket_count;
    for (int i = 0; i < d->gate.leaf_count; i++)
        d->stats.parameter_bytes += (int64_t)tensor_size(d->gate.leaves[i]);
    return true;
}

static bool enter_model(gw_scope *s, gw_ddp *d) {
    if (!gate_set(s, &d->gate)) return false;
    d->gate.class = &ddp_gate_class;
    d->gate.fails_once = d->shards != NULL;
    d->model_hook = module_register_hook_always(s, d->model, before_forward, d);
    return gw_ok(s);
}

static gw_ddp *take(gw_scope *s, agent *a, gw_module *model, gw_ddp_options options) {
    gw_ddp *d = mem_calloc(sizeof *d);
    if (!d) {
        scope_fail(s, GW_NO_MEMORY, "gw_ddp_open: no memory");
        return NULL;
    }
    handle_init(&d->gate.handle, &ddp_class);
    list_init(&d->passes);
    d->agent = agent_retain(a);
    d->own = agent_scope_open(a, 0, 0, ENV_NEVER);
    d->options = options;
    d->hook_text = "no hook";
    d->model = scope_own(d->own, handle_retain(model));
    const char *origin = origin_base(options.origin);
    d->origin = gw_format(d->own, "%s", origin[0] ? origin : "gw_backward");
    if (gw_ok(d->own)) return d;
    scope_fail_with(s, scope_error(d->own));
    handle_release(d);
    return NULL;
}

gw_ddp *gw_ddp_open_with(gw_scope *s, gw_module *model, gw_ddp_options options) {
    agent *a = gw_ok(s) ? agent_of(s) : NULL;
    gw_ddp *d = NULL;
    if (a && module_is_usable(s, "gw_ddp_open", model) && check_options(s, model, &options))
        d = take(s, a, model, options);
    if (!d || !replicas_collect(s, d)) {
        if (!opens_alone(&options)) group_open_own_failed(s, options.group);
        if (d) handle_release(d);
        return &ddp_poison;
    }
    bool ok = take_group(s, d);
    if (ok) replicas_broadcast(s, d, true, true, 0);
    ok = ok && gw_ok(s) && make_buckets(s, d) && enter_model(s, d);
    if (ok) return (d = scope_own(s, d)) ? d : &ddp_poison;
    handle_release(d);
    return &ddp_poison;
}

// ---- Sharing out --------------------------------------------------------------------------------

gw_ddp *ddp_of_parameter(const gw_tensor *x, int *out_leaf) {
    gate *g = gate_of(x, out_leaf);
    return g && g->class == &ddp_gate_class ? ddp_of(g) : NULL;
}

static bool is_unused(gw_scope *s, gw_ddp *d) {
    env_enter(d->agent->env);
    bool is_used = d->stats.passes;
    env_leave(d->agent->env);
    if (is_used)
        scope_fail(s, GW_WRONG_STATE,
                   "an optimizer must be sharded before the first backward pass of the model");
    return !is_used;
}

// In memory of |d|. |parts| are in the order of the optimizer's parameters.
static sharing *sharing_of(gw_ddp *d, const kept_part *parts, int count, uint64_t group) {
    size_t leaves = (size_t)d->gate.leaf_count;
    sharing *x = gw_alloc(d->own, sizeof *x);
    kept_part *own = gw_alloc(d->own, (size_t)count * sizeof *own);
    int *numbers = gw_alloc(d->own, 2 * leaves * sizeof *numbers), *here = numbers, placed = 0;
    if (!x || !own || !numbers) return NULL;
    int *owners = numbers + leaves;
    for (size_t i = 0; i < leaves; i++) here[i] = -1;
    for (int m = 0; m < d->stats.world_size; m++)
        for (int i = 0; i < count; i++) {
            if (parts[i].owner != m) continue;
            if (m == d->stats.rank) here[parts[i].leaf] = placed;
            if (!parts[i].first) owners[parts[i].leaf] = m;
            own[placed++] = parts[i];
        }
    *x = (sharing){ own, count, here, owners, group };
    return x;
}

bool ddp_may_share(gw_scope *s, const char *keeps_whole) {
    if (keeps_whole) scope_fail(s, GW_INVALID, "gradients are sharded, but %s", keeps_whole);
    return gw_ok(s);
}

bool ddp_share_means(gw_scope *s, gw_ddp *d, const kept_part *parts, int part_count,
                     gw_tensor *const *views, uint64_t group) {
    size_t count = (size_t)d->gate.leaf_count;
    if (!is_unused(s, d) || !ddp_may_share(s, d->hook_keeps_whole)) return false;
    bool *gives_away = gw_alloc(d->own, count * sizeof *gives_away);
    gw_tensor **ranges = gw_alloc(d->own, count * sizeof(gw_tensor *));
    layout *l = NULL;
    d->sharing = sharing_of(d, parts, part_count, group);
    if (d->sharing && gives_away && ranges) {
        for (size_t i = 0; i < count; i++) gives_away[i] = !ddp_keeps(d, (int)i);
        memcpy(ranges, views, count * sizeof(gw_tensor *));
        l = layout_open(d, NULL);
    }
    if (!l || !gate_share(&d->gate, gives_away, ranges)) {
        layout_release(l);
        d->sharing = NULL;
        return scope_fail(s, GW_NO_MEMORY, "no memory for sharded gradients");
    }
    layout_release(d->layout);
    d->layout = l;
    return true;
}

bool ddp_set_taker(gw_scope *s, gw_ddp *d, gw_handle *taker, mean_taker *mean_arrived) {
    if (!is_unused(s, d)) return false;
    if (d->taker)
        scope_fail(s, GW_WRONG_STATE, "another optimizer of this model has set .overlap already");
    if (!gw_ok(s)) return false;
    d->mean_arrived = mean_arrived;
    d->taker = handle_retain(taker);
    return true;
}

// ---- Statistics -------------------------------------------------------------------------------------

void gw_ddp_no_sync(gw_scope *s) {
    s->not_synchronised = true;
}

void gw_ddp_sync(gw_scope *s) {
    s->not_synchronised = false;
}

void gw_ddp_check(gw_scope *s, gw_ddp *d) {
    ddp_is_usable(s, "gw_ddp_check", d);
    if (d && d != &ddp_poison) replicas_compare_numbers(s, d);
}

void gw_ddp_broadcast(gw_scope *s, gw_ddp *d) {
    ddp_is_usable(s, "gw_ddp_broadcast", d);
    if (d && d != &ddp_poison) replicas_broadcast(s, d, true, true, 0);
}

gw_ddp_stats gw_ddp_get_stats(const gw_ddp *d) {
    if (!d || d == &ddp_poison) return (gw_ddp_stats){ .backend = "" };
    env_enter(d->agent->env);
    gw_ddp_stats stats = d->stats;
    stats.completed = d->earlier_reduced + stats.reduced;
    env_leave(d->agent->env);
    return stats;
}

// ---- Without a pass -----------------------------------------------------------------------------

static void finish_skip(ddp_pass *r) {
    gw_scope *t = agent_scope_open(r->ddp->agent, 0, 0, ENV_NEVER);
    gw_future *f = r->context;
    if (r->error.status) scope_fail_with(t, &r->error);
    gw_future_set_with(t, f, gw_none());
    scope_close_unread(t);
    handle_release(f);
}

static void take_results(gw_scope *s, gw_ddp *d, gw_tensor *const *results, bool adds) {
    const gate *g = &d->gate;
    gw_tensor_grad *pairs = gw_alloc(s, 2 * (size_t)g->leaf_count * sizeof *pairs);
    int count = pairs ? gate_list_answers(g, results, adds, pairs) : 0;
    if (pairs) grads_add_and_replace(s, s, pairs, count, adds ? count : 0);
}

// One count.
static gw_tensor *take_accumulated(gw_scope *s, gw_ddp *d, int i, bool adds) {
    gw_tensor *x = adds ? NULL : grads_find(s, d->gate.leaves[i]);
    return d->shards ? shards_add(s, d, i, x) : handle_retain(x);
}

static void contribute_accumulated(gw_scope *s, ddp_pass *r, bool adds) {
    gw_ddp *d = r->ddp;
    for (int i = d->gate.leaf_count - 1; i >= 0; i--) {
        gw_tensor *x = take_accumulated(s, d, i, adds);
        ddp_pass_contribute(s, r, i, x);
        handle_release(x);
        ddp_pass_leaf_is_ready(r, i);
    }
    if (d->shards) shards_count_pass(d);
}

// A pass that is not the last of its step.
static void skip_shard(gw_scope *s, gw_ddp *d, bool adds) {
    gw_tensor **none = gw_alloc(s, (size_t)d->gate.leaf_count * sizeof(gw_tensor *));
    for (int i = 0; none && i < d->gate.leaf_count; i++) {
        none[i] = NULL;
        handle_release(take_accumulated(s, d, i, adds));
    }
    if (gw_ok(s)) take_results(s, d, none, adds);
    if (gw_ok(s)) {
        shards_count_pass(d);
        return;
    }
    d->gate.class->abandoned(&d->gate, scope_error(s));
}

static void exchange_nothing(gw_scope *s, gw_ddp *d, bool adds) {
    gw_future *f = gw_future_open(s);
    ddp_pass *r = gw_ok(s) ? ddp_pass_open(s, d, context_deadline_ns(s), NULL) : NULL;
    if (!r) {
        d->gate.class->abandoned(&d->gate, scope_error(s));
        return;
    }
    contribute_accumulated(s, r, adds);
    r->done = finish_skip;
    r->context = handle_retain(f);
    ddp_pass_begin(r);
    gw_wait(s, f);
    if (gw_ok(s)) {
        take_results(s, d, r->results, adds);
        if (gw_ok(s)) ddp_note_means(d, s);
        buffers_put(s, r);
    } else {
        ddp_pass_fail(r, scope_error(s));
    }
    ddp_pass_release(r);
}

// The others call the model before their pass.
static bool prepare_skip(gw_scope *s, gw_ddp *d) {
    gw_error error;
    if (gw_ok(s) && context_check_wait(s, &error)) scope_fail_with(s, &error);
    bool is_prepared = gate_is_noted(s, &d->gate);
    if (!is_prepared) prepare_pass(s, d);
    if (!gw_ok(s)) {
        gate_report_failure(s, &d->gate);
        return false;
    }
    gate_forget_note(s, &d->gate);
    return ddp_pass_is_awaited(s, d);
}

void gw_ddp_skip(gw_scope *s, gw_ddp *d) {
    if (!d || d == &ddp_poison) {
        ddp_is_usable(s, "gw_ddp_skip", d);
        return;
    }
    if (!prepare_skip(s, d)) return;
    bool adds = gate_has_answered(&d->gate, s);
    if (shards_is_last(d))
        exchange_nothing(s, d, adds);
    else
        skip_shard(s, d, adds);
}
