#include "autograd/hook.h"

#include "autograd/node.h"
#include "base/mem.h"

#include <string.h>

grad_hooks *grad_hooks_get(grad_hooks **at) {
    if (*at) return *at;
    grad_hooks *h = mem_take(sizeof *h);
    if (h) *h = (grad_hooks){ .gate = NULL };
    return *at = h;
}

void grad_hooks_free(grad_hooks *h) {
    if (!h) return;
    hooks_fini(&h->list);
    mem_give(h, sizeof *h);
}

bool grad_hooks_run(gw_scope *s, const grad_hooks *h, uint16_t output, gw_tensor **gradient) {
    hook_entry hook;
    for (hook_walk w = hooks_walk(&h->list); hooks_next(&h->list, &w, &hook);) {
        if (hook.kind != output || !*gradient) continue;
        gw_tensor *better = ((gw_grad_hook *)hook.run)(s, *gradient, hook.context);
        if (!gw_ok(s)) return false;
        if (!better || better == *gradient) continue;
        if (!tensor_is_like(better, *gradient)) {
            scope_fail(s, GW_INVALID, "a hook returned a gradient of another shape or dtype");
            return false;
        }
        handle_retain(better);
        handle_release(*gradient);
        *gradient = better;
    }
    return true;
}

// ---- Adding and removing ------------------------------------------------------------------------

static grad_hooks **hooks_of(gw_tensor *x) {
    return x->node ? &x->node->hooks : &x->hooks;
}

int gw_register_hook(gw_scope *s, gw_tensor *x, gw_grad_hook *hook, void *context) {
    if (!gw_ok(s)) return 0;
    if (!x || !hook || !tensor_needs_grad(x)) {
        scope_fail(s, GW_INVALID, "gw_register_hook: %s",
                   !x      ? "the tensor is NULL"
                   : !hook ? "the function is NULL"
                           : "the tensor needs no gradient");
        return 0;
    }
    grad_hooks *h = grad_hooks_get(hooks_of(x));
    int number = h ? hooks_add(&h->list, (hook_function *)hook, context, x->output) : 0;
    if (!number) scope_fail(s, GW_NO_MEMORY, "no memory for a hook");
    return number;
}

void gw_remove_hook(gw_scope *s, gw_tensor *x, int hook) {
    if (!gw_ok(s)) return;
    grad_hooks *h = x ? *hooks_of(x) : NULL;
    if (!h || !hooks_remove(&h->list, hook, x->output))
        scope_fail(s, GW_NOT_FOUND, "this tensor has no hook %d", hook);
}

struct gate *gate_of(const gw_tensor *leaf, int *out_leaf) {
    const grad_hooks *h = leaf->hooks;
    if (!h || !h->gate) return NULL;
    *out_leaf = h->number;
    return h->gate;
}
