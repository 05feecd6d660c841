#include "autograd/hook.h"

#include "autograd/node.h"
#include "base/mem.h"

#include <string.h>

void grad_hooks_free(grad_hook *first) {
    for (grad_hook *h; (h = first);) {
        first = h->next;
        mem_give(h, sizeof *h);
    }
}

static bool fits(const gw_tensor *x, const gw_tensor *like) {
    return x && x->dtype == like->dtype && x->dims == like->dims &&
           !memcmp(x->sizes, like->sizes, x->dims * sizeof *x->sizes);
}

bool grad_hooks_run(gw_scope *s, const grad_hook *first, uint16_t output, gw_tensor **gradient) {
    for (const grad_hook *h = first; h; h = h->next) {
        if (!h->run || h->output != output || !*gradient) continue;
        gw_tensor *better = h->run(s, *gradient, h->context);
        if (!gw_ok(s)) return false;
        if (!better || better == *gradient) continue;
        if (!fits(better, *gradient)) {
            scope_fail(s, GW_INVALID, "a hook gave a gradient of another shape or dtype");
            return false;
        }
        handle_retain(better);
        handle_release(*gradient);
        *gradient = better;
    }
    return true;
}

// ---- Adding and removing ------------------------------------------------------------------------

static grad_hook **hooks_of(gw_tensor *x) {
    return x->node ? &x->node->hooks : &x->hooks;
}

int gw_register_hook(gw_scope *s, gw_tensor *x, gw_grad_hook *hook, void *context) {
    if (!gw_ok(s)) return 0;
    if (!x || !hook || !tensor_needs_grad(x)) {
        scope_fail(s, GW_INVALID, "a hook on the gradient of %s",
                   !x      ? "no tensor"
                   : !hook ? "a tensor, without a function"
                           : "a tensor that needs none");
        return 0;
    }
    grad_hook *h = mem_take(sizeof *h);
    if (!h) {
        scope_fail(s, GW_NO_MEMORY, "no memory for a hook");
        return 0;
    }
    *h = (grad_hook){ .run = hook, .context = context, .number = 1, .output = x->output };
    grad_hook **at = hooks_of(x);
    for (; *at; at = &(*at)->next)
        if ((*at)->run) h->number = (*at)->number + 1;
    *at = h;
    return h->number;
}

void gw_remove_hook(gw_scope *s, gw_tensor *x, int hook) {
    if (!gw_ok(s)) return;
    for (grad_hook **at = x ? hooks_of(x) : NULL; at && *at; at = &(*at)->next) {
        grad_hook *h = *at;
        if (!h->run || h->number != hook || h->output != x->output) continue;
        *at = h->next;
        mem_give(h, sizeof *h);
        return;
    }
    scope_fail(s, GW_NOT_FOUND, "this tensor has no hook %d", hook);
}
