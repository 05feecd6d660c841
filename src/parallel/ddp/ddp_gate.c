// The gate of the parameters of a DistributedDataParallel: its calls drive a pass.
#include "collective/run/run.h"
#include "parallel/ddp/ddp.h"
#include <gradwire/ops.h>

static void answer(ddp_pass *r) {
    late *l = r->context;
    if (r->error.status)
        late_fail(l, &r->error);
    else
        late_answer(l, r->results);
}

static gw_tensor *plus_earlier(gate_pass *g, gw_scope *s, int i, gw_tensor *gradient) {
    gw_tensor *earlier = g->adds ? NULL : gate_earlier(g, i);
    if (!earlier || !gradient) return gradient ? gradient : earlier;
    return gw_add(s, earlier, gradient);
}

// Without memory for a pass that fails this member is behind the others by one from here on.
static void break_group(gw_ddp *d, const gw_error *error) {
    env_enter(d->agent->env);
    group_break_all_on_loop(d->group, error);
    env_leave(d->agent->env);
}

// The others wait for a pass that never begins: they get the error of the caller of the model. A step of shards is
// over.
static void abandoned(gate *g, const gw_error *error) {
    gw_ddp *d = ddp_of(g);
    if (agent_is_closed(d->agent)) return;
    shards_reset(d);
    gw_scope *s = agent_scope_open(d->agent, 0, 0, ENV_NEVER);
    env_enter(d->agent->env);
    if (!d->agreed.is_known) static_forget_on_loop(d);
    d->join.awaits_pass = false;
    env_leave(d->agent->env);
    ddp_pass *r = ddp_pass_open(s, d, ENV_NEVER, error);
    if (r) {
        ddp_pass_begin(r);
        ddp_pass_release(r);
    } else {
        break_group(d, error);
    }
    scope_close_unread(s);
}

// The contribution of leaf |i|, once its gradient has arrived, or cannot arrive.
static void contribute(gate_pass *g, gw_scope *s, int i, gw_tensor *x) {
    gw_ddp *d = ddp_of(g->gate);
    x = plus_earlier(g, s, i, x);
    gw_tensor *sum = d->shards ? shards_add(s, d, i, x) : handle_retain(x);
    if (g->state) ddp_pass_contribute(s, g->state, i, sum);
    handle_release(sum);
    if (g->state && gw_ok(s)) ddp_pass_leaf_is_ready(g->state, i);
}

// A pass that is not the last of its step has no results: it is answered once all its gradients have arrived.
static void count_down(gate_pass *g, gw_scope *s) {
    gw_ddp *d = ddp_of(g->gate);
    if (g->state || --d->missing_of_shard) return;
    gw_tensor **none = gw_alloc(s, (size_t)d->gate.leaf_count * sizeof *none);
    for (int i = 0; none && i < d->gate.leaf_count; i++) none[i] = NULL;
    if (none) late_answer(g->answer, none);
}

static void contribute_unreached(gate_pass *g, gw_scope *s) {
    for (int i = g->gate->leaf_count - 1; i >= 0; i--)
        if (!g->reached[i]) contribute(g, s, i, NULL);
}

static void begin_shard(gate_pass *g, gw_scope *s) {
    gw_ddp *d = ddp_of(g->gate);
    d->missing_of_shard = 0;
    for (int i = 0; i < d->gate.leaf_count; i++) d->missing_of_shard += g->reached[i];
    if (!g->holds) contribute_unreached(g, s);
}

static void begin(gate_pass *g, gw_scope *s) {
    gw_ddp *d = ddp_of(g->gate);
    if (!ddp_pass_is_awaited(s, d) || !static_follow(s, d, g->reached)) {
        abandoned(g->gate, scope_error(s));
        return;
    }
    if (!shards_is_last(d)) {
        begin_shard(g, s);
        return;
    }
    ddp_pass *r = ddp_pass_open(s, d, context_deadline_ns(g->scope), NULL);
    if (!r) {
        abandoned(g->gate, scope_error(s));
        return;
    }
    r->done = answer;
    r->context = g->answer;
    g->state = r;
    if (!g->holds) contribute_unreached(g, s);
    ddp_pass_begin(r);
}

static void gradient(gate_pass *g, gw_scope *s, int i, gw_tensor *x) {
    contribute(g, s, i, x);
    if (gw_ok(s)) count_down(g, s);
}

static void end_shard(gate_pass *g, const gw_error *error) {
    gw_ddp *d = ddp_of(g->gate);
    if (!error) {
        shards_count_pass(d);
        return;
    }
    if (d->missing_of_shard) late_release(g->answer);
    abandoned(g->gate, error);
}

static void end_step(gw_ddp *d, const gw_error *error) {
    if (error)
        shards_reset(d);
    else if (d->shards)
        shards_count_pass(d);
}

// Behind a pass that has succeeded nothing of it fails: without memory, buffers stay as they were.
static void put_buffers(ddp_pass *r) {
    gw_scope *s = agent_scope_open(r->ddp->agent, 0, 0, ENV_NEVER);
    buffers_put(s, r);
    scope_close_unread(s);
}

static void end(gate_pass *g, const gw_error *error) {
    ddp_pass *r = g->state;
    if (!r) {
        end_shard(g, error);
        return;
    }
    end_step(ddp_of(g->gate), error);
    if (!error) ddp_note_means(ddp_of(g->gate), g->scope);
    if (!error) put_buffers(r);
    env *e = r->ddp->agent->env;
    env_enter(e);
    bool unanswered = r->done != NULL;
    r->done = NULL;
    env_leave(e);
    if (unanswered) late_release(g->answer);
    if (error) ddp_pass_fail(r, error);
    ddp_pass_release(r);
}

const gate_class ddp_gate_class = { .name = "DistributedDataParallel",
                                    .begin = begin,
                                    .gradient = gradient,
                                    .all_arrived = contribute_unreached,
                                    .end = end,
                                    .abandoned = abandoned,
                                    .sum = replicas_sum };
