// Tables of rows that are read by index: torch.nn.Embedding.
#include "nn/init.h"

#include "tensor/tensor.h"

#include <math.h>

typedef struct embedding {
    gw_embedding_options options;
    double max_norm, norm_type;
} embedding;

// ---- Shortening rows ----------------------------------------------------------------------------
static double norm_of(const double *row, int64_t features, double p) {
    double sum = 0;
    for (int64_t i = 0; i < features; i++)
        sum = isinf(p) ? fmax(sum, fabs(row[i])) : sum + pow(fabs(row[i]), p);
    return isinf(p) ? sum : pow(sum, 1 / p);
}

// One row of |table|, in doubles: reads it, or writes it back.
static void move_row(void *table, gw_dtype dtype, int64_t at, double *row, int64_t features,
                     bool back) {
    for (int64_t i = 0; i < features; i++) {
        double *wide = (double *)table + at + i;
        float *narrow = (float *)table + at + i;
        if (dtype == GW_F64)
            *(back ? wide : &row[i]) = back ? row[i] : *wide;
        else if (back)
            *narrow = (float)row[i];
        else
            row[i] = *narrow;
    }
}

static void shorten(const embedding *e, void *table, gw_dtype dtype, int64_t index, double *row,
                    int64_t features) {
    move_row(table, dtype, index * features, row, features, false);
    double norm = norm_of(row, features, e->norm_type);
    if (!(norm > e->max_norm)) return;
    // As PyTorch has it: a little shorter, so that it is not shortened again.
    for (int64_t i = 0; i < features; i++) row[i] *= e->max_norm / (norm + 1e-7);
    move_row(table, dtype, index * features, row, features, true);
}

// Shortens the rows of |indices|. Invalid indices are refused by gw_embedding.
static void shorten_rows(gw_scope *s, const embedding *e, gw_tensor *table, gw_tensor *indices) {
    gw_scope *t = scope_open_unrecorded(s);
    int64_t features = gw_size(table, 1), rows = gw_size(table, 0), count = gw_numel(indices);
    const int64_t *at = gw_data(gw_contiguous(t, gw_to_dtype(t, indices, GW_I64)));
    void *numbers = gw_data_for_write(t, table);
    double *row = gw_alloc(t, (size_t)features * sizeof *row);
    for (int64_t i = 0; gw_ok(t) && at && i < count; i++)
        if (at[i] >= 0 && at[i] < rows)
            shorten(e, numbers, gw_dtype_of(table), at[i], row, features);
    gw_scope_close_up(t);
}

// ---- The layer ----------------------------------------------------------------------------------
static gw_tensor *forward_embedding(gw_scope *s, gw_module *m, gw_tensor *x) {
    const embedding *e = m->settings;
    gw_tensor *table = m->parameters.items[0].is.parameter;
    bool are_indices = gw_ok(s) && (gw_dtype_of(x) == GW_I64 || gw_dtype_of(x) == GW_I32);
    if (e->max_norm > 0 && are_indices) shorten_rows(s, e, table, x);
    return gw_embedding_with(s, table, x, e->options);
}

static bool check(gw_scope *s, gw_nn_embedding_options o) {
    if (gw_ok(s) && !(o.max_norm >= 0 && o.norm_type > 0))
        scope_fail(s, GW_INVALID,
                   "gw_nn_embedding: max_norm is %g and norm_type is %g, but max_norm must not be "
                   "negative, and norm_type must be above 0",
                   o.max_norm, o.norm_type);
    if (gw_ok(s) && o.max_norm > 0 && o.dtype != GW_F32 && o.dtype != GW_F64)
        scope_fail(s, GW_INVALID,
                   "gw_nn_embedding: max_norm can be used with f32 and f64, not with %s",
                   gw_dtype_name(o.dtype));
    return gw_ok(s);
}

gw_module *gw_nn_embedding_with(gw_scope *s, int64_t count, int64_t features,
                                gw_nn_embedding_options options) {
    if (!check(s, options)) return &module_poison;
    embedding e = { .options = GW_OPTIONS(gw_embedding_options, .sparse = options.sparse,
                                          .padding_idx = options.padding_idx),
                    .max_norm = options.max_norm,
                    .norm_type = options.norm_type };
    gw_module *m = module_new_with(s, "embedding", forward_embedding, &e, sizeof e);
    init_table(s, m, "gw_nn_embedding", count, features, &options);
    return gw_ok(s) ? m : &module_poison;
}

bool embedding_is_sparse(const gw_module *m) {
    if (m->typed == &typed_embedding_bag) return embedding_bag_is_sparse(m);
    return m->forward == forward_embedding && ((const embedding *)m->settings)->options.sparse;
}
