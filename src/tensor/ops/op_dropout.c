// dropout: numbers set to 0 at random, the others scaled up to make good for it (Srivastava et al.
// 2014).
#include "tensor/dense.h"
#include "tensor/dtype.h"
#include "tensor/kernels/kernels.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

enum { CHUNK_BLOCKS = 256 };

static bool is_identity(const gw_value *args) {
    return arg_number(args, 1) == 0 || !arg_bool(args, 2);
}

// The second output is which numbers are kept, for the derivative.
static void infer(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    double p = arg_number(c->args, 1);
    if (!(p >= 0 && p <= 1)) {
        op_fail(c, GW_INVALID, "p is %g, but must be between 0 and 1", p);
    } else if (!op_check_float(c, (gw_dtype)x->dtype)) {
        return;
    } else if (is_identity(c->args)) {
        op_output_view(c, x, x->dims, x->sizes, x->strides, x->offset);
    } else if (op_output_like(c, x)) {
        op_output(c, GW_BOOL8, x->dims, x->sizes);
    }
}

// One word of the generator for each number; it is kept if the word is below |limit|.
static void draw_mask(generator *g, uint64_t limit, uint8_t *mask, int64_t n) {
    uint32_t words[4 * CHUNK_BLOCKS];
    int64_t blocks = (n + 3) / 4;
    uint64_t first = generator_take(g, (uint64_t)blocks);
    for (int64_t b = 0; b < blocks; b += CHUNK_BLOCKS) {
        int64_t count = blocks - b < CHUNK_BLOCKS ? blocks - b : CHUNK_BLOCKS;
        kernels_get()->random_words(g->key, first + (uint64_t)b, count, words);
        int64_t numbers = n - 4 * b < 4 * count ? n - 4 * b : 4 * count;
        kernels_get()->draw_mask(words, limit, numbers, mask + 4 * b);
    }
}

static void compute(op_call *c) {
    if (is_identity(c->args)) return;
    const gw_tensor *x = arg_tensor(c->args, 0);
    double p = arg_number(c->args, 1);
    gw_dtype type = dtype_compute((gw_dtype)x->dtype);
    uint8_t *mask = (uint8_t *)tensor_bytes(c->outputs[1]);
    dense values;
    result out;
    if (!dense_open(c, x, type, &values)) return;
    if (result_open(c, 0, type, &out)) {
        draw_mask(c->scope->random, (uint64_t)((1 - p) * 0x1p32), mask, x->numel);
        // With p = 1 nothing is kept, and nothing to scale.
        double scale = p < 1 ? 1 / (1 - p) : 0;
        kernels_get()->apply_mask[kernel_type_of(type)](values.values, mask, scale, x->numel,
                                                        out.values);
        result_close(&out);
    }
    dense_close(&values);
}

static void grad(op_grad *g) {
    if (!g->wanted[0]) return;
    double p = arg_number(g->args, 1);
    gw_scope *s = g->scope;
    gw_tensor *d = g->d_outputs[0];
    if (!is_identity(g->args))
        d = gw_mul(s, gw_mul(s, d, g->outputs[1]), p < 1 ? 1 / (1 - p) : 0.0);
    g->d_inputs[0] = d;
}

const op op_dropout = {
    .name = "dropout",
    .params = "x:tensor p:float training:bool?=true",
    .infer = infer,
    .compute = compute,
    .grad = grad,
    .saves = OP_SAVE_OUT(1),
};

gw_tensor *gw_dropout_with(gw_scope *s, gw_tensor *x, gw_dropout_options options) {
    gw_value args[] = { gw_value_of(x), gw_value_of(options.p), gw_value_of(options.training) };
    return op_run(s, &op_dropout, args, 3, NULL);
}
