#include "tensor/ops/op.h"

#include "base/mem.h"
#include "base/value.h"
#include "tensor/dtype.h"

#include <stdio.h>
#include <string.h>

// ---- Arguments ----------------------------------------------------------------------------------------------------
static bool are_ints(gw_value v) {
    if (v.kind == GW_BYTES)
        return v.size % sizeof(int64_t) == 0 && v.size / sizeof(int64_t) <= GW_DIMS_MAX;
    if (v.kind != GW_LIST || v.as.list->count > GW_DIMS_MAX) return false;
    for (int i = 0; i < v.as.list->count; i++)
        if (v.as.list->items[i].kind != GW_INT) return false;
    return true;
}

static bool are_tensors(gw_value v) {
    if (v.kind != GW_LIST) return false;
    for (int i = 0; i < v.as.list->count; i++)
        if (v.as.list->items[i].kind != GW_TENSOR) return false;
    return true;
}

static bool is_number(gw_value v) {
    return v.kind == GW_FLOAT || v.kind == GW_INT || v.kind == GW_BOOL;
}

static int dtype_named(const char *name) {
    for (int d = 0; d < GW_DTYPE_COUNT; d++)
        if (strcmp(name, gw_dtype_name((gw_dtype)d)) == 0) return d;
    return -1;
}

static bool is_dtype(gw_value v) {
    if (v.kind == GW_STRING) return dtype_named(v.as.string) >= 0;
    return v.kind == GW_INT && v.as.integer >= 0 && v.as.integer < GW_DTYPE_COUNT;
}

// |kind| points at the kind in the row's params; the letters that tell the kinds apart decide.
static bool fits(const char *kind, gw_value v) {
    switch (kind[0]) {
    case 't': return kind[6] == 's' ? are_tensors(v) : v.kind == GW_TENSOR;
    case 'o': return v.kind == GW_TENSOR || is_number(v);
    case 'n': return is_number(v);
    case 'i': return kind[3] == 's' ? are_ints(v) : v.kind == GW_INT;
    case 'f': return v.kind == GW_FLOAT || v.kind == GW_INT;
    case 'b':
        return v.kind == GW_BOOL || (v.kind == GW_INT && (v.as.integer | 1) == 1);  // C's true
    default: return is_dtype(v);
    }
}

static const char *kind_words(const char *kind) {
    switch (kind[0]) {
    case 't': return kind[6] == 's' ? "a list of tensors" : "a tensor";
    case 'o': return "a tensor or a number";
    case 'n': return "a number";
    case 'i': return kind[3] == 's' ? "a list of ints" : "an int";
    case 'f': return "a float";
    case 'b': return "a bool";
    default: return "a dtype";
    }
}

static bool is_poisoned(gw_value v) {
    if (v.kind == GW_TENSOR) return v.as.tensor == &tensor_poison;
    if (v.kind != GW_LIST) return false;
    for (int i = 0; i < v.as.list->count; i++)
        if (is_poisoned(v.as.list->items[i])) return true;
    return false;
}

static bool is_rows(gw_value v) {
    if (v.kind == GW_TENSOR) return tensor_is_rows(v.as.tensor);
    if (v.kind != GW_LIST) return false;
    for (int i = 0; i < v.as.list->count; i++)
        if (is_rows(v.as.list->items[i])) return true;
    return false;
}

// A list, or the bytes that the C functions hand over, which nobody should have to know about.
static void fail_ints(op_call *c, int name_size, const char *name, gw_value v) {
    size_t count = v.kind == GW_BYTES ? v.size / sizeof(int64_t) : (size_t)v.as.list->count;
    size_t at = 0;
    if (count > GW_DIMS_MAX || v.kind == GW_BYTES) {
        op_fail(c, GW_INVALID, "%.*s must be at most %d ints, not %zu", name_size, name,
                GW_DIMS_MAX, count);
        return;
    }
    while (v.as.list->items[at].kind == GW_INT) at++;
    op_fail(c, GW_INVALID, "%.*s must be a list of ints, but item %zu is %s", name_size, name, at,
            gw_kind_name(v.as.list->items[at].kind));
}

static void fail_misfit(op_call *c, int i, const char *name, const char *kind) {
    int name_size = (int)(kind - 1 - name);
    gw_value v = i < c->arg_count ? c->args[i] : gw_none();
    if (v.kind == GW_LIST && kind[0] == 't' && kind[6] == 's') {
        int at = 0;
        while (v.as.list->items[at].kind == GW_TENSOR) at++;
        op_fail(c, GW_INVALID, "%.*s must be a list of tensors, but item %d is %s", name_size, name,
                at, gw_kind_name(v.as.list->items[at].kind));
        return;
    }
    bool ints = kind[0] == 'i' && kind[3] == 's';
    if (ints && (v.kind == GW_LIST || v.kind == GW_BYTES)) {
        fail_ints(c, name_size, name, v);
        return;
    }
    op_fail(c, GW_INVALID, "%.*s must be %s, not %s", name_size, name, kind_words(kind),
            gw_kind_name(v.kind));
}

// Whether the arguments fit the row's params and none is poison; fails the scope if they do not fit. Missing ones at the
// end become none in |filled|. Rows' strings are well-formed, see op_test.c, so the walk is short.
static bool check_args(op_call *c, gw_value filled[OP_ARGS_MAX]) {
    const char *p = c->op->params;
    int i = 0;
    for (; *p; i++) {
        const char *name = p, *kind = strchr(p, ':') + 1, *end = kind;
        while (*end && *end != ' ') end++;
        bool optional = end[-1] == '?';
        p = *end ? end + 1 : end;
        bool absent = i >= c->arg_count || c->args[i].kind == GW_NONE;
        if (absent ? !optional : !fits(kind, c->args[i])) {
            fail_misfit(c, i, name, kind);
            return false;
        }
        if (absent) continue;
        if (is_poisoned(c->args[i])) return false;
        if (!is_rows(c->args[i])) continue;
        if (!c->op->rows) {
            op_fail(c, GW_INVALID, "%.*s is sparse by rows; gw_to_dense makes it dense",
                    (int)(kind - 1 - name), name);
            return false;
        }
        c->has_rows = true;
    }
    if (c->arg_count > i) {
        op_fail(c, GW_INVALID, "%d arguments, at most %d", c->arg_count, i);
        return false;
    }
    if (c->arg_count < i) {
        for (int k = 0; k < i; k++) filled[k] = k < c->arg_count ? c->args[k] : gw_none();
        c->args = filled;
        c->arg_count = i;
    }
    return true;
}

gw_dtype arg_dtype(const gw_value *args, int i) {
    return args[i].kind == GW_STRING ? (gw_dtype)dtype_named(args[i].as.string)
                                     : (gw_dtype)args[i].as.integer;
}

int arg_ints(const gw_value *args, int i, int64_t out[GW_DIMS_MAX]) {
    gw_value v = args[i];
    if (v.kind == GW_BYTES) {
        memcpy(out, v.as.bytes, v.size);
        return (int)(v.size / sizeof(int64_t));
    }
    for (int k = 0; k < v.as.list->count; k++) out[k] = v.as.list->items[k].as.integer;
    return v.as.list->count;
}

int arg_tensors(const gw_value *args, int i, gw_tensor **out, int max) {
    const gw_list *list = args[i].as.list;
    for (int k = 0; k < list->count && k < max; k++) out[k] = list->items[k].as.tensor;
    return list->count;
}

// ---- Running ------------------------------------------------------------------------------------------------------
static bool needs_grad(gw_value v) {
    if (v.kind == GW_TENSOR) return tensor_needs_grad(v.as.tensor);
    if (v.kind != GW_LIST) return false;
    for (int i = 0; i < v.as.list->count; i++)
        if (needs_grad(v.as.list->items[i])) return true;
    return false;
}

static bool wants_grad(const op_call *c) {
    if (!c->op->grad || !c->scope->grad_enabled) return false;
    for (int i = 0; i < c->arg_count; i++)
        if (needs_grad(c->args[i])) return true;
    return false;
}

static bool is_recorded(const op_call *c) {
    return dtype_is_float((gw_dtype)c->outputs[0]->dtype) && wants_grad(c);
}

static gw_tensor *poison(gw_tensor **others) {
    for (int i = 1; others && i < OP_OUTPUTS_MAX; i++) others[i - 1] = &tensor_poison;
    return &tensor_poison;
}

static bool make_from_rows(op_call *c) {
    if (wants_grad(c))
        op_fail(c, GW_INVALID, "no gradient flows through a tensor that is sparse by rows");
    else
        c->op->rows(c);
    return !c->scope->error;
}

static bool make_outputs(op_call *c) {
    if (c->has_rows) return make_from_rows(c);
    c->op->infer(c);
    if (c->scope->error) return false;
    if (c->op->compute) c->op->compute(c);
    if (c->scope->error) return false;
    if (is_recorded(c)) tape_record(c);
    return !c->scope->error;
}

gw_tensor *op_run(gw_scope *s, const op *o, const gw_value *args, int arg_count,
                  gw_tensor **others) {
    if (s->error) return poison(others);
    gw_value filled[OP_ARGS_MAX];
    op_call c;
    c.scope = s;
    c.op = o;
    c.args = args;
    c.arg_count = arg_count;
    c.output_count = 0;
    c.has_rows = false;
    if (!check_args(&c, filled)) return poison(others);
    if (!make_outputs(&c)) {
        for (int i = 0; i < c.output_count; i++) handle_release(c.outputs[i]);
        return poison(others);
    }
    for (int i = 0; i < c.output_count; i++)
        scope_own(s, c.outputs[i]);  // without memory: fails, and gives the output back
    if (s->error) return poison(others);
    for (int i = 1; others && i < c.output_count; i++) others[i - 1] = c.outputs[i];
    return c.outputs[0];
}

// ---- For infer ----------------------------------------------------------------------------------------------------
void op_fail(op_call *c, gw_status status, const char *format, ...) {
    char text[GW_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    scope_fail(c->scope, status, "gw.%s: %s", c->op->name, text);
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

gw_tensor *op_output_of(op_call *c, gw_tensor *x) {
    if (x) c->outputs[c->output_count++] = x;
    return x;
}

gw_tensor *op_output(op_call *c, gw_dtype dtype, int dims, const int64_t *sizes) {
    return op_output_of(c, tensor_new(c->scope, dtype, dims, sizes));
}

gw_tensor *op_output_view(op_call *c, const gw_tensor *base, int dims, const int64_t *sizes,
                          const int64_t *strides, int64_t offset) {
    return op_output_of(c, tensor_view(c->scope, base, dims, sizes, strides, offset));
}

int op_dim(op_call *c, const gw_tensor *x, int64_t dim) {
    int dims = x->dims ? x->dims : 1;
    if (dim >= -dims && dim < dims) return (int)(dim < 0 ? dim + dims : dim);
    op_fail(c, GW_INVALID, "dimension %lld of %s", (long long)dim, shape_text(x).text);
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
            op_fail(c, GW_INVALID, "%s and %s do not broadcast", shape_text_of(dims, sizes).text,
                    shape_text(x).text);
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

// ---- For grad -----------------------------------------------------------------------------------------------------
int grad_input(const op_grad *g, int i) {
    int input = 0;
    for (int k = 0; k < i; k++) {
        if (g->args[k].kind == GW_TENSOR) input++;
        if (g->args[k].kind == GW_LIST)
            input += are_tensors(g->args[k]) ? g->args[k].as.list->count : 0;
    }
    return input;
}
