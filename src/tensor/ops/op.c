#include "tensor/ops/op.h"

#include "base/mem.h"
#include "base/value.h"
#include "tensor/dtype.h"

#include <stdio.h>
#include <stdlib.h>
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

// "-100", "0.1", "1e-5", "true": numbers of the table, whatever the locale. What is exact in a double comes out exact.
static gw_value parse_number(const char *text) {
    if (*text == 't' || *text == 'f') return gw_value_of(*text == 't');
    bool negative = *text == '-', real = false;
    int64_t digits = 0, down = 0;
    for (text += negative; *text && *text != ' '; text++) {
        if (*text == 'e') {
            real = true;
            down += strtol(text + 2, NULL, 10);  // behind "e-"
            break;
        }
        if (*text == '.') {
            real = true;
            continue;
        }
        digits = digits * 10 + (*text - '0');
        down += real;
    }
    if (negative) digits = -digits;
    if (!real) return gw_value_of(digits);
    double scale = 1;
    while (down-- > 0) scale *= 10;
    return gw_value_of((double)digits / scale);
}

bool op_param_next(const char **at, op_param *out) {
    const char *p = *at;
    if (!*p) return false;
    out->name = p;
    p = strchr(p, ':');
    out->name_size = (int)(p - out->name);
    out->kind = ++p;
    while (*p && *p != ' ' && *p != '?') p++;
    out->kind_size = (int)(p - out->kind);
    out->optional = *p == '?';
    out->number = out->optional && p[1] == '=' ? p + 2 : NULL;
    while (*p && *p != ' ') p++;
    *at = *p ? p + 1 : p;
    return true;
}

gw_value op_param_otherwise(const op_param *p) {
    return p->number ? parse_number(p->number) : gw_none();
}

bool op_param_fits(const op_param *p, gw_value v) {
    return fits(p->kind, v);
}

// Whether argument |i| can be what |p| says; fails the scope if not. Without failing it if the argument is poison.
static bool check_arg(op_call *c, int i, const op_param *p) {
    if (!fits(p->kind, c->args[i])) {
        fail_misfit(c, i, p->name, p->kind);
        return false;
    }
    if (is_poisoned(c->args[i])) return false;
    if (!is_rows(c->args[i])) return true;
    if (!c->op->rows) {
        op_fail(c, GW_INVALID, "%.*s is sparse by rows; gw_to_dense makes it dense", p->name_size,
                p->name);
        return false;
    }
    return c->has_rows = true;
}

// Whether the arguments fit the row's params and none is poison; fails the scope if they do not fit. What is left out
// becomes in |filled| what the row says. Rows' strings are well-formed, see op_test.c, so the walk is short.
static bool check_args(op_call *c, gw_value filled[OP_ARGS_MAX]) {
    const char *at = c->op->params;
    const gw_value *given = c->args;
    op_param p;
    int i = 0;
    for (; op_param_next(&at, &p); i++) {
        bool absent = i >= c->arg_count || given[i].kind == GW_NONE;
        filled[i] = absent ? op_param_otherwise(&p) : given[i];
        if (!absent && !check_arg(c, i, &p)) return false;
        if (!absent || p.optional) continue;
        fail_misfit(c, i, p.name, p.kind);
        return false;
    }
    if (c->arg_count > i) {
        op_fail(c, GW_INVALID, "%d arguments, at most %d", c->arg_count, i);
        return false;
    }
    c->args = filled;
    c->arg_count = i;
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

static gw_tensor *poison(gw_tensor **others) {
    for (int i = 1; others && i < OP_OUTPUTS_MAX; i++) others[i - 1] = &tensor_poison;
    return &tensor_poison;
}

static bool make_from_rows(op_call *c) {
    if (tape_of(c))
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
    record(c);
    return !c->scope->error;
}

// Runs the row and leaves the outputs, owned by the scope, in |c|. False if there are none.
static bool run(op_call *c, gw_scope *s, const op *o, const gw_value *args, int arg_count) {
    c->outputs = c->few;
    c->output_count = 0;
    if (s->error) return false;
    gw_value filled[OP_ARGS_MAX];
    c->scope = s;
    c->op = o;
    c->args = args;
    c->arg_count = arg_count;
    c->has_rows = false;
    if (!check_args(c, filled)) return false;
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
    if (run(&c, s, o, args, arg_count)) {
        first = c.outputs[0];
        for (int i = 1; others && i < c.output_count && i < OP_OUTPUTS_MAX; i++)
            others[i - 1] = c.outputs[i];
    }
    free_room(&c);
    return first ? first : poison(others);
}

// A list of the results: empty if there are as many as the arguments say and they said nothing good.
static gw_list *results(op_call *c, const op *o, bool ok) {
    gw_list *list = gw_list_open(c->scope);
    int count = o->results == OP_LIST ? ok * c->output_count : o->results;
    for (int i = 0; i < count; i++)
        gw_list_add(c->scope, list, ok ? c->outputs[i] : &tensor_poison);
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

bool op_output_room(op_call *c, int64_t count) {
    if (count <= OP_OUTPUTS_MAX) return true;
    if (count > OP_LIST_MAX)
        op_fail(c, GW_INVALID, "%lld results, but at most %d", (long long)count, OP_LIST_MAX);
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
