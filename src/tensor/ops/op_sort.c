// Numbers in order, and their original positions: sort, topk.
//
// A number becomes an unsigned key that grows with it, NaN being the largest, and equals keep their
// order. So one loop over pairs of key and place does for every dtype and both directions.
#include "tensor/dense.h"
#include "tensor/dtype.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

typedef struct pair {
    uint64_t key;
    int64_t place;
} pair;

static uint64_t key_of_real(double x) {
    if (x != x) return UINT64_MAX;
    x += 0.0;  // -0 is 0
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

static uint64_t key_of(gw_dtype type, const void *row, int64_t i) {
    if (type == GW_I64) return (uint64_t)((const int64_t *)row)[i] ^ (uint64_t)1 << 63;
    return key_of_real(type == GW_F32 ? (double)((const float *)row)[i] : ((const double *)row)[i]);
}

static bool is_before(pair a, pair b) {
    return a.key < b.key || (a.key == b.key && a.place < b.place);
}

// ---- In order -----------------------------------------------------------------------------------
static void merge(const pair *a, int64_t a_count, const pair *b, int64_t b_count, pair *out) {
    int64_t i = 0, k = 0;
    while (i < a_count && k < b_count) {
        bool second = is_before(b[k], a[i]);
        *out++ = second ? b[k++] : a[i++];
    }
    memcpy(out, a + i, (size_t)(a_count - i) * sizeof *a);
    memcpy(out + (a_count - i), b + k, (size_t)(b_count - k) * sizeof *b);
}

// Sorts |n| pairs by merging runs of growing length back and forth; returns which of the two arrays
// has them.
static pair *merge_sort(pair *pairs, pair *spare, int64_t n) {
    for (int64_t length = 1; length < n; length *= 2) {
        for (int64_t i = 0; i < n; i += 2 * length) {
            int64_t a = n - i < length ? n - i : length;
            int64_t b = n - i - a < length ? n - i - a : length;
            merge(pairs + i, a, pairs + i + a, b, spare + i);
        }
        pair *sorted = spare;
        spare = pairs;
        pairs = sorted;
    }
    return pairs;
}

// ---- The first few ------------------------------------------------------------------------------
// A heap with the last of the first |k| on top (Floyd 1964).
static void sift_down(pair *heap, int64_t k, int64_t i) {
    for (int64_t child; (child = 2 * i + 1) < k; i = child) {
        if (child + 1 < k && is_before(heap[child], heap[child + 1])) child++;
        if (!is_before(heap[i], heap[child])) return;
        pair up = heap[child];
        heap[child] = heap[i];
        heap[i] = up;
    }
}

// Moves the first |k| of |n| pairs to the front, in no order.
static void choose_first(pair *pairs, int64_t n, int64_t k) {
    for (int64_t i = k / 2; i-- > 0;) sift_down(pairs, k, i);
    for (int64_t i = k; i < n && k > 0; i++) {
        if (!is_before(pairs[i], pairs[0])) continue;
        pairs[0] = pairs[i];
        sift_down(pairs, k, 0);
    }
}

// ---- Rows ---------------------------------------------------------------------------------------
// The variant of a row is which argument has the dimension.
typedef struct order {
    gw_dtype type;  // f32, f64 or i64
    int64_t n, k;   // of each row, and how many of them are wanted
    bool descending;
} order;

static void order_row(const order *o, const void *row, pair *pairs, void *values, int64_t *places) {
    for (int64_t i = 0; i < o->n; i++) {
        uint64_t key = key_of(o->type, row, i);
        pairs[i] = (pair){ o->descending ? ~key : key, i };
    }
    if (o->k < o->n) choose_first(pairs, o->n, o->k);
    const pair *sorted = merge_sort(pairs, pairs + o->n, o->k);
    size_t size = gw_dtype_size(o->type);
    for (int64_t i = 0; i < o->k; i++) {
        places[i] = sorted[i].place;
        memcpy((uint8_t *)values + (size_t)i * size,
               (const uint8_t *)row + (size_t)places[i] * size, size);
    }
}

static void order_rows(op_call *c, int64_t k, bool descending) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    if (c->outputs[0]->numel == 0) return;
    int dim = arg_dim(c->args, c->op->variant, x);
    order o = { .type = dtype_compute_wide((gw_dtype)x->dtype),
                .n = x->dims ? x->sizes[dim] : 1,
                .k = k,
                .descending = descending };
    int64_t rows = x->numel / o.n;
    size_t size = gw_dtype_size(o.type);
    dense from;
    result values, places;
    block *pairs;
    if (!dense_open_rows(c, x, dim, o.type, &from)) return;
    if (!(pairs = scratch_open(c, 2 * o.n, sizeof(pair)))) goto close_from;
    if (!result_open_rows(c, 0, dim, o.type, &values)) goto release_pairs;
    if (result_open_rows(c, 1, dim, GW_I64, &places)) {
        for (int64_t r = 0; r < rows; r++)
            order_row(&o, (const uint8_t *)from.values + (size_t)(r * o.n) * size,
                      (pair *)(void *)pairs->bytes,
                      (uint8_t *)values.values + (size_t)(r * o.k) * size,
                      (int64_t *)places.values + r * o.k);
        result_close(&places);
    }
    result_close(&values);
release_pairs:
    block_release(pairs);
close_from:
    dense_close(&from);
}

static void infer(op_call *c, int dim, int64_t k) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    int64_t sizes[GW_DIMS_MAX];
    for (int i = 0; i < x->dims; i++) sizes[i] = i == dim ? k : x->sizes[i];
    op_output(c, (gw_dtype)x->dtype, x->dims, sizes);
    op_output(c, GW_I64, x->dims, sizes);
}

// Each value's gradient goes to where it stood.
static void grad(op_grad *g) {
    const gw_tensor *x = arg_tensor(g->args, 0);
    if (!g->d_outputs[0]) return;
    gw_tensor *zeros = gw_zeros_with(g->scope, (gw_dtype)x->dtype, (gw_shape){ x->dims, x->sizes });
    g->d_inputs[0] = gw_scatter_add(g->scope, zeros, (int)arg_int(g->args, g->op->variant),
                                    g->outputs[1], g->d_outputs[0]);
}

static gw_sorted run(gw_scope *s, const op *o, const gw_value *args, int count) {
    gw_sorted y;
    y.values = op_run(s, o, args, count, &y.indices);
    return y;
}

// ---- sort ---------------------------------------------------------------------------------------
static void infer_sort(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    int dim = op_dim(c, x, arg_int(c->args, 1));
    if (dim >= 0) infer(c, dim, x->dims ? x->sizes[dim] : 1);
}

static void compute_sort(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    int dim = arg_dim(c->args, 1, x);
    order_rows(c, dim < 0 ? 1 : x->sizes[dim], arg_bool(c->args, 2));
}

const op op_sort = {
    .name = "sort",
    .params = "x:tensor dim:int?=-1 descending:bool?=false",
    .results = 2,
    .infer = infer_sort,
    .compute = compute_sort,
    .variant = 1,
    .grad = grad,
    .saves = OP_SAVE_OUT(1),
};

gw_sorted gw_sort_with(gw_scope *s, gw_tensor *x, gw_sort_options options) {
    const gw_value args[] = { gw_value_of(x), gw_value_of(options.dim),
                              gw_value_of(options.descending) };
    return run(s, &op_sort, args, 3);
}

// ---- topk ---------------------------------------------------------------------------------------
static void infer_topk(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    int64_t k = arg_int(c->args, 1);
    int dim = op_dim(c, x, arg_int(c->args, 2));
    if (dim < 0) return;
    int64_t n = x->dims ? x->sizes[dim] : 1;
    if (k < 0 || k > n)
        op_fail(c, GW_INVALID, "k is %lld, but must be 0 to %lld, the size of dimension %d of %s",
                (long long)k, (long long)n, dim, shape_text(x).text);
    else
        infer(c, dim, k);
}

static void compute_topk(op_call *c) {
    order_rows(c, arg_int(c->args, 1), arg_bool(c->args, 3));
}

const op op_topk = {
    .name = "topk",
    .params = "x:tensor k:int dim:int?=-1 largest:bool?=true",
    .results = 2,
    .infer = infer_topk,
    .compute = compute_topk,
    .variant = 2,
    .grad = grad,
    .saves = OP_SAVE_OUT(1),
};

gw_sorted gw_topk_with(gw_scope *s, gw_tensor *x, int64_t k, gw_topk_options options) {
    const gw_value args[] = { gw_value_of(x), gw_value_of(k), gw_value_of(options.dim),
                              gw_value_of(options.largest) };
    return run(s, &op_topk, args, 4);
}
