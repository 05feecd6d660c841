// The owner side of remote modules: objects with a module inside, and their methods.
#include "distributed/nn/module_object.h"

#include "base/limits.h"
#include "base/scope.h"
#include "base/value.h"
#include "nn/module.h"
#include "tensor/tensor.h"

#include <string.h>

// ---- The object ---------------------------------------------------------------------------------
static bool add_bytes(void *context, const module_path *at, gw_tensor *x) {
    (void)at;
    *(uint64_t *)context += (uint64_t)gw_numel(x) * gw_dtype_size(gw_dtype_of(x));
    return true;
}

void gw_module_object_open(gw_scope *own, gw_module_object *self, gw_module *m) {
    if (!gw_ok(own)) return;
    if (!m || m == &module_poison) {
        scope_fail(own, GW_INVALID,
                   "the function that makes the module has returned none instead of a module");
        return;
    }
    self->own = own;
    self->module = m;
    module_each_tensor(m, MODULE_STATE, NULL, add_bytes, &self->parameter_bytes);
}

// ---- Parameters as references -------------------------------------------------------------------
// A parameter with several names has one reference, so |names| has indices into |references|.
typedef struct referrer {
    gw_scope *own;
    gw_list *parameters, *references;
    gw_map *names;
} referrer;

static int index_of(gw_scope *s, const gw_list *parameters, gw_value v) {
    for (int i = 0; i < gw_list_count(parameters); i++)
        if (gw_list_get(s, parameters, i).as.tensor == v.as.tensor) return i;
    return -1;
}

static void refer(referrer *r, const char *name, gw_value v) {
    int index = index_of(r->own, r->parameters, v);
    if (index < 0) {
        index = gw_list_count(r->references);
        gw_list_add(r->own, r->parameters, v);
        // A part that is a remote module itself gives references already.
        gw_list_add(r->own, r->references,
                    v.kind == GW_RREF ? v : gw_value_of(gw_rref_open(r->own, v)));
    }
    gw_map_put(r->own, r->names, name, index);
}

// Makes the references once, so that all workers get references to the same values.
static void make_references(gw_scope *s, gw_module_object *self) {
    gw_map *named = gw_module_named_parameters(s, self->module);
    gw_scope *own = self->own;
    referrer r = { own, gw_list_open(own), gw_list_open(own), gw_map_open(own) };
    for (int i = 0; gw_ok(s) && gw_ok(own) && i < gw_map_count(named); i++) {
        const char *name = gw_map_key(s, named, i);
        refer(&r, name, gw_map_find(named, name));
    }
    if (!gw_ok(s) || !gw_ok(own)) return;
    self->names = r.names;
    self->references = r.references;
}

static gw_value parameters(gw_scope *s, void *object, const gw_args *a) {
    (void)a;
    gw_module_object *self = object;
    if (!self->references) make_references(s, self);
    if (!gw_ok(s) || !gw_ok(self->own)) return gw_none();
    gw_list *both = gw_list_open(s);
    gw_list_add(s, both, self->names);
    gw_list_add(s, both, self->references);
    return gw_value_of(both);
}

// ---- The other methods --------------------------------------------------------------------------
static gw_value forward(gw_scope *s, void *object, const gw_args *a) {
    gw_module_object *self = object;
    return gw_value_of(gw_module_call(s, self->module, gw_arg_tensor(s, a, 0)));
}

// The input |i|: an item of |values|, by its index in them if there are |indices|.
static gw_value take_input(gw_scope *s, gw_list *values, gw_list *indices, int i) {
    return gw_list_get(s, values, indices ? (int)gw_int_of(s, gw_list_get(s, indices, i)) : i);
}

static gw_values take_inputs(gw_scope *s, const gw_args *a) {
    gw_list *values = gw_arg_list(s, a, 1), *indices = NULL;
    if (gw_ok(s) && gw_arg(s, a, 2).kind != GW_NONE) indices = gw_arg_list(s, a, 2);
    int count = gw_list_count(indices ? indices : values);
    gw_value *items = gw_alloc(s, (size_t)(count + 1) * sizeof *items);
    for (int i = 0; gw_ok(s) && i < count; i++) items[i] = take_input(s, values, indices, i);
    return (gw_values){ gw_ok(s) ? count : 0, items };
}

// The layer that the caller takes the module for; NULL if it takes any.
static const typed_call *find_call(gw_scope *s, const gw_args *a) {
    const char *name = gw_arg_string(s, a, 0);
    const typed_call *c = *name ? typed_call_find(name) : NULL;
    if (gw_ok(s) && *name && !c) scope_fail(s, GW_NOT_FOUND, "no layer has a call \"%.40s\"", name);
    return c;
}

static gw_value call(gw_scope *s, void *object, const gw_args *a) {
    gw_module_object *self = object;
    const typed_call *c = find_call(s, a);
    gw_values in = take_inputs(s, a);
    return gw_ok(s) ? module_call_values(s, self->module, c, in) : gw_none();
}

static gw_value train(gw_scope *s, void *object, const gw_args *a) {
    gw_module_object *self = object;
    if (gw_arg_bool(s, a, 0)) {
        gw_module_train(s, self->module);
    } else {
        gw_module_eval(s, self->module);
    }
    return gw_none();
}

static gw_value shapes(gw_scope *s, void *object, const gw_args *a) {
    (void)a;
    gw_module_object *self = object;
    gw_map *out = gw_map_open(s);
    state_slots all;
    state_slots_collect(&all, s, self->module);
    for (int i = 0; gw_ok(s) && i < all.count; i++)
        gw_map_put(s, out, all.items[i].name, all.items[i].shape);
    state_slots_fini(&all);
    return gw_value_of(out);
}

static gw_value state_dict(gw_scope *s, void *object, const gw_args *a) {
    (void)a;
    gw_module_object *self = object;
    return gw_value_of(gw_module_state_dict(s, self->module));
}

static gw_value load(gw_scope *s, void *object, const gw_args *a) {
    gw_module_object *self = object;
    gw_module_load_state_dict(s, self->module, gw_arg_map(s, a, 0),
                              .strict = !gw_arg_bool(s, a, 1));
    return gw_none();
}

// ---- The methods of layers ----------------------------------------------------------------------
static bool is_small_input(const void *self, uint64_t request_bytes) {
    (void)self;
    return request_bytes <= LIMIT_OPERATOR_BYTES_INLINE;
}

static bool is_small(const void *self, uint64_t request_bytes) {
    const gw_module_object *o = self;
    return request_bytes + o->parameter_bytes <= LIMIT_OPERATOR_BYTES_INLINE;
}

#define METHODS(inline_)                                                                           \
    {                                                                                              \
        { .name = (char *)"forward",                                                               \
          .where = GW_POOL,                                                                        \
          .signature = TAKES(1 << GW_TENSOR),                                                      \
          .method = forward,                                                                       \
          .is_inline = inline_ },                                                                  \
            { .name = (char *)"call",                                                              \
              .where = GW_POOL,                                                                    \
              .signature = TAKES(1 << GW_STRING, 1 << GW_LIST, 1 << GW_LIST | 1 << GW_NONE),       \
              .method = call,                                                                      \
              .is_inline = inline_ },                                                              \
            { .name = (char *)"train",                                                             \
              .where = GW_POOL,                                                                    \
              .signature = TAKES(1 << GW_BOOL),                                                    \
              .method = train },                                                                   \
            { .name = (char *)"parameters",                                                        \
              .where = GW_POOL,                                                                    \
              .signature = TAKES(),                                                                \
              .method = parameters },                                                              \
            { .name = (char *)"shapes",                                                            \
              .where = GW_POOL,                                                                    \
              .signature = TAKES(),                                                                \
              .method = shapes },                                                                  \
            { .name = (char *)"state_dict",                                                        \
              .where = GW_POOL,                                                                    \
              .signature = TAKES(),                                                                \
              .method = state_dict },                                                              \
            { .name = (char *)"load",                                                              \
              .where = GW_POOL,                                                                    \
              .signature = TAKES(1 << GW_MAP, 1 << GW_BOOL),                                       \
              .method = load },                                                                    \
    }

const function module_methods[LAYER_COST_COUNT][MODULE_METHODS] = {
    [LAYER_BY_INPUT] = METHODS(is_small_input),
    [LAYER_BY_WEIGHTS] = METHODS(is_small),
    [LAYER_SLOW] = METHODS(NULL),
};

// ---- Classes of programs ------------------------------------------------------------------------
// In text, as programs' methods are; in the order of |module_methods|.
static const char *const signatures[MODULE_METHODS] = {
    "tensor", "string, list, list?", "bool", "", "", "", "map, bool"
};

_Static_assert(sizeof((gw_module_registration){ 0 }.parts) >=
                   (1 + MODULE_METHODS) * sizeof(gw_registration),
               "room for the class and its methods");

void gw_module_register(gw_module_registration *r) {
    r->parts[0] = (gw_registration){ .name = r->name,
                                     .signature = r->signature,
                                     .where = GW_POOL,
                                     .class_options = { .size = sizeof(gw_module_object),
                                                        .open = r->open,
                                                        .signature = r->signature } };
    gw_register(&r->parts[0]);
    for (int i = 0; i < MODULE_METHODS; i++) {
        const function *f = &module_methods[LAYER_SLOW][i];
        r->parts[1 + i] = (gw_registration){ .class_name = r->name,
                                             .name = f->name,
                                             .signature = signatures[i],
                                             .where = f->where,
                                             .method = f->method };
        gw_register(&r->parts[1 + i]);
    }
}

void gw_registry_add_module(gw_scope *s, gw_registry *r, const char *name, const char *signature,
                            void (*open)(gw_scope *own, void *self, const gw_args *a)) {
    gw_registry_add_class(s, r, name,
                          (gw_class_options){ .size = sizeof(gw_module_object),
                                              .open = open,
                                              .signature = signature });
    for (int i = 0; i < MODULE_METHODS; i++) {
        const function *f = &module_methods[LAYER_SLOW][i];
        gw_registry_add_method(s, r, name, f->name, f->where, signatures[i], f->method);
    }
}
