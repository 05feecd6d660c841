// PyTorch's layers.
#include "nn/init.h"

#include "tensor/tensor.h"

#include <gradwire/autograd.h>
#include <math.h>
#include <stdio.h>

// ---- Linear -------------------------------------------------------------------------------------
static gw_tensor *forward_linear(gw_scope *s, gw_module *m, gw_tensor *x) {
    const module_parts *p = &m->parameters;
    return gw_linear(s, x, p->items[0].is.parameter,
                     p->count > 1 ? p->items[1].is.parameter : NULL);
}

gw_module *gw_nn_linear_with(gw_scope *s, int64_t in, int64_t out, gw_nn_linear_options options) {
    if (gw_ok(s) && (in < 0 || out < 0))
        scope_fail(s, GW_INVALID,
                   "gw_nn_linear: from %lld to %lld features: neither number may be negative",
                   (long long)in, (long long)out);
    gw_module *m = module_new(s, "linear", forward_linear);
    // A kaiming_uniform with a = sqrt 5 has this bound, too.
    double bound = in > 0 ? 1 / sqrt((double)in) : 0;
    init_uniform(s, m, "weight", options.dtype, GW_SHAPE(out, in), bound);
    if (options.bias) init_uniform(s, m, "bias", options.dtype, GW_SHAPE(out), bound);
    return gw_ok(s) ? m : &module_poison;
}

// ---- Layers without parameters ------------------------------------------------------------------
static gw_module *layer(gw_scope *s, const char *name, gw_module_forward *forward, double number) {
    gw_module *m = module_new(s, name, forward);
    if (m != &module_poison) m->number = number;
    return m;
}

static gw_tensor *forward_dropout(gw_scope *s, gw_module *m, gw_tensor *x) {
    return gw_dropout(s, x, .p = m->number, .training = m->training);
}
gw_module *gw_nn_dropout(gw_scope *s, double p) {
    if (gw_ok(s) && !(p >= 0 && p <= 1))
        scope_fail(s, GW_INVALID, "gw_nn_dropout: p is %g, but must be a probability: 0 to 1", p);
    return layer(s, "dropout", forward_dropout, p);
}

static gw_tensor *forward_leaky_relu(gw_scope *s, gw_module *m, gw_tensor *x) {
    return gw_leaky_relu(s, x, m->number);
}
gw_module *gw_nn_leaky_relu(gw_scope *s, double negative_slope) {
    return layer(s, "leaky_relu", forward_leaky_relu, negative_slope);
}

static gw_tensor *forward_softmax(gw_scope *s, gw_module *m, gw_tensor *x) {
    return gw_softmax(s, x, (int)m->number);
}
gw_module *gw_nn_softmax(gw_scope *s, int dim) {
    return layer(s, "softmax", forward_softmax, dim);
}

typedef struct flatten {
    int first, last;
} flatten;

static gw_tensor *forward_flatten(gw_scope *s, gw_module *m, gw_tensor *x) {
    flatten f = *(const flatten *)m->settings;
    int dims = gw_dims(x) ? gw_dims(x) : 1, n = 0;  // a scalar counts as a list of one number
    if (f.first < 0) f.first += dims;
    if (f.last < 0) f.last += dims;
    if (f.first < 0 || f.last >= dims || f.first > f.last) {
        scope_fail(
            s, GW_INVALID,
            "gw_nn_flatten: .start_dim %d and .end_dim %d do not fit an input of %d dimensions",
            f.first, f.last, dims);
        return tensor_poison_of(s);
    }
    int64_t sizes[GW_DIMS_MAX];
    for (int i = 0; i < dims; i++) {
        if (i > f.first && i <= f.last)
            sizes[n - 1] *= gw_size(x, i);
        else
            sizes[n++] = gw_dims(x) ? gw_size(x, i) : 1;
    }
    return gw_reshape_with(s, x, (gw_shape){ n, sizes });
}
gw_module *gw_nn_flatten_with(gw_scope *s, gw_nn_flatten_options options) {
    flatten f = { options.start_dim, options.end_dim };
    return module_new_with(s, "flatten", forward_flatten, &f, sizeof f);
}

// Layers that are one operator and nothing else.
#define LAYER(name)                                                                                \
    static gw_tensor *forward_##name(gw_scope *s, gw_module *m, gw_tensor *x) {                    \
        (void)m;                                                                                   \
        return gw_##name(s, x);                                                                    \
    }                                                                                              \
    gw_module *gw_nn_##name(gw_scope *s) {                                                         \
        return layer(s, #name, forward_##name, 0);                                                 \
    }
LAYER(relu)
LAYER(tanh)
LAYER(sigmoid)
LAYER(gelu)
LAYER(silu)

// ---- Sequential ---------------------------------------------------------------------------------
static gw_tensor *forward_sequential(gw_scope *s, gw_module *m, gw_tensor *x) {
    for (int i = 0; i < m->children.count; i++)
        x = gw_module_call(s, m->children.items[i].is.child, x);
    return x;
}

gw_module *gw_nn_sequential_with(gw_scope *s, gw_module *const *modules, int count) {
    if (!scope_check_array(s, "gw_nn_sequential", modules, count)) return &module_poison;
    gw_module *m = module_new(s, "sequential", forward_sequential);
    for (int i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        gw_module_register_module(s, m, name, modules[i]);
    }
    return gw_ok(s) ? m : &module_poison;
}
