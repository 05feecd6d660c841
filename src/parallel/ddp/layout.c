// Which gradients travel together.
#include "parallel/ddp/ddp.h"

#include "base/mem.h"
#include "tensor/tensor.h"

enum { DTYPES = GW_BF16 + 1 };  // floating ones are first

static layout *open_empty(int leaf_count, int part_count) {
    size_t numbers = (size_t)leaf_count * sizeof(int);
    size_t buckets = (size_t)leaf_count * sizeof(layout_bucket);
    size_t parts = (size_t)part_count * sizeof(kept_part);
    layout *l = mem_calloc(sizeof *l + buckets + parts + 2 * numbers);
    if (!l) return NULL;
    atomic_init(&l->count, 1);
    l->buckets = (layout_bucket *)(void *)(l + 1);
    l->parts = (kept_part *)(void *)(l->buckets + leaf_count);
    l->bucket_of = (int *)(void *)(l->parts + part_count);
    l->leaves = l->bucket_of + leaf_count;
    return l;
}

layout *layout_retain(layout *l) {
    atomic_fetch_add_explicit(&l->count, 1, memory_order_relaxed);
    return l;
}

void layout_release(layout *l) {
    if (l && atomic_fetch_sub_explicit(&l->count, 1, memory_order_acq_rel) == 1) mem_free(l);
}

typedef struct filling {
    const gw_ddp *ddp;
    layout *layout;
    int open[DTYPES];  // the bucket of that dtype that is not full; -1: none
    bool had[DTYPES];  // a full one
    int64_t bytes[DTYPES];
} filling;

static int add_bucket(filling *f, gw_dtype dtype, bool is_rows) {
    layout *l = f->layout;
    l->buckets[l->bucket_count] = (layout_bucket){ .dtype = dtype, .is_rows = is_rows };
    return l->bucket_count++;
}

static int64_t cap_of(const filling *f, gw_dtype dtype) {
    const gw_ddp_options *o = &f->ddp->options;
    return f->had[dtype] ? o->bucket_bytes : o->first_bucket_bytes;
}

// The bucket for |leaf|, which is full with it once it has reached its cap.
static int choose(filling *f, int leaf) {
    const gw_tensor *x = f->ddp->gate.leaves[leaf];
    gw_dtype dtype = (gw_dtype)x->dtype;
    if (f->ddp->is_rows[leaf]) return add_bucket(f, dtype, true);
    if (f->open[dtype] < 0) {
        f->open[dtype] = add_bucket(f, dtype, false);
        f->bytes[dtype] = 0;
    }
    int b = f->open[dtype];
    f->bytes[dtype] += x->numel * (int64_t)gw_dtype_size(dtype);
    if (f->bytes[dtype] < cap_of(f, dtype)) return b;
    f->open[dtype] = -1;
    f->had[dtype] = true;
    return b;
}

// Behind the parts that are present.
static void put_part(layout *l, kept_part x) {
    layout_bucket *b = &l->buckets[l->bucket_of[x.leaf]];
    b->parts[b->part_count++] = x;
    if (!b->count || b->leaves[b->count - 1] != x.leaf) b->leaves[b->count++] = x.leaf;
}

// In each bucket in the order of leaves, or by owner.
static void put_parts(const gw_ddp *d, layout *l, const int *order) {
    int leaf_count = d->gate.leaf_count;
    for (int i = 0; d->sharing && i < d->sharing->count; i++) put_part(l, d->sharing->parts[i]);
    for (int i = 0; !d->sharing && i < leaf_count; i++) {
        int leaf = order ? order[i] : leaf_count - 1 - i;
        put_part(l, (kept_part){ leaf, 0, 0, d->gate.leaves[leaf]->numel });
    }
}

// Takes memory for the counted parts.
static void begin_buckets(const gw_ddp *d, layout *l) {
    int *leaves = l->leaves;
    kept_part *parts = l->parts;
    for (int i = 0; d->sharing && i < d->sharing->count; i++)
        l->buckets[l->bucket_of[d->sharing->parts[i].leaf]].part_count++;
    for (int b = 0; b < l->bucket_count; b++) {
        layout_bucket *x = &l->buckets[b];
        x->leaves = leaves;
        x->parts = parts;
        leaves += x->count;
        parts += d->sharing ? x->part_count : x->count;
        x->count = x->part_count = 0;
    }
}

layout *layout_open(const gw_ddp *d, const int *order) {
    int leaf_count = d->gate.leaf_count;
    layout *l = open_empty(leaf_count, d->sharing ? d->sharing->count : leaf_count);
    if (!l) return NULL;
    filling f = { .ddp = d, .layout = l };
    for (int i = 0; i < DTYPES; i++) f.open[i] = -1;
    for (int i = 0; i < leaf_count; i++) {
        int leaf = order ? order[i] : leaf_count - 1 - i, b = choose(&f, leaf);
        l->bucket_of[leaf] = b;
        l->buckets[b].count++;
        l->buckets[b].numel += d->gate.leaves[leaf]->numel;
    }
    for (int i = 0; i < leaf_count; i++) {
        int leaf = order ? order[i] : leaf_count - 1 - i;
        l->hash = hash_u64(hash_u64(l->hash + (uint64_t)leaf) + (uint64_t)l->bucket_of[leaf]);
    }
    l->rider = -1;
    for (int b = 0; b < l->bucket_count; b++)
        if (l->buckets[b].dtype <= GW_F64 && !l->buckets[b].is_rows) l->rider = b;
    begin_buckets(d, l);
    put_parts(d, l, order);
    return l;
}
