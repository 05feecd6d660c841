// embedding and one_hot: rows by their number, and numbers as rows.
#include "tensor/dense.h"
#include "tensor/dtype.h"
#include "tensor/kernels/gradients.h"
#include "tensor/ops/op_pick.h"
#include "tensor/ops/ops.h"
#include "tensor/rows.h"
#include <gradwire/ops.h>

// ---- embedding ----------------------------------------------------------------------------------
// weight: V F, indices: any shape, out: that shape and F
static void infer_embedding(op_call *c) {
    const gw_tensor *w = arg_tensor(c->args, 0), *index = arg_tensor(c->args, 1);
    if (!pick_check_dtype(c, index)) return;
    if (w->dims != 2 || index->dims == GW_DIMS_MAX) {
        op_fail(c, GW_INVALID, "weight is %s, but must have 2 dimensions", shape_text(w).text);
        return;
    }
    int64_t rows = w->sizes[0];
    if (!arg_is_none(c->args, 2) && (arg_int(c->args, 2) < -rows || arg_int(c->args, 2) >= rows)) {
        op_fail(c, GW_INVALID, "padding_idx %lld out of range for %lld rows",
                (long long)arg_int(c->args, 2), (long long)rows);
        return;
    }
    int64_t sizes[GW_DIMS_MAX];
    memcpy(sizes, index->sizes, index->dims * sizeof *sizes);
    sizes[index->dims] = w->sizes[1];
    op_output(c, (gw_dtype)w->dtype, index->dims + 1, sizes);
}

static bool check_range(op_call *c, const int64_t *index, int64_t n, int64_t rows) {
    for (int64_t i = 0; i < n; i++) {
        if (index[i] >= 0 && index[i] < rows) continue;
        op_fail(c, GW_INVALID, "index %lld out of range for %lld rows", (long long)index[i],
                (long long)rows);
        return false;
    }
    return true;
}

static void compute_embedding(op_call *c) {
    const gw_tensor *w = arg_tensor(c->args, 0), *i = arg_tensor(c->args, 1);
    size_t row_bytes = (size_t)w->sizes[1] * gw_dtype_size((gw_dtype)w->dtype);
    uint8_t *out = (uint8_t *)tensor_bytes(c->outputs[0]);
    dense index, weight;
    if (!dense_open(c, i, GW_I64, &index)) return;
    const int64_t *rows = index.values;
    if (check_range(c, rows, i->numel, w->sizes[0]) &&
        dense_open(c, w, (gw_dtype)w->dtype, &weight)) {
        const uint8_t *table = weight.values;
        for (int64_t k = 0; k < i->numel; k++)
            memcpy(out + (size_t)k * row_bytes, table + (size_t)rows[k] * row_bytes, row_bytes);
        dense_close(&weight);
    }
    dense_close(&index);
}

// Arguments: d indices rows padding_idx. In the order of the indices, so that sums are the same
// each time.
static void infer_embedding_back(op_call *c) {
    const gw_tensor *d = arg_tensor(c->args, 0);
    int64_t sizes[] = { arg_int(c->args, 2), d->sizes[d->dims - 1] };
    op_output(c, (gw_dtype)d->dtype, 2, sizes);
}

static void compute_embedding_back(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0), *i = arg_tensor(c->args, 1);
    gw_tensor *dw = c->outputs[0];
    gw_dtype type = dtype_compute((gw_dtype)dw->dtype);
    int64_t n = dw->sizes[1], padding = arg_int(c->args, 3);
    size_t row_bytes = (size_t)n * gw_dtype_size(type);
    dense d, index = { 0 };
    result out;
    if (dense_open(c, x, type, &d) && dense_open(c, i, GW_I64, &index) &&
        result_open(c, 0, type, &out)) {
        memset(out.values, 0, (size_t)dw->numel * gw_dtype_size(type));
        const int64_t *rows = index.values;
        for (int64_t k = 0; k < i->numel; k++)
            if (rows[k] != padding)
                numbers_add(type, (uint8_t *)out.values + (size_t)rows[k] * row_bytes,
                            (const uint8_t *)d.values + (size_t)k * row_bytes, n);
        result_close(&out);
    }
    dense_close(&index);
    dense_close(&d);
}

// Not in the table: only the derivative uses it.
static const op op_embedding_back = {
    .name = "embedding_backward",
    .params = "d:tensor indices:tensor rows:int padding_idx:int",
    .infer = infer_embedding_back,
    .compute = compute_embedding_back,
};

// The row that gets no gradient; -1 if there is none.
static int64_t padding_row(const op_grad *g) {
    if (arg_is_none(g->args, 2)) return -1;
    int64_t padding = arg_int(g->args, 2);
    return padding < 0 ? padding + arg_tensor(g->args, 0)->sizes[0] : padding;
}

// The positions in |index|, which is contiguous, that do not hold |padding|. NULL if all do not: then
// nothing need be picked.
static gw_tensor *unpadded(gw_scope *s, const gw_tensor *index, int64_t padding) {
    const int64_t *rows = gw_data(index);
    int64_t count = 0, n = index->numel;
    for (int64_t k = 0; k < n; k++) count += rows[k] != padding;
    if (count == n) return NULL;
    gw_tensor *places = gw_zeros(s, GW_I64, count);
    int64_t *place = gw_data_for_write(s, places);
    for (int64_t k = 0; place && k < n; k++)
        if (rows[k] != padding) *place++ = k;
    return places;
}

// Row index[n] has the gradient of the n-th row that was looked up.
static gw_tensor *sparse_derivative(op_grad *g) {
    gw_scope *s = g->scope;
    const gw_tensor *w = arg_tensor(g->args, 0);
    gw_tensor *index = gw_contiguous(s, gw_to_dtype(s, arg_tensor(g->args, 1), GW_I64));
    index = gw_reshape(s, index, -1);
    gw_tensor *d = gw_reshape(s, g->d_outputs[0], gw_numel(index), w->sizes[1]);
    if (!gw_ok(s)) return NULL;
    gw_tensor *places = unpadded(s, index, padding_row(g));
    if (places) {
        index = gw_index_select(s, index, 0, places);
        d = gw_index_select(s, d, 0, places);
    }
    return gw_rows(s, index, d, w->sizes[0]);
}

static void grad_embedding(op_grad *g) {
    if (!g->wanted[0]) return;
    if (arg_int(g->args, 3)) {
        g->d_inputs[0] = sparse_derivative(g);
        return;
    }
    gw_value args[] = { gw_value_of(g->d_outputs[0]), g->args[1],
                        gw_value_of(arg_tensor(g->args, 0)->sizes[0]),
                        gw_value_of(padding_row(g)) };
    g->d_inputs[0] = op_run(g->scope, &op_embedding_back, args, 4, NULL);
}

const op op_embedding = {
    .name = "embedding",
    .params = "weight:tensor indices:tensor padding_idx:int? sparse:bool?=false",
    .infer = infer_embedding,
    .compute = compute_embedding,
    .grad = grad_embedding,
    .saves = OP_SAVE_ARG(1),
};

gw_tensor *gw_embedding_with(gw_scope *s, gw_tensor *weight, gw_tensor *indices,
                             gw_embedding_options options) {
    gw_value args[] = { gw_value_of(weight), gw_value_of(indices),
                        options.padding_idx != GW_NOT_GIVEN ? gw_value_of(options.padding_idx)
                                                            : gw_none(),
                        gw_value_of(options.sparse) };
    return op_run(s, &op_embedding, args, 4, NULL);
}

// ---- one_hot ------------------------------------------------------------------------------------
// The number of classes that |index| needs, after reading all of it. -1 with the call failed.
static int64_t count_classes(op_call *c, const int64_t *index, int64_t n, int64_t classes) {
    int64_t needed = 0;
    for (int64_t i = 0; i < n; i++) {
        if (index[i] < 0 || index[i] >= (classes >= 0 ? classes : INT64_MAX)) {
            op_fail(
                c, GW_INVALID,
                classes >= 0 ? "index %lld out of range for %lld classes"
                : index[i] < 0
                    ? "the index %lld must not be negative"
                    : "the index %lld is too large: the number of classes must fit into an int64_t",
                (long long)index[i], (long long)classes);
            return -1;
        }
        if (index[i] >= needed) needed = index[i] + 1;
    }
    if (classes >= 0) return classes;
    if (n == 0) op_fail(c, GW_INVALID, "without indices the number of classes must be given");
    return n == 0 ? -1 : needed;
}

// The number of classes may depend on the values, so the output is made here and filled with zeros
// and ones at once.
static void infer_one_hot(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    int64_t classes = arg_int(c->args, 1);
    if (!pick_check_dtype(c, x)) return;
    if (classes < -1 || classes == 0 || x->dims == GW_DIMS_MAX) {
        op_fail(c, GW_INVALID,
                "the number of classes is %lld for indices %s, but must be 1 or more",
                (long long)classes, shape_text(x).text);
        return;
    }
    dense index;
    if (!dense_open(c, x, GW_I64, &index)) return;
    const int64_t *values = index.values;
    classes = count_classes(c, values, x->numel, classes);
    int64_t sizes[GW_DIMS_MAX];
    memcpy(sizes, x->sizes, x->dims * sizeof *sizes);
    sizes[x->dims] = classes;
    gw_tensor *y = classes < 0 ? NULL : op_output(c, GW_I64, x->dims + 1, sizes);
    if (y) {
        int64_t *out = (int64_t *)tensor_bytes(y);
        memset(out, 0, (size_t)y->numel * sizeof *out);
        for (int64_t i = 0; i < x->numel; i++) out[i * classes + values[i]] = 1;
    }
    dense_close(&index);
}

const op op_one_hot = {
    .name = "one_hot",
    .params = "indices:tensor classes:int?=-1",
    .infer = infer_one_hot,
};

gw_tensor *gw_one_hot(gw_scope *s, gw_tensor *indices, int64_t classes) {
    gw_value args[] = { gw_value_of(indices), gw_value_of(classes) };
    return op_run(s, &op_one_hot, args, 2, NULL);
}
