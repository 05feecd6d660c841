// Convolutions and pools.
#include "nn/init.h"

#include "tensor/tensor.h"

#include <math.h>

// ---- Convolutions -------------------------------------------------------------------------------
static gw_tensor *own_bias(const gw_module *m) {
    return m->parameters.count > 1 ? m->parameters.items[1].is.parameter : NULL;
}

static gw_tensor *forward_conv1d(gw_scope *s, gw_module *m, gw_tensor *x) {
    const gw_conv_options *o = m->settings;
    return gw_conv1d_with(s, x, m->parameters.items[0].is.parameter, own_bias(m), *o);
}

static gw_tensor *forward_conv2d(gw_scope *s, gw_module *m, gw_tensor *x) {
    const gw_conv_options *o = m->settings;
    return gw_conv2d_with(s, x, m->parameters.items[0].is.parameter, own_bias(m), *o);
}

static bool check_conv(gw_scope *s, const char *name, int dims, int64_t in, int64_t out,
                       int64_t groups, const int64_t kernel[2]) {
    if (!gw_ok(s)) return false;
    if (in < 1 || out < 1)
        scope_fail(s, GW_INVALID, "gw_nn_%s: from %lld to %lld channels", name, (long long)in,
                   (long long)out);
    else if (groups < 1 || in % groups || out % groups)
        scope_fail(s, GW_INVALID, "gw_nn_%s: from %lld to %lld channels in %lld groups", name,
                   (long long)in, (long long)out, (long long)groups);
    else if (kernel[0] < 1 || kernel[dims - 1] < 1)
        scope_fail(s, GW_INVALID, "gw_nn_%s: a kernel of %lld", name,
                   (long long)(kernel[0] < 1 ? kernel[0] : kernel[1]));
    return gw_ok(s);
}

static gw_module *open_conv(gw_scope *s, int dims, int64_t in, int64_t out,
                            gw_nn_conv_options options) {
    const char *name = dims == 1 ? "conv1d" : "conv2d";
    int64_t groups = options.groups;
    if (!check_conv(s, name, dims, in, out, groups, options.kernel)) return &module_poison;
    gw_conv_options o =
        GW_OPTIONS(gw_conv_options, .stride = { options.stride[0], options.stride[1] },
                   .padding = { options.padding[0], options.padding[1] },
                   .dilation = { options.dilation[0], options.dilation[1] }, .groups = groups);
    gw_module *m =
        module_new_with(s, name, dims == 1 ? forward_conv1d : forward_conv2d, &o, sizeof o);
    int64_t sizes[] = { out, in / groups, options.kernel[0], options.kernel[1] };
    double fan_in = (double)sizes[1] * (double)sizes[2] * (dims == 2 ? (double)sizes[3] : 1);
    double bound = 1 / sqrt(fan_in);
    init_uniform(s, m, "weight", options.dtype, (gw_shape){ dims + 2, sizes }, bound);
    if (options.bias) init_uniform(s, m, "bias", options.dtype, GW_SHAPE(out), bound);
    return gw_ok(s) ? m : &module_poison;
}

gw_module *gw_nn_conv1d_with(gw_scope *s, int64_t in, int64_t out, gw_nn_conv_options options) {
    return open_conv(s, 1, in, out, options);
}
gw_module *gw_nn_conv2d_with(gw_scope *s, int64_t in, int64_t out, gw_nn_conv_options options) {
    return open_conv(s, 2, in, out, options);
}

// ---- Pools --------------------------------------------------------------------------------------
// Layers that are one operator with options.
#define POOL(name)                                                                                 \
    static gw_tensor *forward_##name(gw_scope *s, gw_module *m, gw_tensor *x) {                    \
        return gw_##name##_with(s, x, *(const gw_pool_options *)m->settings);                      \
    }                                                                                              \
    gw_module *gw_nn_##name##_with(gw_scope *s, gw_pool_options options) {                         \
        return module_new_with(s, #name, forward_##name, &options, sizeof options);                \
    }
POOL(max_pool1d)
POOL(max_pool2d)
POOL(avg_pool1d)
POOL(avg_pool2d)

static gw_tensor *forward_adaptive_avg_pool1d(gw_scope *s, gw_module *m, gw_tensor *x) {
    return gw_adaptive_avg_pool1d(s, x, *(const int64_t *)m->settings);
}
gw_module *gw_nn_adaptive_avg_pool1d(gw_scope *s, int64_t length) {
    return module_new_with(s, "adaptive_avg_pool1d", forward_adaptive_avg_pool1d, &length,
                           sizeof length);
}

static gw_tensor *forward_adaptive_avg_pool2d(gw_scope *s, gw_module *m, gw_tensor *x) {
    const int64_t *size = m->settings;
    return gw_adaptive_avg_pool2d(s, x, size[0], size[1]);
}
gw_module *gw_nn_adaptive_avg_pool2d(gw_scope *s, int64_t height, int64_t width) {
    int64_t size[] = { height, width };
    return module_new_with(s, "adaptive_avg_pool2d", forward_adaptive_avg_pool2d, size,
                           sizeof size);
}
