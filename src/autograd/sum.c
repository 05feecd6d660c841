#include "autograd/sum.h"

#include "base/mem.h"
#include "tensor/kernels/gradients.h"
#include "tensor/rows.h"
#include <gradwire/ops.h>

typedef struct grad_part {
    struct grad_part *next;
    uint32_t ordinal;
    gw_tensor *part;  // may be NULL
} grad_part;

bool grad_is_own(const gw_tensor *x) {
    return handle_is_sole(&x->handle) && x->contiguous && !tensor_is_rows(x) &&
           atomic_load_explicit(&x->storage->count, memory_order_acquire) == 1 &&
           atomic_load_explicit(&x->storage->block->count, memory_order_acquire) == 1;
}

static gw_tensor *plus_rows(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    gw_tensor *once = grad_is_own(a) && a->dtype <= GW_F64 ? rows_coalesce(s, b) : NULL;
    bool added = once && rows_add_into(a, once);
    handle_release(once);
    if (added) return a;
    gw_tensor *sum = gw_ok(s) ? rows_plus(s, a, b) : NULL;
    handle_release(a);
    return sum;
}

gw_tensor *grad_plus(gw_scope *s, gw_tensor *a, gw_tensor *b) {
    if (tensor_is_rows(b)) return plus_rows(s, a, b);
    if (grad_is_own(a) && tensor_add_into(a, b)) return a;
    gw_tensor *sum = gw_add(s, a, b);  // also of rows and a dense tensor
    handle_release(a);
    return gw_ok(s) ? handle_retain(sum) : NULL;
}

static bool take_turn(gw_scope *s, grad_sum *g, gw_tensor *part) {
    g->next++;
    if (!part) return true;
    g->total = g->total ? grad_plus(s, g->total, part) : handle_retain(part);
    return g->total != NULL;
}

static bool put_aside(gw_scope *s, grad_sum *g, uint32_t ordinal, gw_tensor *part) {
    grad_part *p = mem_take(sizeof *p);
    if (!p) return scope_fail(s, GW_NO_MEMORY, "no memory for a gradient");
    grad_part **at = &g->later;
    while (*at && (*at)->ordinal < ordinal) at = &(*at)->next;
    *p = (grad_part){ .next = *at, .ordinal = ordinal, .part = handle_retain(part) };
    *at = p;
    return true;
}

bool grad_sum_add(gw_scope *s, grad_sum *g, uint32_t ordinal, gw_tensor *part) {
    if (ordinal != g->next) return put_aside(s, g, ordinal, part);
    bool ok = take_turn(s, g, part);
    while (ok && g->later && g->later->ordinal == g->next) {
        grad_part *p = g->later;
        g->later = p->next;
        ok = take_turn(s, g, p->part);
        handle_release(p->part);
        mem_give(p, sizeof *p);
    }
    return ok;
}

void grad_sum_fini(grad_sum *g) {
    handle_release(g->total);
    g->total = NULL;
    while (g->later) {
        grad_part *p = g->later;
        g->later = p->next;
        handle_release(p->part);
        mem_give(p, sizeof *p);
    }
}
