// One bucket by PowerSGD: P and the uncompressed gradients in one collective, Q in the next.
//
// Note [Later rounds of a hook]
// What a hook calls before it returns has its position among the collectives of all passes. A collective that needs
// the result of these has no position, since members reach it in different orders. So it has a key of its own, made of
// pass and bucket. A member whose first round has failed enters it as failed, since it may have succeeded on others.
#include "base/map.h"
#include "base/mem.h"
#include "base/scope.h"
#include "collective/group/group.h"
#include "parallel/hooks/power_sgd.h"
#include "tensor/tensor.h"
#include <gradwire/ops.h>

#include <math.h>

// A parameter's numbers, or all of the bucket's.
typedef struct part {
    low_rank shape;
    bool is_matrix;  // else it travels as it is
    int leaf;
    int64_t numel, at;         // of its numbers in the bucket
    int64_t p_at, q_at;        // of its vectors among all
    power_sgd_memory *memory;  // NULL: none
} part;

typedef struct exchange {
    gw_power_sgd *state;  // one count
    gw_ddp *ddp;          // one count
    gw_future *out;       // one count
    gw_tensor *x;         // one count: the contribution of this member, with the errors
    gw_tensor *sums;      // one count: orthogonal P, and the mean of the uncompressed gradients
    uint64_t key;         // of the second round
    gw_dtype dtype, computed;  // of the bucket; f32 or f64
    int64_t numel;             // of the bucket
    int64_t p_numel, q_numel;
    int part_count;
    part parts[];
} exchange;

static void close_exchange(exchange *e) {
    for (int i = 0; i < e->part_count; i++)
        if (e->parts[i].memory) power_sgd_memory_give(e->ddp, e->parts[i].memory, NULL, NULL);
    handle_release(e->x);
    handle_release(e->sums);
    handle_release(e->out);
    handle_release(e->state);
    handle_release(e->ddp);
    mem_free(e);
}

// ---- Matrices -----------------------------------------------------------------------------------

static int rank_of(const gw_power_sgd *p, int64_t rows, int64_t columns) {
    int64_t least = rows < columns ? rows : columns;
    return (int)(p->options.rank < least ? p->options.rank : least);
}

static part part_of_parameter(const exchange *e, const gw_tensor *leaf) {
    const gw_power_sgd *p = e->state;
    part x = { .numel = gw_numel(leaf) };
    int64_t rows = gw_dims(leaf) ? gw_size(leaf, 0) : 1;
    int64_t columns = rows ? x.numel / rows : 0;
    x.shape = (low_rank){ e->computed, rows, columns, rank_of(p, rows, columns) };
    double smaller = (double)(rows + columns) * x.shape.rank;
    x.is_matrix = x.numel && smaller * p->options.min_rate < (double)x.numel;
    return x;
}

static void lay_out_parameters(gw_scope *s, exchange *e, gw_bucket *b) {
    const int *leaves = b->layout->buckets[b->index].leaves;
    int64_t at = 0;
    for (int i = 0; i < e->part_count; i++) {
        part x = part_of_parameter(e, gw_bucket_parameter(s, b, i));
        x.leaf = leaves[i];
        x.at = at;
        at += x.numel;
        e->parts[i] = x;
    }
}

static void lay_out_square(exchange *e, const gw_bucket *b) {
    int64_t side = (int64_t)ceil(sqrt((double)e->numel));
    while (side * side < e->numel) side++;
    low_rank shape = { e->computed, side, side, rank_of(e->state, side, side) };
    e->parts[0] = (part){ .shape = shape,
                          .is_matrix = side > 0,
                          .leaf = b->layout->buckets[b->index].leaves[0],
                          .numel = side * side };
}

// The identity of a memory: its leaf, or all of the bucket's.
static uint64_t hash_of_leaves(const gw_bucket *b, const part *x, bool is_square) {
    const layout_bucket *at = &b->layout->buckets[b->index];
    uint64_t hash = hash_u64((uint64_t)x->leaf + 1);
    for (int i = 0; is_square && i < at->count; i++)
        hash = hash_u64(hash + (uint64_t)at->leaves[i]);
    return hash | 1;
}

static bool set_vectors(gw_scope *s, exchange *e, const gw_bucket *b, bool is_square) {
    int64_t after = 0;
    for (int i = 0; i < e->part_count && gw_ok(s); i++) {
        part *x = &e->parts[i];
        after += x->is_matrix ? (x->shape.rows + x->shape.columns) * x->shape.rank : x->numel;
        if (!x->is_matrix) continue;
        x->p_at = e->p_numel;
        x->q_at = e->q_numel;
        e->p_numel += x->shape.rows * x->shape.rank;
        e->q_numel += x->shape.columns * x->shape.rank;
        uint64_t leaves = hash_of_leaves(b, x, is_square);
        x->memory = power_sgd_memory_take(s, e->state, e->ddp, x->leaf, leaves, &x->shape);
    }
    power_sgd_count(e->state, b, e->numel, after);
    return gw_ok(s) && e->p_numel;
}

static exchange *open_exchange(gw_scope *s, gw_power_sgd *p, gw_bucket *b, bool is_square) {
    int count = is_square ? 1 : gw_bucket_parameter_count(b);
    exchange *e = mem_calloc(sizeof *e + (size_t)count * sizeof *e->parts);
    if (!e) {
        scope_fail(s, GW_NO_MEMORY, "no memory for PowerSGD");
        return NULL;
    }
    gw_tensor *flat = gw_bucket_tensor(s, b);
    e->state = handle_retain(p);
    e->ddp = handle_retain(b->ddp);
    e->key = GROUP_KEY_ONCE | hash_u64(hash_u64((uint64_t)b->pass) + (uint64_t)b->index);
    e->dtype = gw_dtype_of(flat);
    e->computed = e->dtype == GW_F64 ? GW_F64 : GW_F32;
    e->numel = gw_numel(flat);
    e->part_count = count;
    if (is_square)
        lay_out_square(e, b);
    else
        lay_out_parameters(s, e, b);
    return e;
}

// ---- Numbers ------------------------------------------------------------------------------------

static gw_tensor *slice(gw_scope *s, gw_tensor *x, int64_t at, int64_t count) {
    return gw_slice(s, x, 0, at, at + count, 1);
}

static const void *numbers_at(const exchange *e, gw_tensor *x, int64_t at) {
    return (const char *)gw_data(x) + (size_t)at * gw_dtype_size(e->computed);
}

// The contribution of this member: the bucket, zeros behind it for a square, and the errors.
static gw_tensor *with_errors(gw_scope *s, const exchange *e, gw_tensor *flat) {
    const part *last = &e->parts[e->part_count - 1];
    int64_t missing = last->at + last->numel - e->numel;
    gw_tensor *both[] = { gw_to_dtype(s, flat, e->computed),
                          gw_zeros_with(s, e->computed, (gw_shape){ 1, &missing }) };
    gw_tensor *x = gw_cat(s, both, 2, 0);
    for (int i = 0; i < e->part_count; i++) {
        const part *at = &e->parts[i];
        if (at->memory && at->memory->error && e->state->options.feedback)
            gw_add_(s, slice(s, x, at->at, at->numel), at->memory->error);
    }
    return x;
}

// The last Q where there is one, else normal numbers; orthogonal.
static gw_tensor *first_q(gw_scope *s, const exchange *e, const gw_bucket *b) {
    const gw_power_sgd *p = e->state;
    gw_tensor *q = p->draw(s, p, power_sgd_pass_of(p, b), b->index, e->computed, e->q_numel);
    char *numbers = gw_ok(s) ? gw_data_for_write(s, q) : NULL;
    for (int i = 0; numbers && i < e->part_count; i++) {
        const part *x = &e->parts[i];
        if (!x->is_matrix) continue;
        int64_t count = x->shape.columns * x->shape.rank;
        if (p->options.warm_start && x->memory && x->memory->q)
            gw_copy_(s, slice(s, q, x->q_at, count), x->memory->q);
        low_rank_orthogonalise(e->computed, numbers + (size_t)x->q_at * gw_dtype_size(e->computed),
                               x->shape.columns, x->shape.rank, p->options.epsilon);
    }
    return q;
}

// P of all matrices, and behind it the uncompressed gradients.
static gw_tensor *first_round(gw_scope *s, const exchange *e, gw_tensor *q) {
    gw_tensor **all = gw_alloc(s, ((size_t)e->part_count + 1) * sizeof(gw_tensor *));
    gw_tensor *p = gw_zeros_with(s, e->computed, (gw_shape){ 1, &e->p_numel });
    char *numbers = gw_ok(s) ? gw_data_for_write(s, p) : NULL;
    int count = 0;
    if (all) all[count++] = p;
    for (int i = 0; numbers && i < e->part_count; i++) {
        const part *x = &e->parts[i];
        if (x->is_matrix)
            low_rank_multiply(&x->shape, numbers_at(e, e->x, x->at), numbers_at(e, q, x->q_at),
                              numbers + (size_t)x->p_at * gw_dtype_size(e->computed));
        else
            all[count++] = slice(s, e->x, x->at, x->numel);
    }
    return gw_to_dtype(s, gw_cat(s, all, count, 0), e->dtype);
}

// Means of P are as good as sums to make orthogonal, and do not run over in f16.
static gw_tensor *second_round(gw_scope *s, exchange *e, gw_tensor *means) {
    gw_tensor *sums = gw_clone(s, gw_to_dtype(s, means, e->computed));
    gw_mul_(s, slice(s, sums, 0, e->p_numel), gw_group_size(e->ddp->group));
    gw_tensor *q = gw_zeros_with(s, e->computed, (gw_shape){ 1, &e->q_numel });
    size_t size = gw_dtype_size(e->computed);
    char *p = gw_ok(s) ? gw_data_for_write(s, sums) : NULL, *to = gw_data_for_write(s, q);
    for (int i = 0; p && to && i < e->part_count; i++) {
        const part *x = &e->parts[i];
        if (!x->is_matrix) continue;
        low_rank_orthogonalise(e->computed, p + (size_t)x->p_at * size, x->shape.rows,
                               x->shape.rank, e->state->options.epsilon);
        low_rank_multiply_transposed(&x->shape, numbers_at(e, e->x, x->at),
                                     p + (size_t)x->p_at * size, to + (size_t)x->q_at * size);
    }
    if (gw_ok(s)) e->sums = handle_retain(sums);
    return gw_to_dtype(s, q, e->dtype);
}

static gw_tensor *result_of(gw_scope *s, const exchange *e, gw_tensor *q) {
    gw_tensor *y = gw_zeros_like(s, e->x);
    char *numbers = gw_ok(s) ? gw_data_for_write(s, y) : NULL;
    int64_t at = e->p_numel;
    for (int i = 0; numbers && i < e->part_count; i++) {
        const part *x = &e->parts[i];
        char *to = numbers + (size_t)x->at * gw_dtype_size(e->computed);
        if (x->is_matrix) {
            low_rank_expand(&x->shape, numbers_at(e, e->sums, x->p_at), numbers_at(e, q, x->q_at),
                            to);
        } else {
            gw_copy_(s, slice(s, y, x->at, x->numel), slice(s, e->sums, at, x->numel));
            at += x->numel;
        }
    }
    return y;
}

static void remember(gw_scope *s, exchange *e, gw_tensor *y, gw_tensor *q) {
    const gw_power_sgd_options *o = &e->state->options;
    for (int i = 0; i < e->part_count && gw_ok(s); i++) {
        part *x = &e->parts[i];
        if (!x->memory) continue;
        gw_tensor *error = NULL, *last = NULL;
        if (o->feedback)
            error = gw_sub(s, slice(s, e->x, x->at, x->numel), slice(s, y, x->at, x->numel));
        if (o->warm_start)
            last = gw_clone(s, slice(s, q, x->q_at, x->shape.columns * x->shape.rank));
        if (!gw_ok(s)) return;
        power_sgd_memory_give(e->ddp, x->memory, error, last);
        x->memory = NULL;
    }
}

// ---- Rounds -------------------------------------------------------------------------------------

// The error of |s| is the future's from here on.
static void end_exchange(gw_scope *s, exchange *e, gw_tensor *result) {
    gw_future_set_with(s, e->out, gw_value_of_tensor(result));
    gw_scope_clear(s);
    close_exchange(e);
}

static void take_q(gw_scope *s, gw_future *f, void *context) {
    exchange *e = context;
    gw_tensor *q = gw_to_dtype(s, gw_tensor_of(s, gw_future_value(s, f)), e->computed);
    gw_tensor *y = gw_ok(s) ? result_of(s, e, q) : NULL;
    if (y) remember(s, e, y, q);
    end_exchange(s, e, y ? gw_to_dtype(s, slice(s, y, 0, e->numel), e->dtype) : NULL);
}

static void take_p(gw_scope *s, gw_future *f, void *context) {
    exchange *e = context;
    gw_tensor *means = gw_tensor_of(s, gw_future_value(s, f));
    if (gw_ok(s) && gw_future_done(e->out)) scope_fail(s, GW_CANCELLED, "the pass has ended");
    gw_tensor *q = gw_ok(s) ? second_round(s, e, means) : NULL;
    gw_collective_options options = ddp_options_of(e->ddp);
    options.key = e->key;
    s->has_own_keys = true;
    gw_future *next = gw_all_reduce_async_with(s, e->ddp->group, q, GW_AVG, options);
    s->has_own_keys = false;
    if (gw_ok(s)) gw_on_done(s, next, take_q, e);
    if (!gw_ok(s)) end_exchange(s, e, NULL);
}

static gw_future *enter(gw_scope *s, exchange *e, gw_bucket *b) {
    gw_tensor *x = with_errors(s, e, gw_bucket_tensor(s, b));
    if (gw_ok(s)) e->x = handle_retain(x);
    gw_tensor *q = gw_ok(s) ? first_q(s, e, b) : NULL;
    gw_tensor *p = gw_ok(s) ? first_round(s, e, q) : NULL;
    gw_future *out = gw_future_open(s);
    gw_future *f = gw_all_reduce_async_with(s, e->ddp->group, p, GW_AVG, ddp_options_of(e->ddp));
    if (gw_ok(s)) {
        e->out = handle_retain(out);
        gw_on_done(s, f, take_p, e);
    }
    if (!gw_ok(s)) close_exchange(e);
    return out;
}

static gw_future *exchange_low_rank(gw_scope *s, gw_bucket *b, gw_power_sgd *p, bool is_square) {
    if (!power_sgd_is_usable(s, "a hook", p)) return gw_hook_all_reduce(s, b, NULL);
    bool begins = power_sgd_pass_of(p, b) >= p->options.start;
    exchange *e = begins ? open_exchange(s, p, b, is_square) : NULL;
    if (e && set_vectors(s, e, b, is_square)) return enter(s, e, b);
    if (e) close_exchange(e);
    if (!begins) power_sgd_count(p, b, 0, 0);
    return gw_hook_all_reduce(s, b, NULL);
}

gw_future *gw_hook_power_sgd(gw_scope *s, gw_bucket *b, void *power_sgd) {
    return exchange_low_rank(s, b, power_sgd, false);
}

gw_future *gw_hook_batched_power_sgd(gw_scope *s, gw_bucket *b, void *power_sgd) {
    return exchange_low_rank(s, b, power_sgd, true);
}
