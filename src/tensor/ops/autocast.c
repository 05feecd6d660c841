// Casts by the scope.
//
// Note [Casts that are kept]
//
// A weight is used by every forward pass between two steps, and by each step of a recurrent loop, so
// its cast is kept: one for each leaf that needs a gradient, as long as the outermost scope that
// casts. A cast is a recorded operator, through which all its uses give their gradients back. A kept
// cast is of use while the storage has the version that was cast, for the same dtype, and, since
// a cast under gw_no_grad has no history, while gradients are enabled as they were.
#include "tensor/ops/autocast.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/process_lock.h"
#include "base/value.h"
#include <gradwire/amp.h>
#include <gradwire/ops.h>

typedef struct kept_cast {
    struct kept_cast *next;  // of those to be freed
    gw_tensor *leaf;         // counted, so that no other tensor gets its address
    gw_tensor *cast;         // counted
    uint32_t version;
    bool is_recorded;
} kept_cast;

// Of all caches: scopes of several threads may be inside the one that casts.
PROCESS_LOCK(lock, PROCESS_LOCK_LEAF, NULL);

typedef struct cast_cache {
    map casts;           // kept_cast by leaf
    size_t sweep_count;  // so many are kept when the next sweep is due
} cast_cache;

// The options of a scope. The last one counts; scopes that were opened before still point to
// the others.
struct autocast {
    struct autocast *before;
    gw_dtype dtype;
    cast_cache *cache;  // of the outermost
    cast_cache own;
};

// ---- The cache ----------------------------------------------------------------------------------
static void free_casts(kept_cast *first) {
    for (kept_cast *k = first, *next; k; k = next) {
        next = k->next;
        handle_release(k->cast);
        handle_release(k->leaf);
        mem_give(k, sizeof *k);
    }
}

static void close_autocast(gw_scope *s, void *data) {
    (void)s;
    for (struct autocast *a = data, *before; a; a = before) {
        before = a->before;
        for (map_cursor e = { 0 }; map_next(&a->own.casts, &e);) free_casts(e.value);
        map_fini(&a->own.casts);
        mem_free(a);
    }
}

static bool is_current(const gw_scope *s, const kept_cast *k, const gw_tensor *x, gw_dtype dtype) {
    return k && k->version == x->storage->version && k->cast->dtype == dtype &&
           k->is_recorded == s->grad_enabled;
}

// A count on the kept cast of |x|, or NULL.
static gw_tensor *find_cast(gw_scope *s, cast_cache *c, const gw_tensor *x, gw_dtype dtype) {
    process_lock_take(&lock);
    kept_cast *k = map_find(&c->casts, (uint64_t)(uintptr_t)x);
    gw_tensor *found = is_current(s, k, x, dtype) ? handle_retain(k->cast) : NULL;
    process_lock_release(&lock);
    return found;
}

// Forgets leaves with no other holder than the cache and the cast's own node. So inputs that
// need a gradient, new ones in each step, do not pile up.
static kept_cast *sweep(cast_cache *c) {
    kept_cast *dead = NULL;
    for (map_cursor e = { 0 }; map_next(&c->casts, &e);) {
        kept_cast *k = e.value;
        if (atomic_load_explicit(&k->leaf->handle.count, memory_order_acquire) > 2) continue;
        map_take(&c->casts, e.key);
        k->next = dead;
        dead = k;
        e.index--;
    }
    c->sweep_count = 2 * c->casts.count + 64;
    return dead;
}

// Without memory nothing is kept.
static void keep_cast(gw_scope *s, cast_cache *c, gw_tensor *x, gw_tensor *cast) {
    kept_cast *k = mem_take(sizeof *k);
    if (!k) return;
    *k = (kept_cast){ .leaf = handle_retain(x),
                      .cast = handle_retain(cast),
                      .version = x->storage->version,
                      .is_recorded = s->grad_enabled };
    process_lock_take(&lock);
    kept_cast *dead = c->casts.count >= c->sweep_count ? sweep(c) : NULL;
    kept_cast *unused = map_take(&c->casts, (uint64_t)(uintptr_t)x);
    if (!map_put(&c->casts, (uint64_t)(uintptr_t)x, k)) {
        k->next = unused;
        unused = k;
    }
    process_lock_release(&lock);
    free_casts(dead);
    free_casts(unused);
}

// ---- Casting ------------------------------------------------------------------------------------
static bool is_kept(const gw_tensor *x, gw_dtype dtype) {
    return x->dtype == GW_F32 && dtype != GW_F32 && tensor_is_leaf_with_grad(x);
}

static gw_tensor *cast(gw_scope *s, gw_tensor *x, gw_dtype dtype) {
    bool can_cast = x->dtype == GW_F32 || x->dtype == GW_F16 || x->dtype == GW_BF16;
    if (!can_cast || x->dtype == dtype || tensor_is_rows(x)) return x;
    if (!is_kept(x, dtype)) return gw_to_dtype(s, x, dtype);
    cast_cache *c = s->autocast->cache;
    gw_tensor *y = find_cast(s, c, x, dtype);
    if (y) return scope_own(s, y);
    y = gw_to_dtype(s, x, dtype);
    if (gw_ok(s)) keep_cast(s, c, x, y);
    return y;
}

static gw_value cast_value(gw_scope *s, gw_value v, gw_dtype dtype) {
    if (v.kind == GW_TENSOR) return gw_value_of(cast(s, v.as.tensor, dtype));
    if (v.kind != GW_LIST) return v;
    gw_list *list = gw_list_open(s);
    for (int i = 0; i < v.as.list->count; i++)
        gw_list_add_with(s, list, cast_value(s, v.as.list->items[i], dtype));
    return gw_value_of(list);
}

bool autocast_args(op_call *c, gw_value out[OP_ARGS_MAX]) {
    gw_scope *s = c->scope;
    gw_dtype dtype = s->autocast->dtype;
    if (c->op->cast == OP_CAST_F32_FROM_F16 && dtype != GW_F16) return true;
    if (c->op->cast != OP_CAST_DOWN) dtype = GW_F32;
    for (int i = 0; i < c->arg_count; i++) {
        out[i] = cast_value(s, c->args[i], dtype);
        if (!gw_ok(s)) return false;
    }
    c->args = out;
    return true;
}

// ---- For programs -------------------------------------------------------------------------------
void gw_autocast(gw_scope *s, gw_dtype dtype) {
    if (!gw_ok(s)) return;
    if (dtype != GW_F16 && dtype != GW_BF16) {
        scope_fail(s, GW_INVALID, "gw_autocast: the dtype is %s, but must be f16 or bf16",
                   gw_dtype_name(dtype));
        return;
    }
    if (s->autocast && s->autocast->dtype == dtype) return;
    struct autocast *a = mem_calloc(sizeof *a);
    if (!a) {
        scope_fail(s, GW_NO_MEMORY, "gw_autocast: no memory");
        return;
    }
    a->before = s->slots[SCOPE_AUTOCAST].data;
    a->dtype = dtype;
    a->cache = s->autocast ? s->autocast->cache : &a->own;
    scope_set_slot(s, SCOPE_AUTOCAST, a, close_autocast);
    s->autocast = a;
}

void gw_autocast_off(gw_scope *s) {
    if (gw_ok(s)) s->autocast = NULL;
}

gw_dtype gw_autocast_dtype(const gw_scope *s) {
    return s->autocast ? s->autocast->dtype : GW_F32;
}
