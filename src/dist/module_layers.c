// The layers of gradwire/nn.h as classes: "gw.nn.linear" with the arguments of gw_nn_linear, and a map of options behind them.
#include "dist/module_object.h"

#include "base/limits.h"
#include "base/scope.h"
#include "nn/module.h"
#include "rpc/args.h"
#include "rpc/upward.h"

#include <string.h>

typedef gw_module *layer_open(gw_scope *s, const gw_args *a);

// ---- Options --------------------------------------------------------------------------------------------------------
static gw_value option(const gw_args *a, int index, const char *name) {
    bool has = index < a->count && a->values[index].kind == GW_MAP;
    return has ? gw_map_find(a->values[index].as.map, name) : gw_none();
}

static bool option_bool(gw_scope *s, const gw_args *a, int index, const char *name) {
    gw_value v = option(a, index, name);
    return v.kind != GW_NONE && gw_bool_of(s, v);
}

static double option_float(gw_scope *s, const gw_args *a, int index, const char *name) {
    gw_value v = option(a, index, name);
    return v.kind == GW_NONE ? 0 : gw_float_of(s, v);
}

static gw_dtype option_dtype(gw_scope *s, const gw_args *a, int index) {
    gw_value v = option(a, index, "dtype");
    if (v.kind == GW_NONE) return GW_F32;
    const char *name = gw_string_of(s, v);
    for (int d = 0; gw_ok(s) && d < GW_DTYPE_COUNT; d++)
        if (!strcmp(gw_dtype_name((gw_dtype)d), name)) return (gw_dtype)d;
    scope_fail(s, GW_INVALID, "%s: \"%.40s\" is no dtype", a->label, name);
    return GW_F32;
}

static bool is_among(const char *name, const char *names) {
    size_t size = strlen(name);
    for (const char *at = names; *at; at += strcspn(at, " "), at += *at == ' ')
        if (strcspn(at, " ") == size && !memcmp(at, name, size)) return true;
    return false;
}

// Arguments from |index| on are one map, of nothing but |names|.
static void check_options(gw_scope *s, const gw_args *a, int index, const char *names) {
    if (!gw_ok(s) || a->count <= index) return;
    if (a->count > index + 1 || a->values[index].kind != GW_MAP) {
        scope_fail(s, GW_INVALID, "%s: takes %d arguments and a map of options", a->label, index);
        return;
    }
    const gw_map *options = a->values[index].as.map;
    for (int i = 0; i < gw_map_count(options); i++) {
        const char *name = gw_map_key(s, options, i);
        if (is_among(name, names)) continue;
        scope_fail(s, GW_INVALID, "%s: has no option \"%.100s\"", a->label, name);
        return;
    }
}

static void check_count(gw_scope *s, const gw_args *a, int count) {
    if (gw_ok(s) && a->count != count)
        scope_fail(s, GW_INVALID, "%s: takes %d arguments, not %d", a->label, count, a->count);
}

// ---- Layers ---------------------------------------------------------------------------------------------------------
static gw_module *open_linear(gw_scope *s, const gw_args *a) {
    check_options(s, a, 2, "no_bias dtype");
    gw_nn_linear_options o = { .no_bias = option_bool(s, a, 2, "no_bias"),
                               .dtype = option_dtype(s, a, 2) };
    return gw_nn_linear_with(s, gw_arg_int(s, a, 0), gw_arg_int(s, a, 1), o);
}

static gw_module *open_layer_norm(gw_scope *s, const gw_args *a) {
    check_options(s, a, 1, "eps no_affine no_bias dtype");
    gw_nn_layer_norm_options o = { .eps = option_float(s, a, 1, "eps"),
                                   .no_affine = option_bool(s, a, 1, "no_affine"),
                                   .no_bias = option_bool(s, a, 1, "no_bias"),
                                   .dtype = option_dtype(s, a, 1) };
    return gw_nn_layer_norm_with(s, GW_SHAPE(gw_arg_int(s, a, 0)), o);
}

static gw_module *open_dropout(gw_scope *s, const gw_args *a) {
    check_count(s, a, 1);
    return gw_nn_dropout(s, gw_arg_float(s, a, 0));
}

static gw_module *open_leaky_relu(gw_scope *s, const gw_args *a) {
    check_count(s, a, 1);
    return gw_nn_leaky_relu(s, gw_arg_float(s, a, 0));
}

static gw_module *open_softmax(gw_scope *s, const gw_args *a) {
    check_count(s, a, 1);
    return gw_nn_softmax(s, (int)gw_arg_int(s, a, 0));
}

static gw_module *open_flatten(gw_scope *s, const gw_args *a) {
    check_count(s, a, a->count ? 2 : 0);
    if (!a->count) return gw_nn_flatten(s);
    return gw_nn_flatten_dims(s, (int)gw_arg_int(s, a, 0), (int)gw_arg_int(s, a, 1));
}

#define PLAIN(name)                                                                                \
    static gw_module *open_##name(gw_scope *s, const gw_args *a) {                                 \
        check_count(s, a, 0);                                                                      \
        return gw_nn_##name(s);                                                                    \
    }
PLAIN(relu)
PLAIN(tanh)
PLAIN(sigmoid)
PLAIN(gelu)
PLAIN(silu)

static gw_module *open_sequential(gw_scope *s, const gw_args *a);

// ---- The table ------------------------------------------------------------------------------------------------------
#define LAYERS(X)                                                                                  \
    X(linear, LAYER_BY_WEIGHTS)                                                                    \
    X(layer_norm, LAYER_BY_INPUT)                                                                  \
    X(dropout, LAYER_BY_INPUT)                                                                     \
    X(relu, LAYER_BY_INPUT)                                                                        \
    X(leaky_relu, LAYER_BY_INPUT)                                                                  \
    X(tanh, LAYER_BY_INPUT)                                                                        \
    X(sigmoid, LAYER_BY_INPUT)                                                                     \
    X(gelu, LAYER_BY_INPUT)                                                                        \
    X(silu, LAYER_BY_INPUT)                                                                        \
    X(softmax, LAYER_BY_INPUT)                                                                     \
    X(flatten, LAYER_BY_INPUT)                                                                     \
    X(sequential, LAYER_SLOW)

// Making layers gives a peer no larger tensors than calling operators.
#define CLASS(layer, cost)                                                                         \
    static void open_class_##layer(gw_scope *own, void *self, const gw_args *a) {                  \
        own->tensor_bytes_max = LIMIT_TENSOR_BYTES;                                                \
        gw_module_object_open(own, self, open_##layer(own, a));                                    \
    }                                                                                              \
    static class class_##layer = { .name = (char *)"gw.nn." #layer,                                \
                                   .options = { .size = sizeof(gw_module_object),                  \
                                                .open = open_class_##layer },                      \
                                   .fixed_methods = module_methods[cost],                          \
                                   .fixed_count = MODULE_METHODS };
LAYERS(CLASS)

typedef struct layer {
    function make;
    layer_open *open;
} layer;

#define ROW(layer, cost)                                                                           \
    { { .name = (char *)"gw.nn." #layer, .where = GW_POOL, .class = &class_##layer },              \
      open_##layer },
static const layer layers[] = { LAYERS(ROW) };

static const layer *find_layer(const char *name) {
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        if (!strcmp(layers[i].make.name, name)) return &layers[i];
    return NULL;
}

const function *modules_find_class(const char *name) {
    const layer *l = find_layer(name);
    return l ? &l->make : NULL;
}

// ---- Sequences ------------------------------------------------------------------------------------------------------
// ["linear", 4, 3]
static gw_module *open_listed(gw_scope *s, const gw_args *a, const gw_list *list) {
    const char *name = gw_string_of(s, gw_list_get(s, list, 0));
    gw_args inner = { .label = a->label, .count = gw_list_count(list) - 1, .caller = a->caller };
    gw_value *values = gw_alloc(s, (size_t)(inner.count + 1) * sizeof *values);
    for (int i = 0; values && i < inner.count; i++) values[i] = gw_list_get(s, list, i + 1);
    inner.values = values;
    const layer *l = find_layer(gw_format(s, "gw.nn.%s", name));
    if (gw_ok(s) && !l)
        scope_fail(s, GW_NOT_FOUND, "%s: there is no layer \"%.100s\"", a->label, name);
    return gw_ok(s) ? l->open(s, &inner) : &module_poison;
}

static gw_module *open_sequential(gw_scope *s, const gw_args *a) {
    gw_module **parts = gw_alloc(s, (size_t)(a->count + 1) * sizeof(gw_module *));
    for (int i = 0; parts && i < a->count; i++) parts[i] = open_listed(s, a, gw_arg_list(s, a, i));
    return gw_ok(s) ? gw_nn_sequential_of(s, parts, a->count) : &module_poison;
}
