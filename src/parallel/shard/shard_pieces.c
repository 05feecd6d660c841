// Sharded optimizers: which member has which part.
#include "parallel/shard/shard.h"

#include "base/mem.h"
#include "base/value.h"
#include "collective/group/group.h"
#include "parallel/ddp/ddp.h"
#include "tensor/ops/op.h"

#include <gradwire/ops.h>
#include <stdlib.h>
#include <string.h>

#undef GW_ORIGIN
#define GW_ORIGIN "gw_optimizer_shard"  // of the calls in this file, in errors

const char shard_kind[] = "sharded";

// ---- Whole parameters ---------------------------------------------------------------------------

typedef struct candidate {
    int index, group;
    int64_t numel;
} candidate;

// Group by group, the largest first; of equal ones the first.
static int compare(const void *x, const void *y) {
    const candidate *a = x, *b = y;
    if (a->group != b->group) return a->group - b->group;
    if (a->numel != b->numel) return a->numel > b->numel ? -1 : 1;
    return a->index - b->index;
}

static int least_of(const int64_t *loads, int members) {
    int least = 0;
    for (int m = 1; m < members; m++)
        if (loads[m] < loads[least]) least = m;
    return least;
}

static bool share_whole(gw_scope *s, const gw_optimizer *o, shard *x) {
    int from = x->covered, count = o->parameter_count - from;
    candidate *all = gw_alloc(s, ((size_t)count + 1) * sizeof *all);
    if (!all) return false;
    for (int i = 0; i < count; i++) {
        const parameter *p = &o->parameters[from + i];
        all[i] = (candidate){ from + i, p->group, p->x->numel };
    }
    qsort(all, (size_t)count, sizeof *all, compare);
    for (int i = 0; i < count; i++) {
        int owner = least_of(x->loads, gw_group_size(x->group));
        x->pieces[all[i].index] = (piece){ all[i].index, owner, 0, all[i].numel };
        x->loads[owner] += all[i].numel;
    }
    x->piece_count += count;
    return true;
}

// ---- Ranges -------------------------------------------------------------------------------------

// The numbers of one dtype, behind each other, cut into as many ranges as there are members, of one
// length; the last ones may be shorter.
static void share_ranges(const gw_optimizer *o, shard *x) {
    int64_t total[GW_DTYPE_COUNT] = { 0 }, at[GW_DTYPE_COUNT] = { 0 };
    int members = gw_group_size(x->group);
    for (int i = x->covered; i < o->parameter_count; i++)
        total[o->parameters[i].x->dtype] += o->parameters[i].x->numel;
    for (int i = x->covered; i < o->parameter_count; i++) {
        const gw_tensor *t = o->parameters[i].x;
        int64_t range = (total[t->dtype] + members - 1) / members;
        for (int64_t first = 0; first < t->numel;) {
            int owner = (int)(at[t->dtype] / range);
            int64_t left = (owner + 1) * range - at[t->dtype];
            int64_t count = left < t->numel - first ? left : t->numel - first;
            x->pieces[x->piece_count++] = (piece){ i, owner, first, count };
            x->loads[owner] += count;
            at[t->dtype] += count;
            first += count;
        }
    }
}

static gw_tensor *view_of(gw_scope *s, gw_tensor *x, const piece *at) {
    gw_tensor *flat = gw_reshape_with(s, gw_detach(s, x), (gw_shape){ 1, &x->numel });
    return gw_requires_grad(s, gw_slice(s, flat, 0, at->first, at->first + at->count, 1));
}

// The pieces of this member in group |g|, from piece |from| on, are a group of its own optimizer.
static bool add_own(gw_scope *s, const gw_optimizer *o, shard *x, int from, int g) {
    gw_list *views = gw_list_open(s);
    int *numbers = gw_alloc(s, (size_t)(x->piece_count - from + 1) * sizeof *numbers), count = 0;
    for (int i = from; gw_ok(s) && i < x->piece_count; i++) {
        const piece *at = &x->pieces[i];
        const parameter *p = &o->parameters[at->parameter];
        if (at->owner != gw_group_rank(x->group) || p->group != g) continue;
        gw_list_add(s, views, view_of(s, p->x, at));
        numbers[count++] = p->number;
    }
    return optimizer_add_part(s, x->own, views, numbers, &o->groups[g]);
}

static bool add_own_groups(gw_scope *s, const gw_optimizer *o, shard *x, int from) {
    int before = x->own->group_count;
    for (int g = before; g < o->group_count; g++) {
        if (add_own(s, o, x, from, g)) continue;
        while (x->own->group_count > before) optimizer_remove_group(x->own);
        return false;
    }
    return true;
}

// ---- Sharing out --------------------------------------------------------------------------------

// The members have the same parameters, in the same groups.
bool shard_compare_parameters(gw_scope *s, const gw_group *g, const gw_optimizer *o) {
    gw_list *own = gw_list_open(s);
    for (int i = 0; i < o->parameter_count; i++) {
        const parameter *p = &o->parameters[i];
        gw_list_add(s, own,
                    gw_format(s, "%s %s of group %d", gw_dtype_name((gw_dtype)p->x->dtype),
                              shape_text_of(p->x->dims, p->x->sizes).text, p->group));
    }
    gw_list *all = gw_all_gather_value(s, (gw_group *)g, own);
    for (int m = 0; m < gw_list_count(all) && gw_ok(s); m++) {
        gw_list *theirs = gw_list_of(s, gw_list_get(s, all, m));
        const char *name = gw_group_worker(s, g, m).name;
        if (gw_list_count(theirs) != o->parameter_count)
            scope_fail(s, GW_MISMATCH,
                       "gw_optimizer_shard: the optimizers have different numbers of parameters: "
                       "%d, but %d on %s",
                       o->parameter_count, gw_list_count(theirs), name);
        for (int i = 0; i < o->parameter_count && gw_ok(s); i++) {
            const char *here = gw_string_of(s, gw_list_get(s, own, i));
            const char *there = gw_string_of(s, gw_list_get(s, theirs, i));
            if (strcmp(here, there) == 0) continue;
            scope_fail(s, GW_MISMATCH, "gw_optimizer_shard: parameter %d is %s, but %s on %s", i,
                       here, there, name);
        }
    }
    return gw_ok(s);
}

static bool reserve_pieces(gw_scope *s, const gw_optimizer *o, shard *x) {
    size_t more = (size_t)(o->parameter_count - x->covered);
    if (x->is_flat) more += (size_t)gw_group_size(x->group) * GW_DTYPE_COUNT;
    piece *pieces = mem_realloc(x->pieces, ((size_t)x->piece_count + more + 1) * sizeof *pieces);
    if (pieces) x->pieces = pieces;
    int64_t *rows = mem_realloc(x->rows, ((size_t)x->piece_count + more + 1) * sizeof *rows);
    if (rows) x->rows = rows;
    if (!pieces || !rows) scope_fail(s, GW_NO_MEMORY, "gw_optimizer_shard: no memory");
    return pieces && rows;
}

// A piece with numbers of others has its state in an optimizer of this member's own.
void shard_note_elsewhere(gw_optimizer *o, const shard *x, int from) {
    for (int i = from; i < x->piece_count; i++) {
        bool is_own = x->pieces[i].owner == gw_group_rank(x->group);
        o->parameters[x->pieces[i].parameter].elsewhere = x->is_flat || !is_own;
    }
}

bool shard_share_out(gw_scope *s, const gw_optimizer *o, shard *x) {
    int from = x->piece_count;
    bool ok = reserve_pieces(s, o, x);
    if (ok && x->is_flat)
        share_ranges(o, x);
    else if (ok)
        ok = share_whole(s, o, x);
    if (ok && x->is_flat) ok = add_own_groups(s, o, x, from);
    if (ok)
        x->covered = o->parameter_count;
    else
        x->piece_count = from;
    return ok;
}

bool shard_extend(gw_scope *s, gw_optimizer *o) {
    shard *x = shard_of(o);
    int from = x->piece_count;
    if (x->covered == o->parameter_count) return gw_ok(s);
    gw_scope *t = scope_open_unrecorded(s);
    bool ok = shard_compare_parameters(t, x->group, o) && shard_share_out(t, o, x);
    if (ok) shard_note_elsewhere(o, x, from);
    gw_scope_close_up(t);
    return gw_ok(s);
}

// ---- Gradients ----------------------------------------------------------------------------------

// By leaf of |d|, which parameter it is.
static bool find_leaves(gw_scope *s, const gw_optimizer *o, const shard *x, const gw_ddp *d,
                        int *numbers) {
    int count = d->gate.leaf_count, leaf;
    for (int i = 0; i < count; i++) numbers[i] = -1;
    for (int i = 0; i < o->parameter_count; i++)
        if (ddp_of_parameter(o->parameters[i].x, &leaf) == d) numbers[leaf] = i;
    for (int i = 0; i < count && gw_ok(s); i++) {
        if (numbers[i] < 0)
            scope_fail(s, GW_INVALID,
                       "gw_optimizer_shard: gradients cannot be sharded, because a parameter of "
                       "the replicated model is not in the optimizer");
        else if (x->is_flat && d->is_rows[i])
            scope_fail(s, GW_INVALID,
                       "gw_optimizer_shard: gradients cannot be sharded in ranges (.flat), because "
                       "those of \"%s\" "
                       "are sparse by rows",
                       d->names[i]);
    }
    return gw_ok(s);
}

// The tensor that the optimizer of this member's own steps for piece |i|; NULL: another member does, or there are no
// ranges.
static gw_tensor *own_view_of(const shard *x, int i) {
    int k = 0;
    if (!x->own || x->pieces[i].owner != gw_group_rank(x->group)) return NULL;
    for (int j = 0; j < i; j++) k += x->pieces[j].owner == x->pieces[i].owner;
    return x->own->parameters[k].x;
}

// Parts as the state is: one for each piece, and for a parameter without numbers, which has none.
static int list_parts(const gw_optimizer *o, const shard *x, const gw_ddp *d, const int *numbers,
                      kept_part *parts, gw_tensor **views) {
    int count = 0, leaf;
    for (int i = 0; i < d->gate.leaf_count; i++)
        if (x->is_flat && !o->parameters[numbers[i]].x->numel)
            parts[count++] = (kept_part){ .leaf = i };
    for (int i = 0; i < x->piece_count; i++) {
        const piece *at = &x->pieces[i];
        const gw_tensor *p = o->parameters[at->parameter].x;
        if (ddp_of_parameter(p, &leaf) != d) continue;
        parts[count++] = (kept_part){ leaf, at->owner, at->first, at->count };
        gw_tensor *view = at->count < p->numel ? own_view_of(x, i) : NULL;
        if (view) views[leaf] = view;
    }
    return count;
}

// The gradients of |d| go where the state is.
static bool share_gradients_of(gw_scope *s, const gw_optimizer *o, const shard *x, gw_ddp *d) {
    size_t leaves = (size_t)d->gate.leaf_count;
    int *numbers = gw_alloc(s, leaves * sizeof *numbers);
    kept_part *parts = gw_alloc(s, ((size_t)x->piece_count + leaves) * sizeof *parts);
    gw_tensor **views = gw_alloc(s, leaves * sizeof(gw_tensor *));
    if (d->group->list != x->group->list)
        scope_fail(s, GW_INVALID,
                   "gw_optimizer_shard: gradients can be sharded only in the group of the model, "
                   "but the optimizer has another group");
    if (!gw_ok(s) || !find_leaves(s, o, x, d, numbers)) return false;
    memset(views, 0, leaves * sizeof(gw_tensor *));
    int count = list_parts(o, x, d, numbers, parts, views);
    return ddp_share_means(s, d, parts, count, views, x->group->id);
}

bool shard_share_gradients(gw_scope *s, const gw_optimizer *o, gw_ddp *of) {
    const shard *x = shard_of(o);
    for (int i = 0; i < o->parameter_count && gw_ok(s); i++) {
        int leaf;
        gw_ddp *d = ddp_of_parameter(o->parameters[i].x, &leaf);
        if (!d)
            scope_fail(s, GW_INVALID,
                       "gw_optimizer_shard: gradients can be sharded only for models that "
                       "gw_ddp_open has opened, but parameter %d does not belong to such a model",
                       i);
        else if (!d->sharing && (!of || d == of))
            share_gradients_of(s, o, x, d);
    }
    return gw_ok(s);
}

// ---- Own parts -----------------------------------------------------------------------------------

gw_tensor *shard_cut(gw_scope *s, const gw_optimizer *o, const piece *at, gw_tensor *g) {
    if (tensor_is_rows(g))
        scope_fail(s, GW_INVALID,
                   "step of gw_%s: the gradient of parameter %d is sparse by rows, which is not "
                   "supported with .flat",
                   o->rule->name, o->parameters[at->parameter].number);
    if (!gw_ok(s) || g->numel == at->count)
        return gw_reshape_with(s, g, (gw_shape){ 1, &g->numel });
    g = gw_reshape_with(s, g, (gw_shape){ 1, &g->numel });
    return gw_slice(s, g, 0, at->first, at->first + at->count, 1);
}

void shard_take_options(const gw_optimizer *o, shard *x) {
    for (int g = 0; g < x->own->group_count; g++) x->own->groups[g] = o->groups[g];
}
