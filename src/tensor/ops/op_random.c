// Drawing from the scope's generator: bernoulli and multinomial.
#include <math.h>

#include "tensor/dense.h"
#include "tensor/dtype.h"
#include "tensor/kernels/kernels.h"
#include "tensor/ops/ops.h"
#include <gradwire/ops.h>

enum { CHUNK_BLOCKS = 256 };

// ---- bernoulli ----------------------------------------------------------------------------------
static void infer_bernoulli(op_call *c) {
    const gw_tensor *p = arg_tensor(c->args, 0);
    if (op_check_float(c, (gw_dtype)p->dtype)) op_output_like(c, p);
}

static bool check_probabilities(op_call *c, const double *p, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (p[i] >= 0 && p[i] <= 1) continue;
        op_fail(c, GW_INVALID, "the probability %g must be between 0 and 1", p[i]);
        return false;
    }
    return true;
}

// One word of the generator for each number, as in dropout.
static void draw(generator *g, const double *p, int64_t n, uint8_t *out) {
    uint32_t words[4 * CHUNK_BLOCKS];
    int64_t blocks = (n + 3) / 4;
    uint64_t first = generator_take(g, (uint64_t)blocks);
    for (int64_t b = 0; b < blocks; b += CHUNK_BLOCKS) {
        int64_t count = blocks - b < CHUNK_BLOCKS ? blocks - b : CHUNK_BLOCKS;
        kernels_get()->random_words(g->key, first + (uint64_t)b, count, words);
        for (int64_t i = 4 * b; i < n && i < 4 * (b + count); i++)
            out[i] = words[i - 4 * b] < p[i] * 0x1p32;
    }
}

static void compute_bernoulli(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    gw_tensor *y = c->outputs[0];
    dense p;
    block *drawn = NULL;
    if (dense_open(c, x, GW_F64, &p) && check_probabilities(c, p.values, x->numel) &&
        (drawn = scratch_open(c, x->numel, 1))) {
        draw(c->scope->random, p.values, x->numel, drawn->bytes);
        dtype_gather((gw_dtype)y->dtype, (uint8_t *)tensor_bytes(y), GW_U8, drawn->bytes, 1,
                     x->numel);
    }
    block_release(drawn);
    dense_close(&p);
}

// A draw does not change when a probability does, or all at once. 0, as in PyTorch.
static void grad_bernoulli(op_grad *g) {
    const gw_tensor *p = arg_tensor(g->args, 0);
    if (g->wanted[0]) g->d_inputs[0] = tensor_full_like(g->scope, p, 0);
}

const op op_bernoulli = {
    .name = "bernoulli",
    .params = "p:tensor",
    .infer = infer_bernoulli,
    .compute = compute_bernoulli,
    .grad = grad_bernoulli,
};

gw_tensor *(gw_bernoulli)(gw_scope *s, gw_tensor *p) {
    return op_run(s, &op_bernoulli, (const gw_value[]){ gw_value_of(p) }, 1, NULL);
}

// ---- multinomial --------------------------------------------------------------------------------
// p: C or N C, weights that need not add up to 1. out: samples, or N samples.
static bool with_replacement(const gw_value *args) {
    return arg_bool(args, 2);
}

static void infer_multinomial(op_call *c) {
    const gw_tensor *p = arg_tensor(c->args, 0);
    int64_t samples = arg_int(c->args, 1);
    if (!op_check_float(c, (gw_dtype)p->dtype)) return;
    if (p->dims < 1 || p->dims > 2) {
        op_fail(c, GW_INVALID, "probabilities are %s, but must have 1 or 2 dimensions",
                shape_text(p).text);
        return;
    }
    int64_t classes = p->sizes[p->dims - 1];
    if (samples <= 0) {
        op_fail(c, GW_INVALID, "samples is %lld, but must be 1 or more", (long long)samples);
    } else if (!with_replacement(c->args) && samples > classes) {
        op_fail(
            c, GW_INVALID,
            "samples is %lld, but must be at most %lld, the number of classes, without replacement",
            (long long)samples, (long long)classes);
    } else {
        int64_t sizes[] = { p->sizes[0], samples };
        op_output(c, GW_I64, p->dims, p->dims == 2 ? sizes : sizes + 1);
    }
}

// Checks a row of weights; returns their sum, or 0 with the call failed.
static double check_weights(op_call *c, const double *p, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!(p[i] >= 0) || p[i] == INFINITY) {
            op_fail(c, GW_INVALID, "the probability %g must not be negative, infinite or NaN",
                    p[i]);
            return 0;
        }
        sum += p[i];
    }
    if (sum > 0 && sum < INFINITY) return sum;
    op_fail(c, GW_INVALID, "the probabilities add up to %g, but must add up to more than 0", sum);
    return 0;
}

// In [0, 1), from 53 bits.
static double uniform(generator *g) {
    uint32_t words[4];
    philox(g->key, generator_take(g, 1), words);
    return (double)(((uint64_t)words[0] << 32 | words[1]) >> 11) * 0x1p-53;
}

// The class in whose part of [0, sum) the number |at| falls.
static int64_t class_at(const double *p, int64_t n, double at) {
    int64_t last = 0;
    double below = 0;
    for (int64_t i = 0; i < n; i++) {
        if (p[i] == 0) continue;
        below += p[i];
        last = i;
        if (at < below) break;
    }
    return last;
}

static void draw_with_replacement(generator *g, const double *p, int64_t n, double sum,
                                  double *sums, int64_t count, int64_t *out) {
    if (count == 1) {
        *out = class_at(p, n, uniform(g) * sum);
        return;
    }
    sums[0] = p[0];
    for (int64_t i = 1; i < n; i++) sums[i] = sums[i - 1] + p[i];
    for (int64_t k = 0; k < count; k++) {
        double at = uniform(g) * sum;
        int64_t low = 0, high = n - 1;  // the first whose running sum is above |at|
        while (low < high) {
            int64_t middle = low + (high - low) / 2;
            if (sums[middle] > at)
                high = middle;
            else
                low = middle + 1;
        }
        while (low > 0 && p[low] == 0) low--;  // rounding led past the last
        out[k] = low;
    }
}

// Where |time| belongs in the heap of |n| times, after its top has been taken away.
static int64_t sink(double *times, int64_t *classes, int64_t n, double time) {
    int64_t at = 0;
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child + 1 < n && times[child + 1] > times[child]) child++;
        if (child >= n || times[child] <= time) return at;
        times[at] = times[child];
        classes[at] = classes[child];
        at = child;
    }
}

// Each class waits for a time drawn from an exponential distribution with its weight; the |count| with the
// smallest times are the sample, in their order (Efraimidis, Spirakis 2006). |times|
// becomes a heap with the latest on top.
static void draw_without_replacement(generator *g, const double *p, int64_t n, double *times,
                                     int64_t count, int64_t *out) {
    int64_t held = 0;
    for (int64_t i = 0; i < n; i++) {
        double time = -log1p(-uniform(g)) / p[i];
        if (p[i] == 0) continue;
        int64_t at;
        if (held < count) {
            // Up from the end.
            for (at = held++; at > 0 && times[(at - 1) / 2] < time; at = (at - 1) / 2) {
                times[at] = times[(at - 1) / 2];
                out[at] = out[(at - 1) / 2];
            }
        } else if (time < times[0]) {
            at = sink(times, out, held, time);
        } else {
            continue;
        }
        times[at] = time;
        out[at] = i;
    }
    // The latest goes to the end, again and again.
    while (held > 1) {
        double time = times[--held];
        int64_t class = out[held];
        times[held] = times[0];
        out[held] = out[0];
        int64_t at = sink(times, out, held, time);
        times[at] = time;
        out[at] = class;
    }
}

static int64_t count_possible(const double *p, int64_t n) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) count += p[i] > 0;
    return count;
}

static void draw_row(op_call *c, const double *p, int64_t n, double *room, int64_t *out) {
    int64_t samples = arg_int(c->args, 1);
    double sum = check_weights(c, p, n);
    if (sum == 0) return;
    if (samples == 1 || with_replacement(c->args)) {
        draw_with_replacement(c->scope->random, p, n, sum, room, samples, out);
    } else if (count_possible(p, n) < samples) {
        op_fail(c, GW_INVALID,
                "samples is %lld, but must be at most %lld, the number of probabilities above 0, "
                "without replacement",
                (long long)samples, (long long)count_possible(p, n));
    } else {
        draw_without_replacement(c->scope->random, p, n, room, samples, out);
    }
}

static void compute_multinomial(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    int64_t n = x->sizes[x->dims - 1], samples = arg_int(c->args, 1);
    int64_t rows = x->dims == 2 ? x->sizes[0] : 1;
    int64_t *out = (int64_t *)tensor_bytes(c->outputs[0]);
    dense p;
    if (!dense_open(c, x, GW_F64, &p)) return;
    block *room = scratch_open(c, n > samples ? n : samples, sizeof(double));
    for (int64_t r = 0; room && r < rows && gw_ok(c->scope); r++)
        draw_row(c, (const double *)p.values + r * n, n, (double *)room->bytes, out + r * samples);
    block_release(room);
    dense_close(&p);
}

const op op_multinomial = {
    .name = "multinomial",
    .params = "p:tensor samples:int replacement:bool?=false",
    .infer = infer_multinomial,
    .compute = compute_multinomial,
};

gw_tensor *gw_multinomial_with(gw_scope *s, gw_tensor *p, int64_t samples,
                               gw_multinomial_options options) {
    gw_value args[] = { gw_value_of(p), gw_value_of(samples), gw_value_of(options.replacement) };
    return op_run(s, &op_multinomial, args, 3, NULL);
}
