// Random integers and orders.
#include "tensor/kernels/draw.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

enum { CHUNK = 512 };  // integers that are drawn at a time for other dtypes

// ---- randint ------------------------------------------------------------------------------------
// Whether every integer from |low| to |last| is itself in |dtype|..
static bool holds(gw_dtype dtype, int64_t low, int64_t last) {
    switch (dtype) {
    case GW_F32: return low >= -(1 << 24) && last <= 1 << 24;
    case GW_F64: return low >= -(INT64_C(1) << 53) && last <= INT64_C(1) << 53;
    case GW_F16: return low >= -(1 << 11) && last <= 1 << 11;
    case GW_BF16: return low >= -(1 << 8) && last <= 1 << 8;
    case GW_I64: return true;
    case GW_I32: return low >= INT32_MIN && last <= INT32_MAX;
    case GW_I16: return low >= INT16_MIN && last <= INT16_MAX;
    case GW_I8: return low >= INT8_MIN && last <= INT8_MAX;
    case GW_U8: return low >= 0 && last <= UINT8_MAX;
    default: return low >= 0 && last <= 1;
    }
}

static void infer_randint(op_call *c) {
    gw_dtype dtype = arg_dtype(c->args, 0);
    int64_t low = arg_int(c->args, 1), high = arg_int(c->args, 2);
    if (low >= high) {
        op_fail(c, GW_INVALID,
                "there is no integer from %lld to below %lld: high must be above low",
                (long long)low, (long long)high);
        return;
    }
    if (!holds(dtype, low, high - 1)) {
        op_fail(c, GW_INVALID, "%s must hold every integer from %lld to below %lld, but does not",
                gw_dtype_name(dtype), (long long)low, (long long)high);
        return;
    }
    int64_t sizes[GW_DIMS_MAX];
    int dims = arg_ints(c->args, 3, sizes);
    op_output(c, dtype, dims, sizes);
}

static void compute_randint(op_call *c) {
    const gw_tensor *out = c->outputs[0];
    int64_t low = arg_int(c->args, 1), numbers[CHUNK];
    uint64_t range = (uint64_t)arg_int(c->args, 2) - (uint64_t)low;
    gw_dtype dtype = (gw_dtype)out->dtype;
    uint8_t *bytes = (uint8_t *)tensor_bytes(out);
    for (int64_t done = 0; done < out->numel; done += CHUNK) {
        int64_t n = out->numel - done < CHUNK ? out->numel - done : CHUNK;
        draw_ints(c->scope->random, low, range, numbers, n);
        dtype_gather(dtype, bytes + (size_t)done * gw_dtype_size(dtype), GW_I64, numbers, 1, n);
    }
}

const op op_randint = {
    .name = "randint",
    .params = "dtype:dtype low:int high:int sizes:ints",
    .infer = infer_randint,
    .compute = compute_randint,
};

gw_tensor *gw_randint_with(gw_scope *s, gw_dtype dtype, int64_t low, int64_t high, gw_shape shape) {
    const gw_value args[] = { gw_value_of((int)dtype), gw_value_of(low), gw_value_of(high),
                              value_of_ints(shape) };
    return op_run(s, &op_randint, args, 4, NULL);
}

// ---- randperm -----------------------------------------------------------------------------------
static void infer_randperm(op_call *c) {
    int64_t n = arg_int(c->args, 0);
    if (n < 0) {
        op_fail(c, GW_INVALID, "n is %lld, but must be 0 or more", (long long)n);
        return;
    }
    op_output(c, GW_I64, 1, &n);
}

// Fisher, Yates: each number is swapped with one that is not behind it.
static void compute_randperm(op_call *c) {
    int64_t *order = (int64_t *)tensor_bytes(c->outputs[0]), n = c->outputs[0]->numel;
    for (int64_t i = 0; i < n; i++) order[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t k, kept = order[i];
        draw_ints(c->scope->random, 0, (uint64_t)i + 1, &k, 1);
        order[i] = order[k];
        order[k] = kept;
    }
}

const op op_randperm = {
    .name = "randperm",
    .params = "n:int",
    .infer = infer_randperm,
    .compute = compute_randperm,
};

gw_tensor *(gw_randperm)(gw_scope *s, int64_t n) {
    return op_run(s, &op_randperm, (const gw_value[]){ gw_value_of(n) }, 1, NULL);
}
