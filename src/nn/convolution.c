// Convolutions and pools.
#include "nn/init.h"

#include "tensor/pack.h"
#include "tensor/tensor.h"

#include <math.h>

// ---- Convolutions -------------------------------------------------------------------------------
static gw_tensor *own_bias(const gw_module *m) {
    return m->parameters.count > 1 ? m->parameters.items[1].is.parameter : NULL;
}

typedef struct convolution {
    gw_conv_options options;  // without padding, if it is not of zeros
    gw_padding_mode mode;
    int64_t padding[2];
} convolution;

// Where the number stands that is |i| beyond the beginning, if negative, or at |i|.
static int64_t source_of(gw_padding_mode mode, int64_t i, int64_t size) {
    if (mode == GW_PAD_CIRCULAR) return (i + size) % size;
    if (mode == GW_PAD_REPLICATE) return i < 0 ? 0 : i < size ? i : size - 1;
    return i < 0 ? -i : i < size ? i : 2 * (size - 1) - i;
}

static bool check_padding(gw_scope *s, const gw_module *m, const convolution *c, int64_t padding,
                          int64_t size) {
    int64_t most = c->mode == GW_PAD_REFLECT ? size - 1 : size;
    bool is_fine = padding >= 0 && size > 0 && (c->mode == GW_PAD_REPLICATE || padding <= most);
    if (gw_ok(s) && !is_fine)
        scope_fail(s, GW_INVALID, "gw_nn_%s: the padding %lld is too large for %lld numbers",
                   m->name, (long long)padding, (long long)size);
    return gw_ok(s);
}

// |x| with |padding| numbers more at both ends of |dim|.
static gw_tensor *pad(gw_scope *s, const gw_module *m, gw_tensor *x, int dim, int64_t padding) {
    const convolution *c = m->settings;
    int64_t size = gw_size(x, dim), all;
    if (!padding || !check_padding(s, m, c, padding, size)) return x;
    if (__builtin_add_overflow(size, 2 * padding, &all)) all = INT64_MAX;
    gw_tensor *index = gw_zeros(s, GW_I64, all);
    int64_t *at = gw_data_for_write(s, index);
    for (int64_t i = 0; at && i < all; i++) at[i] = source_of(c->mode, i - padding, size);
    return gw_index_select(s, x, dim, tensor_to_device(s, index, gw_device_of(x)));
}

static gw_tensor *pad_all(gw_scope *s, const gw_module *m, gw_tensor *x, int dims) {
    const convolution *c = m->settings;
    if (c->mode == GW_PAD_ZEROS || gw_dims(x) < dims) return x;
    for (int i = 0; i < dims && gw_ok(s); i++) x = pad(s, m, x, i - dims, c->padding[i]);
    return x;
}

static gw_tensor *forward_conv1d(gw_scope *s, gw_module *m, gw_tensor *x) {
    const convolution *c = m->settings;
    gw_tensor *weight = m->parameters.items[0].is.parameter;
    return gw_conv1d_with(s, pad_all(s, m, x, 1), weight, own_bias(m), c->options);
}

static gw_tensor *forward_conv2d(gw_scope *s, gw_module *m, gw_tensor *x) {
    const convolution *c = m->settings;
    gw_tensor *weight = m->parameters.items[0].is.parameter;
    return gw_conv2d_with(s, pad_all(s, m, x, 2), weight, own_bias(m), c->options);
}

static bool check_conv(gw_scope *s, const char *name, int dims, int64_t in, int64_t out,
                       int64_t groups, const int64_t kernel[2]) {
    if (!gw_ok(s)) return false;
    if (in < 1 || out < 1)
        scope_fail(s, GW_INVALID,
                   "gw_nn_%s: from %lld to %lld channels: both numbers must be 1 or more", name,
                   (long long)in, (long long)out);
    else if (groups < 1 || in % groups || out % groups)
        scope_fail(
            s, GW_INVALID,
            "gw_nn_%s: %lld input and %lld output channels cannot be divided into %lld groups",
            name, (long long)in, (long long)out, (long long)groups);
    else if (kernel[0] < 1 || kernel[dims - 1] < 1)
        scope_fail(s, GW_INVALID, "gw_nn_%s: the size of the kernel is %lld, but must be 1 or more",
                   name, (long long)(kernel[0] < 1 ? kernel[0] : kernel[1]));
    return gw_ok(s);
}

static gw_module *open_conv(gw_scope *s, int dims, int64_t in, int64_t out,
                            gw_nn_conv_options options) {
    const char *name = dims == 1 ? "conv1d" : "conv2d";
    int64_t groups = options.groups;
    if (!check_conv(s, name, dims, in, out, groups, options.kernel)) return &module_poison;
    bool zeros = options.padding_mode == GW_PAD_ZEROS;
    if ((unsigned)options.padding_mode > GW_PAD_CIRCULAR) {
        scope_fail(s, GW_INVALID, "gw_nn_%s: .padding_mode is %d, which does not exist", name,
                   options.padding_mode);
        return &module_poison;
    }
    convolution o = { .mode = options.padding_mode,
                      .padding = { options.padding[0], options.padding[1] } };
    o.options =
        GW_OPTIONS(gw_conv_options, .stride = { options.stride[0], options.stride[1] },
                   .padding = { zeros * options.padding[0], zeros * options.padding[1] },
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
