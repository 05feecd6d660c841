#include "autograd/grads.h"

#include "autograd/gate.h"
#include "autograd/index.h"
#include "autograd/left.h"
#include "autograd/sum.h"
#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "tensor/copy.h"
#include "tensor/dtype.h"
#include "tensor/ops/op.h"

typedef struct grads_item {
    gw_tensor_grad pair;  // both counted
    bool is_read;         // since a pass has left it
} grads_item;

typedef struct grads {
    grads_item *items;
    uint32_t count, capacity;
    pointer_index numbers;  // of leaves, in |items|
    uint32_t left;          // see autograd/left.h
    gate *unread;           // the gate whose answers are unread. NULL: none
    gate **answered;        // counted: the gates that have answered a pass of the scope
    int answered_count;
} grads;

// Imports the accumulated gradients of a caller's passes before the gradients of |s| are used.
static grads *grads_of(const gw_scope *s) {
    if (!s->slots[SCOPE_GRADS].data && s->remote && s->remote->grads)
        s->remote->grads->import((gw_scope *)s);
    return s->slots[SCOPE_GRADS].data;
}

static uint32_t count_unread(const grads *g) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < g->count; i++) count += !g->items[i].is_read;
    return count;
}

// The mean of replicas cost an exchange: an unused one is a mistake, most often a step in
// another scope.
static void warn_of_unread(const gw_scope *s, grads *g) {
    if (!g->unread || s->error || !g->count || count_unread(g) < g->count) return;
    if (!atomic_exchange(&g->unread->has_warned, true))
        log_line("the mean gradients of %s were never used: a scope was closed in which no step, "
                 "gw_clip_grad_norm or gw_grad was called (logged once)",
                 g->unread->class->name);
}

static void close_grads(gw_scope *s, void *data) {
    grads *g = data;
    warn_of_unread(s, g);
    for (int i = 0; i < g->answered_count; i++) handle_release(g->answered[i]);
    mem_free(g->answered);
    for (uint32_t i = 0; i < g->count; i++) {
        handle_release(g->items[i].pair.leaf);
        handle_release(g->items[i].pair.grad);
    }
    left_close(g->left);
    index_fini(&g->numbers);
    mem_free(g->items);
    mem_give(g, sizeof *g);
}

static grads *open_grads(gw_scope *s) {
    grads *g = mem_take(sizeof *g);
    if (!g) return NULL;
    *g = (grads){ .left = left_open(s) };
    index_init(&g->numbers);
    scope_set_slot(s, SCOPE_GRADS, g, close_grads);
    return g;
}

// Reserves memory for |more| leaves, so that putting them in cannot fail.
static bool reserve(grads *g, uint32_t more) {
    return index_reserve(&g->numbers, more) &&
           mem_grow(&g->items, &g->capacity, g->count + more, sizeof *g->items);
}

static grads_item *find(const gw_scope *s, const gw_tensor *x) {
    grads *g = grads_of(s);
    if (!g) return NULL;
    uint32_t number = index_find(&g->numbers, x);
    return number == INDEX_NONE ? NULL : &g->items[number];
}

gw_tensor *grads_find(const gw_scope *s, const gw_tensor *x) {
    grads_item *item = find(s, x);
    if (item) item->is_read = true;
    return item ? item->pair.grad : NULL;
}

gate *grads_answered(const gw_scope *s, int i) {
    const grads *g = s->slots[SCOPE_GRADS].data;
    return g && i < g->answered_count ? g->answered[i] : NULL;
}

bool grads_note_pass(gw_scope *s) {
    return grads_of(s) || open_grads(s);
}

// Without memory the gate is not noted.
void grads_expect_reader(gw_scope *s, gate *of) {
    grads *g = s->slots[SCOPE_GRADS].data;
    int i = 0;
    if (!g) return;
    while (i < g->answered_count && g->answered[i] != of) i++;
    if (i == g->answered_count) {
        gate **more = mem_realloc(g->answered, ((size_t)i + 1) * sizeof(gate *));
        if (!more) return;
        g->answered = more;
        g->answered[g->answered_count++] = handle_retain(of);
    }
    g->unread = of;
}

static bool has_pass_of_caller(const gw_scope *s) {
    return s->remote && s->remote->grads && s->remote->grads->has_pass(s);
}

static uint32_t number_of(const gw_scope *s) {
    const grads *g = s->slots[SCOPE_GRADS].data;
    return g ? g->left : 0;
}

bool grads_check_missed(gw_scope *s, const char *function, uint32_t left) {
    if (!gw_ok(s) || !left_is_missed(left, s, number_of(s))) return gw_ok(s);
    return scope_fail(s, GW_WRONG_STATE,
                      "%s: the backward passes of this scope left no gradient of these parameters, "
                      "and %s: make this call in the scope that was passed to gw_backward",
                      function, left_describe(left).text);
}

void grads_note_used(const gw_scope *s, gw_tensor *leaf) {
    uint32_t number = number_of(s);
    if (number && left_latest(0, leaf) == (number | LEFT_UNUSED)) left_note_used(leaf);
}

bool grads_check_pass(gw_scope *s, const char *function, uint32_t left) {
    grads *g = gw_ok(s) ? grads_of(s) : NULL;
    if (g) g->unread = NULL;
    if (!gw_ok(s) || g || has_pass_of_caller(s)) return gw_ok(s);
    if (left)
        scope_fail(s, GW_WRONG_STATE,
                   "%s: no backward pass was made in this scope, and %s: make this call in the "
                   "scope that was passed to gw_backward",
                   function, left_describe(left).text);
    else
        scope_fail(s, GW_WRONG_STATE,
                   "%s: no backward pass was made in this scope, so it has no gradients", function);
    return false;
}

// Note [Gradients of a pass inside a hook]
//
// A hook is given the scope of the pass that runs it, which is closed at the end of that pass. A pass
// inside the hook that is given the same scope leaves its gradients there. Those that the hook has
// not read by then are lost.
void grads_check_all_read(const gw_scope *s) {
    const grads *g = s->slots[SCOPE_GRADS].data;
    uint32_t unread = g && gw_ok(s) ? count_unread(g) : 0;
    if (unread)
        check_die("a backward pass inside a hook left %u gradients in the scope of the outer pass "
                  "that were not read, and are lost: call gw_backward in the hook with the scope "
                  "of the step, or set .inputs",
                  unread);
}

// From here on its memory is that of a gradient.
static void name_gradient(const gw_tensor *grad) {
    const gw_tensor *x = grad->values ? grad->values : grad;
    if (!x->storage) return;
    if (block_kind(x->storage->block) == MEMORY_SAVED)
        block_set_kind(x->storage->block, MEMORY_GRADIENTS);
    block_name_kind(x->storage->block, MEMORY_GRADIENTS);
}

static void put(grads *g, gw_tensor *leaf, gw_tensor *grad) {
    name_gradient(grad);
    index_put(&g->numbers, leaf, g->count);
    g->items[g->count++] = (grads_item){ .pair = { handle_retain(leaf), grad } };
}

// Stores the gradient that a pass leaves for one leaf; it cannot fail.
static void leave(gw_scope *s, grads *g, const gw_tensor_grad *more) {
    if (!more->grad) {
        grads_forget(s, more->leaf);
        return;
    }
    left_note(more->leaf, g->left);
    if (!find(s, more->leaf)) {
        put(g, more->leaf, more->grad);
        return;
    }
    grads_replace(s, more->leaf, more->grad);
    find(s, more->leaf)->is_read = false;
}

bool grads_add_and_replace(gw_scope *s, gw_scope *work, gw_tensor_grad *more, int count,
                           int replaces) {
    grads_of(s);
    if (!gw_ok(s)) scope_fail_with(work, scope_error(s));
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
        const grads_item *old = find(s, more[i].leaf);
        if (old) ok = (more[i].grad = grad_plus(work, more[i].grad, old->pair.grad)) != NULL;
    }
    if (!ok) {
        for (int i = 0; i < count; i++) handle_release(more[i].grad);
        return false;
    }

    // ... then everything that cannot.
    for (int i = 0; i < count; i++) leave(s, g, &more[i]);
    return true;
}

void grads_replace(gw_scope *s, const gw_tensor *leaf, gw_tensor *grad) {
    grads_item *item = find(s, leaf);
    name_gradient(grad);
    handle_release(item->pair.grad);
    item->pair.grad = grad;
}

void grads_forget(gw_scope *s, gw_tensor *leaf) {
    grads_item *item = find(s, leaf);
    if (!item) return;
    grads *g = s->slots[SCOPE_GRADS].data;
    grads_item old = *item, last = g->items[--g->count];
    *item = last;
    index_put(&g->numbers, last.pair.leaf, (uint32_t)(item - g->items));
    index_put(&g->numbers, leaf, INDEX_NONE);
    handle_release(old.pair.grad);
    handle_release(old.pair.leaf);
}

int gw_grads_count(const gw_scope *s) {
    const grads *g = grads_of(s);
    return g ? (int)g->count : 0;
}

gw_tensor_grad gw_grads_get(gw_scope *s, int index) {
    if (gw_ok(s) && (index < 0 || index >= gw_grads_count(s)))
        scope_fail(s, GW_INVALID, "gradient %d is out of range for %d gradients", index,
                   gw_grads_count(s));
    if (gw_ok(s)) {
        grads_item *item = &grads_of(s)->items[index];
        item->is_read = true;
        gw_tensor_grad pair = item->pair;
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
        why = "the gradient of this tensor is sharded: another member has it";
    else if (g && g->ranges && g->ranges[leaf] && g->ranges[leaf] != x)
        why = "the gradient of this tensor is sharded: this member has a range of it, other "
              "members have the rest";
    if (gw_ok(s)) scope_fail(s, GW_NOT_FOUND, "%s", why);
    return tensor_poison_of(s);
}

// A copy with no other writer: contiguous, or coalesced. One count; NULL with |s| failed.
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
    if (!dtype_is_float((gw_dtype)x->dtype) || !tensor_is_like(grad, x)) {
        scope_fail(s, GW_INVALID, "set_grad: the gradient has %s %s, but the tensor has %s %s",
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
