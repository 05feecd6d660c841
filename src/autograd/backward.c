#include "autograd/pass.h"
#include "tensor/dtype.h"
#include <gradwire/ops.h>
#include <inttypes.h>

static void fail(gw_scope *s, const char *text) {
    scope_fail(s, GW_INVALID, "backward: %s", text);
}

static bool same_shape(const gw_tensor *a, const gw_tensor *b) {
    if (a->dims != b->dims) return false;
    for (int d = 0; d < a->dims; d++)
        if (a->sizes[d] != b->sizes[d]) return false;
    return true;
}

static bool check(gw_scope *s, gw_tensor *loss, const gw_backward_options *o) {
    if (!gw_ok(s)) return false;
    if (!loss || !tensor_needs_grad(loss)) {
        fail(s, "this tensor needs no gradient, and nothing it was computed from does");
    } else if (!o->gradient && loss->numel != 1) {
        scope_fail(s, GW_INVALID,
                   "backward: a tensor of %" PRId64
                   " elements, which is not one number, needs a gradient to start from",
                   loss->numel);
    } else if (o->gradient && !same_shape(loss, o->gradient)) {
        scope_fail(s, GW_INVALID, "backward: the gradient is %s, but the tensor is %s",
                   shape_text(o->gradient).text, shape_text(loss).text);
    } else if (o->gradient && !dtype_is_float((gw_dtype)o->gradient->dtype)) {
        scope_fail(s, GW_INVALID, "backward: the gradient is %s, but gradients are floating",
                   gw_dtype_name((gw_dtype)o->gradient->dtype));
    }
    for (int i = 0; gw_ok(s) && i < o->input_count && o->inputs; i++)
        if (!o->inputs[i] || !tensor_needs_grad(o->inputs[i]))
            scope_fail(s, GW_INVALID, "backward: input %d needs no gradient", i);
    return gw_ok(s);
}

// The gradient to start from, in the dtype of |loss|, owned by |work|.
static gw_tensor *first_gradient(gw_scope *work, gw_tensor *loss, gw_tensor *given) {
    gw_shape shape = { loss->dims, loss->sizes };
    if (!given) return gw_ones_shaped(work, (gw_dtype)loss->dtype, shape);
    return given->dtype == loss->dtype ? given : gw_to_dtype(work, given, (gw_dtype)loss->dtype);
}

void gw_backward_with(gw_scope *s, gw_tensor *loss, gw_backward_options options) {
    if (!check(s, loss, &options)) return;
    pass p;
    pass_open(&p, s, options);
    part root = pass_expect(&p, edge_to(loss));
    if (pass_plan(&p)) {
        gw_tensor *gradient = first_gradient(p.work, loss, options.gradient);
        if (pass_deliver(&p, root, gradient) && pass_run(&p)) pass_commit(&p);
    }
    pass_close(&p);  // hands on an error of the gradient to start from, too
}

void gw_backward(gw_scope *s, gw_tensor *loss) {
    gw_backward_with(s, loss, (gw_backward_options){ 0 });
}
