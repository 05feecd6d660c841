// Tensors from nothing: constants, ranges, random numbers.
#include "tensor/ops/ops.h"
#include "tensor/block_index.h"
#include "tensor/kernels/draw.h"
#include <gradwire/binding.h>
#include <gradwire/ops.h>

#include <math.h>

// The way back of an operator without tensors: there is none, and nothing to save.
static void infer_shape(op_call *c, int sizes_arg) {
    int64_t sizes[GW_DIMS_MAX];
    int dims = arg_ints(c->args, sizes_arg, sizes);
    op_output(c, arg_dtype(c->args, 0), dims, sizes);
}

static uint8_t *output_bytes(op_call *c) {
    return c->outputs[0]->storage->block->bytes;
}

static void fill(op_call *c, gw_value v) {
    const gw_tensor *out = c->outputs[0];
    block_fill(out->storage->block, (gw_dtype)out->dtype, out->numel, v);
}

// ---- zeros, ones, full --------------------------------------------------------------------------
static void infer_filled(op_call *c) {
    infer_shape(c, 1);
}

// The variant of the row is the number.
static void compute_filled(op_call *c) {
    fill(c, gw_value_of(c->op->variant));
}

const op op_zeros = {
    .name = "zeros",
    .params = "dtype:dtype sizes:ints",
    .infer = infer_filled,
    .compute = compute_filled,
    .variant = 0,
};

const op op_ones = {
    .name = "ones",
    .params = "dtype:dtype sizes:ints",
    .infer = infer_filled,
    .compute = compute_filled,
    .variant = 1,
};

static gw_tensor *run_shaped(gw_scope *s, const op *o, gw_dtype dtype, gw_shape shape) {
    const gw_value args[] = { gw_value_of((int)dtype), value_of_ints(shape) };
    return op_run(s, o, args, 2, NULL);
}

gw_tensor *gw_zeros_with(gw_scope *s, gw_dtype dtype, gw_shape shape) {
    return run_shaped(s, &op_zeros, dtype, shape);
}

gw_tensor *gw_ones_with(gw_scope *s, gw_dtype dtype, gw_shape shape) {
    return run_shaped(s, &op_ones, dtype, shape);
}

static void infer_full(op_call *c) {
    infer_shape(c, 2);
}
static void compute_full(op_call *c) {
    fill(c, c->args[1]);
}

const op op_full = {
    .name = "full",
    .params = "dtype:dtype value:number sizes:ints",
    .infer = infer_full,
    .compute = compute_full,
};

gw_tensor *gw_full_with(gw_scope *s, gw_dtype dtype, gw_value value, gw_shape shape) {
    const gw_value args[] = { gw_value_of((int)dtype), value, value_of_ints(shape) };
    return op_run(s, &op_full, args, 3, NULL);
}

// ---- arange -------------------------------------------------------------------------------------
static void infer_arange(op_call *c) {
    double start = arg_number(c->args, 1), end = arg_number(c->args, 2),
           step = arg_number(c->args, 3);
    if (!op_check_number(c, arg_dtype(c->args, 0))) return;
    double steps = (end - start) / step;  // NaN where a bound or the step makes no sense
    if (!(steps >= 0 && steps < 0x1p62)) {
        op_fail(c, GW_INVALID,
                "%g to %g cannot be divided into steps of %g: the step must not be 0, and must "
                "lead towards the end",
                start, end, step);
        return;
    }
    int64_t n = (int64_t)ceil(steps);
    op_output(c, arg_dtype(c->args, 0), 1, &n);
}

static void compute_arange(op_call *c) {
    double start = arg_number(c->args, 1), step = arg_number(c->args, 3);
    const gw_tensor *out = c->outputs[0];
    size_t size = gw_dtype_size((gw_dtype)out->dtype);
    uint8_t *bytes = output_bytes(c);
    for (int64_t i = 0; i < out->numel; i++)
        dtype_write((gw_dtype)out->dtype, bytes + (size_t)i * size, start + (double)i * step);
}

const op op_arange = {
    .name = "arange",
    .params = "dtype:dtype start:number end:number step:number",
    .infer = infer_arange,
    .compute = compute_arange,
};

gw_tensor *gw_arange(gw_scope *s, gw_dtype dtype, double start, double end, double step) {
    const gw_value args[] = { gw_value_of((int)dtype), gw_value_of(start), gw_value_of(end),
                              gw_value_of(step) };
    return op_run(s, &op_arange, args, 4, NULL);
}

// ---- rand, randn --------------------------------------------------------------------------------
static void infer_random(op_call *c) {
    gw_dtype dtype = arg_dtype(c->args, 0);
    if (dtype_is_float(dtype)) {
        infer_shape(c, 1);
    } else {
        op_fail(c, GW_INVALID, "the dtype must be a float, but is %s; gw_to_dtype converts it",
                gw_dtype_name(dtype));
    }
}

static void compute_rand(op_call *c) {
    const gw_tensor *out = c->outputs[0];
    draw_uniform(c->scope->random, (gw_dtype)out->dtype, output_bytes(c), out->numel);
}

static void compute_randn(op_call *c) {
    const gw_tensor *out = c->outputs[0];
    draw_normal(c->scope->random, (gw_dtype)out->dtype, output_bytes(c), out->numel);
}

const op op_rand = {
    .name = "rand",
    .params = "dtype:dtype sizes:ints",
    .infer = infer_random,
    .compute = compute_rand,
};

const op op_randn = {
    .name = "randn",
    .params = "dtype:dtype sizes:ints",
    .infer = infer_random,
    .compute = compute_randn,
};

gw_tensor *gw_rand_with(gw_scope *s, gw_dtype dtype, gw_shape shape) {
    return run_shaped(s, &op_rand, dtype, shape);
}

gw_tensor *gw_randn_with(gw_scope *s, gw_dtype dtype, gw_shape shape) {
    return run_shaped(s, &op_randn, dtype, shape);
}

// ---- From the caller's memory -------------------------------------------------------------------
// Bytes that the shape takes up; SIZE_MAX if more than there can be.
static size_t bytes_of(gw_dtype dtype, gw_shape shape) {
    size_t bytes = gw_dtype_size(dtype);
    for (int i = 0; i < shape.count; i++) {
        if (shape.sizes[i] <= 0) return 0;  // less is refused where the tensor is made
        if (__builtin_mul_overflow(bytes, (size_t)shape.sizes[i], &bytes)) bytes = SIZE_MAX;
    }
    return bytes;
}

static bool can_be_read(gw_scope *s, const char *what, gw_dtype dtype, const void *data,
                        gw_shape shape) {
    if (s->error || !scope_check_array(s, what, shape.sizes, shape.count)) return false;
    if ((unsigned)dtype >= GW_DTYPE_COUNT)
        scope_fail(s, GW_INVALID, "%s: %d is not a dtype, but must be a gw_dtype", what,
                   (int)dtype);
    else if (!data && bytes_of(dtype, shape) > 0)
        scope_fail(s, GW_INVALID, "%s: data is NULL", what);
    return !s->error;
}

gw_tensor *gw_from_with(gw_scope *s, gw_dtype dtype, const void *data, gw_shape shape) {
    if (!can_be_read(s, "gw.from", dtype, data, shape)) return tensor_poison_of(s);
    gw_tensor *x = scope_own(s, tensor_new(s, dtype, shape.count, shape.sizes));
    if (!x) return tensor_poison_of(s);
    if (x->numel) memcpy(x->storage->block->bytes, data, (size_t)x->numel * gw_dtype_size(dtype));
    return x;
}

gw_tensor *gw_uninitialized(gw_scope *s, gw_dtype dtype, gw_shape shape) {
    static const uint8_t nothing;
    if (!can_be_read(s, "gw.uninitialized", dtype, &nothing, shape)) return tensor_poison_of(s);
    gw_tensor *x = scope_own(s, tensor_new(s, dtype, shape.count, shape.sizes));
    if (!x) return tensor_poison_of(s);
    if (dtype == GW_BOOL8) memset(block_writable(x->storage->block, 0), 0, tensor_size(x));
    return x;
}

// Values that determine later memory accesses must not change, as memory of another process may (LEND-8).
static bool may_view(const block *b, gw_dtype dtype, const void *address) {
    size_t offset = (size_t)((const uint8_t *)address - b->bytes);
    return offset % gw_dtype_size(dtype) == 0 && !(b->is_mapped && dtype > GW_BF16);
}

gw_tensor *gw_from_lendable(gw_scope *s, gw_dtype dtype, const void *address, gw_shape shape) {
    if (!can_be_read(s, "gw.from_lendable", dtype, address, shape)) return NULL;
    size_t size = bytes_of(dtype, shape);
    block *b = size ? block_index_find(address, size) : NULL;
    if (!b) return NULL;
    if (!may_view(b, dtype, address)) {
        block_release(b);
        return NULL;
    }
    size_t offset = (size_t)((const uint8_t *)address - b->bytes);
    gw_tensor *x = scope_own(s, tensor_over(s, dtype, shape.count, shape.sizes, b));
    if (!x) return NULL;
    x->offset = (int64_t)(offset / gw_dtype_size(dtype));
    storage_pin(x->storage);
    return x;
}

gw_tensor *gw_from_blob(gw_scope *s, gw_dtype dtype, void *bytes, gw_shape shape,
                        void (*deleter)(void *context), void *context) {
    if (can_be_read(s, "gw.from_blob", dtype, bytes, shape)) {
        block *b = block_of_external(bytes, bytes_of(dtype, shape), deleter, context);
        if (b) {
            gw_tensor *x = scope_own(s, tensor_over(s, dtype, shape.count, shape.sizes, b));
            return x ? x : tensor_poison_of(s);
        }
        scope_fail(s, GW_NO_MEMORY, "no memory for a view of the caller's bytes");
    }
    if (deleter) deleter(context);
    return tensor_poison_of(s);
}
