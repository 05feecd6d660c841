// For shape rules: errors, outputs, dtypes, dimensions and broadcasting.
#include "tensor/ops/op.h"

#include "base/mem.h"
#include "tensor/dtype.h"

#include <stdio.h>

void op_fail(op_call *c, gw_status status, const char *format, ...) {
    char text[GW_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    char name[64];
    snprintf(name, sizeof name, "gw.%s", c->op->name);
    scope_fail_of(c->scope, name, status, "%s", text);
}

bool op_output_room(op_call *c, int64_t count) {
    if (count <= OP_OUTPUTS_MAX) return true;
    if (count > OP_LIST_MAX)
        op_fail(c, GW_INVALID, "the call has %lld results, but there must be at most %d",
                (long long)count, OP_LIST_MAX);
    else if (!(c->outputs = mem_alloc((size_t)count * sizeof *c->outputs)))
        op_fail(c, GW_NO_MEMORY, "no memory for %lld results", (long long)count);
    if (!c->outputs) c->outputs = c->few;
    return !c->scope->error;
}

gw_tensor *op_output_of(op_call *c, gw_tensor *x) {
    if (!c->outputs) c->outputs = c->few;
    if (x) c->outputs[c->output_count++] = x;
    return x;
}

gw_tensor *op_output(op_call *c, gw_dtype dtype, int dims, const int64_t *sizes) {
    return op_output_of(c, tensor_new_for(c->scope, c->op->name, c->device, dtype, dims, sizes));
}

gw_tensor *op_output_like(op_call *c, const gw_tensor *x) {
    return op_output(c, (gw_dtype)x->dtype, x->dims, x->sizes);
}

void op_infer_first(op_call *c) {
    op_output_like(c, arg_tensor(c->args, 0));
}

void op_infer_second(op_call *c) {
    op_output_like(c, arg_tensor(c->args, 1));
}

gw_tensor *op_output_view(op_call *c, const gw_tensor *base, int dims, const int64_t *sizes,
                          const int64_t *strides, int64_t offset) {
    return op_output_of(c,
                        tensor_view_for(c->scope, c->op->name, base, dims, sizes, strides, offset));
}

bool op_check_float(op_call *c, gw_dtype dtype) {
    if (dtype_is_float(dtype)) return true;
    op_fail(c, GW_INVALID, "%s is not a float dtype, but must be one; gw_to_dtype converts it",
            gw_dtype_name(dtype));
    return false;
}

bool op_check_number(op_call *c, gw_dtype dtype) {
    if (dtype != GW_BOOL8) return true;
    op_fail(c, GW_INVALID, "bool is not supported: the operands must be numbers");
    return false;
}

bool op_check_parameter(op_call *c, const char *name, int i, int dims, const int64_t *sizes) {
    const gw_tensor *first = arg_tensor(c->args, 0), *x = arg_tensor(c->args, i);
    if (!x || (x->dtype == first->dtype && tensor_has_sizes(x, dims, sizes))) return true;
    op_fail(c, GW_INVALID, "%s is %s of %s, but must be %s of %s", name, shape_text(x).text,
            gw_dtype_name((gw_dtype)x->dtype), shape_text_of(dims, sizes).text,
            gw_dtype_name((gw_dtype)first->dtype));
    return false;
}

int op_dim(op_call *c, const gw_tensor *x, int64_t dim) {
    int dims = x->dims ? x->dims : 1;
    if (dim >= -dims && dim < dims) return (int)(dim < 0 ? dim + dims : dim);
    op_fail(c, GW_INVALID, "dimension %lld was given for %s, but it must be -%d to %d",
            (long long)dim, shape_text(x).text, dims, dims - 1);
    return -1;
}

// The size of the dimension that is |back| before the end, 1 beyond the first.
static int64_t size_back(int dims, const int64_t *sizes, int back) {
    return back <= dims ? sizes[dims - back] : 1;
}

int op_broadcast_to(op_call *c, int dims, int64_t sizes[GW_DIMS_MAX], const gw_tensor *x) {
    int out_dims = dims > x->dims ? dims : x->dims;
    int64_t out[GW_DIMS_MAX];
    for (int back = 1; back <= out_dims; back++) {
        int64_t a = size_back(dims, sizes, back), b = size_back(x->dims, x->sizes, back);
        if (a != b && a != 1 && b != 1) {
            op_fail(c, GW_INVALID,
                    "%s and %s do not broadcast: counted from the last dimension, sizes must be "
                    "equal or 1",
                    shape_text_of(dims, sizes).text, shape_text(x).text);
            return -1;
        }
        out[out_dims - back] = a == 1 ? b : a;
    }
    for (int i = 0; i < out_dims; i++) sizes[i] = out[i];
    return out_dims;
}

int op_broadcast(op_call *c, const gw_tensor *a, const gw_tensor *b, int64_t out[GW_DIMS_MAX]) {
    for (int i = 0; i < a->dims; i++) out[i] = a->sizes[i];
    return op_broadcast_to(c, a->dims, out, b);
}
