// Writing into the first operand, between the files that do: Note [Writing in place].
#ifndef TENSOR_OPS_INPLACE_H
#define TENSOR_OPS_INPLACE_H

#include "tensor/tensor.h"

// Whether gw.|name| may write into |x|: else |s| has failed.
bool inplace_may_write(gw_scope *s, const char *name, const gw_tensor *x);

// Writes |result|, a new tensor of |s|, into |x| and gives it back. Returns |x|, or poison with |s| failed.
gw_tensor *inplace_put(gw_scope *s, const char *name, gw_tensor *x, gw_tensor *result);

#endif
