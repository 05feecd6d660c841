#include "tensor/ops/op.h"

#include "base/mem.h"
#include "base/value.h"
#include "tensor/device.h"
#include "tensor/dtype.h"
#include "tensor/ops/autocast.h"

#include <stdio.h>

// ---- Running ------------------------------------------------------------------------------------
static const tape *tape_of_value(gw_value v) {
    const tape *t = NULL;
    if (v.kind == GW_TENSOR) return v.as.tensor->tape;
    if (v.kind != GW_LIST) return NULL;
    for (int i = 0; i < v.as.list->count && !t; i++) t = tape_of_value(v.as.list->items[i]);
    return t;
}

// The tape of the first argument that needs a gradient, if one shall flow.
static const tape *tape_of(const op_call *c) {
    const tape *t = NULL;
    if (!c->op->grad || !c->scope->grad_enabled) return NULL;
    for (int i = 0; i < c->arg_count && !t; i++) t = tape_of_value(c->args[i]);
    return t;
}

static void record(op_call *c) {
    if (!dtype_is_float((gw_dtype)c->outputs[0]->dtype)) return;
    const tape *t = tape_of(c);
    if (t) t->record(c);
}

static gw_tensor *poison(gw_scope *s, gw_tensor **others) {
    for (int i = 1; others && i < OP_OUTPUTS_MAX; i++) others[i - 1] = tensor_poison_of(s);
    return tensor_poison_of(s);
}

static bool make_from_rows(op_call *c) {
    if (tape_of(c))
        op_fail(c, GW_INVALID,
                "no gradient flows through a tensor that is sparse by rows; gw_to_dense makes it "
                "dense");
    else
        c->op->rows(c);
    return !c->scope->error;
}

// False with the scope failed if the device has none. Looked for before |infer|, which may read
// numbers.
static bool find_kernel(op_call *c, device_compute **out) {
    *out = c->op->compute;
    if (c->device == GW_CPU || !c->op->compute || c->op->moves) return true;
    *out = device_find_kernel(c->device, c->op);
    if (!*out) op_fail(c, GW_UNSUPPORTED, "no kernel for device %s", device_name(c->device));
    return *out != NULL;
}

static bool make_outputs(op_call *c) {
    if (c->has_rows) return make_from_rows(c);
    device_compute *compute;
    if (!find_kernel(c, &compute)) return false;
    c->op->infer(c);
    if (c->scope->error) return false;
    if (compute) compute(c);
    if (c->scope->error) return false;
    record(c);
    return !c->scope->error;
}

// Runs the row and leaves the outputs, owned by the scope, in |c|. False if there are none.
static bool run(op_call *c, gw_scope *s, const op *o, const gw_value *args, int arg_count) {
    c->outputs = c->few;
    c->output_count = 0;
    if (s->error) return false;
    gw_value filled[OP_ARGS_MAX], cast[OP_ARGS_MAX];
    c->scope = s;
    c->op = o;
    c->args = args;
    c->arg_count = arg_count;
    c->has_rows = false;
    c->device = GW_CPU;
    if (!op_params_check(c, filled)) return false;
    if (autocast_applies(s, o) && !autocast_args(c, cast)) return false;
    if (!make_outputs(c)) {
        for (int i = 0; i < c->output_count; i++) handle_release(c->outputs[i]);
        return false;
    }
    for (int i = 0; i < c->output_count; i++)
        scope_own(s, c->outputs[i]);  // without memory: fails, and gives the output back
    return !s->error;
}

static void free_room(op_call *c) {
    if (c->outputs != c->few) mem_free(c->outputs);
}

gw_tensor *op_run(gw_scope *s, const op *o, const gw_value *args, int arg_count,
                  gw_tensor **others) {
    op_call c;
    gw_tensor *first = NULL;
    scope_enter(s);
    if (run(&c, s, o, args, arg_count)) {
        first = c.outputs[0];
        for (int i = 1; others && i < c.output_count && i < OP_OUTPUTS_MAX; i++)
            others[i - 1] = c.outputs[i];
    }
    free_room(&c);
    scope_leave(s);
    return first ? first : poison(s, others);
}

// A list of the results: empty if their number depends on the arguments and these are not
// valid.
static gw_list *results(op_call *c, const op *o, bool ok) {
    gw_list *list = gw_list_open(c->scope);
    int count = o->results == OP_LIST ? ok * c->output_count : o->results;
    for (int i = 0; i < count; i++)
        gw_list_add(c->scope, list, ok ? c->outputs[i] : tensor_poison_of(c->scope));
    return list;
}

gw_value op_run_value(gw_scope *s, const op *o, const gw_value *args, int arg_count) {
    if (!o->results) return gw_value_of_tensor(op_run(s, o, args, arg_count, NULL));
    op_call c;
    bool ok = run(&c, s, o, args, arg_count);
    c.scope = s;
    gw_list *list = results(&c, o, ok);
    free_room(&c);
    return gw_value_of_list(list);
}

// ---- For infer ----------------------------------------------------------------------------------
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

shape_words shape_text_of(int dims, const int64_t *sizes) {
    shape_words w = { "scalar" };
    size_t used = 0;
    for (int i = 0; i < dims && used < sizeof w.text; i++)
        used += (size_t)snprintf(w.text + used, sizeof w.text - used, i ? "x%lld" : "%lld",
                                 (long long)sizes[i]);
    return w;
}

shape_words shape_text(const gw_tensor *x) {
    return shape_text_of(x->dims, x->sizes);
}

bool op_output_room(op_call *c, int64_t count) {
    if (count <= OP_OUTPUTS_MAX) return true;
    if (count > OP_LIST_MAX)
        op_fail(c, GW_INVALID, "%lld results, but there must be at most %d", (long long)count,
                OP_LIST_MAX);
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

gw_tensor *op_output_view(op_call *c, const gw_tensor *base, int dims, const int64_t *sizes,
                          const int64_t *strides, int64_t offset) {
    return op_output_of(c,
                        tensor_view_for(c->scope, c->op->name, base, dims, sizes, strides, offset));
}

int op_dim(op_call *c, const gw_tensor *x, int64_t dim) {
    int dims = x->dims ? x->dims : 1;
    if (dim >= -dims && dim < dims) return (int)(dim < 0 ? dim + dims : dim);
    op_fail(c, GW_INVALID, "dimension %lld of %s, but it must be -%d to %d", (long long)dim,
            shape_text(x).text, dims, dims - 1);
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
                    "%s and %s do not broadcast: from the last dimension backward, sizes must be "
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
