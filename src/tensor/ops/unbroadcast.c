// The way back of broadcasting: an element that was read several times gets the sum of its gradients.
//
// Sums are in double and in the order of the elements, so that they depend on nothing but their
// inputs.
#include "tensor/dtype.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

enum { CHUNK = 1024 };

typedef struct sum_walk {
    int dims;
    const int64_t *sizes, *from_strides;
    int64_t to_strides[GW_DIMS_MAX];  // 0 along broadcast dimensions
    gw_dtype dtype;
    const uint8_t *from;
    double *to;
} sum_walk;

static void add_row(const sum_walk *w, int64_t from, int64_t to) {
    int last = w->dims - 1;
    int64_t n = w->sizes[last], stride = w->from_strides[last];
    double buffer[CHUNK];
    for (int64_t first = 0; first < n; first += CHUNK) {
        int64_t count = n - first < CHUNK ? n - first : CHUNK;
        const uint8_t *at = w->from + (from + first * stride) * (int64_t)gw_dtype_size(w->dtype);
        dtype_gather(GW_F64, buffer, w->dtype, at, stride, count);
        if (w->to_strides[last]) {
            double *out = w->to + to + first;
            for (int64_t i = 0; i < count; i++) out[i] += buffer[i];
        } else {
            double sum = 0;
            for (int64_t i = 0; i < count; i++) sum += buffer[i];
            w->to[to] += sum;
        }
    }
}

static void add_all(const sum_walk *w) {
    int64_t counter[GW_DIMS_MAX] = { 0 }, from = 0, to = 0;
    for (;;) {
        add_row(w, from, to);
        int i = w->dims - 2;
        for (; i >= 0; i--) {
            from += w->from_strides[i];
            to += w->to_strides[i];
            if (++counter[i] < w->sizes[i]) break;
            from -= w->from_strides[i] * w->sizes[i];
            to -= w->to_strides[i] * w->sizes[i];
            counter[i] = 0;
        }
        if (i < 0) return;
    }
}

static void infer(op_call *c) {
    int64_t sizes[GW_DIMS_MAX];
    int dims = arg_ints(c->args, 1, sizes);
    op_output(c, (gw_dtype)arg_tensor(c->args, 0)->dtype, dims, sizes);
}

static void compute(op_call *c) {
    const gw_tensor *d = arg_tensor(c->args, 0);
    gw_tensor *x = c->outputs[0];
    block *sums = block_take((size_t)x->numel * sizeof(double));
    if (!sums) {
        op_fail(c, GW_NO_MEMORY, "no memory for sums of %s", shape_text(x).text);
        return;
    }
    memset(sums->bytes, 0, (size_t)x->numel * sizeof(double));
    static const int64_t one = 1;
    sum_walk w = { .dims = d->dims ? d->dims : 1,
                   .sizes = d->dims ? d->sizes : &one,
                   .from_strides = d->dims ? d->strides : &one,
                   .dtype = (gw_dtype)d->dtype,
                   .from = tensor_bytes(d),
                   .to = (double *)sums->bytes };
    for (int i = 0; i < x->dims; i++)
        w.to_strides[i + d->dims - x->dims] = x->sizes[i] == 1 ? 0 : x->strides[i];
    if (d->numel) add_all(&w);
    dtype_gather((gw_dtype)x->dtype, x->storage->block->bytes, GW_F64, w.to, 1, x->numel);
    block_release(sums);
}

// Not in the table: only derivatives use it.
const op op_sum_to = {
    .name = "sum_to",
    .params = "d:tensor sizes:ints",
    .infer = infer,
    .compute = compute,
};

gw_tensor *unbroadcast(gw_scope *s, gw_tensor *d, const gw_tensor *x) {
    if (!tensor_has_shape_of(d, x)) {
        gw_value sizes = value_of_ints((gw_shape){ x->dims, x->sizes });
        d = op_run(s, &op_sum_to, (const gw_value[]){ gw_value_of(d), sizes }, 2, NULL);
    }
    return d->dtype == x->dtype ? d : gw_to_dtype(s, d, (gw_dtype)x->dtype);
}

gw_tensor *grad_wide_tensor(gw_scope *s, gw_tensor *x) {
    gw_dtype wide = dtype_compute((gw_dtype)x->dtype);
    return x->dtype == wide ? x : gw_to_dtype(s, x, wide);
}

gw_value grad_wide(gw_scope *s, gw_value v) {
    return v.kind == GW_TENSOR ? gw_value_of(grad_wide_tensor(s, v.as.tensor)) : v;
}
