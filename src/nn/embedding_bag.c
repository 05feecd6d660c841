// Bags of rows of a table, each summed up: torch.nn.EmbeddingBag.
//
// N indices in B bags, of which the longest has L, F features. Bags are laid out as B by L. A position
// behind the end of a bag repeats an index of the bag, so that no other row gets a gradient, and
// its value is 0.
#include "nn/init.h"

#include "tensor/ops/op.h"
#include "tensor/pack.h"
#include <gradwire/autograd.h>

#include <math.h>

typedef struct embedding_bag {
    gw_nn_embedding_bag_options options;
    int64_t count;
} embedding_bag;

typedef struct bags {
    const int64_t *index;  // N
    int64_t n, count, longest;
    const int64_t *starts;  // B; NULL: all are |longest|
    int64_t end;            // of the last
    int64_t some;           // an index that counts, for bags that have none; -1: nothing counts
    bool any_dead, any_empty;
    gw_tensor *rows, *indices;  // B L: of the table, and among the indices
    gw_tensor *live, *lengths;  // B L and B, in the table's dtype
} bags;

static void fail(gw_scope *s, const char *text) {
    scope_fail(s, GW_INVALID, "gw_nn_embedding_bag: %s", text);
}

// ---- Positions ---------------------------------------------------------------------
static int64_t start_of(const bags *b, int64_t i) {
    if (!b->starts) return i * b->longest;
    return i < b->count ? b->starts[i] : b->end;
}

// |x| as bags are laid out by: on the CPU.
static gw_tensor *as_index(gw_scope *s, gw_tensor *x) {
    return gw_contiguous(s, gw_to_dtype(s, tensor_to_device(s, x, GW_CPU), GW_I64));
}

static bool take_offsets(gw_scope *s, const embedding_bag *e, gw_tensor *offsets, bags *b) {
    bool has_end = e->options.include_last_offset;
    offsets = as_index(s, offsets);
    if (!gw_ok(s)) return false;
    int64_t count = gw_numel(offsets);
    if (gw_dims(offsets) != 1 || (has_end && count == 0)) {
        fail(s, "offsets must have one dimension, and one more than bags with include_last_offset");
        return false;
    }
    b->starts = gw_data(offsets);
    b->count = has_end ? count - 1 : count;
    b->end = has_end ? b->starts[count - 1] : b->n;
    if (b->end > b->n) {
        fail(s, "the last offset is beyond the indices");
        return false;
    }
    for (int64_t i = 0; i < b->count; i++) {
        int64_t start = b->starts[i], end = start_of(b, i + 1);
        if (start < 0 || end < start || (i == 0 && start != 0)) {
            fail(s, "offsets must begin with 0 and must not descend");
            return false;
        }
        if (end - start > b->longest) b->longest = end - start;
    }
    return true;
}

static bool take_index(gw_scope *s, const embedding_bag *e, gw_tensor *index, gw_tensor *offsets,
                       bags *b) {
    if (gw_dims(index) != (offsets ? 1 : 2)) {
        fail(s, "indices must have the shape B L, or N if offsets are given");
        return false;
    }
    gw_tensor *flat = as_index(s, index);
    if (!gw_ok(s)) return false;
    b->index = gw_data(flat);
    b->n = gw_numel(flat);
    if (offsets) return take_offsets(s, e, offsets, b);
    b->count = gw_size(index, 0);
    b->longest = gw_size(index, 1);
    return true;
}

static bool is_live(const embedding_bag *e, int64_t index) {
    const gw_nn_embedding_bag_options *o = &e->options;
    return o->padding_idx == GW_NOT_GIVEN ||
           index != (o->padding_idx < 0 ? o->padding_idx + e->count : o->padding_idx);
}

static void find_some(const embedding_bag *e, bags *b) {
    int64_t end = b->starts ? b->end : b->n;
    b->some = -1;
    for (int64_t k = 0; k < end && b->some < 0; k++)
        if (is_live(e, b->index[k])) b->some = b->index[k];
}

// Fills the positions of bag |i|; returns how many count.
static int64_t fill_bag(const embedding_bag *e, bags *b, int64_t i, int64_t *rows, int64_t *indices,
                        bool *live) {
    int64_t start = start_of(b, i), length = start_of(b, i + 1) - start, count = 0, some = b->some;
    for (int64_t k = 0; k < length; k++) {
        live[k] = is_live(e, b->index[start + k]);
        if (live[k] && !count++) some = b->index[start + k];
    }
    for (int64_t k = 0; k < b->longest; k++) {
        live[k] = k < length && live[k];
        rows[k] = live[k] ? b->index[start + k] : some;
        indices[k] = k < length ? start + k : 0;
        b->any_dead |= !live[k];
    }
    b->any_empty |= count == 0;
    return count;
}

static bool lay_out(gw_scope *s, const embedding_bag *e, const gw_tensor *table, bags *b) {
    gw_tensor *live = gw_zeros(s, GW_BOOL8, b->count, b->longest);
    gw_tensor *lengths = gw_zeros(s, GW_I64, b->count);
    b->rows = gw_zeros(s, GW_I64, b->count, b->longest);
    b->indices = gw_zeros(s, GW_I64, b->count, b->longest);
    int64_t *rows = gw_data_for_write(s, b->rows), *indices = gw_data_for_write(s, b->indices);
    int64_t *length = gw_data_for_write(s, lengths);
    bool *alive = gw_data_for_write(s, live);
    if (!gw_ok(s)) return false;
    for (int64_t i = 0; i < b->count; i++) {
        int64_t at = i * b->longest;
        length[i] = fill_bag(e, b, i, rows + at, indices + at, alive + at);
    }
    gw_device device = gw_device_of(table);
    b->rows = tensor_to_device(s, b->rows, device);
    b->indices = tensor_to_device(s, b->indices, device);
    b->live = tensor_to_device(s, live, device);
    b->lengths = tensor_to_device(s, gw_to_dtype(s, lengths, gw_dtype_of(table)), device);
    return gw_ok(s);
}

// ---- Summing up ---------------------------------------------------------------------------------
static gw_tensor *largest(gw_scope *s, const bags *b, gw_tensor *x) {
    if (b->any_dead) x = gw_where(s, gw_unsqueeze(s, b->live, -1), x, -(double)INFINITY);
    x = gw_max(s, x, .dim = 1);
    if (!b->any_empty) return x;
    return gw_where(s, gw_gt(s, gw_unsqueeze(s, b->lengths, -1), 0), x, 0.0);
}

static gw_tensor *sum_up(gw_scope *s, const embedding_bag *e, const bags *b, gw_tensor *x,
                         gw_tensor *weights) {
    if (e->options.mode == GW_BAG_MAX) return largest(s, b, x);
    if (b->any_dead) x = gw_where(s, gw_unsqueeze(s, b->live, -1), x, 0.0);
    if (weights) {
        gw_tensor *flat = gw_reshape(s, weights, -1);
        gw_tensor *own = gw_index_select(s, flat, 0, gw_reshape(s, b->indices, -1));
        own = gw_reshape(s, own, b->count, b->longest);
        x = gw_mul(s, x, gw_unsqueeze(s, own, -1));
    }
    x = gw_sum(s, x, .dim = 1);
    if (e->options.mode == GW_BAG_SUM) return x;
    return gw_div(s, x, gw_unsqueeze(s, gw_maximum(s, b->lengths, 1.0), -1));
}

// Zeros of which no row of the table gets a gradient.
static gw_tensor *nothing(gw_scope *s, const embedding_bag *e, gw_tensor *table, const bags *b) {
    gw_tensor *no_index = tensor_to_device(s, gw_zeros(s, GW_I64, 0), gw_device_of(table));
    gw_tensor *none = gw_embedding(s, table, no_index, .sparse = e->options.sparse);
    return gw_expand(s, gw_sum(s, none, .dim = 0, .keepdim = true), b->count, gw_size(table, 1));
}

static bool check_weights(gw_scope *s, const embedding_bag *e, const gw_tensor *index,
                          const gw_tensor *weights) {
    if (!weights) return true;
    if (e->options.mode != GW_BAG_SUM)
        fail(s, "per_sample_weights can be used only with GW_BAG_SUM");
    else if (gw_dims(weights) != gw_dims(index) || gw_numel(weights) != gw_numel(index) ||
             gw_size(weights, 0) != gw_size(index, 0))
        fail(s, "there must be one weight for each index");
    return gw_ok(s);
}

static gw_tensor *run(gw_scope *s, gw_module *m, gw_tensor *index, gw_tensor *offsets,
                      gw_tensor *weights) {
    const embedding_bag *e = m->settings;
    gw_tensor *table = m->parameters.items[0].is.parameter;
    if (!tensor_check(s, "gw_nn_embedding_bag", index)) return tensor_poison_of(s);
    bags b = { 0 };
    if (!check_weights(s, e, index, weights) || !take_index(s, e, index, offsets, &b))
        return tensor_poison_of(s);
    find_some(e, &b);
    if (b.some < 0) return nothing(s, e, table, &b);
    if (!lay_out(s, e, table, &b)) return tensor_poison_of(s);
    gw_tensor *x = gw_embedding(s, table, b.rows, .sparse = e->options.sparse);
    return sum_up(s, e, &b, x, weights);
}

// in: indices, offsets, per_sample_weights.
static gw_value forward(gw_scope *s, gw_module *m, const gw_args *a) {
    gw_tensor *offsets = gw_arg_tensor_or_null(s, a, 1), *weights = gw_arg_tensor_or_null(s, a, 2);
    return gw_value_of(run(s, m, gw_arg_tensor(s, a, 0), offsets, weights));
}

const typed_call typed_embedding_bag = {
    .name = "embedding_bag", .inputs = 3, .outputs = 1, .forward = forward
};

gw_tensor *gw_nn_embedding_bag_call_with(gw_scope *s, gw_module *m, gw_tensor *indices,
                                         gw_embedding_bag_call_options options) {
    gw_value in[] = { gw_value_of(indices), gw_value_of(options.offsets),
                      gw_value_of(options.per_sample_weights) };
    gw_tensor *out[1];
    module_call_typed(s, m, &typed_embedding_bag, in, out);
    return out[0];
}

gw_module *gw_nn_embedding_bag_with(gw_scope *s, int64_t count, int64_t features,
                                    gw_nn_embedding_bag_options options) {
    embedding_bag e = { .options = options, .count = count };
    gw_nn_embedding_options rows = GW_OPTIONS(
        gw_nn_embedding_options, .padding_idx = options.padding_idx, .dtype = options.dtype);
    gw_module *m = module_new_typed(s, &typed_embedding_bag, &e, sizeof e);
    init_table(s, m, "gw_nn_embedding_bag", count, features, &rows);
    return gw_ok(s) ? m : &module_poison;
}

bool embedding_bag_is_sparse(const gw_module *m) {
    return ((const embedding_bag *)m->settings)->options.sparse;
}
