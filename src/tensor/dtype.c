#include "tensor/dtype.h"

static const struct {
    const char *name;
    size_t size;
} dtypes[GW_DTYPE_COUNT] = {
    [GW_F32] = { "f32", 4 },    [GW_F64] = { "f64", 8 }, [GW_F16] = { "f16", 2 },
    [GW_BF16] = { "bf16", 2 },  [GW_I64] = { "i64", 8 }, [GW_I32] = { "i32", 4 },
    [GW_I16] = { "i16", 2 },    [GW_I8] = { "i8", 1 },   [GW_U8] = { "u8", 1 },
    [GW_BOOL8] = { "bool", 1 },
};

const char *gw_dtype_name(gw_dtype dtype) {
    return (unsigned)dtype < GW_DTYPE_COUNT ? dtypes[dtype].name : "unknown dtype";
}

size_t gw_dtype_size(gw_dtype dtype) {
    return (unsigned)dtype < GW_DTYPE_COUNT ? dtypes[dtype].size : 0;
}

gw_dtype dtype_promote(gw_dtype a, gw_dtype b) {
    if (a == b || b == GW_BOOL8) return a;
    if (a == GW_BOOL8) return b;
    if (dtype_is_float(a) != dtype_is_float(b)) return dtype_is_float(a) ? a : b;
    if (dtype_is_float(a)) {
        if (a == GW_F64 || b == GW_F64) return GW_F64;
        return GW_F32;  // f16 and bf16 have no common half
    }
    if (a == GW_U8 || b == GW_U8) {
        gw_dtype other = a == GW_U8 ? b : a;
        return other == GW_I8 ? GW_I16 : other;
    }
    return dtypes[a].size > dtypes[b].size ? a : b;
}

static void add(int *kind, gw_dtype d) {
    *kind = *kind < 0 ? (int)d : (int)dtype_promote((gw_dtype)*kind, d);
}

void promotion_add_tensor(promotion *p, const gw_tensor *x) {
    add(x->dims ? &p->dims : &p->scalars, (gw_dtype)x->dtype);
}

void promotion_add_number(promotion *p, gw_value v) {
    add(&p->numbers, v.kind == GW_FLOAT ? GW_F32 : v.kind == GW_INT ? GW_I64 : GW_BOOL8);
}

static int combine(int higher, int lower) {
    if (higher < 0 || lower < 0) return higher < 0 ? lower : higher;
    bool raises = !dtype_is_float((gw_dtype)higher) &&
                  (higher == GW_BOOL8 || dtype_is_float((gw_dtype)lower));
    return raises ? (int)dtype_promote((gw_dtype)higher, (gw_dtype)lower) : higher;
}

gw_dtype promotion_end(const promotion *p) {
    int d = combine(p->dims, combine(p->scalars, p->numbers));
    return d < 0 ? GW_F32 : (gw_dtype)d;
}

double dtype_read(gw_dtype d, const void *p) {
    switch (d) {
    case GW_F32: return *(const float *)p;
    case GW_F64: return *(const double *)p;
    case GW_F16: return f32_of_f16(*(const uint16_t *)p);
    case GW_BF16: return f32_of_bf16(*(const uint16_t *)p);
    default: return (double)dtype_read_int(d, p);
    }
}

int64_t dtype_read_int(gw_dtype d, const void *p) {
    switch (d) {
    case GW_I64: return *(const int64_t *)p;
    case GW_I32: return *(const int32_t *)p;
    case GW_I16: return *(const int16_t *)p;
    case GW_I8: return *(const int8_t *)p;
    case GW_U8: return *(const uint8_t *)p;
    case GW_BOOL8: return *(const uint8_t *)p != 0;
    default: return int_of_real(dtype_read(d, p));
    }
}

void dtype_write(gw_dtype d, void *p, double x) {
    switch (d) {
    case GW_F32: *(float *)p = (float)x; return;
    case GW_F64: *(double *)p = x; return;
    case GW_F16: *(uint16_t *)p = f16_of_f32((float)x); return;
    case GW_BF16: *(uint16_t *)p = bf16_of_f32((float)x); return;
    case GW_BOOL8: *(uint8_t *)p = x != 0; return;
    default: dtype_write_int(d, p, int_of_real(x));
    }
}

void dtype_write_int(gw_dtype d, void *p, int64_t x) {
    switch (d) {
    case GW_I64: *(int64_t *)p = x; return;
    case GW_I32: *(int32_t *)p = (int32_t)x; return;
    case GW_I16: *(int16_t *)p = (int16_t)x; return;
    case GW_I8: *(int8_t *)p = (int8_t)x; return;
    case GW_U8: *(uint8_t *)p = (uint8_t)x; return;
    case GW_BOOL8: *(uint8_t *)p = x != 0; return;
    default: dtype_write(d, p, (double)x);
    }
}

void dtype_write_value(gw_dtype d, void *p, gw_value v) {
    if (v.kind == GW_FLOAT) {
        dtype_write(d, p, v.as.real);
    } else {
        dtype_write_int(d, p, v.kind == GW_BOOL ? v.as.boolean : v.as.integer);
    }
}
