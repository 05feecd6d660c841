// Tables in a sharded step: of those whose gradients are sparse by rows only the rows that have changed go
// around (OWN-1).
#include "autograd/grads.h"
#include "base/mem.h"
#include "base/scope.h"
#include "parallel/ddp/ddp.h"
#include "parallel/shard/shard.h"
#include "tensor/rows.h"
#include <gradwire/ops.h>

#undef GW_ORIGIN
#define GW_ORIGIN "gw_optimizer_step"  // of the calls in this file, in errors

// All members have opened the same models, and so have the same kinds of parameters.
bool shard_is_table(const gw_optimizer *o, const shard *x, const piece *at) {
    int leaf;
    const gw_ddp *d = ddp_of_parameter(o->parameters[at->parameter].x, &leaf);
    return !x->is_flat && d && d->is_rows[leaf];
}

bool shard_has_tables(const gw_optimizer *o, const shard *x) {
    for (int i = 0; i < x->piece_count; i++)
        if (shard_is_table(o, x, &x->pieces[i])) return true;
    return false;
}

int64_t shard_numbers_of(const gw_optimizer *o, const shard *x, int i) {
    const piece *at = &x->pieces[i];
    return x->rows[i] < 0 ? at->count : x->rows[i] * rows_length(o->parameters[at->parameter].x);
}

// ---- Rows of this member -----------------------------------------------------------------------

static bool is_own(const shard *x, const piece *at) {
    return at->owner == gw_group_rank(x->group);
}

// How many rows of |p| have been computed; -1: all of them.
static int64_t count_rows(const parameter *p) {
    if (!p->grad) return 0;
    return p->rows ? rows_count(p->grad) : -1;
}

static gw_tensor *list_rows(gw_scope *s, const gw_optimizer *o, shard *x) {
    const int64_t one = 1, none = 0;
    gw_tensor **all = gw_alloc(s, (2 * (size_t)x->piece_count + 1) * sizeof *all);
    int count = 0;
    if (all) all[count++] = gw_zeros_with(s, GW_I64, (gw_shape){ 1, &none });
    for (int i = 0; gw_ok(s) && i < x->piece_count; i++) {
        const parameter *p = &o->parameters[x->pieces[i].parameter];
        if (!is_own(x, &x->pieces[i]) || !shard_is_table(o, x, &x->pieces[i])) continue;
        x->rows[i] = count_rows(p);
        all[count++] = gw_from_with(s, GW_I64, &x->rows[i], (gw_shape){ 1, &one });
        if (x->rows[i] > 0) all[count++] = gw_rows_indices(s, p->grad);
    }
    return gw_cat(s, all, count, 0);
}

// ---- Rows of the others ---------------------------------------------------------------------------

static bool expect(gw_scope *s, gw_optimizer *o, shard *x, int i, gw_tensor *indices) {
    int parameter = x->pieces[i].parameter;
    if (x->rows[i] < 0) return optimizer_reserve_values(s, o, parameter);
    return x->rows[i] == 0 || optimizer_reserve_rows(s, o, parameter, indices);
}

static void read_rows(gw_scope *s, gw_optimizer *o, shard *x, int owner, gw_tensor *received) {
    int64_t left = received->dtype == GW_I64 ? received->numel : 0, at = 0;
    for (int i = 0; i < x->piece_count && gw_ok(s); i++) {
        const piece *p = &x->pieces[i];
        if (p->owner != owner || !shard_is_table(o, x, p)) continue;
        int64_t count = at < left ? ((const int64_t *)gw_data(received))[at++] : -2;
        if (count < -1 || count > left - at) {
            scope_fail(s, GW_MISMATCH, "a sharded step: %s has sent other rows than expected",
                       gw_group_worker(s, x->group, owner).name);
            return;
        }
        x->rows[i] = count;
        gw_tensor *indices = count > 0 ? gw_slice(s, received, 0, at, at + count, 1) : NULL;
        expect(s, o, x, i, indices);
        at += count > 0 ? count : 0;
    }
}

bool shard_exchange_rows(gw_scope *s, gw_optimizer *o, shard *x) {
    gw_scope *t = scope_open_unrecorded(s);
    gw_list *all = gw_all_gather_list(t, x->group, gw_ok(t) ? list_rows(t, o, x) : NULL);
    bool received = gw_ok(t);
    for (int m = 0; m < gw_group_size(x->group) && gw_ok(t); m++)
        if (m != gw_group_rank(x->group))
            read_rows(t, o, x, m, gw_tensor_of(t, gw_list_get(t, all, m)));
    gw_scope_close_up(t);
    return received;
}
