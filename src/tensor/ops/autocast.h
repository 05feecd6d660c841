// Casts by the scope: op_run casts the tensors of an operator between gw_autocast and
// gw_autocast_off.
#ifndef TENSOR_OPS_AUTOCAST_H
#define TENSOR_OPS_AUTOCAST_H

#include "tensor/ops/op.h"

// Writes the arguments of |c| with the casts of its row to |out|, and makes them those of |c|.
// False with the scope failed.
bool autocast_args(op_call *c, gw_value out[OP_ARGS_MAX]);

// Whether there is anything to cast.
static inline bool autocast_applies(const gw_scope *s, const op *o) {
    return s->autocast && o->cast != OP_CAST_NONE;
}

#endif
