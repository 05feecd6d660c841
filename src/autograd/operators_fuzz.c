// Operators as any peer calls them: by name, with any arguments. Each call ends in values or in one
// sentence, and so does the backward pass behind it.
#include "base/value.h"
#include "tensor/dtype.h"
#include "tensor/ops/op.h"
#include <gradwire/autograd.h>
#include <gradwire/ops.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// As much as a peer may have made for it, but so little that a run is short.
enum { TENSOR_BYTES_MAX = 1 << 16, LIST_MAX = 5 };

typedef struct input {
    const uint8_t *at, *end;
    gw_scope *scope;
} input;

static unsigned take(input *in, unsigned below) {
    unsigned byte = in->at < in->end ? *in->at++ : 0;
    return byte % below;
}

// ---- Numbers ------------------------------------------------------------------------------------
// Small ones mostly, and those at the ends of what numbers can be.
static int64_t take_int(input *in) {
    static const int64_t ends[] = { INT64_MAX, INT64_MIN, INT32_MAX,      (int64_t)INT32_MAX + 1,
                                    INT32_MIN, 1L << 40,  INT64_MAX / 16, INT64_MAX / 3 };
    unsigned which = take(in, 40);
    return which < 8 ? ends[which] : (int64_t)which - 12;
}

static double take_real(input *in) {
    static const double ends[] = { NAN,    INFINITY, -INFINITY, 1e308, -1e308, 1e-320,
                                   0x1p63, -0.0,     6e4,       1e-7,  0.5,    3e9 };
    unsigned which = take(in, 24);
    return which < 12 ? ends[which] : (double)which - 16;
}

// Few elements, but sizes of any kind beside one of 0.
static int take_sizes(input *in, int64_t *sizes) {
    static const int64_t beside_0[] = { 1L << 20, 1L << 40, 7, 3 };
    int dims = (int)take(in, 6);
    unsigned empty = take(in, 12);
    for (int i = 0; i < dims; i++) sizes[i] = 1 + take(in, 4);
    if (empty < (unsigned)dims) {
        sizes[empty] = 0;
        if (dims > 1) sizes[(empty + 1) % (unsigned)dims] = beside_0[take(in, 4)];
    }
    return dims;
}

static gw_value take_tensor(input *in) {
    int64_t sizes[GW_DIMS_MAX];
    int dims = take_sizes(in, sizes);
    // Mostly floats, and integers that may be indices.
    unsigned which = take(in, 20);
    gw_dtype dtype = which < GW_DTYPE_COUNT ? (gw_dtype)which : which < 16 ? GW_F32 : GW_I64;
    gw_tensor *x = gw_zeros_with(in->scope, dtype, (gw_shape){ dims, sizes });
    uint8_t *bytes = gw_data_for_write(in->scope, x);
    for (int64_t i = 0; bytes && i < x->numel; i++, bytes += gw_dtype_size(dtype)) {
        if (dtype_is_float(dtype))
            dtype_write(dtype, bytes, take_real(in));
        else
            dtype_write_int(dtype, bytes, dtype == GW_BOOL8 ? take(in, 2) : take_int(in));
    }
    if (dims > 1 && take(in, 2)) x = gw_transpose(in->scope, x, 0, dims - 1);
    if (dtype_is_float(dtype) && take(in, 2))
        x = gw_requires_grad(in->scope, gw_detach(in->scope, x));
    return gw_value_of_tensor(x);
}

static gw_value take_rows(input *in) {
    gw_tensor *indices = gw_from(in->scope, ((int64_t[]){ take(in, 4), take(in, 4) }), 2);
    gw_tensor *values = gw_ones(in->scope, GW_F32, 2, 1 + take(in, 3));
    return gw_value_of_tensor(gw_rows(in->scope, indices, values, 4));
}

// ---- Arguments ----------------------------------------------------------------------------------
static gw_value take_kind(input *in, unsigned kind);

static gw_value take_list(input *in, unsigned kind) {
    gw_list *list = gw_list_open(in->scope);
    unsigned count = take(in, LIST_MAX) + 30 * (take(in, 50) == 49);
    for (unsigned i = 0; i < count; i++) gw_list_add_with(in->scope, list, take_kind(in, kind));
    return gw_value_of_list(list);
}

static gw_value take_kind(input *in, unsigned kind) {
    switch (kind) {
    case 0: return take_tensor(in);
    case 1: return gw_value_of_int(take_int(in));
    case 2: return gw_value_of_float(take_real(in));
    case 3: return gw_value_of_bool(take(in, 2));
    case 4: return take_list(in, 1);
    case 5: return take_list(in, 0);
    case 6: return gw_value_of_int(take(in, GW_DTYPE_COUNT));
    case 7: return gw_value_of_string(gw_dtype_name((gw_dtype)take(in, GW_DTYPE_COUNT + 1)));
    case 8: return take_rows(in);
    case 9: return take_list(in, 2);
    default: return gw_none();
    }
}

// What |p| wants, mostly.
static gw_value take_argument(input *in, const op_param *p) {
    static const char *const kinds[] = { "tensor", "int",     "float", "bool",
                                         "ints",   "tensors", "dtype" };
    unsigned wanted = 0;
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strlen(kinds[i]) == (size_t)p->kind_size &&
            !memcmp(kinds[i], p->kind, (size_t)p->kind_size))
            wanted = i;
    unsigned how = take(in, 16);
    if (how == 0) return take_kind(in, take(in, 11));
    if (p->kind[0] == 'n' || (p->kind[0] == 'o' && how < 6)) return take_kind(in, 1 + take(in, 3));
    if (p->optional && how < 6) return gw_none();
    return take_kind(in, wanted);
}

static int take_arguments(input *in, const op *o, gw_value *args) {
    const char *at = o->params;
    op_param p;
    int count = 0;
    while (op_param_next(&at, &p)) args[count++] = take_argument(in, &p);
    return count - (int)take(in, 8) / 7;
}

// ---- Calls --------------------------------------------------------------------------------------
static void run_back(gw_scope *s, gw_value v) {
    if (v.kind == GW_LIST && v.as.list->count) v = v.as.list->items[0];
    if (v.kind != GW_TENSOR || !gw_needs_grad(v.as.tensor)) return;
    gw_backward(s, v.as.tensor, .gradient = gw_ones_like(s, v.as.tensor));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int rows = 0;
    while (op_table[rows]) rows++;
    gw_scope *s = gw_scope_open(NULL);
    gw_seed(s, 1);
    s->tensor_bytes_max = TENSOR_BYTES_MAX;
    input in = { data, data + size, s };
    const op *o = op_table[take(&in, (unsigned)rows)];
    gw_value args[OP_ARGS_MAX];
    int count = take_arguments(&in, o, args);
    if (gw_ok(s)) {
        gw_value v = op_run_value(s, o, args, count);
        if (gw_ok(s)) run_back(s, v);
        if (!gw_ok(s) && !gw_scope_error(s)->text[0]) abort();
    }
    gw_error error = gw_scope_close(s);
    (void)error;
    return 0;
}
