#include <gradwire/autograd.h>

#include "autograd/node.h"
#include "tensor/dtype.h"

gw_tensor *gw_requires_grad(gw_scope *s, gw_tensor *x) {
    if (!tensor_check(s, "requires_grad", x)) return tensor_poison_of(s);
    if (!x) {
        scope_fail(s, GW_INVALID, "requires_grad: the tensor is NULL");
        return tensor_poison_of(s);
    }
    if (!dtype_is_float((gw_dtype)x->dtype)) {
        scope_fail(s, GW_INVALID,
                   "requires_grad: only floating tensors have gradients, but this tensor is %s",
                   gw_dtype_name((gw_dtype)x->dtype));
        return tensor_poison_of(s);
    }
    if (tensor_is_rows(x)) {
        scope_fail(s, GW_INVALID, "requires_grad: x is sparse by rows; gw_to_dense makes it dense");
        return tensor_poison_of(s);
    }
    if (x->node) {
        scope_fail(s, GW_INVALID,
                   "requires_grad: the tensor is not a leaf: it is the result of an operator, and "
                   "already needs a gradient");
        return tensor_poison_of(s);
    }
    x->tape = &autograd_tape;
    block_name_kind(x->storage->block, MEMORY_PARAMETERS);
    return x;
}

bool gw_needs_grad(const gw_tensor *x) {
    return x && tensor_needs_grad(x);
}

gw_tensor *gw_detach(gw_scope *s, gw_tensor *x) {
    if (!tensor_check(s, "detach", x)) return tensor_poison_of(s);
    if (!x) {
        scope_fail(s, GW_INVALID, "detach: no tensor");
        return tensor_poison_of(s);
    }
    if (tensor_is_rows(x)) return scope_own(s, handle_retain(x)) ? x : tensor_poison_of(s);
    gw_tensor *view = scope_own(s, tensor_view(s, x, x->dims, x->sizes, x->strides, x->offset));
    return view ? view : tensor_poison_of(s);
}

static void set_grad_enabled(gw_scope *s, bool enabled) {
    if (gw_ok(s)) s->grad_enabled = enabled;
}

void gw_no_grad(gw_scope *s) {
    set_grad_enabled(s, false);
}
void gw_enable_grad(gw_scope *s) {
    set_grad_enabled(s, true);
}
