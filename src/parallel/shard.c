// Sharded optimizers: the remote part of one whose parameters are all here, but not their state.
#include "base/mem.h"
#include "base/value.h"
#include "collective/group.h"
#include "optim/remote_part.h"
#include "optim/state.h"
#include "tensor/ops/op.h"

#include <gradwire/ops.h>
#include <gradwire/parallel.h>
#include <stdlib.h>
#include <string.h>

typedef struct shard {
    remote_part part;
    gw_group *group;  // one count
    int *owners;      // by parameter
} shard;

static shard *shard_of(const gw_optimizer *o) {
    return (shard *)o->remote;
}

// ---- Sharing out --------------------------------------------------------------------------------

typedef struct piece {
    int index, group;
    int64_t numel;
} piece;

// Group by group, the largest first; of equal ones the first.
static int compare(const void *x, const void *y) {
    const piece *a = x, *b = y;
    if (a->group != b->group) return a->group - b->group;
    if (a->numel != b->numel) return a->numel > b->numel ? -1 : 1;
    return a->index - b->index;
}

static bool share_out(gw_scope *s, gw_optimizer *o, int members, int self, int *owners) {
    gw_scope *t = gw_scope_open(s);
    piece *all = gw_alloc(t, (size_t)(o->parameter_count + 1) * sizeof *all);
    int64_t *loads = gw_alloc(t, (size_t)members * sizeof *loads);
    bool ok = all && loads;
    for (int i = 0; ok && i < o->parameter_count; i++)
        all[i] = (piece){ i, o->parameters[i].group, o->parameters[i].x->numel };
    if (ok) memset(loads, 0, (size_t)members * sizeof *loads);
    if (ok) qsort(all, (size_t)o->parameter_count, sizeof *all, compare);
    for (int i = 0; ok && i < o->parameter_count; i++) {
        int least = 0;
        for (int m = 1; m < members; m++)
            if (loads[m] < loads[least]) least = m;
        owners[all[i].index] = least;
        o->parameters[all[i].index].elsewhere = least != self;
        loads[least] += all[i].numel;
    }
    gw_scope_close_up(t);
    return ok;
}

// ---- A step -------------------------------------------------------------------------------------

// What member |owner| has of |dtype|, behind each other: its numbers in all.
static int64_t count_numbers(const gw_optimizer *o, int owner, int dtype) {
    int64_t count = 0;
    for (int i = 0; i < o->parameter_count; i++)
        if (shard_of(o)->owners[i] == owner && o->parameters[i].x->dtype == dtype)
            count += o->parameters[i].x->numel;
    return count;
}

// The values that this member's parameters of |dtype| are going to have.
static gw_tensor *join_own(gw_scope *s, const gw_optimizer *o, int dtype) {
    int self = gw_group_rank(shard_of(o)->group);
    int64_t numbers = count_numbers(o, self, dtype);
    gw_tensor *out = scope_own(s, tensor_new(s, (gw_dtype)dtype, 1, &numbers));
    size_t at = 0;
    for (int i = 0; out && i < o->parameter_count; i++) {
        const parameter *p = &o->parameters[i];
        if (p->elsewhere || p->x->dtype != dtype) continue;
        const block *from = p->new_x ? p->new_x : p->x->storage->block;
        block_copy(out->storage->block, at, from, p->new_x ? 0 : tensor_offset(p->x),
                   tensor_size(p->x));
        at += tensor_size(p->x);
    }
    return out;
}

static void stage_all(gw_scope *s, gw_optimizer *o, const gw_list *all, int dtype) {
    for (int owner = 0; owner < gw_list_count(all) && gw_ok(s); owner++) {
        gw_tensor *came = gw_tensor_of(s, gw_list_get(s, all, owner));
        if (owner == gw_group_rank(shard_of(o)->group)) continue;
        if (gw_ok(s) && came->numel != count_numbers(o, owner, dtype)) {
            scope_fail(s, GW_MISMATCH, "a sharded step: %s shares out other parameters",
                       gw_group_worker(s, shard_of(o)->group, owner).name);
            return;
        }
        int64_t at = 0;
        for (int i = 0; i < o->parameter_count && gw_ok(s); i++) {
            const gw_tensor *x = o->parameters[i].x;
            if (shard_of(o)->owners[i] != owner || x->dtype != dtype) continue;
            optimizer_stage(s, o, i, gw_slice(s, came, 0, at, at + x->numel, 1));
            at += x->numel;
        }
    }
}

static bool has_dtype(const gw_optimizer *o, int dtype) {
    for (int i = 0; i < o->parameter_count; i++)
        if (o->parameters[i].x->dtype == dtype) return true;
    return false;
}

// What fails here is told to the others by the collective that is entered all the same.
static void step(gw_scope *s, gw_optimizer *o) {
    if (gw_ok(s)) optimizer_prepare(s, o);
    gw_scope *t = gw_scope_open(s);
    t->grad_enabled = false;
    for (int dtype = 0; dtype < GW_DTYPE_COUNT; dtype++) {
        if (!has_dtype(o, dtype)) continue;
        gw_tensor *own = gw_ok(t) ? join_own(t, o, dtype) : NULL;
        gw_list *all = gw_all_gather_list(t, shard_of(o)->group, own);
        if (gw_ok(t)) stage_all(t, o, all, dtype);
    }
    gw_scope_close_up(t);
    if (gw_ok(s))
        optimizer_commit(o);
    else
        optimizer_abort(o);
}

// ---- State --------------------------------------------------------------------------------------

static void write_state(gw_scope *s, const gw_optimizer *o, gw_map *map) {
    gw_map *own = gw_map_open(s);
    state_write_parameters(s, o, own);
    gw_list *all = gw_all_gather_value(s, shard_of(o)->group, own);
    for (int i = 0; i < gw_list_count(all) && gw_ok(s); i++) {
        gw_map *theirs = gw_map_of(s, gw_list_get(s, all, i));
        for (int k = 0; k < gw_map_count(theirs) && gw_ok(s); k++) {
            const char *key = gw_map_key(s, theirs, k);
            gw_map_put(s, map, key, gw_map_get(s, theirs, key));
        }
    }
}

static void load_state(gw_scope *s, gw_optimizer *o, gw_map *map) {
    loaded l;
    if (state_read(s, o, map, &l)) state_take_over(o, &l);
}

int64_t gw_optimizer_state_bytes(const gw_optimizer *o) {
    int64_t bytes = 0;
    for (int i = 0; o && i < o->parameter_count; i++)
        for (int k = 0; k < OPTIM_STATES_MAX; k++)
            if (o->parameters[i].state[k]) bytes += (int64_t)tensor_size(o->parameters[i].x);
    return bytes;
}

// ---- Life ---------------------------------------------------------------------------------------

static bool add_group(gw_scope *s, gw_optimizer *o, const optimizer_group *g, const gw_value *refs,
                      const int *numbers, int count) {
    (void)o, (void)g, (void)refs, (void)numbers, (void)count;
    scope_fail(s, GW_WRONG_STATE, "gw_optimizer_add_group: the optimizer is sharded already");
    return false;
}

static void close(remote_part *part) {
    shard *x = (shard *)part;
    handle_release(x->group);
    mem_free(x->owners);
    mem_free(x);
}

static const remote_part_class shard_class = { .add_group = add_group,
                                               .close = close,
                                               .step = step,
                                               .refused = step,
                                               .write = write_state,
                                               .load = load_state };

// The members have the same parameters, in the same groups.
static void compare_parameters(gw_scope *s, gw_group *g, const gw_optimizer *o) {
    gw_list *own = gw_list_open(s);
    for (int i = 0; i < o->parameter_count; i++) {
        const parameter *p = &o->parameters[i];
        gw_list_add(s, own,
                    gw_format(s, "%s %s of group %d", gw_dtype_name((gw_dtype)p->x->dtype),
                              shape_text_of(p->x->dims, p->x->sizes).text, p->group));
    }
    gw_list *all = gw_all_gather_value(s, g, own);
    for (int m = 0; m < gw_list_count(all) && gw_ok(s); m++) {
        gw_list *theirs = gw_list_of(s, gw_list_get(s, all, m));
        const char *name = gw_group_worker(s, g, m).name;
        if (gw_list_count(theirs) != o->parameter_count)
            scope_fail(s, GW_MISMATCH, "gw_optimizer_shard: %d parameters, and %d on %s",
                       o->parameter_count, gw_list_count(theirs), name);
        for (int i = 0; i < o->parameter_count && gw_ok(s); i++) {
            const char *here = gw_string_of(s, gw_list_get(s, own, i));
            const char *there = gw_string_of(s, gw_list_get(s, theirs, i));
            if (strcmp(here, there) == 0) continue;
            scope_fail(s, GW_MISMATCH, "gw_optimizer_shard: parameter %d is %s, and %s on %s", i,
                       here, there, name);
        }
    }
}

static bool check(gw_scope *s, const gw_optimizer *o) {
    if (!optimizer_check(s, o, "gw_optimizer_shard")) return false;
    if (o->remote && o->remote->class == &shard_class)
        scope_fail(s, GW_WRONG_STATE, "gw_optimizer_shard: the optimizer is sharded already");
    else if (o->remote)
        scope_fail(s, GW_INVALID,
                   "gw_optimizer_shard: the optimizer has other workers' parameters");
    else if (o->step_count)
        scope_fail(s, GW_WRONG_STATE, "gw_optimizer_shard: the optimizer has stepped already");
    return gw_ok(s);
}

void gw_optimizer_shard_with(gw_scope *s, gw_optimizer *o, gw_shard_options options) {
    if (!check(s, o)) return;
    gw_scope *t = gw_scope_open(s);
    gw_group *g = group_open_own(t, options.group);
    if (gw_ok(t)) compare_parameters(t, g, o);
    shard *x = mem_calloc(sizeof *x);
    int *owners = mem_calloc((size_t)(o->parameter_count + 1) * sizeof *owners);
    if (gw_ok(t) && (!x || !owners)) scope_fail(t, GW_NO_MEMORY, "gw_optimizer_shard: no memory");
    if (gw_ok(t) && share_out(t, o, gw_group_size(g), gw_group_rank(g), owners)) {
        *x = (shard){ .part.class = &shard_class, .group = handle_retain(g), .owners = owners };
        o->remote = &x->part;
    } else {
        mem_free(x);
        mem_free(owners);
    }
    gw_scope_close_up(t);
}
