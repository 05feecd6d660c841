#include "autograd/grads.h"

#include "autograd/gate.h"
#include "autograd/index.h"
#include "autograd/sum.h"
#include "base/mem.h"
#include "tensor/copy.h"
#include "tensor/dtype.h"
#include "tensor/ops/op.h"

typedef struct grads {
    gw_tensor_grad *pairs;  // both counted
    uint32_t count, capacity;
    pointer_index numbers;  // of leaves, in |pairs|
} grads;

// Imports the accumulated gradients of a caller's passes before the gradients of |s| are used.
static grads *grads_of(const gw_scope *s) {
    if (!s->slots[SCOPE_GRADS].data && s->remote) s->remote->grads->import((gw_scope *)s);
    return s->slots[SCOPE_GRADS].data;
}

static void close_grads(gw_scope *s, void *data) {
    (void)s;
    grads *g = data;
    for (uint32_t i = 0; i < g->count; i++) {
        handle_release(g->pairs[i].leaf);
        handle_release(g->pairs[i].grad);
    }
    index_fini(&g->numbers);
    mem_free(g->pairs);
    mem_give(g, sizeof *g);
}

static grads *open_grads(gw_scope *s) {
    grads *g = mem_take(sizeof *g);
    if (!g) return NULL;
    g->pairs = NULL;
    g->count = g->capacity = 0;
    index_init(&g->numbers);
    scope_set_slot(s, SCOPE_GRADS, g, close_grads);
    return g;
}

// Reserves memory for |more| leaves, so that putting them in cannot fail.
static bool reserve(grads *g, uint32_t more) {
    if (!index_reserve(&g->numbers, more)) return false;
    if (g->count + more <= g->capacity) return true;
    uint32_t capacity = g->capacity ? g->capacity * 2 : 4;
    if (capacity < g->count + more) capacity = g->count + more;
    gw_tensor_grad *pairs = mem_realloc(g->pairs, capacity * sizeof *pairs);
    if (!pairs) return false;
    g->pairs = pairs;
    g->capacity = capacity;
    return true;
}

static gw_tensor_grad *find(const gw_scope *s, const gw_tensor *x) {
    grads *g = grads_of(s);
    if (!g) return NULL;
    uint32_t number = index_find(&g->numbers, x);
    return number == INDEX_NONE ? NULL : &g->pairs[number];
}

gw_tensor *grads_find(const gw_scope *s, const gw_tensor *x) {
    gw_tensor_grad *pair = find(s, x);
    return pair ? pair->grad : NULL;
}

gw_tensor *grads_leaf(const gw_scope *s, int i) {
    const grads *g = s->slots[SCOPE_GRADS].data;
    return g && (uint32_t)i < g->count ? g->pairs[i].leaf : NULL;
}

static void put(grads *g, gw_tensor *leaf, gw_tensor *grad) {
    index_put(&g->numbers, leaf, g->count);
    g->pairs[g->count++] = (gw_tensor_grad){ handle_retain(leaf), grad };
}

bool grads_add_and_replace(gw_scope *s, gw_scope *work, gw_tensor_grad *more, int count,
                           int replaces) {
    grads_of(s);
    if (!gw_ok(s)) scope_fail_with(work, gw_scope_error(s));
    return grads_add_imported(s, work, more, count, replaces);
}

bool grads_add(gw_scope *s, gw_scope *work, gw_tensor_grad *more, int count) {
    return grads_add_and_replace(s, work, more, count, count);
}

bool grads_add_imported(gw_scope *s, gw_scope *work, gw_tensor_grad *more, int count,
                        int replaces) {
    grads *g = s->slots[SCOPE_GRADS].data;
    if (!g) g = open_grads(s);
    if (!g || !reserve(g, (uint32_t)count))
        scope_fail(work, GW_NO_MEMORY, "no memory for gradients");
    bool ok = gw_ok(work);

    // First everything that can fail ...
    for (int i = 0; i < replaces && ok; i++) {
        gw_tensor *old = grads_find(s, more[i].leaf);
        if (old) ok = (more[i].grad = grad_plus(work, more[i].grad, old)) != NULL;
    }
    if (!ok) {
        for (int i = 0; i < count; i++) handle_release(more[i].grad);
        return false;
    }

    // ... then everything that cannot.
    for (int i = 0; i < count; i++) {
        if (!more[i].grad)
            grads_forget(s, more[i].leaf);
        else if (find(s, more[i].leaf))
            grads_replace(s, more[i].leaf, more[i].grad);
        else
            put(g, more[i].leaf, more[i].grad);
    }
    return true;
}

void grads_replace(gw_scope *s, const gw_tensor *leaf, gw_tensor *grad) {
    gw_tensor_grad *pair = find(s, leaf);
    handle_release(pair->grad);
    pair->grad = grad;
}

void grads_forget(gw_scope *s, gw_tensor *leaf) {
    gw_tensor_grad *pair = find(s, leaf);
    if (!pair) return;
    grads *g = s->slots[SCOPE_GRADS].data;
    gw_tensor_grad old = *pair, last = g->pairs[--g->count];
    *pair = last;
    index_put(&g->numbers, last.leaf, (uint32_t)(pair - g->pairs));
    index_put(&g->numbers, leaf, INDEX_NONE);
    handle_release(old.grad);
    handle_release(old.leaf);
}

int gw_grads_count(const gw_scope *s) {
    const grads *g = grads_of(s);
    return g ? (int)g->count : 0;
}

gw_tensor_grad gw_grads_get(gw_scope *s, int index) {
    if (gw_ok(s) && (index < 0 || index >= gw_grads_count(s)))
        scope_fail(s, GW_INVALID, "gradient %d of %d", index, gw_grads_count(s));
    if (gw_ok(s)) {
        gw_tensor_grad pair = grads_of(s)->pairs[index];
        if (scope_own(s, handle_retain(pair.leaf)) && scope_own(s, handle_retain(pair.grad)))
            return pair;
    }
    return (gw_tensor_grad){ tensor_poison_of(s), tensor_poison_of(s) };
}

gw_tensor *gw_grad_find(gw_scope *s, const gw_tensor *x) {
    gw_tensor *grad = tensor_check(s, "grad", x) ? grads_find(s, x) : NULL;
    return grad ? scope_own(s, handle_retain(grad)) : NULL;
}

gw_tensor *gw_grad(gw_scope *s, const gw_tensor *x) {
    gw_tensor *grad = gw_grad_find(s, x);
    if (grad) return grad;
    int leaf = 0;
    const gate *g = gw_ok(s) && x ? gate_of(x, &leaf) : NULL;
    const char *why = "no backward pass in this scope has reached this tensor";
    if (g && g->gives_away && g->gives_away[leaf])
        why = "other workers keep the gradient of this tensor";
    else if (g && g->ranges && g->ranges[leaf] && g->ranges[leaf] != x)
        why = "this worker keeps the gradient of a range of this tensor, and others the rest";
    if (gw_ok(s)) scope_fail(s, GW_NOT_FOUND, "%s", why);
    return tensor_poison_of(s);
}

// A copy that nobody else writes to: contiguous, or coalesced. One count; NULL with |s| failed.
static gw_tensor *copy_of(gw_scope *s, gw_tensor *grad) {
    if (tensor_is_rows(grad)) {
        gw_tensor *once = gw_coalesce(s, grad);
        return gw_ok(s) ? handle_retain(once) : NULL;
    }
    gw_tensor *copy = tensor_new(s, (gw_dtype)grad->dtype, grad->dims, grad->sizes);
    if (copy) copy_into_new(copy, grad);
    return copy;
}

void gw_set_grad(gw_scope *s, gw_tensor *x, gw_tensor *grad) {
    if (!tensor_is_given(s, "set_grad", x) || !tensor_is_given(s, "set_grad", grad)) return;
    if (!dtype_is_float((gw_dtype)x->dtype) || grad->dtype != x->dtype || grad->dims != x->dims ||
        memcmp(grad->sizes, x->sizes, x->dims * sizeof *x->sizes) != 0) {
        scope_fail(s, GW_INVALID, "set_grad: %s %s is no gradient of %s %s",
                   gw_dtype_name((gw_dtype)grad->dtype), shape_text(grad).text,
                   gw_dtype_name((gw_dtype)x->dtype), shape_text(x).text);
        return;
    }
    gw_tensor *copy = copy_of(s, grad);
    if (!copy) return;
    if (grads_find(s, x))
        grads_replace(s, x, copy);
    else
        grads_add(s, s, &(gw_tensor_grad){ x, copy }, 1);
}
