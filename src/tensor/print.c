// Tensors as text, like PyTorch's: four digits, one width for all numbers, the edges of large
// ones.
#include "tensor/dtype.h"

#include "base/bytes.h"
#include "tensor/copy.h"
#include "tensor/device.h"
#include "tensor/pack.h"

#include <math.h>
#include <stdio.h>

enum {
    PRECISION = 4,
    LINE_WIDTH = 80,
    WHOLE_MAX = 1000,  // elements; larger tensors show only their edges
    EDGE = 3,          // elements at each edge
    NUMBER_MAX = 400,  // the widest f64 in %.0f has 309 digits
};

typedef struct form {
    gw_dtype dtype;
    bool whole, scientific;  // of floats
    int width;
} form;

typedef struct printer {
    bytes text;
    const gw_tensor *x;
    form form;
    bool edges_only;
    int indent;  // of the text's lines after the first

    // of the tensor that |x|, on the CPU, has the numbers of
    uint8_t device;
    bool requires_grad;
} printer;

// ---- Numbers ------------------------------------------------------------------------------------
static int write_number(const form *f, double x, char text[NUMBER_MAX]) {
    if (isnan(x)) return snprintf(text, NUMBER_MAX, "nan");
    if (f->scientific) return snprintf(text, NUMBER_MAX, "%.*e", PRECISION, x);
    if (!f->whole) return snprintf(text, NUMBER_MAX, "%.*f", PRECISION, x);
    return snprintf(text, NUMBER_MAX, isinf(x) ? "%.0f" : "%.0f.", x);
}

static int write_element(const form *f, const void *p, char text[NUMBER_MAX]) {
    if (dtype_is_float(f->dtype)) return write_number(f, dtype_read(f->dtype, p), text);
    int64_t x = dtype_read_int(f->dtype, p);
    if (f->dtype == GW_BOOL8) return snprintf(text, NUMBER_MAX, x ? "True" : "False");
    return snprintf(text, NUMBER_MAX, "%lld", (long long)x);
}

static const uint8_t *element(const gw_tensor *x, int64_t offset) {
    return tensor_bytes(x) + offset * (int64_t)gw_dtype_size((gw_dtype)x->dtype);
}

// ---- Which elements are shown -------------------------------------------------------------------
static bool is_cut(const printer *p, int dim) {
    return p->edges_only && p->x->sizes[dim] > 2 * EDGE;
}

// The index after |i| along |dim|.
static int64_t next(const printer *p, int dim, int64_t i) {
    return is_cut(p, dim) && i == EDGE - 1 ? p->x->sizes[dim] - EDGE : i + 1;
}

// Calls |f| for every element that is shown.
static void each_shown(printer *p, void (*f)(printer *p, const uint8_t *at, void *context),
                       void *context) {
    const gw_tensor *x = p->x;
    int64_t index[GW_DIMS_MAX] = { 0 };
    if (x->numel == 0) return;
    for (;;) {
        int64_t offset = 0;
        for (int i = 0; i < x->dims; i++) offset += index[i] * x->strides[i];
        f(p, element(x, offset), context);
        int i = x->dims - 1;
        for (; i >= 0; i--) {
            index[i] = next(p, i, index[i]);
            if (index[i] < x->sizes[i]) break;
            index[i] = 0;
        }
        if (i < 0) return;
    }
}

// ---- The form that all numbers share ------------------------------------------------------------
typedef struct range {
    double least, most;  // of the sizes of numbers that are finite and not 0
    bool whole;
} range;

static void extend(printer *p, const uint8_t *at, void *context) {
    range *r = context;
    double x = fabs(dtype_read(p->form.dtype, at));
    if (!isfinite(x) || x == 0) return;
    if (x < r->least) r->least = x;
    if (x > r->most) r->most = x;
    if (x != ceil(x)) r->whole = false;
}

static void widen(printer *p, const uint8_t *at, void *context) {
    (void)context;
    char text[NUMBER_MAX];
    if (dtype_is_float(p->form.dtype)) {
        double x = dtype_read(p->form.dtype, at);
        if (!isfinite(x) || x == 0) return;  // these adapt
    }
    int width = write_element(&p->form, at, text);
    if (width > p->form.width) p->form.width = width;
}

static void choose_form(printer *p) {
    p->form = (form){ .dtype = (gw_dtype)p->x->dtype, .width = 1 };
    range r = { .least = INFINITY, .most = 0, .whole = true };
    if (dtype_is_float(p->form.dtype)) {
        each_shown(p, extend, &r);
        p->form.whole = r.whole;
        p->form.scientific =
            r.most > 0 && (r.most / r.least > 1000 || r.most > 1e8 || (!r.whole && r.least < 1e-4));
    }
    each_shown(p, widen, NULL);
}

// ---- Text ---------------------------------------------------------------------------------------
static void put(printer *p, const char *text) {
    bytes_put(&p->text, text, strlen(text));
}

static void put_spaces(printer *p, int count) {
    while (count-- > 0) put(p, " ");
}

static void put_element(printer *p, const uint8_t *at) {
    char text[NUMBER_MAX];
    int width = write_element(&p->form, at, text);
    put_spaces(p, p->form.width - width);
    put(p, text);
}

static void put_row(printer *p, int64_t offset, int indent) {
    int dim = p->x->dims - 1, per_line = (LINE_WIDTH - indent) / (p->form.width + 2), column = 0;
    if (per_line < 1) per_line = 1;
    put(p, "[");
    for (int64_t i = 0; i < p->x->sizes[dim];) {
        if (column == per_line) {
            put(p, ",\n");
            put_spaces(p, indent + 1);
            column = 0;
        } else if (column > 0) {
            put(p, ", ");
        }
        column++;
        if (is_cut(p, dim) && i == EDGE) {
            put(p, " ...");
            i = p->x->sizes[dim] - EDGE;
            continue;
        }
        put_element(p, element(p->x, offset + i * p->x->strides[dim]));
        i++;
    }
    put(p, "]");
}

// At most GW_DIMS_MAX deep.
static void put_dimension(printer *p, int dim, int64_t offset, int indent) {
    const gw_tensor *x = p->x;
    if (dim == x->dims - 1) {
        put_row(p, offset, indent);
        return;
    }
    put(p, "[");
    for (int64_t i = 0; i < x->sizes[dim];) {
        if (i > 0) {
            put(p, ",");
            for (int k = dim; k < x->dims - 1; k++) put(p, "\n");
            put_spaces(p, indent + 1);
        }
        if (is_cut(p, dim) && i == EDGE) {
            put(p, "...");
            i = x->sizes[dim] - EDGE;
            put(p, ",");
            for (int k = dim; k < x->dims - 1; k++) put(p, "\n");
            put_spaces(p, indent + 1);
        }
        put_dimension(p, dim + 1, offset + i * x->strides[dim], indent + 1);
        i++;
    }
    put(p, "]");
}

static void put_suffix(printer *p, const char *text) {
    size_t line = 0;
    while (line < p->text.size && p->text.data[p->text.size - 1 - line] != '\n') line++;
    bool breaks = line + 1 + strlen(text) + 2 > LINE_WIDTH;
    put(p, breaks ? ",\n       " : ", ");
    if (breaks) put_spaces(p, p->indent);
    put(p, text);
}

static void put_suffixes(printer *p) {
    const gw_tensor *x = p->x;
    char text[512];
    if (x->numel == 0 && x->dims != 1) {
        size_t used = (size_t)snprintf(text, sizeof text, "size=(");
        for (int i = 0; i < x->dims; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, i ? ", %lld" : "%lld",
                                     (long long)x->sizes[i]);
        snprintf(text + used, sizeof text - used, ")");
        put_suffix(p, text);
    }
    bool evident = x->dtype == GW_F32 || (x->numel && (x->dtype == GW_I64 || x->dtype == GW_BOOL8));
    if (!evident) {
        snprintf(text, sizeof text, "dtype=%s", gw_dtype_name((gw_dtype)x->dtype));
        put_suffix(p, text);
    }
    if (p->device != GW_CPU) {
        snprintf(text, sizeof text, "device=%s", device_name(p->device));
        put_suffix(p, text);
    }
    if (p->requires_grad) put_suffix(p, "requires_grad=True");
}

static void put_dense(printer *p) {
    put(p, "tensor(");
    if (p->x->numel == 0) {
        put(p, "[]");
    } else {
        p->edges_only = p->x->numel > WHOLE_MAX;
        choose_form(p);
        if (p->x->dims == 0) {
            put_element(p, tensor_bytes(p->x));
        } else {
            put_dimension(p, 0, 0, p->indent + (int)strlen("tensor("));
        }
    }
    put_suffixes(p);
    put(p, ")");
}

static void put_part(printer *p, const char *name, const gw_tensor *part) {
    const gw_tensor *x = p->x;
    put(p, name);
    p->x = part;
    p->indent = (int)(strlen("tensor(") + strlen(name));
    put_dense(p);
    p->x = x;
    put(p, ",\n       ");
}

static void put_rows(printer *p) {
    const gw_tensor *x = p->x;
    char text[64];
    put(p, "tensor(");
    put_part(p, "indices=", x->indices);
    put_part(p, "values=", x->values);
    put(p, "size=(");
    for (int i = 0; i < x->dims; i++) {
        snprintf(text, sizeof text, i ? ", %lld" : "%lld", (long long)x->sizes[i]);
        put(p, text);
    }
    snprintf(text, sizeof text,
             x->dims == 1 ? ",), count=%lld, layout=rows)" : "), count=%lld, layout=rows)",
             (long long)x->indices->numel);
    put(p, text);
}

static void print(printer *p) {
    if (tensor_is_rows(p->x))
        put_rows(p);
    else
        put_dense(p);
}

static const gw_tensor *on_cpu(gw_scope *work, const gw_tensor *x) {
    if (x->device == GW_CPU) return x;
    work->grad_enabled = false;
    return tensor_to_device(work, (gw_tensor *)(uintptr_t)x, GW_CPU);
}

const char *gw_to_text(gw_scope *s, const gw_tensor *x) {
    if (tensor_check(s, "gw.to_text", x) && !x)
        scope_fail_of(s, "gw.to_text", GW_INVALID, "the tensor is NULL");
    if (s->error) return "";
    gw_scope *work = gw_scope_open(s);
    printer p = { .x = on_cpu(work, x), .device = x->device };
    p.requires_grad = tensor_is_leaf_with_grad(x);
    print(&p);
    gw_scope_close_up(work);
    char *text = p.text.failed ? NULL : gw_alloc(s, p.text.size + 1);
    if (text) memcpy(text, p.text.data, p.text.size);
    if (p.text.failed) scope_fail_of(s, "gw.to_text", GW_NO_MEMORY, "no memory for the text");
    bytes_fini(&p.text);
    return text ? text : "";
}

void gw_print(gw_scope *s, const gw_tensor *x) {
    const char *text = gw_to_text(s, x);
    if (!s->error) puts(text);
}
