// The pool that blocks come from and go back to.
#ifndef TENSOR_POOL_H
#define TENSOR_POOL_H

#include "tensor/tensor.h"

block *pool_take(size_t size);  // bytes and capacity are set; NULL without memory
void pool_give(block *b);

// Gives everything that waits for reuse back to the system; what other threads keep for themselves
// stays.
void pool_trim(void);

// Bytes that wait for reuse in the process's lists.
size_t pool_idle_bytes(void);

#endif
