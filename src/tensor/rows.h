// Tensors that are sparse by rows: see gradwire/tensor.h. Each such tensor holds two dense tensors, which never change.
//
// Sums have the same bits as the sums of the same tensors in dense form: rows with one index are added in their order,
// and a tensor is added only when each of its rows is listed once.
#ifndef TENSOR_ROWS_H
#define TENSOR_ROWS_H

#include "tensor/tensor.h"

// These return one count, or NULL with |s| failed. The tensors are borrowed, and sparse by rows
// unless stated otherwise.
gw_tensor *rows_new(gw_scope *s, gw_tensor *indices, gw_tensor *values, int64_t row_count);
gw_tensor *rows_coalesce(gw_scope *s, gw_tensor *x);
gw_tensor *rows_to_dense(gw_scope *s, gw_tensor *x);
gw_tensor *rows_plus(gw_scope *s, gw_tensor *a,
                     gw_tensor *b);  // one may be dense; so is the sum then

// Adds |x|, whose indices are distinct, to |to|, a dense and contiguous tensor of its shape in
// f32 or f64. False if |to| is not on the CPU, or without memory.
bool rows_add_into(gw_tensor *to, const gw_tensor *x);

// The rows that |x| has, of the table of its dtype that begins at |offset| of |table|, to
// |compact|; and back.
void rows_gather(block *compact, const gw_tensor *x, const block *table, size_t offset);
void rows_scatter(block *table, size_t offset, const gw_tensor *x, const block *compact);

// Where the first of |n| i64 indices stands that is none of |row_count| rows; |n| if all are.
// |out_ascending|: each is greater than the one before. The bytes need not be aligned.
int64_t rows_find_invalid(const void *indices, int64_t n, int64_t row_count, bool *out_ascending);

// Numbers in one row of |x|, which may have none.
static inline int64_t rows_length(const gw_tensor *x) {
    int64_t length = 1;
    for (int d = 1; d < x->dims; d++) length *= x->sizes[d];
    return length;
}
static inline const int64_t *rows_index(const gw_tensor *x) {
    return (const int64_t *)(const void *)tensor_bytes(x->indices);
}
static inline int64_t rows_count(const gw_tensor *x) {
    return x->indices->numel;
}

#endif
