#include "nn/init.h"

void init_uniform(gw_scope *s, gw_module *m, const char *name, gw_dtype dtype, gw_shape shape,
                  double bound) {
    gw_scope *t = scope_open_unrecorded(s);
    gw_tensor *x = gw_rand_with(t, dtype, shape);
    gw_module_register_parameter(t, m, name, gw_sub(t, gw_mul(t, x, 2 * bound), bound));
    gw_scope_close_up(t);
}

void init_full(gw_scope *s, gw_module *m, const char *name, gw_dtype dtype, gw_shape shape,
               double value) {
    gw_scope *t = gw_scope_open(s);
    gw_module_register_parameter(t, m, name, gw_full_with(t, dtype, gw_value_of(value), shape));
    gw_scope_close_up(t);
}

int64_t init_length(gw_scope *s, const char *maker, int64_t count, int64_t size) {
    int64_t length;
    if (!__builtin_mul_overflow(count, size, &length)) return length;
    scope_fail(s, GW_LIMIT, "%s: a tensor of %lld by %lld numbers is too large", maker,
               (long long)count, (long long)size);
    return 0;
}

void init_buffer(gw_scope *s, gw_module *m, const char *name, gw_dtype dtype, gw_shape shape,
                 double value) {
    gw_scope *t = gw_scope_open(s);
    gw_module_register_buffer(t, m, name, gw_full_with(t, dtype, gw_value_of(value), shape));
    gw_scope_close_up(t);
}

static bool check_table(gw_scope *s, const char *maker, int64_t count, int64_t features,
                        const gw_nn_embedding_options *o) {
    if (!gw_ok(s)) return false;
    if (count < 1 || features < 1)
        scope_fail(s, GW_INVALID, "%s: %lld rows of %lld features: both numbers must be 1 or more",
                   maker, (long long)count, (long long)features);
    else if (o->padding_idx != GW_NOT_GIVEN && (o->padding_idx < -count || o->padding_idx >= count))
        scope_fail(s, GW_INVALID, "%s: padding_idx %lld out of range for %lld rows", maker,
                   (long long)o->padding_idx, (long long)count);
    return gw_ok(s);
}

void init_table(gw_scope *s, gw_module *m, const char *maker, int64_t count, int64_t features,
                const gw_nn_embedding_options *options) {
    if (!check_table(s, maker, count, features, options)) return;
    gw_scope *t = scope_open_unrecorded(s);
    gw_tensor *table = gw_randn_with(t, options->dtype, GW_SHAPE(count, features));
    if (options->padding_idx != GW_NOT_GIVEN)
        gw_copy_(t, gw_select(t, table, 0, options->padding_idx), gw_full(t, options->dtype, 0));
    gw_module_register_parameter(t, m, "weight", table);
    gw_scope_close_up(t);
}
