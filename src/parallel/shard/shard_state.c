// The state of a sharded optimizer: the whole of it as a map, and parts of such a map.
#include "parallel/shard/shard.h"

#include "base/mem.h"
#include "base/scope.h"
#include "base/value.h"
#include "optim/state.h"
#include "tensor/tensor.h"
#include <gradwire/ops.h>

#include <stdlib.h>

#undef GW_ORIGIN
#define GW_ORIGIN "state of a sharded optimizer"  // of the calls in this file, in errors

// ---- Writing ------------------------------------------------------------------------------------

static gw_map *own_part(gw_scope *s, const gw_optimizer *o) {
    gw_map *own = gw_map_open(s);
    const shard *x = shard_of(o);
    state_write_parameters(s, x->own ? x->own : o, own);
    return own;
}

// The state of the members under |key|, from |from| on, behind each other in the shape of its parameter.
static gw_value join(gw_scope *s, const gw_optimizer *o, const gw_list *all, int from,
                     const char *key) {
    gw_tensor **parts = gw_alloc(s, (size_t)gw_list_count(all) * sizeof *parts);
    int count = 0;
    long number = strtol(key, NULL, 10);
    for (int m = from; parts && gw_ok(s) && m < gw_list_count(all); m++) {
        gw_value v = gw_map_find(gw_map_of(s, gw_list_get(s, all, m)), key);
        if (v.kind != GW_NONE && v.kind != GW_TENSOR) return v;
        if (v.kind == GW_TENSOR) parts[count++] = v.as.tensor;
    }
    const parameter *p = o->parameters;
    while (gw_ok(s) && p->number != number) p++;
    if (!gw_ok(s)) return gw_none();
    gw_shape shape = { p->x->dims, p->x->sizes };
    return gw_value_of_tensor(gw_reshape_with(s, gw_cat(s, parts, count, 0), shape));
}

static void put_all(gw_scope *s, const gw_optimizer *o, const gw_list *all, gw_map *map) {
    for (int m = 0; m < gw_list_count(all) && gw_ok(s); m++) {
        gw_map *theirs = gw_map_of(s, gw_list_get(s, all, m));
        for (int k = 0; k < gw_map_count(theirs) && gw_ok(s); k++) {
            const char *key = gw_map_key(s, theirs, k);
            if (gw_map_find(map, key).kind != GW_NONE) continue;
            gw_value v = shard_of(o)->own ? join(s, o, all, m, key) : gw_map_get(s, theirs, key);
            gw_map_put(s, map, key, v);
        }
    }
}

void shard_write(gw_scope *s, const gw_optimizer *o, gw_map *map) {
    gw_scope *t = scope_open_unrecorded(s);
    put_all(t, o, gw_all_gather_value(t, shard_of(o)->group, own_part(t, o)), map);
    gw_scope_close_up(t);
}

gw_map *gw_optimizer_consolidate(gw_scope *s, gw_optimizer *o, int to) {
    gw_map *map = gw_map_open(s);
    optimizer_check(s, o, "gw_optimizer_consolidate");
    const shard *x = o && o != &optimizer_poison ? shard_of(o) : NULL;
    if (!x) {
        scope_fail(s, GW_INVALID, "gw_optimizer_consolidate: the optimizer is not sharded");
        return map;
    }
    if (to < 0 || to >= gw_group_size(x->group))
        scope_fail(s, GW_INVALID,
                   "gw_optimizer_consolidate: the rank is %d, but the group has %d members", to,
                   gw_group_size(x->group));
    gw_scope *t = scope_open_unrecorded(s);
    gw_list *all = gw_gather_value_to(t, x->group, own_part(t, o), to);
    if (gw_ok(t) && gw_group_rank(x->group) == to) {
        state_write_groups(t, o, map);
        put_all(t, o, all, map);
    }
    gw_scope_close_up(t);
    return map;
}

// ---- Loading ------------------------------------------------------------------------------------

static block *cut(const block *whole, const gw_tensor *like, int64_t first) {
    block *b = block_take_on(like->device, tensor_size(like));
    if (b) block_set_kind(b, MEMORY_OPTIMIZERS);
    if (b)
        block_copy(b, 0, whole, (size_t)first * gw_dtype_size((gw_dtype)like->dtype),
                   tensor_size(like));
    return b;
}

static void forget_states(block *(*states)[OPTIM_STATES_MAX], int count) {
    for (int i = 0; states && i < count; i++)
        for (int k = 0; k < OPTIM_STATES_MAX; k++) block_release(states[i][k]);
    mem_free(states);
}

typedef struct own_states {
    block *(*blocks)[OPTIM_STATES_MAX];  // by parameter of the member's own optimizer
    int64_t *steps;
} own_states;

static bool cut_states(const shard *x, const loaded *l, own_states *out) {
    for (int i = 0, n = 0; i < x->piece_count; i++) {
        const piece *at = &x->pieces[i];
        if (at->owner != gw_group_rank(x->group)) continue;
        const parameter *from = &l->parameters[at->parameter];
        out->steps[n] = from->step_count;
        for (int k = 0; k < OPTIM_STATES_MAX; k++) {
            if (!from->state[k]) continue;
            out->blocks[n][k] = cut(from->state[k], x->own->parameters[n].x, at->first);
            if (!out->blocks[n][k]) return false;
        }
        n++;
    }
    return true;
}

static void put_states(shard *x, own_states *all) {
    for (int i = 0; i < x->own->parameter_count; i++) {
        parameter *p = &x->own->parameters[i];
        p->step_count = all->steps[i];
        for (int k = 0; k < OPTIM_STATES_MAX; k++) {
            block *old = p->state[k];
            p->state[k] = all->blocks[i][k];
            all->blocks[i][k] = old;
        }
    }
}

static bool load_own(gw_scope *s, shard *x, const loaded *l) {
    int count = x->own->parameter_count;
    own_states all = { mem_calloc(((size_t)count + 1) * sizeof *all.blocks),
                       gw_alloc(s, ((size_t)count + 1) * sizeof *all.steps) };
    bool ok = all.blocks && all.steps && cut_states(x, l, &all);
    if (ok)
        put_states(x, &all);
    else
        scope_fail(s, GW_NO_MEMORY, "gw_optimizer_load_state_dict: no memory");
    forget_states(all.blocks, count);
    return ok;
}

void shard_load(gw_scope *s, gw_optimizer *o, gw_map *map) {
    shard *x = shard_of(o);
    loaded l;
    if (!shard_extend(s, o) || !state_read(s, o, "gw_optimizer_load_state_dict", map, &l)) return;
    shard_begin(x);
    shard_abort(o, x);
    held_forget(&x->held);
    if (!x->own || load_own(s, x, &l))
        state_take_over(o, &l);
    else
        state_forget(&l);
    shard_forget_early(x);
    shard_end(x);
}

// ---- Counting -----------------------------------------------------------------------------------

int64_t gw_optimizer_state_bytes(const gw_optimizer *o) {
    int64_t bytes = 0;
    if (o && shard_of(o) && shard_of(o)->own) o = shard_of(o)->own;
    for (int i = 0; o && i < o->parameter_count; i++)
        for (int k = 0; k < OPTIM_STATES_MAX; k++)
            if (o->parameters[i].state[k]) bytes += (int64_t)tensor_size(o->parameters[i].x);
    return bytes;
}
