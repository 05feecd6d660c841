#include "distributed/autograd/accumulated.h"

#include "autograd/grads.h"
#include "base/mem.h"
#include "distributed/autograd/passes.h"

// ---- Pairs --------------------------------------------------------------------------------------

void grad_pairs_fini(grad_pairs *p) {
    for (int i = 0; i < p->count; i++) {
        handle_release(p->items[i].leaf);
        handle_release(p->items[i].grad);
    }
    mem_free(p->items);
    *p = (grad_pairs){ 0 };
}

static bool copy(const distributed_pass *x, grad_pairs *out) {
    *out = (grad_pairs){ mem_alloc((size_t)(x->grad_count + 1) * sizeof *out->items), x->grad_count,
                         x->grad_replaces };
    if (!out->items) return false;
    for (int i = 0; i < x->grad_count; i++) {
        out->items[i] = x->grads[i];
        handle_retain(x->grads[i].leaf);
        handle_retain(x->grads[i].grad);
    }
    return true;
}

// Adds |p| to the gradients that |s| has, or fails |work|. Takes |p|.
static void add(gw_scope *s, gw_scope *work, grad_pairs *p) {
    // grads_add_imported takes the gradients, so only the leaves are left to release.
    grads_add_imported(s, work, p->items, p->count, p->replaces);
    for (int i = 0; i < p->count; i++) handle_release(p->items[i].leaf);
    mem_free(p->items);
}

bool accumulated_take(gw_scope *s, grad_pairs *out) {
    int count = gw_grads_count(s);
    *out = (grad_pairs){ .items = mem_alloc((size_t)(count + 1) * sizeof *out->items) };
    if (!out->items) return false;
    for (int i = 0; i < count; i++) {
        gw_tensor_grad pair = gw_grads_get(s, i);
        handle_retain(pair.leaf);
        handle_retain(pair.grad);
        out->items[out->count++] = pair;
    }
    out->replaces = out->count;
    return gw_ok(s);
}

// ---- Passes -------------------------------------------------------------------------------------

static distributed_pass *find_on_loop(accumulated k, int index) {
    list_each(l, &graphs_of(k.agent)->passes) {
        distributed_pass *x = list_entry(l, distributed_pass, link);
        if (x->initiator == k.initiator && x->scope == k.scope &&
            (x->state == DISTRIBUTED_PASS_COMPLETE || x->state == DISTRIBUTED_PASS_SETTLED) &&
            index-- == 0)
            return x;
    }
    return NULL;
}

bool accumulated_copy(gw_scope *work, accumulated k, int index, grad_pairs *out) {
    env_enter(k.agent->env);
    const distributed_pass *x = find_on_loop(k, index);
    bool is = x && copy(x, out);
    env_leave(k.agent->env);
    if (x && !is) scope_fail(work, GW_NO_MEMORY, "no memory for gradients");
    return is;
}

void accumulated_import(accumulated k, gw_scope *s) {
    gw_scope *work = scope_open_unrecorded(s);
    grad_pairs p;
    for (int i = 0; gw_ok(work) && accumulated_copy(work, k, i, &p); i++) add(s, work, &p);
    gw_scope_close_up(work);
}

static grad_pairs exchange_on_loop(distributed_pass *x, grad_pairs with) {
    grad_pairs before = { x->grads, x->grad_count, x->grad_replaces };
    x->grads = with.items;
    x->grad_count = with.count;
    x->grad_replaces = with.replaces;
    x->grads_changes++;
    return before;
}

bool accumulated_exchange(accumulated k, grad_pairs *sum) {
    grad_pairs *old = NULL;
    int count = 0;
    env_enter(k.agent->env);
    while (find_on_loop(k, count)) count++;
    if (count) old = mem_alloc((size_t)count * sizeof *old);
    for (int i = 0; old && i < count; i++) {
        old[i] = exchange_on_loop(find_on_loop(k, i), *sum);
        *sum = (grad_pairs){ 0 };
    }
    env_leave(k.agent->env);
    for (int i = 0; old && i < count; i++) grad_pairs_fini(&old[i]);
    mem_free(old);
    return old || !count;
}

// ---- Sums ---------------------------------------------------------------------------------------

typedef struct pair_of_passes {
    uint64_t numbers[2];
    uint32_t changes[2];
    grad_pairs grads[2];
} pair_of_passes;

// Whether the initiator itself has reported that |x| succeeded, so that no later message can abort it.
static bool is_over(const distributed_pass *x) {
    return x->state == DISTRIBUTED_PASS_SETTLED && !x->ends &&
           passes_is_over_on_loop(x->agent, x->initiator, x->number);
}

static bool take_two(accumulated k, pair_of_passes *two) {
    int count = 0;
    env_enter(k.agent->env);
    for (; count < 2; count++) {
        const distributed_pass *x = find_on_loop(k, count);
        if (!x || !is_over(x) || !copy(x, &two->grads[count])) break;
        two->numbers[count] = x->number;
        two->changes[count] = x->grads_changes;
    }
    env_leave(k.agent->env);
    if (count == 1) grad_pairs_fini(&two->grads[0]);
    return count == 2;
}

static bool sum_of(accumulated k, pair_of_passes *two, grad_pairs *out) {
    gw_scope *s = agent_scope_open(k.agent, 0, 0, ENV_NEVER), *work = gw_scope_open(s);
    gw_no_grad(work);
    for (int i = 0; i < 2; i++) add(s, work, &two->grads[i]);
    bool ok = gw_ok(work) && gw_ok(s);
    gw_scope_close_up(work);
    ok = ok && accumulated_take(s, out);
    scope_close_unread(s);
    return ok;
}

// False if one of the passes was dropped, or its gradients changed, while the sum was computed.
static bool put_on_loop(accumulated k, const pair_of_passes *two, grad_pairs *sum) {
    distributed_pass *x[2];
    for (int i = 0; i < 2; i++) {
        x[i] = passes_find_on_loop(k.agent, k.initiator, two->numbers[i]);
        if (!x[i] || x[i]->grads_changes != two->changes[i]) return false;
    }
    *sum = exchange_on_loop(x[0], *sum);
    distributed_pass_apply_on_loop(x[1], DISTRIBUTED_PASS_FOLDED);
    return true;
}

void accumulated_fold(accumulated k) {
    pair_of_passes two;
    for (bool more = true; more && take_two(k, &two);) {
        grad_pairs sum = { 0 };
        more = sum_of(k, &two, &sum);
        env_enter(k.agent->env);
        more = more && put_on_loop(k, &two, &sum);
        env_leave(k.agent->env);
        grad_pairs_fini(&sum);
    }
}
