#include "testing/fuzz_input.h"

#include "base/scope.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"
#include <gradwire/autograd.h>
#include <gradwire/ops.h>

#include <math.h>

enum { LIST_MAX = 5 };

unsigned fuzz_take(fuzz_input *in, unsigned below) {
    unsigned byte = in->at < in->end ? *in->at++ : 0;
    return byte % below;
}

// ---- Numbers ------------------------------------------------------------------------------------
int64_t fuzz_take_int(fuzz_input *in) {
    static const int64_t ends[] = { INT64_MAX, INT64_MIN, INT32_MAX,      (int64_t)INT32_MAX + 1,
                                    INT32_MIN, 1L << 40,  INT64_MAX / 16, INT64_MAX / 3 };
    unsigned which = fuzz_take(in, 40);
    return which < 8 ? ends[which] : (int64_t)which - 12;
}

double fuzz_take_real(fuzz_input *in) {
    static const double ends[] = { NAN,    INFINITY, -INFINITY, 1e308, -1e308, 1e-320,
                                   0x1p63, -0.0,     6e4,       1e-7,  0.5,    3e9 };
    unsigned which = fuzz_take(in, 24);
    return which < 12 ? ends[which] : (double)which - 16;
}

// Few elements, but sizes of any kind with one of 0.
static int take_sizes(fuzz_input *in, int64_t *sizes) {
    static const int64_t with_0[] = { 1L << 20, 1L << 40, 7, 3 };
    int dims = (int)fuzz_take(in, 6);
    unsigned empty = fuzz_take(in, 12);
    for (int i = 0; i < dims; i++) sizes[i] = 1 + fuzz_take(in, 4);
    if (empty < (unsigned)dims) {
        sizes[empty] = 0;
        if (dims > 1) sizes[(empty + 1) % (unsigned)dims] = with_0[fuzz_take(in, 4)];
    }
    return dims;
}

gw_value fuzz_take_tensor(fuzz_input *in) {
    int64_t sizes[GW_DIMS_MAX];
    int dims = take_sizes(in, sizes);
    // Mostly floats, and integers that may be indices.
    unsigned which = fuzz_take(in, 20);
    gw_dtype dtype = which < GW_DTYPE_COUNT ? (gw_dtype)which : which < 16 ? GW_F32 : GW_I64;
    gw_tensor *x = gw_zeros_with(in->scope, dtype, (gw_shape){ dims, sizes });
    uint8_t *bytes = gw_data_for_write(in->scope, x);
    for (int64_t i = 0; bytes && i < x->numel; i++, bytes += gw_dtype_size(dtype)) {
        if (dtype_is_float(dtype))
            dtype_write(dtype, bytes, fuzz_take_real(in));
        else
            dtype_write_int(dtype, bytes, dtype == GW_BOOL8 ? fuzz_take(in, 2) : fuzz_take_int(in));
    }
    if (dims > 1 && fuzz_take(in, 2)) x = gw_transpose(in->scope, x, 0, dims - 1);
    if (dtype_is_float(dtype) && fuzz_take(in, 2))
        x = gw_requires_grad(in->scope, gw_detach(in->scope, x));
    return gw_value_of_tensor(x);
}

static gw_value take_rows(fuzz_input *in) {
    gw_tensor *indices = gw_from(in->scope, ((int64_t[]){ fuzz_take(in, 4), fuzz_take(in, 4) }), 2);
    gw_tensor *values = gw_ones(in->scope, GW_F32, 2, 1 + fuzz_take(in, 3));
    return gw_value_of_tensor(gw_rows(in->scope, indices, values, 4));
}

// ---- Values -------------------------------------------------------------------------------------
static gw_value take_list(fuzz_input *in, fuzz_kind kind) {
    gw_list *list = gw_list_open(in->scope);
    unsigned count = fuzz_take(in, LIST_MAX) + 30 * (fuzz_take(in, 50) == 49);
    for (unsigned i = 0; i < count; i++)
        gw_list_add_with(in->scope, list, fuzz_take_value(in, kind));
    return gw_value_of_list(list);
}

gw_value fuzz_take_value(fuzz_input *in, fuzz_kind kind) {
    switch (kind) {
    case FUZZ_TENSOR: return fuzz_take_tensor(in);
    case FUZZ_INT: return gw_value_of_int(fuzz_take_int(in));
    case FUZZ_REAL: return gw_value_of_float(fuzz_take_real(in));
    case FUZZ_BOOL: return gw_value_of_bool(fuzz_take(in, 2));
    case FUZZ_INTS: return take_list(in, FUZZ_INT);
    case FUZZ_TENSORS: return take_list(in, FUZZ_TENSOR);
    case FUZZ_DTYPE: return gw_value_of_int(fuzz_take(in, GW_DTYPE_COUNT));
    case FUZZ_DTYPE_NAME:
        return gw_value_of_string(gw_dtype_name((gw_dtype)fuzz_take(in, GW_DTYPE_COUNT + 1)));
    case FUZZ_ROWS: return take_rows(in);
    case FUZZ_REALS: return take_list(in, FUZZ_REAL);
    default: return gw_none();
    }
}
