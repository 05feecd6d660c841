#include "autograd/pass.h"

#include "autograd/grads.h"
#include "autograd/hook.h"
#include "base/mem.h"
#include "tensor/rows.h"
#include <gradwire/ops.h>
#include <stdio.h>

enum { EDGES_SMALL = 16 };

void pass_open(pass *p, gw_scope *s, gw_backward_options options) {
    p->scope = s;
    p->options = options;
    p->keeps = false;
    p->remote = NULL;
    p->targets = p->small_targets;
    p->parts = p->small_parts;
    p->slots = p->small_slots;
    p->ready = p->small_ready;
    p->target_capacity = p->part_capacity = p->slot_capacity = p->ready_capacity = PASS_SMALL;
    p->target_count = p->part_count = p->slot_count = p->ready_count = 0;
    index_init(&p->numbers);
    p->work = gw_scope_open(s);
    gw_no_grad(p->work);
}

void pass_close(pass *p) {
    for (uint32_t i = 0; i < p->slot_count; i++) grad_sum_fini(&p->slots[i].sum);
    if (p->targets != p->small_targets) mem_free(p->targets);
    if (p->parts != p->small_parts) mem_free(p->parts);
    if (p->slots != p->small_slots) mem_free(p->slots);
    if (p->ready != p->small_ready) mem_free(p->ready);
    index_fini(&p->numbers);
    gw_scope_close_up(p->work);
}

// Hands the error of the work to the scope of the pass; |what| says what failed.
static bool fail_from_work(pass *p, const char *what) {
    gw_error error = *gw_scope_error(p->work);
    error_prefix(&error, what);
    error_prefix(&error, "backward");
    scope_fail_with(p->scope, &error);
    return false;
}

bool pass_deliver(pass *p, part to, gw_tensor *gradient) {
    if (!gw_ok(p->work)) return fail_from_work(p, "the gradient to start from");
    if (to.slot == PART_NONE) return true;
    slot *slot = &p->slots[to.slot];
    target *t = &p->targets[slot->target];
    if (!t->needed) return true;
    if (!grad_sum_add(p->work, &slot->sum, to.ordinal, gradient))
        return fail_from_work(p, "adding gradients");
    if (--t->missing == 0) p->ready[p->ready_count++] = slot->target;
    return true;
}

// Frees what a derivative made beside its results, so that a long pass does not hold all of it.
static void release_work(pass *p) {
    scope_release_from(p->work, 0);
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
    // A node that sends to another worker runs without gradients, too: that worker awaits a
    // message.
    if (!any && !node_is_remote(n)) return true;
    if (gw_ok(p->work)) n->class->run(n, r);
    if (gw_ok(p->work)) return true;
    char name[GW_NAME_MAX + 1];
    snprintf(name, sizeof name, "gw.%s", n->class->name(n));
    return fail_from_work(p, name);
}

// Runs a node whose gradients have all come, and hands the results on.
static bool run_node(pass *p, target *t) {
    node *n = t->key;
    gw_tensor *small_outputs[EDGES_SMALL], *small_inputs[EDGES_SMALL];
    bool small_wanted[EDGES_SMALL];
    bool large = n->edge_count > EDGES_SMALL, many = n->output_count > EDGES_SMALL;
    gw_tensor **d_inputs = large ? mem_alloc(n->edge_count * sizeof *d_inputs) : small_inputs;
    gw_tensor **d_outputs = many ? mem_alloc(n->output_count * sizeof *d_outputs) : small_outputs;
    bool *wanted = large ? mem_alloc(n->edge_count) : small_wanted;
    bool ok = d_inputs && d_outputs && wanted;
    if (!ok) scope_fail(p->scope, GW_NO_MEMORY, "backward: no memory for the inputs' gradients");

    for (uint32_t k = 0; ok && k < n->edge_count; k++) {
        d_inputs[k] = NULL;
        wanted[k] = p->parts[t->first_part + k].slot != PART_NONE;
    }
    node_run r = { p->work, d_outputs, d_inputs, wanted };
    ok = ok && run_derivative(p, t, &r);
    for (uint32_t k = 0; ok && k < n->edge_count; k++)
        ok = pass_deliver(p, p->parts[t->first_part + k], d_inputs[k]);
    for (uint32_t i = 0; i < n->output_count; i++) {
        slot *slot = &p->slots[t->first_slot + i];
        if (!slot->wanted) grad_sum_fini(&slot->sum);
    }
    if (ok && !p->options.retain_graph && !p->keeps) n->spent |= n->class->forget(n);
    release_work(p);
    if (large) {
        mem_free(d_inputs);
        mem_free(wanted);
    }
    if (many) mem_free(d_outputs);
    return ok;
}

// Runs a target whose gradients have all come.
static bool run_hooks(pass *p, const target *t) {
    const grad_hook *first =
        t->is_leaf ? ((const gw_tensor *)t->key)->hooks : ((const node *)t->key)->hooks;
    uint16_t count = t->is_leaf ? 1 : ((const node *)t->key)->output_count;
    for (uint16_t i = 0; first && i < count; i++)
        if (!grad_hooks_run(p->work, first, i, &p->slots[t->first_slot + i].sum.total))
            return fail_from_work(p, "hook");
    return true;
}

bool pass_run(pass *p) {
    if (!gw_ok(p->scope)) return false;
    while (p->ready_count) {
        target *t = &p->targets[p->ready[--p->ready_count]];
        if (!run_hooks(p, t)) return false;
        if (t->runs && !run_node(p, t)) return false;
    }
    return true;
}

// Takes out the sum of one slot, as a contiguous gradient that shares its memory with no other
// tensor; or as rows, each once.
static gw_tensor *take_gradient(pass *p, slot *slot) {
    gw_tensor *total = slot->sum.total;
    slot->sum.total = NULL;
    if (grad_is_own(total)) return total;
    gw_tensor *own = tensor_is_rows(total) ? gw_coalesce(p->work, total)
                     : total->contiguous   ? gw_clone(p->work, total)
                                           : gw_contiguous(p->work, total);
    handle_retain(own);
    handle_release(total);
    release_work(p);
    return own;
}

static int collect(pass *p, gw_tensor_grad *pairs) {
    int count = 0;
    if (!p->options.inputs) {
        for (uint32_t i = 0; i < p->target_count; i++) {
            const target *t = &p->targets[i];
            slot *slot = &p->slots[t->first_slot];
            if (t->is_leaf && slot->sum.total)
                pairs[count++] = (gw_tensor_grad){ t->key, take_gradient(p, slot) };
        }
        return count;
    }
    for (int i = 0; i < p->options.input_count; i++) {
        edge e = edge_to(p->options.inputs[i]);
        uint32_t number = index_find(&p->numbers, e.to.any);
        if (number == INDEX_NONE) continue;
        slot *slot = &p->slots[p->targets[number].first_slot + e.output];
        if (slot->sum.total)
            pairs[count++] = (gw_tensor_grad){ p->options.inputs[i], take_gradient(p, slot) };
    }
    return count;
}

void pass_forget(pass *p) {
    for (uint32_t i = 0; i < p->target_count; i++) {
        node *n = p->targets[i].runs ? p->targets[i].key : NULL;
        if (n) n->spent |= n->class->forget(n);
    }
}

bool pass_take(pass *p, gw_tensor_grad **out_pairs, int *out_count) {
    gw_tensor_grad *pairs = mem_alloc((p->target_count + 1) * sizeof *pairs);
    if (!pairs) {
        scope_fail(p->scope, GW_NO_MEMORY, "backward: no memory for the gradients");
        return false;
    }
    int count = collect(p, pairs);
    if (gw_ok(p->work)) {
        *out_pairs = pairs;
        *out_count = count;
        return true;
    }
    for (int i = 0; i < count; i++) handle_release(pairs[i].grad);
    mem_free(pairs);
    return fail_from_work(p, "gradients");
}

bool pass_commit(pass *p) {
    gw_tensor_grad small[EDGES_SMALL], *pairs = small;
    uint32_t max = p->options.inputs ? (uint32_t)p->options.input_count : p->target_count;
    if (max > EDGES_SMALL && !(pairs = mem_alloc(max * sizeof *pairs))) {
        scope_fail(p->scope, GW_NO_MEMORY, "backward: no memory for the gradients");
        return false;
    }
    int count = collect(p, pairs);
    bool ok = gw_ok(p->work);
    if (ok)
        ok = grads_add(p->scope, p->work, pairs, count);
    else
        for (int i = 0; i < count; i++) handle_release(pairs[i].grad);
    if (pairs != small) mem_free(pairs);
    return ok || fail_from_work(p, "adding gradients");
}
