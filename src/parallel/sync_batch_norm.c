// Batch norm over the batches of all members: its sums are collectives, whose gradients are, too.
#include "base/value.h"
#include "collective/opening/opening.h"
#include "nn/module.h"
#include "tensor/tensor.h"

#include <gradwire/ops.h>
#include <gradwire/parallel.h>

#undef GW_ORIGIN
#define GW_ORIGIN "sync batch norm"  // of the calls in this file, in errors

// In the shape of a feature's numbers in x: 1 C 1 ...
static gw_tensor *broadcast_features(gw_scope *s, const gw_tensor *x, gw_tensor *features) {
    int64_t sizes[GW_DIMS_MAX];
    for (int i = 0; i < x->dims; i++) sizes[i] = 1;
    sizes[1] = x->sizes[1];
    return gw_reshape_with(s, features, (gw_shape){ x->dims, sizes });
}

// Over all dimensions but that of features. C.
static gw_tensor *sum_features(gw_scope *s, gw_tensor *x) {
    for (int dim = x->dims; dim-- > 2;) x = gw_sum(s, x, .dim = dim);
    return gw_sum(s, x, .dim = 0);
}

// How many numbers of a feature all members have.
static double count_all(gw_scope *s, gw_group *g, const gw_tensor *x) {
    gw_scope *t = gw_scope_open(s);
    int64_t own = x->sizes[1] ? x->numel / x->sizes[1] : 0;
    int64_t all = gw_item_int(t, gw_all_reduce(t, g, gw_full(t, GW_I64, own), GW_SUM));
    gw_scope_close_up(t);
    if (gw_ok(s) && all < 2)
        scope_fail(s, GW_INVALID,
                   "sync batch norm: all members together have %lld values of a feature, but need "
                   "at least 2",
                   (long long)all);
    return (double)all;
}

static void follow(gw_scope *s, gw_tensor *running, gw_tensor *value, double momentum) {
    if (!running || !gw_ok(s)) return;
    gw_scope *t = scope_open_unrecorded(s);
    gw_tensor *kept = gw_mul(t, running, 1 - momentum);
    gw_copy_(t, running, gw_add(t, kept, gw_mul(t, gw_detach(t, value), momentum)));
    gw_scope_close_up(t);
}

static gw_tensor *normalize(gw_scope *s, gw_tensor *x, gw_tensor *weight, gw_tensor *bias,
                            gw_batch_norm_options options, gw_handle *context) {
    gw_group *g = (gw_group *)(void *)context;
    double count = count_all(s, g, x);
    if (!gw_ok(s)) return tensor_poison_of(s);
    gw_tensor *mean = gw_div(s, gw_all_reduce(s, g, sum_features(s, x), GW_SUM), count);
    gw_tensor *d = gw_sub(s, x, broadcast_features(s, x, mean));
    gw_tensor *squares = gw_all_reduce(s, g, sum_features(s, gw_mul(s, d, d)), GW_SUM);
    gw_tensor *scale = gw_rsqrt(s, gw_add(s, gw_div(s, squares, count), options.eps));
    follow(s, options.running_mean, mean, options.momentum);
    follow(s, options.running_var, gw_div(s, squares, count - 1), options.momentum);
    if (weight) scale = gw_mul(s, scale, weight);
    gw_tensor *y = gw_mul(s, d, broadcast_features(s, x, scale));
    return bias ? gw_add(s, y, broadcast_features(s, x, bias)) : y;
}

// The others fail in the first sum of this forward.
static void refuse(gw_scope *s, gw_handle *context) {
    gw_scope *t = gw_scope_open(s);
    gw_all_reduce(t, (gw_group *)(void *)context, NULL, GW_SUM);
    gw_scope_close_up(t);
}

static bool count_one(void *context, const module_path *where, gw_module *m) {
    (void)where;
    *(int *)context += module_is_batch_norm(m);
    return true;
}

static bool convert(void *context, const module_path *where, gw_module *m) {
    (void)where;
    batch_norm_set_normalize(m, normalize, refuse, context);
    return true;
}

static gw_list *describe(gw_scope *s, gw_module *model) {
    gw_list *all = gw_list_open(s);
    int count = 0;
    module_each(model, NULL, count_one, &count);
    gw_list_add(s, all, gw_format(s, "%d batch norms", count));
    return all;
}

void gw_sync_batch_norm_convert(gw_scope *s, gw_module *model, gw_group *g) {
    if (!gw_ok(s) || !module_is_usable(s, "gw_sync_batch_norm_convert", model)) {
        group_open_own_failed(s, g);
        return;
    }
    gw_scope *t = gw_scope_open(s);
    opening how = { .function = "gw_sync_batch_norm_convert",
                    .of = gw_module_name(model),
                    .options = describe(t, model) };
    gw_group *own = group_open_own(t, t, g, &how);
    if (gw_ok(t)) group_allow_shadows(own);
    if (gw_ok(t)) module_each(model, NULL, convert, own);
    gw_scope_close_up(t);
}
