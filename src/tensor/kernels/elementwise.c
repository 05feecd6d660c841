#include "tensor/kernels/elementwise.h"

#include "tensor/copy.h"

enum {
    CHUNK = 256,       // elements that are converted at a time, on the stack
    PACK_MIN = 16384,  // elements of an input that is worth packing
};

typedef struct walk {
    int dims;  // those of size 1 left out, those that lie as one joined
    int64_t sizes[GW_DIMS_MAX];
    int64_t strides[EW_INPUTS_MAX][GW_DIMS_MAX];
    const uint8_t *at[EW_INPUTS_MAX];
    gw_dtype from[EW_INPUTS_MAX];
} walk;

typedef struct buffers {
    _Alignas(64) uint64_t in[EW_INPUTS_MAX][CHUNK];
    _Alignas(64) uint64_t out[CHUNK];
    uint64_t numbers[EW_INPUTS_MAX];
    block *packed[EW_INPUTS_MAX];
} buffers;

static bool is_single(const ew_input *in) {
    return !in->x || in->x->numel == 1;
}

static const void *single(const ew_input *in, uint64_t *number) {
    if (!in->x) {
        dtype_write_value(in->as, number, in->number);
        return number;
    }
    if ((gw_dtype)in->x->dtype == in->as) return tensor_bytes(in->x);
    dtype_gather(in->as, number, (gw_dtype)in->x->dtype, tensor_bytes(in->x), 1, 1);
    return number;
}

// One call of the kernel where nothing has to be moved. False if something has.
static bool run_at_once(const ew_call *e) {
    const gw_tensor *out = e->out;
    if ((gw_dtype)out->dtype != e->out_as) return false;
    ew_row r = { .out = out->storage->block->bytes, .n = out->numel, .reals = e->reals };
    uint64_t numbers[EW_INPUTS_MAX];
    int64_t steps = 0;
    for (int k = 0; k < e->in_count; k++) {
        const ew_input *in = &e->in[k];
        const gw_tensor *x = in->x;
        if (x && x->numel == out->numel && x->contiguous && (gw_dtype)x->dtype == in->as) {
            r.in[k] = tensor_bytes(x);
            r.step[k] = 1;
        } else if (is_single(in) && !(e->vectors >> k & 1)) {
            r.in[k] = single(in, &numbers[k]);
            r.step[k] = 0;
        } else {
            return false;
        }
        steps |= r.step[k];
    }
    if (!steps) return false;
    e->kernel(&r);
    return true;
}

// Whether dimension |dim| continues where a step of the one before it ends.
static bool joins(const walk *w, int inputs, int dim) {
    for (int k = 0; k < inputs; k++)
        if (w->strides[k][dim - 1] != w->strides[k][dim] * w->sizes[dim]) return false;
    return true;
}

static void drop_dim(walk *w, int inputs, int dim) {
    w->dims--;
    for (int i = dim; i < w->dims; i++) {
        w->sizes[i] = w->sizes[i + 1];
        for (int k = 0; k < inputs; k++) w->strides[k][i] = w->strides[k][i + 1];
    }
}

static void simplify(walk *w, int inputs) {
    for (int i = w->dims - 1; i >= 0; i--)
        if (w->sizes[i] == 1) drop_dim(w, inputs, i);
    for (int i = w->dims - 1; i > 0; i--) {
        if (!joins(w, inputs, i)) continue;
        w->sizes[i - 1] *= w->sizes[i];
        for (int k = 0; k < inputs; k++) w->strides[k][i - 1] = w->strides[k][i];
        drop_dim(w, inputs, i);
    }
    if (w->dims) return;
    w->dims = 1;  // a single element
    w->sizes[0] = 1;
    for (int k = 0; k < inputs; k++) w->strides[k][0] = 0;
}

// Whether the elements of a row lie far apart, as in a transposed matrix, and are many: then every
// row would touch all of the input's cache lines.
static bool is_scattered(const gw_tensor *x) {
    if (x->contiguous || x->numel < PACK_MIN) return false;
    int last = x->dims - 1;
    while (last > 0 && x->sizes[last] == 1) last--;
    return x->strides[last] > 8;
}

// Strides in elements, aligned with the output's dimensions.
static void set_strides(walk *w, int k, const gw_tensor *x, bool packed) {
    int64_t stride = 1;
    for (int i = w->dims - 1; i >= 0; i--) {
        int own = i - (w->dims - x->dims);
        bool spread = own < 0 || (x->sizes[own] == 1 && w->sizes[i] != 1);
        w->strides[k][i] = spread ? 0 : packed ? stride : x->strides[own];
        if (own >= 0) stride *= x->sizes[own];
    }
}

static void start_input(walk *w, int k, const ew_input *in, buffers *b) {
    b->packed[k] = NULL;
    if (is_single(in)) {
        w->at[k] = single(in, &b->numbers[k]);
        w->from[k] = in->as;
        for (int i = 0; i < w->dims; i++) w->strides[k][i] = 0;
        return;
    }
    w->at[k] = tensor_bytes(in->x);
    w->from[k] = (gw_dtype)in->x->dtype;
    // Without memory for a packed copy it only takes longer.
    if (is_scattered(in->x))
        b->packed[k] = block_take((size_t)in->x->numel * gw_dtype_size(in->as));
    if (b->packed[k]) {
        copy_packed(in->as, b->packed[k]->bytes, in->x);
        w->at[k] = b->packed[k]->bytes;
        w->from[k] = in->as;
    }
    set_strides(w, k, in->x, b->packed[k]);
}

static void start(walk *w, const ew_call *e, buffers *b) {
    w->dims = e->out->dims;
    for (int i = 0; i < w->dims; i++) w->sizes[i] = e->out->sizes[i];
    for (int k = 0; k < e->in_count; k++) start_input(w, k, &e->in[k], b);
    simplify(w, e->in_count);
}

// Part of one row: |n| elements, |first| elements from its start.
static void run_chunk(const ew_call *e, const walk *w, buffers *b, uint8_t *out, int64_t first,
                      int64_t n) {
    ew_row r = { .n = n, .reals = e->reals };
    int last = w->dims - 1;
    bool any = false;
    for (int k = e->in_count - 1; k >= 0; k--) {
        int64_t stride = w->strides[k][last];
        gw_dtype as = e->in[k].as;
        const uint8_t *at = w->at[k] + first * stride * (int64_t)gw_dtype_size(w->from[k]);
        bool vector = stride != 0 || e->vectors >> k & 1 || (k == 0 && !any);
        r.step[k] = vector;
        any |= vector;
        r.in[k] = at;
        if (w->from[k] == as && stride == vector) continue;
        dtype_gather(as, b->in[k], w->from[k], at, stride, vector ? n : 1);
        r.in[k] = b->in[k];
    }
    gw_dtype to = (gw_dtype)e->out->dtype;
    r.out = to == e->out_as ? (void *)out : b->out;
    e->kernel(&r);
    if (to != e->out_as) dtype_gather(to, out, e->out_as, b->out, 1, n);
}

static void run_row(const ew_call *e, const walk *w, buffers *b, uint8_t *out) {
    int64_t n = w->sizes[w->dims - 1];
    size_t size = gw_dtype_size((gw_dtype)e->out->dtype);
    for (int64_t first = 0; first < n; first += CHUNK)
        run_chunk(e, w, b, out + (size_t)first * size, first,
                  n - first < CHUNK ? n - first : CHUNK);
}

// To the next row, like a mileage counter. False after the last one.
static bool advance(walk *w, int inputs, int64_t counter[GW_DIMS_MAX]) {
    for (int i = w->dims - 2; i >= 0; i--) {
        bool wraps = ++counter[i] == w->sizes[i];
        int64_t steps = wraps ? 1 - w->sizes[i] : 1;
        for (int k = 0; k < inputs; k++)
            w->at[k] += steps * w->strides[k][i] * (int64_t)gw_dtype_size(w->from[k]);
        if (!wraps) return true;
        counter[i] = 0;
    }
    return false;
}

static void run_by_rows(const ew_call *e) {
    buffers b;
    walk w;
    start(&w, e, &b);
    int64_t counter[GW_DIMS_MAX] = { 0 };
    uint8_t *out = e->out->storage->block->bytes;
    size_t row = (size_t)w.sizes[w.dims - 1] * gw_dtype_size((gw_dtype)e->out->dtype);
    do {
        run_row(e, &w, &b, out);
        out += row;
    } while (advance(&w, e->in_count, counter));
    for (int k = 0; k < e->in_count; k++) block_release(b.packed[k]);
}

void elementwise_run(const ew_call *e) {
    if (e->out->numel == 0 || run_at_once(e)) return;
    run_by_rows(e);
}
