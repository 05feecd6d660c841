#include "tensor/dense.h"

#include "tensor/copy.h"

// Whether |x| lies in the order wanted.
static bool is_in_place(const gw_tensor *x, int last, gw_dtype dtype) {
    if (x->dtype != dtype || !x->contiguous) return false;
    int64_t behind = 1;
    for (int i = last + 1; i < x->dims; i++) behind *= x->sizes[i];
    return behind == 1 || x->dims == 0 || x->sizes[last] == 1;
}

block *scratch_open(op_call *c, int64_t count, size_t size) {
    size_t bytes;
    block *b = __builtin_mul_overflow((size_t)count, size, &bytes) ? NULL : block_take(bytes);
    if (!b) op_fail(c, GW_NO_MEMORY, "no memory for %lld elements", (long long)count);
    return b;
}

bool dense_open_rows(op_call *c, const gw_tensor *x, int last, gw_dtype dtype, dense *out) {
    *out = (dense){ 0 };
    if (is_in_place(x, last, dtype)) {
        out->values = tensor_bytes(x);
        return true;
    }
    out->copy = scratch_open(c, x->numel, gw_dtype_size(dtype));
    if (!out->copy) return false;
    out->values = out->copy->bytes;
    copy_to_rows(dtype, out->copy->bytes, x, last);
    return true;
}

bool dense_open(op_call *c, const gw_tensor *x, gw_dtype dtype, dense *out) {
    return dense_open_rows(c, x, x->dims - 1, dtype, out);
}

bool dense_open_expanded(op_call *c, const gw_tensor *x, int dims, const int64_t *sizes,
                         gw_dtype dtype, dense *out) {
    int64_t strides[GW_DIMS_MAX];
    bool same = dims == x->dims;
    for (int i = 0; i < dims; i++) {
        int own = i - (dims - x->dims);
        strides[i] = own < 0 || x->sizes[own] != sizes[i] ? 0 : x->strides[own];
        same = same && x->sizes[i] == sizes[i];
    }
    if (same) return dense_open(c, x, dtype, out);
    *out = (dense){ 0 };
    gw_tensor *wide = tensor_view_for(c->scope, c->op->name, x, dims, sizes, strides, x->offset);
    bool ok = wide && dense_open(c, wide, dtype, out);
    handle_release(wide);
    return ok;
}

bool dense_open_optional(op_call *c, const gw_tensor *x, gw_dtype dtype, dense *out) {
    *out = (dense){ 0 };
    return !x || dense_open(c, x, dtype, out);
}

void dense_close(dense *d) {
    block_release(d->copy);
}

bool result_open_rows(op_call *c, int i, int last, gw_dtype dtype, result *out) {
    gw_tensor *x = c->outputs[i];
    *out = (result){ .tensor = x, .dtype = dtype, .last = last };
    if (is_in_place(x, last, dtype)) {
        // Fresh from infer: its block has no other holder.
        out->values = (uint8_t *)tensor_bytes(x);
        return true;
    }
    out->copy = scratch_open(c, x->numel, gw_dtype_size(dtype));
    if (!out->copy) return false;
    out->values = out->copy->bytes;
    return true;
}

bool result_open(op_call *c, int i, gw_dtype dtype, result *out) {
    return result_open_rows(c, i, c->outputs[i]->dims - 1, dtype, out);
}

void result_close(result *r) {
    if (!r->copy) return;
    copy_from_rows(r->tensor, r->last, r->dtype, r->values);
    block_release(r->copy);
}
