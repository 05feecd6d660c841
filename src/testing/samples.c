#include "testing/samples.h"

#include "base/random.h"
#include "tensor/dtype.h"
#include "testing/testing.h"

// A number in [0, 1).
static double draw(op_sampler *p) {
    uint32_t words[4];
    philox(p->seed, p->drawn++, words);
    return words[0] * 0x1p-32;
}

gw_tensor *sample_shaped(op_sampler *p, gw_dtype dtype, double low, double high, gw_shape shape) {
    gw_tensor *x = scope_own(p->scope, tensor_new(p->scope, dtype, shape.count, shape.sizes));
    if (!x) return tensor_poison_of(p->scope);
    uint8_t *bytes = x->storage->block->bytes;
    int64_t n = x->numel;
    // As many equal parts as numbers, one number inside each; then shuffled (Fisher, Yates).
    for (int64_t i = 0; i < n; i++) {
        double part = (double)i + 0.2 + 0.6 * draw(p);
        double value = low + (high - low) * part / (double)n;
        if (!dtype_is_float(dtype)) value = __builtin_floor(value);
        dtype_write(dtype, bytes + (size_t)i * gw_dtype_size(dtype), value);
    }
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t k = (int64_t)(draw(p) * (double)(i + 1));
        size_t size = gw_dtype_size(dtype);
        uint8_t *a = bytes + (size_t)i * size, *b = bytes + (size_t)k * size, kept[8];
        memcpy(kept, a, size);
        memmove(a, b, size);
        memcpy(b, kept, size);
    }
    return x;
}

gw_value sample_list_of(op_sampler *p, const gw_value *items, int count) {
    gw_list *list = gw_list_open(p->scope);
    for (int i = 0; i < count; i++) gw_list_add_with(p->scope, list, items[i]);
    return gw_value_of_list(list);
}

void sample_run(op_sampler *p, const gw_value *args, int arg_count) {
    if (p->scope->error) return;
    p->call_count++;
    p->run(p, args, arg_count);
}

void samples_make(op_sampler *p) {
    const sample_row *const tables[] = { samples_of_operands, samples_of_shapes,
                                         samples_of_reductions, samples_of_indices,
                                         samples_of_layers };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        for (const sample_row *row = tables[i]; row->op; row++) {
            if (row->op != p->op) continue;
            row->make(p);
            return;
        }
    }
    fail_msg("gw.%s has no samples", p->op->name);
}
