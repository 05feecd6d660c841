#include "tensor/rows.h"

#include "tensor/device.h"
#include "tensor/dtype.h"
#include "tensor/ops/op.h"
#include <gradwire/ops.h>

// ---- Making -------------------------------------------------------------------------------------
int64_t rows_find_invalid(const void *indices, int64_t n, int64_t row_count, bool *out_ascending) {
    int64_t last = -1;
    bool ascending = true;
    for (int64_t i = 0; i < n; i++) {
        int64_t index;
        memcpy(&index, (const uint8_t *)indices + (size_t)i * sizeof index, sizeof index);
        if (index < 0 || index >= row_count) return i;
        ascending &= index > last;
        last = index;
    }
    *out_ascending = ascending;
    return n;
}

static bool check(gw_scope *s, const gw_tensor *indices, const gw_tensor *values,
                  int64_t row_count) {
    if (tensor_is_rows(indices) || tensor_is_rows(values)) {
        scope_fail_of(s, "gw.rows", GW_INVALID,
                      "indices and values must be dense, but are sparse by rows");
    } else if (indices->dtype != GW_I64 && indices->dtype != GW_I32) {
        scope_fail_of(s, "gw.rows", GW_INVALID, "indices are %s, but must be i64 or i32",
                      gw_dtype_name((gw_dtype)indices->dtype));
    } else if (!dtype_is_float((gw_dtype)values->dtype)) {
        scope_fail_of(s, "gw.rows", GW_INVALID, "values are %s, but must be floating",
                      gw_dtype_name((gw_dtype)values->dtype));
    } else if (indices->dims != 1 || values->dims == 0 || values->sizes[0] != indices->sizes[0]) {
        scope_fail_of(s, "gw.rows", GW_INVALID,
                      "indices are %s and values %s, but must be N and N F...",
                      shape_text(indices).text, shape_text(values).text);
    } else if (indices->device != GW_CPU || values->device != GW_CPU) {
        scope_fail_of(s, "gw.rows", GW_UNSUPPORTED,
                      "indices and values must be on device cpu, not %s",
                      device_name(values->device ? values->device : indices->device));
    } else if (row_count < 0) {
        scope_fail_of(s, "gw.rows", GW_INVALID, "the number of rows is %lld, but must be 0 or more",
                      (long long)row_count);
    }
    return gw_ok(s);
}

// |x| as it is now, contiguous: later writes to it go elsewhere. Memory that the user lent can be
// written behind our back, so it is copied. One count.
static gw_tensor *freeze(gw_scope *s, gw_tensor *x) {
    gw_tensor *own = x->storage->block->external ? gw_clone(s, x) : gw_contiguous(s, x);
    return gw_ok(s) ? tensor_saved(s, own) : NULL;
}

gw_tensor *rows_new(gw_scope *s, gw_tensor *indices, gw_tensor *values, int64_t row_count) {
    if (!check(s, indices, values, row_count)) return NULL;
    indices = freeze(s, gw_to_dtype(s, indices, GW_I64));
    if (!indices) return NULL;
    int64_t n = indices->numel;
    bool ascending = false;
    int64_t invalid = rows_find_invalid(tensor_bytes(indices), n, row_count, &ascending);
    if (invalid < n) {
        scope_fail_of(s, "gw.rows", GW_INVALID, "index %lld out of range for %lld rows",
                      (long long)((const int64_t *)(const void *)tensor_bytes(indices))[invalid],
                      (long long)row_count);
        handle_release(indices);
        return NULL;
    }
    values = freeze(s, values);
    if (!values) {
        handle_release(indices);
        return NULL;
    }
    return tensor_of_rows(s, row_count, indices, values, ascending);
}

// ---- Rows of a table ----------------------------------------------------------------------------
static size_t row_bytes(const gw_tensor *x) {
    return (size_t)rows_length(x) * gw_dtype_size((gw_dtype)x->dtype);
}

void rows_gather(block *compact, const gw_tensor *x, const block *table, size_t offset) {
    const int64_t *index = rows_index(x);
    size_t size = row_bytes(x);
    for (int64_t i = 0; i < rows_count(x); i++)
        memcpy(compact->bytes + (size_t)i * size, table->bytes + offset + (size_t)index[i] * size,
               size);
}

void rows_scatter(block *table, size_t offset, const gw_tensor *x, const block *compact) {
    assert(block_may_be_written(table));
    const int64_t *index = rows_index(x);
    size_t size = row_bytes(x);
    for (int64_t i = 0; i < rows_count(x); i++)
        memcpy(table->bytes + offset + (size_t)index[i] * size, compact->bytes + (size_t)i * size,
               size);
}

// ---- The public functions -----------------------------------------------------------------------
static bool is_rows(gw_scope *s, const char *what, const gw_tensor *x) {
    if (!tensor_is_given(s, what, x)) return false;
    if (!tensor_is_rows(x)) scope_fail(s, GW_INVALID, "%s: x is dense", what);
    return !s->error;
}

static gw_tensor *owned(gw_scope *s, gw_tensor *x) {
    return x && scope_own(s, x) ? x : tensor_poison_of(s);
}

gw_tensor *gw_rows(gw_scope *s, gw_tensor *indices, gw_tensor *values, int64_t row_count) {
    if (!tensor_is_given(s, "gw.rows", indices) || !tensor_is_given(s, "gw.rows", values))
        return tensor_poison_of(s);
    return owned(s, rows_new(s, indices, values, row_count));
}

// A saved tensor rather than the part itself: a writer gets other memory.
gw_tensor *gw_rows_indices(gw_scope *s, const gw_tensor *x) {
    if (!is_rows(s, "gw.rows_indices", x)) return tensor_poison_of(s);
    return owned(s, tensor_saved(s, x->indices));
}
gw_tensor *gw_rows_values(gw_scope *s, const gw_tensor *x) {
    if (!is_rows(s, "gw.rows_values", x)) return tensor_poison_of(s);
    return owned(s, tensor_saved(s, x->values));
}

gw_tensor *gw_coalesce(gw_scope *s, gw_tensor *x) {
    return is_rows(s, "gw.coalesce", x) ? owned(s, rows_coalesce(s, x)) : tensor_poison_of(s);
}

gw_tensor *gw_to_dense(gw_scope *s, gw_tensor *x) {
    if (!tensor_is_given(s, "gw.to_dense", x)) return tensor_poison_of(s);
    return tensor_is_rows(x) ? owned(s, rows_to_dense(s, x)) : x;
}
