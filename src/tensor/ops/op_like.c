// Tensors from nothing in the shape and dtype of another, and on its device.
#include "tensor/ops/ops.h"
#include "tensor/pack.h"
#include <gradwire/ops.h>

static gw_tensor *run(gw_scope *s, const op *o, const char *name, const gw_tensor *x) {
    if (!tensor_is_given(s, name, x)) return tensor_poison_of(s);
    const gw_value args[] = { gw_value_of((int)x->dtype),
                              value_of_ints((gw_shape){ x->dims, x->sizes }) };
    return tensor_to_device(s, op_run(s, o, args, 2, NULL), (gw_device)x->device);
}

gw_tensor *gw_zeros_like(gw_scope *s, const gw_tensor *x) {
    return run(s, &op_zeros, "gw.zeros_like", x);
}
gw_tensor *gw_ones_like(gw_scope *s, const gw_tensor *x) {
    return run(s, &op_ones, "gw.ones_like", x);
}
gw_tensor *gw_empty_like(gw_scope *s, const gw_tensor *x) {
    return run(s, &op_zeros, "gw.empty_like", x);
}
gw_tensor *(gw_rand_like)(gw_scope *s, const gw_tensor *x) {
    return run(s, &op_rand, "gw.rand_like", x);
}
gw_tensor *(gw_randn_like)(gw_scope *s, const gw_tensor *x) {
    return run(s, &op_randn, "gw.randn_like", x);
}

gw_tensor *gw_full_like_with(gw_scope *s, const gw_tensor *x, gw_value value) {
    if (!tensor_is_given(s, "gw.full_like", x)) return tensor_poison_of(s);
    const gw_value args[] = { gw_value_of((int)x->dtype), value,
                              value_of_ints((gw_shape){ x->dims, x->sizes }) };
    return tensor_to_device(s, op_run(s, &op_full, args, 3, NULL), (gw_device)x->device);
}
