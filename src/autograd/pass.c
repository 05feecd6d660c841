#include "autograd/pass.h"

#include "autograd/grads.h"
#include "autograd/hook.h"
#include "base/mem.h"
#include "tensor/rows.h"
#include <gradwire/ops.h>
#include <stdio.h>

enum { EDGES_SMALL = 16 };

static _Thread_local int inside;  // passes whose functions run on this thread

void pass_open(pass *p, gw_scope *s, gw_backward_options options) {
    p->scope = s;
    p->options = options;
    p->keeps = false;
    p->is_inside = inside > 0;
    p->remote = NULL;
    p->targets = p->small_targets;
    p->parts = p->small_parts;
    p->slots = p->small_slots;
    p->ready = p->small_ready;
    p->target_capacity = p->part_capacity = p->slot_capacity = p->ready_capacity = PASS_SMALL;
    p->target_count = p->part_count = p->slot_count = p->ready_count = 0;
    index_init(&p->numbers);
    p->gates = NULL;
    p->holds = false;
    p->left = 0;
    p->late_count = 0;
    p->on_answer = NULL;
    p->runner = NULL;
    list_init(&p->lates);
    list_init(&p->arrived);
    p->work = gw_scope_open(s);
    gw_no_grad(p->work);
    p->work->autocast = NULL;  // derivatives compute in the types that their operators had
}

// Later answers are dropped.
static void close_lates(pass *p) {
    env *e = p->scope->env;
    list_node over;
    if (list_is_empty(&p->lates)) return;
    list_init(&over);
    env_enter(e);
    list_splice(&over, &p->lates);
    list_init(&p->lates);
    list_each(l, &over) list_entry(l, late, sibling)->pass = NULL;
    env_leave(e);
    while (!list_is_empty(&over)) late_release(list_entry(list_take(&over), late, sibling));
}

void pass_close(pass *p) {
    if (p->gates) {
        gw_error error = *scope_error(p->scope);
        if (!error.status) error_set(&error, GW_CANCELLED, "the backward pass was abandoned");
        gates_end(p, &error);
    }
    if (p->scope->env) close_lates(p);
    gates_close(p);
    for (uint32_t i = 0; i < p->slot_count; i++) grad_sum_fini(&p->slots[i].sum);
    if (p->targets != p->small_targets) mem_free(p->targets);
    if (p->parts != p->small_parts) mem_free(p->parts);
    if (p->slots != p->small_slots) mem_free(p->slots);
    if (p->ready != p->small_ready) mem_free(p->ready);
    index_fini(&p->numbers);
    if (check_enabled)
        grads_check_all_read(p->work);  // See Note [Gradients of a pass inside a hook]
    gw_scope_close_up(p->work);
}

bool pass_fail_from_work(pass *p, const char *what) {
    gw_error error = *scope_error(p->work);
    error_prefix(&error, what);
    error_prefix_function(&error, "backward");
    return scope_fail_with(p->scope, &error);
}

bool pass_deliver(pass *p, part to, gw_tensor *gradient) {
    if (!gw_ok(p->work)) return pass_fail_from_work(p, "the gradient to start from");
    if (to.slot == PART_NONE) return true;
    slot *slot = &p->slots[to.slot];
    target *t = &p->targets[slot->target];
    if (!t->needed) return true;
    if (!grad_sum_add(p->work, &slot->sum, to.ordinal, gradient))
        return pass_fail_from_work(p, "adding gradients");
    if (--t->missing == 0) p->ready[p->ready_count++] = slot->target;
    return true;
}

// Frees the tensors that a derivative made besides its results, so that a long pass does not hold all of them.
static void release_work(pass *p) {
    scope_release_from(p->work, 0);
}

static bool fail_from_node(pass *p, const node *n) {
    char name[GW_NAME_MAX + 1];
    snprintf(name, sizeof name, "gw.%s", n->class->name(n));
    return pass_fail_from_work(p, name);
}

static bool start_late(pass *p, const target *t, node_run *r) {
    node *n = t->key;
    late *l = gw_ok(p->work) ? late_open(p, n->edge_count) : NULL;
    if (!l) return gw_ok(p->work) ? false : fail_from_node(p, n);
    l->target = (uint32_t)(t - p->targets);
    n->class->start(n, r, l);
    return gw_ok(p->work) || fail_from_node(p, n);
}

static bool run_derivative(pass *p, target *t, node_run *r) {
    node *n = t->key;
    bool any = false;
    for (uint32_t i = 0; i < n->output_count; i++) {
        r->d_outputs[i] = p->slots[t->first_slot + i].sum.total;
        if (r->d_outputs[i] && !n->class->takes_rows)
            r->d_outputs[i] = gw_to_dense(p->work, r->d_outputs[i]);
        any |= r->d_outputs[i] != NULL;
    }
    // A node that sends to another worker, or with others, runs without gradients, too: they await
    // a message.
    if (n->class->start) return start_late(p, t, r);
    if (!any && !node_is_remote(n)) return true;
    if (gw_ok(p->work)) n->class->run(n, r);
    return gw_ok(p->work) || fail_from_node(p, n);
}

static void forget_node(pass *p, node *n) {
    if (!p->options.retain_graph && !p->keeps) n->spent |= n->class->forget(n);
}

// Runs a node whose gradients have all arrived, and hands the results on.
static bool run_node(pass *p, target *t) {
    node *n = t->key;
    gw_tensor *small_outputs[EDGES_SMALL], *small_inputs[EDGES_SMALL];
    bool small_wanted[EDGES_SMALL];
    bool large = n->edge_count > EDGES_SMALL, many = n->output_count > EDGES_SMALL;
    gw_tensor **d_inputs = large ? mem_alloc(n->edge_count * sizeof *d_inputs) : small_inputs;
    gw_tensor **d_outputs = many ? mem_alloc(n->output_count * sizeof *d_outputs) : small_outputs;
    bool *wanted = large ? mem_alloc(n->edge_count) : small_wanted;
    bool ok = d_inputs && d_outputs && wanted;
    if (!ok)
        scope_fail_of(p->scope, "backward", GW_NO_MEMORY, "no memory for the inputs' gradients");

    for (uint32_t k = 0; ok && k < n->edge_count; k++) {
        d_inputs[k] = NULL;
        wanted[k] = p->parts[t->first_part + k].slot != PART_NONE;
    }
    node_run r = { p->work, d_outputs, d_inputs, wanted };
    ok = ok && run_derivative(p, t, &r);
    for (uint32_t k = 0; ok && !n->class->start && k < n->edge_count; k++)
        ok = pass_deliver(p, p->parts[t->first_part + k], d_inputs[k]);
    for (uint32_t i = 0; i < n->output_count; i++) {
        slot *slot = &p->slots[t->first_slot + i];
        if (!slot->wanted) grad_sum_fini(&slot->sum);
    }
    if (ok && !n->class->start) forget_node(p, n);
    release_work(p);
    if (large) {
        mem_free(d_inputs);
        mem_free(wanted);
    }
    if (many) mem_free(d_outputs);
    return ok;
}

// Runs a target whose gradients have all arrived.
static bool run_hooks(pass *p, const target *t) {
    const grad_hooks *hooks =
        t->is_leaf ? ((const gw_tensor *)t->key)->hooks : ((const node *)t->key)->hooks;
    uint16_t count = t->is_leaf ? 1 : ((const node *)t->key)->output_count;
    for (uint16_t i = 0; hooks && i < count; i++)
        if (!grad_hooks_run(p->work, hooks, i, &p->slots[t->first_slot + i].sum.total))
            return pass_fail_from_work(p, "hook");
    return true;
}

// The gate retains the gradient if it needs it.
static bool pass_to_gate(pass *p, const target *t) {
    slot *slot = &p->slots[t->first_slot];
    bool ok = gates_pass_gradient(p, t->key, slot->sum.total);
    grad_sum_fini(&slot->sum);
    return ok;
}

static bool run_target(pass *p, target *t) {
    p->left--;  // of a pass with gates
    if (!run_hooks(p, t)) return false;
    if (t->gated) return p->holds || pass_to_gate(p, t);
    return !t->runs || run_node(p, t);
}

// Passes the held gradients on, once nothing else is left that could run a hook.
static bool pass_held(pass *p) {
    if (!p->holds || p->left) return true;
    p->holds = false;
    for (uint32_t i = 0; i < p->target_count; i++)
        if (p->targets[i].gated && !pass_to_gate(p, &p->targets[i])) return false;
    return gates_all_arrived(p);
}

// ---- Late answers ---------------------------------------------------------------

static bool fail_from_answer(pass *p, const late *l) {
    gw_error error = l->error;
    if (!l->gate) {
        const node *n = p->targets[l->target].key;
        char name[GW_NAME_MAX + 1];
        snprintf(name, sizeof name, "gw.%s", n->class->name(n));
        error_prefix(&error, name);
    }
    error_prefix_function(&error, "backward");
    return scope_fail_with(p->scope, &error);
}

static bool take_answer(pass *p, late *l) {
    p->late_count--;
    if (l->error.status) return fail_from_answer(p, l);
    if (l->gate) return true;  // it keeps the answer for the end of the pass
    target *t = &p->targets[l->target];
    bool ok = true;
    for (uint32_t k = 0; ok && k < l->tensor_count; k++)
        ok = pass_deliver(p, p->parts[t->first_part + k], l->tensors[k]);
    if (ok) forget_node(p, t->key);
    return ok;
}

static bool take_answers(pass *p) {
    list_node arrived;
    list_init(&arrived);
    env_enter(p->scope->env);
    list_splice(&arrived, &p->arrived);
    list_init(&p->arrived);
    env_leave(p->scope->env);
    bool ok = true;
    while (!list_is_empty(&arrived)) {
        late *l = list_entry(list_take(&arrived), late, link);
        ok = ok && take_answer(p, l);
    }
    return ok;
}

// ---- Running ------------------------------------------------------------------------------------

static bool run_ready(pass *p) {
    bool ok = true;
    inside++;
    while (ok && p->ready_count) ok = run_target(p, &p->targets[p->ready[--p->ready_count]]);
    inside--;
    return ok && pass_held(p);
}

bool pass_run(pass *p) {
    bool ok = gw_ok(p->scope) && run_ready(p);
    while (ok && p->late_count) {
        ok = take_answers(p);
        if (!p->ready_count) break;
        ok = ok && run_ready(p);
    }
    return ok;
}
