// BatchNorm1d and BatchNorm2d.
#include "nn/init.h"

#include "tensor/tensor.h"

typedef struct batch_norm {
    int dims_min, dims_max;  // of the input
    double momentum, eps;    // as the operator takes them
    bool is_cumulative, is_tracking;
    batch_normalize *normalize;  // while it trains; NULL: the operator's
    batch_refuse *refuse;        // with |normalize|
} batch_norm;

enum { RUNNING_MEAN, RUNNING_VAR, BATCH_COUNT };  // buffers, if there are any

static gw_tensor *buffer(const gw_module *m, int i) {
    return m->buffers.items[i].is.buffer;
}

static bool check_input(gw_scope *s, const gw_module *m, const gw_tensor *x) {
    const batch_norm *b = m->settings;
    int dims = gw_dims(x);
    if (dims >= b->dims_min && dims <= b->dims_max) return true;
    if (b->dims_min == b->dims_max)
        scope_fail(s, GW_INVALID, "gw_nn_%s: the input has %d dimensions, but must have %d",
                   m->name, dims, b->dims_min);
    else
        scope_fail(s, GW_INVALID, "gw_nn_%s: the input has %d dimensions, but must have %d or %d",
                   m->name, dims, b->dims_min, b->dims_max);
    return false;
}

static void count_batch(gw_scope *s, gw_tensor *count) {
    gw_scope *t = scope_open_unrecorded(s);
    gw_copy_(t, count, gw_add(t, count, 1));
    gw_scope_close_up(t);
}

static bool uses_batch(const gw_module *m) {
    return m->training || !((const batch_norm *)m->settings)->is_tracking;
}

static void refuse(gw_scope *s, gw_module *m) {
    const batch_norm *b = m->settings;
    if (uses_batch(m) && b->refuse) b->refuse(s, m->kept);
}

static gw_tensor *forward_batch_norm(gw_scope *s, gw_module *m, gw_tensor *x) {
    const batch_norm *b = m->settings;
    if (!tensor_check(s, "gw_nn_batch_norm", x) || !check_input(s, m, x)) {
        refuse(s, m);
        return tensor_poison_of(s);
    }
    gw_batch_norm_options options = GW_OPTIONS(gw_batch_norm_options, .training = uses_batch(m),
                                               .momentum = b->momentum, .eps = b->eps);
    if (b->is_tracking) {
        options.running_mean = buffer(m, RUNNING_MEAN);
        options.running_var = buffer(m, RUNNING_VAR);
        if (b->is_cumulative) options.momentum = 1 / (gw_item(s, buffer(m, BATCH_COUNT)) + 1);
    }
    bool is_affine = m->parameters.count > 0;
    gw_tensor *weight = is_affine ? m->parameters.items[0].is.parameter : NULL;
    gw_tensor *bias = is_affine ? m->parameters.items[1].is.parameter : NULL;
    gw_tensor *y = options.training && b->normalize
                       ? b->normalize(s, x, weight, bias, options, m->kept)
                       : gw_batch_norm_with(s, x, weight, bias, options);
    if (gw_ok(s) && b->is_tracking && m->training) count_batch(s, buffer(m, BATCH_COUNT));
    return y;
}

bool module_is_batch_norm(const gw_module *m) {
    return m->forward == forward_batch_norm;
}

bool batch_norm_set_normalize(gw_module *m, batch_normalize *normalize, batch_refuse *refuse_batch,
                              gw_handle *context) {
    if (!module_is_batch_norm(m)) return false;
    batch_norm *b = m->settings;
    b->normalize = normalize;
    b->refuse = refuse_batch;
    m->refused = refuse;
    handle_retain(context);
    handle_release(m->kept);
    m->kept = context;
    return true;
}

static gw_module *open_batch_norm(gw_scope *s, const char *name, int dims_min, int dims_max,
                                  int64_t features, gw_nn_batch_norm_options options) {
    if (gw_ok(s) && features < 1)
        scope_fail(s, GW_INVALID, "gw_nn_%s: the number of features is %lld, but must be 1 or more",
                   name, (long long)features);
    batch_norm b = {
        .dims_min = dims_min,
        .dims_max = dims_max,
        .momentum = options.momentum,
        .eps = options.eps,
        .is_cumulative = options.cumulative,
        .is_tracking = options.track_running_stats,
    };
    gw_module *m = module_new_with(s, name, forward_batch_norm, &b, sizeof b);
    gw_shape shape = { 1, &features };
    if (options.affine) {
        init_full(s, m, "weight", options.dtype, shape, 1);
        init_full(s, m, "bias", options.dtype, shape, 0);
    }
    if (options.track_running_stats) {
        init_buffer(s, m, "running_mean", options.dtype, shape, 0);
        init_buffer(s, m, "running_var", options.dtype, shape, 1);
        init_buffer(s, m, "num_batches_tracked", GW_I64, GW_SHAPE(), 0);
    }
    return gw_ok(s) ? m : &module_poison;
}

gw_module *gw_nn_batch_norm1d_with(gw_scope *s, int64_t features,
                                   gw_nn_batch_norm_options options) {
    return open_batch_norm(s, "batch_norm1d", 2, 3, features, options);
}
gw_module *gw_nn_batch_norm2d_with(gw_scope *s, int64_t features,
                                   gw_nn_batch_norm_options options) {
    return open_batch_norm(s, "batch_norm2d", 4, 4, features, options);
}
