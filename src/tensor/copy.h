// Copying values between two layouts and dtypes.
#ifndef TENSOR_COPY_H
#define TENSOR_COPY_H

#include "tensor/tensor.h"

// Writes the values of |from|, broadcast and converted, to |bytes|, which are laid out as |to|.
// They do not overlap, and the shapes fit.
void copy_values(const gw_tensor *to, uint8_t *bytes, const gw_tensor *from);

// The same, without broadcasting, to contiguous |bytes|.
void copy_packed(gw_dtype dtype, uint8_t *bytes, const gw_tensor *from);

// The same into all of |to|, a new tensor of the caller's.
static inline void copy_into_new(gw_tensor *to, const gw_tensor *from) {
    copy_values(to, (uint8_t *)tensor_bytes(to), from);
}

#endif
