// The end of a pass: its gradients as they stay.
#include "autograd/pass.h"

#include "autograd/grads.h"
#include "base/mem.h"
#include "tensor/rows.h"
#include <gradwire/ops.h>

#include <assert.h>

enum { PAIRS_SMALL = 16 };

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
    scope_release_from(p->work, 0);
    return own;
}

// The answers of the gates that are added to the gradients of the scope, or else replace them.
static int collect_answers(const pass *p, gw_tensor_grad *pairs, bool adds) {
    int count = 0;
    for (const gate_pass *at = p->gates; at; at = at->next)
        if (at->begun && at->adds == adds)
            count += gate_list_answers(at->gate, at->answered->tensors, adds, pairs + count);
    return count;
}

static uint32_t count_gated(const pass *p) {
    uint32_t count = 0;
    for (const gate_pass *at = p->gates; at; at = at->next)
        count += 2 * (uint32_t)at->gate->leaf_count;
    return count;
}

static int collect(pass *p, gw_tensor_grad *pairs) {
    int count = 0;
    if (!p->options.inputs) {
        for (uint32_t i = 0; i < p->target_count; i++) {
            const target *t = &p->targets[i];
            slot *slot = &p->slots[t->first_slot];
            if (t->is_leaf && !t->gated && slot->sum.total)
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

bool pass_take(pass *p, gw_tensor_grad **out_pairs, int *out_count, int *out_replaces) {
    gw_tensor_grad *pairs = mem_alloc((p->target_count + count_gated(p) + 1) * sizeof *pairs);
    assert(!p->late_count);
    if (!pairs)
        return scope_fail_of(p->scope, "backward", GW_NO_MEMORY, "no memory for the gradients");
    int count = collect(p, pairs);
    if (gw_ok(p->work)) {
        count += collect_answers(p, pairs + count, true);
        *out_pairs = pairs;
        *out_replaces = count;
        *out_count = count + collect_answers(p, pairs + count, false);
        gates_end(p, NULL);
        return true;
    }
    for (int i = 0; i < count; i++) handle_release(pairs[i].grad);
    mem_free(pairs);
    return pass_fail_from_work(p, "gradients");
}

bool pass_commit(pass *p) {
    gw_tensor_grad small[PAIRS_SMALL], *pairs = small;
    uint32_t max =
        p->options.inputs ? (uint32_t)p->options.input_count : p->target_count + count_gated(p);
    assert(!p->late_count);
    if (max > PAIRS_SMALL && !(pairs = mem_alloc(max * sizeof *pairs)))
        return scope_fail_of(p->scope, "backward", GW_NO_MEMORY, "no memory for the gradients");
    int count = collect(p, pairs);
    bool ok = gw_ok(p->work);
    if (ok) {
        count += collect_answers(p, pairs + count, true);
        int all = count + collect_answers(p, pairs + count, false);
        ok = grads_add_and_replace(p->scope, p->work, pairs, all, count);
    } else {
        for (int i = 0; i < count; i++) handle_release(pairs[i].grad);
    }
    if (pairs != small) mem_free(pairs);
    if (ok) gates_end(p, NULL);
    return ok || pass_fail_from_work(p, "adding gradients");
}
