// The parameters of a row, and checks of the arguments.
#include "tensor/ops/op.h"

#include "base/value.h"
#include "tensor/device.h"
#include "tensor/dtype.h"

#include <stdlib.h>
#include <string.h>

// ---- Kinds --------------------------------------------------------------------------------------
static bool are_ints(gw_value v) {
    if (v.kind == GW_INT) return true;
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

// |kind| points at the kind in the row's params; the characters in which the kinds differ decide.
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

static const gw_tensor *find_poison(gw_value v) {
    if (v.kind == GW_TENSOR) {
        if (check_enabled) tensor_check_live(v.as.tensor);
        return tensor_is_poison(v.as.tensor) ? v.as.tensor : NULL;
    }
    const gw_tensor *found = NULL;
    if (v.kind != GW_LIST) return NULL;
    for (int i = 0; i < v.as.list->count && !found; i++) found = find_poison(v.as.list->items[i]);
    return found;
}

static bool is_rows(gw_value v) {
    if (v.kind == GW_TENSOR) return tensor_is_rows(v.as.tensor);
    if (v.kind != GW_LIST) return false;
    for (int i = 0; i < v.as.list->count; i++)
        if (is_rows(v.as.list->items[i])) return true;
    return false;
}

// The first tensor sets the device. False with the scope failed if |x| is on another.
static inline bool is_on_device(op_call *c, const gw_tensor *x, bool *has_device) {
    if (!*has_device) c->device = x->device;
    *has_device = true;
    if (x->device == c->device) return true;
    op_fail(c, GW_INVALID, "its operands are on the devices %s and %s", device_name(c->device),
            device_name(x->device));
    return false;
}

static bool are_on_device(op_call *c, gw_value v, bool *has_device) {
    if (v.kind == GW_TENSOR) return is_on_device(c, v.as.tensor, has_device);
    bool all = true;
    for (int i = 0; v.kind == GW_LIST && i < v.as.list->count && all; i++)
        if (v.as.list->items[i].kind == GW_TENSOR)
            all = is_on_device(c, v.as.list->items[i].as.tensor, has_device);
    return all;
}

// A list, or the bytes that the C functions pass instead, which an error does not mention.
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

static void fail_dtype(op_call *c, gw_value v) {
    if (v.kind == GW_STRING)
        op_fail(c, GW_INVALID,
                "\"%.40s\" is not a dtype: it must be the name of one, such as \"f32\"",
                v.as.string);
    else
        op_fail(c, GW_INVALID, "%lld is not a dtype, but must be a gw_dtype",
                (long long)v.as.integer);
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
    if (kind[0] == 'd' && (v.kind == GW_INT || v.kind == GW_STRING)) {
        fail_dtype(c, v);
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

// "-100", "0.1", "1e-5", "true": numbers of the table, whatever the locale. A number that is exact in a
// double is read exactly.
static gw_value parse_number(const char *text) {
    if (*text == 't' || *text == 'f') return gw_value_of_bool(*text == 't');
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

// A walk of each call: inlined where it is.
static inline __attribute__((always_inline)) bool next_param(const char **at, op_param *out) {
    const char *p = *at;
    if (!*p) return false;
    out->name = p;
    while (*p != ':') p++;
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

bool op_param_next(const char **at, op_param *out) {
    return next_param(at, out);
}

gw_value op_param_otherwise(const op_param *p) {
    return p->number ? parse_number(p->number) : gw_none();
}

bool op_param_fits(const op_param *p, gw_value v) {
    return fits(p->kind, v);
}

// Whether the tensors in |v| are of scopes without error, on the call's device, and of a layout that
// the row takes.
static bool check_tensors(op_call *c, const op_param *p, gw_value v, bool *has_device) {
    const gw_tensor *poison = find_poison(v);
    if (poison) {
        op_fail(c, GW_INVALID, "%.*s was made in a scope that has failed: %s", p->name_size,
                p->name, tensor_poison_reason(poison));
        return false;
    }
    if (!are_on_device(c, v, has_device)) return false;
    if (!is_rows(v)) return true;
    if (!c->op->rows) {
        op_fail(c, GW_INVALID, "%.*s is sparse by rows; gw_to_dense makes it dense", p->name_size,
                p->name);
        return false;
    }
    return c->has_rows = true;
}

// Whether argument |i| fits |p|; fails the scope if not.
static bool check_arg(op_call *c, int i, const op_param *p, bool *has_device) {
    const gw_value *v = &c->args[i];
    if (!fits(p->kind, *v)) {
        fail_misfit(c, i, p->name, p->kind);
        return false;
    }
    if (v->kind != GW_TENSOR && v->kind != GW_LIST) return true;
    // Most arguments are a tensor, which needs no further check.
    const gw_tensor *x = v->kind == GW_TENSOR ? v->as.tensor : NULL;
    if (x && !check_enabled && !tensor_is_poison(x) && !tensor_is_rows(x))
        return is_on_device(c, x, has_device);
    return check_tensors(c, p, *v, has_device);
}

// Omitted arguments get the defaults of the row.
static void fill(op_call *c, gw_value filled[OP_ARGS_MAX]) {
    const char *at = c->op->params;
    op_param p;
    int i = 0;
    for (; op_param_next(&at, &p); i++) {
        bool absent = i >= c->arg_count || c->args[i].kind == GW_NONE;
        filled[i] = absent ? op_param_otherwise(&p) : c->args[i];
    }
    c->args = filled;
    c->arg_count = i;
}

// Rows' strings are valid, see op_test.c, so the walk is short.
bool op_params_check(op_call *c, gw_value filled[OP_ARGS_MAX]) {
    const char *at = c->op->params;
    bool incomplete = false, has_device = false;
    op_param p;
    int i = 0;
    for (; next_param(&at, &p); i++) {
        bool absent = i >= c->arg_count || c->args[i].kind == GW_NONE;
        if (absent && p.optional) {
            incomplete |= i >= c->arg_count || p.number;
        } else if (absent) {
            fail_misfit(c, i, p.name, p.kind);
            return false;
        } else if (!check_arg(c, i, &p, &has_device)) {
            return false;
        }
    }
    if (c->arg_count > i) {
        op_fail(c, GW_INVALID, "%d arguments were given, but at most %d are allowed", c->arg_count,
                i);
        return false;
    }
    if (incomplete) fill(c, filled);
    return true;
}

// ---- Reading ------------------------------------------------------------------------------------
gw_dtype arg_dtype(const gw_value *args, int i) {
    return args[i].kind == GW_STRING ? (gw_dtype)dtype_named(args[i].as.string)
                                     : (gw_dtype)args[i].as.integer;
}

int arg_ints(const gw_value *args, int i, int64_t out[GW_DIMS_MAX]) {
    gw_value v = args[i];
    if (v.kind == GW_INT) {
        out[0] = v.as.integer;
        return 1;
    }
    if (v.kind == GW_BYTES) {
        memcpy(out, v.as.bytes, v.size);
        return (int)(v.size / sizeof(int64_t));
    }
    for (int k = 0; k < v.as.list->count; k++) out[k] = v.as.list->items[k].as.integer;
    return v.as.list->count;
}

int grad_input(const op_grad *g, int i) {
    int input = 0;
    for (int k = 0; k < i; k++) {
        if (g->args[k].kind == GW_TENSOR) input++;
        if (g->args[k].kind == GW_LIST)
            input += are_tensors(g->args[k]) ? g->args[k].as.list->count : 0;
    }
    return input;
}
