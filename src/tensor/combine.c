#include "tensor/combine.h"

#include "base/limits.h"
#include "base/mem.h"
#include "tensor/dtype.h"
#include "tensor/kernels/loops.h"

#include <assert.h>
#include <string.h>

// A block of all vectors is combined before the next one, so that the intermediate sums
// stay in the first cache. Blocks of that size are not on the stack, which may be small; those
// of few numbers are, and all of them without memory. The bits are the same.
enum { BLOCK_BYTES = 4096, BLOCK_BYTES_SMALL = 256, LEVELS = 14 };

_Static_assert(1 << (LEVELS - 1) >= LIMIT_WORKERS,
               "a tree over a vector of each worker is too high");

// The tree of additions over one block of all vectors.
typedef struct tree {
    const combine_request *request;
    gw_dtype from, as, to;  // of the vectors, of the arithmetic, of the result
    double factor, divisor;
    ew_kernel *join;
    int paired;  // the largest power of two that is not above the count of vectors

    uint64_t first;  // the block
    int64_t count;

    // Room for a block each.
    uint8_t *leaves[2], *wide;
    uint8_t *nodes[LEVELS][2];
} tree;

static loop loop_of(combine_op op) {
    switch (op) {
    case COMBINE_PRODUCT: return LOOP_MUL;
    case COMBINE_MIN: return LOOP_MINIMUM;
    case COMBINE_MAX: return LOOP_MAXIMUM;
    case COMBINE_BAND: return LOOP_BITWISE_AND;
    case COMBINE_BOR: return LOOP_BITWISE_OR;
    case COMBINE_BXOR: return LOOP_BITWISE_XOR;
    default: return LOOP_ADD;
    }
}

bool combine_is_supported(combine_op op, gw_dtype dtype) {
    bool is_bits = op == COMBINE_BAND || op == COMBINE_BOR || op == COMBINE_BXOR;
    if (dtype == GW_BOOL8) return is_bits || op == COMBINE_MIN || op == COMBINE_MAX;
    if (dtype_is_float(dtype)) return !is_bits;
    return op != COMBINE_AVG;
}

gw_dtype combine_partial_dtype(gw_dtype dtype) {
    return dtype_compute(dtype);
}

// A number of the arithmetic's type, for loops that take one for a whole row.
typedef union scalar {
    float f32;
    double f64;
    int64_t i64;
    int32_t i32;
} scalar;

static void run_with(loop l, gw_dtype as, const void *x, double number, void *out, int64_t n) {
    scalar s;
    dtype_write(as, &s, number);
    ew_row r = { .out = out, .in = { x, &s }, .step = { 1, 0 }, .n = n };
    loop_for(l, as)(&r);
}

// The numbers of vector |i| in the arithmetic's type: the vector itself, or |to|.
static const void *leaf(tree *t, int i, void *to) {
    const uint8_t *x = (const uint8_t *)t->request->from[i] + t->first * gw_dtype_size(t->from);
    if (t->from == t->as && t->factor == 1) return x;
    if (t->factor == 1) {
        dtype_convert(t->as, to, 1, t->from, x, 1, t->count);
        return to;
    }
    if (t->from != t->as) dtype_convert(t->as, t->wide, 1, t->from, x, 1, t->count);
    run_with(LOOP_MUL, t->as, t->from == t->as ? x : t->wide, t->factor, to, t->count);
    return to;
}

static const void *join(tree *t, const void *a, const void *b, void *to) {
    ew_row r = { .out = to, .in = { a, b }, .step = { 1, 1 }, .n = t->count };
    t->join(&r);
    return to;
}

// The value of subtree |i| of those over 2^|level| vectors of the first |paired|: in |to|, or a
// vector itself.
static const void *node(tree *t, int level, int i, void *to) {
    if (level > 0) {
        const void *a = node(t, level - 1, 2 * i, t->nodes[level - 1][0]);
        const void *b = node(t, level - 1, 2 * i + 1, t->nodes[level - 1][1]);
        return join(t, a, b, to);
    }
    if (i + t->paired >= t->request->count) return leaf(t, i, to);
    const void *a = leaf(t, i, t->leaves[0]);
    const void *b = leaf(t, i + t->paired, t->leaves[1]);
    return join(t, a, b, to);
}

static void run_block(tree *t, int levels, void *out, bool is_apart) {
    bool is_direct = is_apart && t->as == t->to;
    bool divides = t->divisor != 1;
    uint8_t *top = t->nodes[levels][0], *quotients = t->nodes[levels][1];
    const void *value = node(t, levels, 0, is_direct && !divides ? out : top);
    if (divides) {
        uint8_t *to = is_direct ? out : quotients;
        run_with(LOOP_DIV, t->as, value, t->divisor, to, t->count);
        value = to;
    }
    if (value != out) dtype_convert(t->to, out, 1, t->as, value, 1, t->count);
}

static int count_rooms(int levels) {
    return 3 + 2 * (levels + 1);
}

static void share_out(tree *t, int levels, uint8_t *room, size_t block_bytes) {
    uint8_t **places[] = { &t->leaves[0], &t->leaves[1], &t->wide };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++, room += block_bytes)
        *places[i] = room;
    for (int level = 0; level <= levels; level++)
        for (int k = 0; k < 2; k++, room += block_bytes) t->nodes[level][k] = room;
}

static void run_blocks(tree *t, int levels, size_t block_bytes) {
    const combine_request *c = t->request;
    bool is_apart = true;
    for (int i = 0; i < c->count; i++) is_apart = is_apart && c->out != c->from[i];
    uint64_t step = block_bytes / gw_dtype_size(t->as);
    for (t->first = 0; t->first < c->numbers; t->first += step) {
        uint64_t left = c->numbers - t->first;
        t->count = (int64_t)(left < step ? left : step);
        uint8_t *out = (uint8_t *)c->out + t->first * gw_dtype_size(t->to);
        run_block(t, levels, out, is_apart);
    }
}

// On the stack.
static void run_small(tree *t, int levels) {
    _Alignas(64) uint8_t room[(3 + 2 * LEVELS) * BLOCK_BYTES_SMALL];
    share_out(t, levels, room, BLOCK_BYTES_SMALL);
    run_blocks(t, levels, BLOCK_BYTES_SMALL);
}

static bool run_large(tree *t, int levels) {
    enum { ALIGNMENT = 64 };
    uint8_t *room = mem_alloc((size_t)count_rooms(levels) * BLOCK_BYTES + ALIGNMENT);
    if (!room) return false;
    size_t past = (uintptr_t)room % ALIGNMENT;
    share_out(t, levels, room + (ALIGNMENT - past) % ALIGNMENT, BLOCK_BYTES);
    run_blocks(t, levels, BLOCK_BYTES);
    mem_free(room);
    return true;
}

static void run(const combine_request *c, gw_dtype from, gw_dtype to, double factor,
                double divisor) {
    assert(c->count >= 1 && c->count <= 2 * LIMIT_WORKERS - 1 &&
           combine_is_supported(c->op, c->dtype));
    tree t;
    t.request = c;
    t.from = from;
    t.as = ew_dtype(c->dtype);
    t.to = to;
    t.factor = factor;
    t.divisor = divisor;
    t.join = loop_for(loop_of(c->op), t.as);
    int levels = 0;
    while (2 << levels <= c->count) levels++;
    t.paired = 1 << levels;

    bool is_small = c->numbers * gw_dtype_size(t.as) <= BLOCK_BYTES_SMALL;
    if (is_small || !run_large(&t, levels)) run_small(&t, levels);
}

static double factor_of(const combine_request *c) {
    return c->dtype == GW_BOOL8 ? 1 : c->factor;
}

static double divisor_of(const combine_request *c) {
    return c->op == COMBINE_AVG ? c->divisor : 1;
}

void combine(const combine_request *c) {
    run(c, c->dtype, c->dtype, factor_of(c), divisor_of(c));
}

void combine_begin(const combine_request *c) {
    run(c, c->dtype, combine_partial_dtype(c->dtype), factor_of(c), 1);
}

void combine_partial(const combine_request *c, bool ends) {
    gw_dtype partial = combine_partial_dtype(c->dtype);
    run(c, partial, ends ? c->dtype : partial, 1, ends ? divisor_of(c) : 1);
}
