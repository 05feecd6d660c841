// Layers that scale numbers to mean 0 and variance 1.
#include "nn/init.h"

#include "tensor/tensor.h"

// ---- LayerNorm ----------------------------------------------------------------------------------
typedef struct layer_norm {
    double eps;
    int dims;
    int64_t sizes[GW_DIMS_MAX];
} layer_norm;

static gw_tensor *own_parameter(const gw_module *m, int i) {
    return i < m->parameters.count ? m->parameters.items[i].is.parameter : NULL;
}

static gw_tensor *forward_layer_norm(gw_scope *s, gw_module *m, gw_tensor *x) {
    const layer_norm *n = m->settings;
    return gw_layer_norm(s, x, (gw_shape){ n->dims, n->sizes }, own_parameter(m, 0),
                         own_parameter(m, 1), n->eps);
}

static bool check_sizes(gw_scope *s, gw_shape shape) {
    if (!scope_check_array(s, "gw_nn_layer_norm", shape.sizes, shape.count)) return false;
    bool ok = shape.count >= 1 && shape.count <= GW_DIMS_MAX;
    for (int i = 0; ok && i < shape.count; i++) ok = shape.sizes[i] >= 1;
    if (!ok && gw_ok(s))
        scope_fail(s, GW_INVALID,
                   "gw_nn_layer_norm: the sizes of one dimension or more must be given");
    return ok;
}

gw_module *gw_nn_layer_norm_with(gw_scope *s, gw_shape normalized,
                                 gw_nn_layer_norm_options options) {
    layer_norm n = { .eps = options.eps, .dims = normalized.count };
    if (!check_sizes(s, normalized)) return &module_poison;
    for (int i = 0; i < n.dims; i++) n.sizes[i] = normalized.sizes[i];
    gw_module *m = module_new_with(s, "layer_norm", forward_layer_norm, &n, sizeof n);
    if (!options.elementwise_affine) return m;
    init_full(s, m, "weight", options.dtype, normalized, 1);
    if (options.bias) init_full(s, m, "bias", options.dtype, normalized, 0);
    return gw_ok(s) ? m : &module_poison;
}
