// A step of a sharded optimizer: each member computes its part, and values go around.
#include "parallel/shard/shard.h"

#include "autograd/grads.h"
#include "base/mutation.h"
#include "base/scope.h"
#include "collective/group/group.h"
#include "optim/row_update.h"
#include "parallel/ddp/ddp.h"
#include "tensor/tensor.h"
#include <gradwire/ops.h>

#undef GW_ORIGIN
#define GW_ORIGIN "gw_optimizer_step"  // of the calls in this file, in errors

// The size of one round, so that only a part is in memory in addition to the new values.
enum { ROUND_BYTES = 25 << 20 };

// ---- Computation on this member ------------------------------------------------------------------

static bool is_own(const shard *x, const piece *at) {
    return at->owner == gw_group_rank(x->group);
}

// With ranges: their gradients are parts of those of the parameters, or all that is kept of these here.
static void cut_gradients(gw_scope *s, const gw_scope *from, const gw_optimizer *o,
                          const shard *x) {
    for (int i = 0, k = 0; i < x->piece_count && gw_ok(s); i++) {
        const piece *at = &x->pieces[i];
        if (!is_own(x, at)) continue;
        gw_tensor *view = x->own->parameters[k++].x, *g = grads_find(from, view);
        if (!g) g = grads_find(from, o->parameters[at->parameter].x);
        if (g) g = shard_cut(s, o, at, g);
        if (g && gw_ok(s)) grads_add(s, s, &(gw_tensor_grad){ view, handle_retain(g) }, 1);
    }
}

static void prepare_own(gw_scope *s, const gw_optimizer *o, shard *x) {
    gw_scope *t = scope_open_unrecorded(s);
    shard_take_options(o, x);
    cut_gradients(t, s, o, x);
    optimizer_prepare(t, x->own);
    gw_scope_close_up(t);
}

static void prepare(gw_scope *s, gw_optimizer *o, shard *x) {
    for (int i = 0; i < x->piece_count; i++) x->rows[i] = -1;
    if (x->own)
        prepare_own(s, o, x);
    else
        optimizer_prepare(s, o);
    for (int i = 0; gw_ok(s) && i < x->piece_count; i++) {
        const piece *at = &x->pieces[i];
        bool is_new = i == 0 || x->pieces[i - 1].parameter != at->parameter;
        if (is_new && o->parameters[at->parameter].elsewhere && !shard_is_table(o, x, at))
            optimizer_reserve_values(s, o, at->parameter);
    }
}

// ---- Exchange ---------------------------------------------------------------------------

// Pieces from |from| up to |end|, those of |dtype|.
typedef struct round {
    int from, end;
    gw_dtype dtype;
} round;

static bool is_in(const gw_optimizer *o, const piece *at, gw_dtype dtype) {
    return o->parameters[at->parameter].x->dtype == dtype;
}

static bool find_round(const gw_optimizer *o, const shard *x, round *r) {
    int64_t room = ROUND_BYTES / (int64_t)gw_dtype_size(r->dtype);
    bool any = false;
    for (r->from = r->end; r->end < x->piece_count; r->end++) {
        const piece *at = &x->pieces[r->end];
        if (!is_in(o, at, r->dtype)) continue;
        int64_t count = shard_numbers_of(o, x, r->end);
        if (any && count > room) break;
        room -= count;
        any = true;
    }
    return any;
}

static int64_t numbers_of(const gw_optimizer *o, const shard *x, const round *r, int owner) {
    int64_t count = 0;
    for (int i = r->from; i < r->end; i++)
        if (x->pieces[i].owner == owner && is_in(o, &x->pieces[i], r->dtype))
            count += shard_numbers_of(o, x, i);
    return count;
}

static void put_rows(const parameter *p, block *to, size_t offset, size_t size) {
    if (size) block_copy(to, offset, row_update_block(p), 0, size);
}

static void put_all(const parameter *p, block *to, size_t offset) {
    const block *from = p->new_x ? p->new_x : p->x->storage->block;
    block_copy(to, offset, from, p->new_x ? 0 : tensor_offset(p->x), tensor_size(p->x));
    if (p->rows) row_update_write(p, to, offset);
}

// The new values of this member's pieces, behind each other.
static gw_tensor *join_own(gw_scope *s, const gw_optimizer *o, const shard *x, const round *r) {
    int64_t numbers = numbers_of(o, x, r, gw_group_rank(x->group));
    gw_tensor *out = scope_own(s, tensor_new(s, r->dtype, 1, &numbers));
    size_t to = 0;
    for (int i = 0, k = 0; out && i < r->end; i++) {
        const piece *at = &x->pieces[i];
        if (!is_own(x, at)) continue;
        const parameter *p = x->own ? &x->own->parameters[k++] : &o->parameters[at->parameter];
        if (i < r->from || !is_in(o, at, r->dtype)) continue;
        size_t size = (size_t)shard_numbers_of(o, x, i) * gw_dtype_size(r->dtype);
        if (x->rows[i] >= 0)
            put_rows(p, out->storage->block, to, size);
        else
            put_all(p, out->storage->block, to);
        to += size;
    }
    return out;
}

static void stage(gw_optimizer *o, const shard *x, const round *r, int owner,
                  const gw_tensor *received) {
    int64_t from = 0;
    for (int i = r->from; i < r->end; i++) {
        const piece *at = &x->pieces[i];
        if (at->owner != owner || !is_in(o, at, r->dtype)) continue;
        int64_t count = shard_numbers_of(o, x, i);
        if (count && o->parameters[at->parameter].elsewhere)
            optimizer_stage(o, at->parameter, at->first, received, from, count);
        from += count;
    }
}

static void exchange(gw_scope *s, gw_optimizer *o, shard *x, const round *r) {
    gw_scope *t = scope_open_unrecorded(s);
    gw_tensor *own = gw_ok(t) ? join_own(t, o, x, r) : NULL;
    gw_list *all = gw_all_gather_list(t, x->group, own);
    for (int owner = 0; owner < gw_list_count(all) && gw_ok(t); owner++) {
        gw_tensor *received = gw_tensor_of(t, gw_list_get(t, all, owner));
        if (gw_ok(t) &&
            (received->dtype != r->dtype || received->numel != numbers_of(o, x, r, owner)))
            scope_fail(t, GW_MISMATCH,
                       "a sharded step: parameters are assigned in another way on %s",
                       gw_group_worker(t, x->group, owner).name);
        if (gw_ok(t)) stage(o, x, r, owner, received);
    }
    gw_scope_close_up(t);
}

// ---- The step -----------------------------------------------------------------------------------

// The new values of the parameters have arrived with those of the others.
static void commit_own(gw_optimizer *own) {
    for (int i = 0; i < own->parameter_count; i++) {
        block_release(own->parameters[i].new_x);
        own->parameters[i].new_x = NULL;
    }
    optimizer_commit(own);
}

// All values have arrived here: all members of the last re-forming have taken part.
void shard_commit(gw_optimizer *o, shard *x) {
    if (x->own) commit_own(x->own);
    optimizer_commit(o);
    x->is_in_doubt = false;
    held_forget(&x->held);
}

void shard_abort(gw_optimizer *o, shard *x) {
    if (x->own) optimizer_abort(x->own);
    optimizer_abort(o);
    x->is_in_doubt = false;
}

static bool is_broken(const gw_group *g) {
    env_enter(g->agent->env);
    bool is = g->broken.status != GW_OK;
    env_leave(g->agent->env);
    return is;
}

// Gradients that are shared out to the owners of another group do not reach those of this one.
static void check_sharing(gw_scope *s, const gw_optimizer *o, const shard *x) {
    int leaf;
    for (int i = 0; i < o->parameter_count && x->shares_gradients && gw_ok(s); i++) {
        const gw_ddp *d = ddp_of_parameter(o->parameters[i].x, &leaf);
        if (d && d->sharing && d->sharing->group != x->group->id)
            scope_fail(s, GW_WRONG_STATE,
                       "step of gw_%s: gradients are still sharded as before gw_optimizer_reform: "
                       "call gw_ddp_reform with the optimizer first",
                       o->rule->name);
    }
}

// An error here is reported by the collective, which is entered all the same. A member whose collective fails cannot
// decide whether the others have what they need.
static void step(gw_scope *s, gw_optimizer *o, shard *x) {
    bool is_over = false;
    if (x->is_in_doubt) shard_abort(o, x);
    if (gw_ok(s)) check_sharing(s, o, x);
    if (gw_ok(s)) shard_discard_stale(s, o);
    if (gw_ok(s) && shard_extend(s, o)) prepare(s, o, x);
    if (shard_has_tables(o, x)) is_over = !shard_exchange_rows(s, o, x);
    bool is_prepared = gw_ok(s);
    for (int dtype = 0; dtype < GW_DTYPE_COUNT && !is_over; dtype++) {
        round r = { .dtype = (gw_dtype)dtype };
        while (!is_over && find_round(o, x, &r)) {
            exchange(s, o, x, &r);
            is_over = !gw_ok(s);
        }
    }
    x->is_in_doubt = is_prepared && !gw_ok(s) && !has_mutation(MUTATION_DOUBT_DROPPED);
    if (gw_ok(s))
        shard_commit(o, x);
    else if (!x->is_in_doubt)
        shard_abort(o, x);
}

// OWN-2: a member keeps what it has computed until its next step, and computes nothing while its group is broken.
void shard_step(gw_scope *s, gw_optimizer *o) {
    shard *x = shard_of(o);
    shard_begin(x);
    if (x->is_in_doubt && is_broken(x->group))
        gw_barrier(s, x->group);
    else
        step(s, o, x);
    shard_forget_early(x);
    shard_end(x);
}

// ---- Unscaling ----------------------------------------------------------------------------------

bool shard_unscale(gw_scope *s, const gw_optimizer *o, double by, bool not_finite) {
    (void)by;
    uint8_t any = not_finite;
    gw_scope *t = gw_scope_open(s);
    gw_tensor *all = gw_all_reduce(t, shard_of(o)->group, gw_from(t, &any, 1), GW_BOR);
    not_finite = gw_item_int(t, all) != 0;
    gw_scope_close_up(t);
    return not_finite;
}
