// Samples of operators: tensors from nothing, views and copies.
#include "testing/samples.h"

#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

static void samples_filled(op_sampler *p) {
    for (int d = 0; d < GW_DTYPE_COUNT; d++) sample_call(p, gw_value_of(d), sample_ints(2, 3));
    sample_call(p, gw_value_of("f32"), sample_ints());
    sample_call(p, gw_value_of(GW_F32), sample_ints(3, 0));
}

static void samples_full(op_sampler *p) {
    for (int d = 0; d < GW_DTYPE_COUNT; d++)
        sample_call(p, gw_value_of(d), gw_value_of(2.5), sample_ints(2, 3));
    sample_call(p, gw_value_of(GW_I64), gw_value_of(INT64_MAX), sample_ints());
    sample_call(p, gw_value_of(GW_F32), gw_value_of(true), sample_ints(0));
}

static void samples_arange(op_sampler *p) {
    gw_value f32 = gw_value_of(GW_F32);
    sample_call(p, f32, gw_value_of(0), gw_value_of(5), gw_value_of(1));
    sample_call(p, f32, gw_value_of(1.0), gw_value_of(-1.0), gw_value_of(-0.25));
    sample_call(p, f32, gw_value_of(3), gw_value_of(3), gw_value_of(1));
    sample_call(p, gw_value_of(GW_I16), gw_value_of(-3), gw_value_of(4), gw_value_of(2));
}

static void samples_random(op_sampler *p) {
    const gw_dtype dtypes[] = { GW_F32, GW_F64, GW_F16, GW_BF16 };
    for (int i = 0; i < 4; i++) sample_call(p, gw_value_of((int)dtypes[i]), sample_ints(3, 7));
    sample_call(p, gw_value_of(GW_F32), sample_ints());
    sample_call(p, gw_value_of(GW_F32), sample_ints(0, 2));
}

static void samples_randint(op_sampler *p) {
    for (int d = 0; d < GW_DTYPE_COUNT; d++)
        sample_call(p, gw_value_of(d), gw_value_of(0), gw_value_of(2), sample_ints(3, 7));
    sample_call(p, gw_value_of("i64"), gw_value_of(INT64_MIN), gw_value_of(INT64_MAX),
                sample_ints(5));
    sample_call(p, gw_value_of("i8"), gw_value_of(-3), gw_value_of(4), sample_ints());
    sample_call(p, gw_value_of("i8"), gw_value_of(-3), gw_value_of(4), sample_ints(0, 2));
}

static void samples_randperm(op_sampler *p) {
    for (int n = 0; n < 20; n += 5) sample_call(p, gw_value_of(n));
}

static void samples_reshape(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 3, 4), sample_ints(2, 6));
    sample_call(p, sample_real(p, -2, 2, 3, 4), sample_ints(-1));
    sample_call(p, sample_real(p, -2, 2, 1), sample_ints());
    sample_call(p, sample_real(p, -2, 2, 0, 4), sample_ints(2, 0, 5));
}

static void samples_expand(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 3, 1), sample_ints(2, -1, 4));
    sample_call(p, sample_real(p, -2, 2), sample_ints(3));
    sample_call(p, sample_real(p, -2, 2, 1, 4), sample_ints(0, 4));
}

static void samples_squeeze(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 3, 1, 2), gw_value_of(1));
    sample_call(p, sample_real(p, -2, 2, 3, 2), gw_value_of(-1));
    sample_call(p, sample_real(p, -2, 2, 0, 1), gw_value_of(1));
}

static void samples_unsqueeze(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 3, 2), gw_value_of(1));
    sample_call(p, sample_real(p, -2, 2, 3, 2), gw_value_of(-1));
    sample_call(p, sample_real(p, -2, 2), gw_value_of(0));
    sample_call(p, sample_real(p, -2, 2, 0), gw_value_of(0));
}

static void samples_permute(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 2, 3, 4), sample_ints(2, 0, -2));
    sample_call(p, sample_real(p, -2, 2), sample_ints());
    sample_call(p, sample_real(p, -2, 2, 0, 3), sample_ints(1, 0));
}

static void samples_transpose(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 2, 3, 4), gw_value_of(0), gw_value_of(-1));
    sample_call(p, sample_real(p, -2, 2, 3), gw_value_of(0), gw_value_of(0));
    sample_call(p, sample_real(p, -2, 2, 3, 0), gw_value_of(0), gw_value_of(1));
}

static void samples_slice(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 5, 3), gw_value_of(0), gw_value_of(1), gw_value_of(4),
                gw_value_of(2));
    sample_call(p, sample_real(p, -2, 2, 2, 5), gw_value_of(-1), gw_value_of(-3),
                gw_value_of(INT64_MAX), gw_value_of(1));
    sample_call(p, sample_real(p, -2, 2, 4), gw_value_of(0), gw_value_of(3), gw_value_of(1),
                gw_value_of(1));
}

static void samples_select(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 3, 4), gw_value_of(0), gw_value_of(1));
    sample_call(p, sample_real(p, -2, 2, 3, 4), gw_value_of(-1), gw_value_of(-4));
    sample_call(p, sample_real(p, -2, 2, 5), gw_value_of(0), gw_value_of(2));
    sample_call(p, sample_real(p, -2, 2, 0, 4), gw_value_of(1), gw_value_of(2));
}

static void samples_split(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 5, 3), gw_value_of(2), gw_value_of(0));
    sample_call(p, sample_real(p, -2, 2, 2, 4), gw_value_of(2), gw_value_of(-1));
    sample_call(p, sample_real(p, -2, 2, 4), gw_value_of(9));
    sample_call(p, sample_real(p, -2, 2, 0, 3), gw_value_of(0));
}

static void samples_split_with_sizes(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 5, 3), sample_ints(2, 0, 3), gw_value_of(0));
    sample_call(p, sample_real(p, -2, 2, 2, 4), sample_ints(1, 2, 1), gw_value_of(-1));
    sample_call(p, sample_real(p, -2, 2, 0), sample_ints(0));
}

static void samples_chunk(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 7, 2), gw_value_of(4), gw_value_of(0));
    sample_call(p, sample_real(p, -2, 2, 2, 6), gw_value_of(3), gw_value_of(1));
    sample_call(p, sample_real(p, -2, 2, 3), gw_value_of(9));
    sample_call(p, sample_real(p, -2, 2, 2, 0), gw_value_of(3), gw_value_of(-1));
}

static void samples_cat(op_sampler *p) {
    sample_call(p, sample_list(p, sample_real(p, -2, 2, 2, 3), sample_real(p, -2, 2, 1, 3)),
                gw_value_of(0));
    sample_call(p,
                sample_list(p, sample_real(p, -2, 2, 2, 3), sample_real(p, -2, 2, 0),
                            sample_real(p, -2, 2, 2, 1)),
                gw_value_of(-1));
    sample_call(p, sample_list(p, sample_real(p, -2, 2, 0, 3), sample_real(p, -2, 2, 0, 2)),
                gw_value_of(1));
    sample_call(
        p, sample_list(p, sample_tensor(p, GW_I16, -9, 9, 3), sample_tensor(p, GW_U8, 0, 9, 2)),
        gw_value_of(0));
}

static void samples_stack(op_sampler *p) {
    sample_call(p, sample_list(p, sample_real(p, -2, 2, 2, 3), sample_real(p, -2, 2, 2, 3)),
                gw_value_of(1));
    sample_call(p, sample_list(p, sample_real(p, -2, 2), sample_real(p, -2, 2)), gw_value_of(-1));
    sample_call(p, sample_list(p, sample_real(p, -2, 2, 0)), gw_value_of(0));
}

static void samples_one(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 3, 4));
    sample_call(p, sample_real(p, -2, 2));
    sample_call(p, sample_real(p, -2, 2, 0));
    sample_call(p, sample_tensor(p, GW_I16, -9, 9, 3, 4));
}

static void samples_to_dtype(op_sampler *p) {
    for (int d = 0; d < GW_DTYPE_COUNT; d++) {
        sample_call(p, sample_real(p, 0, 9, 3, 4), gw_value_of(d));
        sample_call(p, sample_tensor(p, GW_I64, 0, 9, 5), gw_value_of(d));
    }
    sample_call(p, sample_real(p, -2, 2, 0), gw_value_of("f64"));
}

static void samples_triangle(op_sampler *p) {
    sample_call(p, sample_real(p, -2, 2, 3, 4));
    sample_call(p, sample_real(p, -2, 2, 2, 4, 3), gw_value_of(1));
    sample_call(p, sample_real(p, -2, 2, 4, 4), gw_value_of(-2));
    sample_call(p, sample_real(p, -2, 2, 2, 2), gw_value_of(INT64_MAX));
    sample_call(p, sample_real(p, -2, 2, 2, 2), gw_value_of(INT64_MIN));
    sample_call(p, sample_tensor(p, GW_BOOL8, 0, 2, 3, 3));
    sample_call(p, sample_real(p, -2, 2, 0, 3));
}

static void samples_nonzero(op_sampler *p) {
    sample_call(p, sample_tensor(p, GW_I64, 0, 2, 3, 4));
    sample_call(p, sample_tensor(p, GW_BOOL8, 0, 2, 2, 3, 2));
    sample_call(p, sample_real(p, 1, 2, 5));
    sample_call(p, sample_real(p, 1, 2));
    sample_call(p, sample_tensor(p, GW_U8, 0, 1, 3));
    sample_call(p, sample_real(p, 1, 2, 0, 3));
}

const sample_row samples_of_shapes[] = {
    { &op_zeros, samples_filled },
    { &op_ones, samples_filled },
    { &op_full, samples_full },
    { &op_arange, samples_arange },
    { &op_rand, samples_random },
    { &op_randn, samples_random },
    { &op_randint, samples_randint },
    { &op_randperm, samples_randperm },
    { &op_reshape, samples_reshape },
    { &op_view, samples_reshape },
    { &op_expand, samples_expand },
    { &op_squeeze, samples_squeeze },
    { &op_unsqueeze, samples_unsqueeze },
    { &op_permute, samples_permute },
    { &op_transpose, samples_transpose },
    { &op_slice, samples_slice },
    { &op_select, samples_select },
    { &op_split, samples_split },
    { &op_split_with_sizes, samples_split_with_sizes },
    { &op_chunk, samples_chunk },
    { &op_cat, samples_cat },
    { &op_stack, samples_stack },
    { &op_contiguous, samples_one },
    { &op_clone, samples_one },
    { &op_to_dtype, samples_to_dtype },
    { &op_tril, samples_triangle },
    { &op_triu, samples_triangle },
    { &op_nonzero, samples_nonzero },
    { NULL, NULL },
};
