// Operators that take tensors that are sparse by rows.
#include "tensor/ops/op_rows.h"

#include "tensor/rows.h"
#include <gradwire/ops.h>

#include <string.h>

static bool same_kind(op_call *c, const gw_tensor *a, const gw_tensor *b) {
    if (!tensor_has_shape_of(a, b)) {
        op_fail(c, GW_INVALID,
                "%s and %s: tensors that are sparse by rows do not broadcast, so the shapes must "
                "be equal",
                shape_text(a).text, shape_text(b).text);
    } else if (a->dtype != b->dtype) {
        op_fail(c, GW_INVALID,
                "%s and %s: tensors that are sparse by rows are not promoted, so the dtypes must "
                "be equal",
                gw_dtype_name((gw_dtype)a->dtype), gw_dtype_name((gw_dtype)b->dtype));
    }
    return gw_ok(c->scope);
}

void rows_add(op_call *c) {
    gw_tensor *a = arg_tensor(c->args, 0), *b = arg_tensor(c->args, 1);
    if (!a || !b)
        op_fail(c, GW_INVALID,
                "a number cannot be combined with a tensor that is sparse by rows; gw_to_dense "
                "makes it dense");
    else if (same_kind(c, a, b))
        op_output_of(c, rows_plus(c->scope, a, b));
}

static bool is_one_number(gw_value v) {
    return v.kind != GW_TENSOR || (v.as.tensor->dims == 0 && !tensor_is_rows(v.as.tensor));
}

// |x| with its values times, or by, a number.
static void scale(op_call *c, const gw_tensor *x, gw_value values, gw_value number) {
    gw_scope *s = c->scope;
    gw_tensor *y = strcmp(c->op->name, "mul") == 0 ? gw_mul_with(s, values, number)
                                                   : gw_div_with(s, values, number);
    if (!gw_ok(s)) return;
    op_output_of(c, tensor_of_rows(s, x->sizes[0], handle_retain(x->indices), handle_retain(y),
                                   x->coalesced));
}

void rows_scale(op_call *c) {
    gw_value a = c->args[0], b = c->args[1];
    bool of_a = a.kind == GW_TENSOR && tensor_is_rows(a.as.tensor);
    gw_tensor *x = of_a ? a.as.tensor : b.as.tensor;
    bool is_div = strcmp(c->op->name, "div") == 0;
    if (!is_one_number(of_a ? b : a) || (is_div && !of_a))
        op_fail(c, GW_INVALID,
                "%s is sparse by rows, so the other operand must be a number; gw_to_dense makes it "
                "dense",
                of_a ? "a" : "b");
    else
        scale(c, x, gw_value_of(x->values), of_a ? b : a);
}
