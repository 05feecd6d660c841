// Copying values between two layouts and dtypes.
#ifndef TENSOR_COPY_H
#define TENSOR_COPY_H

#include "tensor/tensor.h"

// Writes the values of |from|, broadcast and converted, to |bytes|, which are laid out as |to|.
// They do not overlap, and the shapes fit.
void copy_values(const gw_tensor *to, uint8_t *bytes, const gw_tensor *from);

// The same without broadcasting, as rows along dimension |last| that lie one after the other; and back. |last| is -1
// for a scalar.
void copy_to_rows(gw_dtype dtype, uint8_t *rows, const gw_tensor *from, int last);
void copy_from_rows(const gw_tensor *to, int last, gw_dtype dtype, const uint8_t *rows);

// The same, to contiguous |bytes|.
static inline void copy_packed(gw_dtype dtype, uint8_t *bytes, const gw_tensor *from) {
    copy_to_rows(dtype, bytes, from, from->dims - 1);
}

// The same in the dtype of |from|, and without a look at the numbers: NaN keeps its bits.
void copy_bits(uint8_t *bytes, const gw_tensor *from);

// The same into all of |to|, a new tensor of the caller's.
static inline void copy_into_new(gw_tensor *to, const gw_tensor *from) {
    copy_values(to, (uint8_t *)tensor_bytes(to), from);
}

#endif
