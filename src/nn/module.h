// The inside of modules.
#ifndef NN_MODULE_H
#define NN_MODULE_H

#include "base/handle.h"
#include "base/scope.h"
#include <gradwire/nn.h>

// A parameter or another module, under its name.
typedef struct module_part {
    char *name;
    union {
        gw_handle *handle;
        gw_tensor *parameter;
        gw_module *child;
    } is;
} module_part;

typedef struct module_parts {
    module_part *items;
    int count, capacity;
} module_parts;

struct gw_module {
    gw_handle handle;
    char *name;
    gw_module_forward *forward;
    void *state;    // the user's
    double number;  // a layer's only setting: p, negative_slope, dim
    bool training;
    module_parts parameters, children;  // one count on each
};

extern gw_module module_poison;  // what failed constructors return; calling it does nothing

// A module without parts, owned by |s|, or poison.
gw_module *module_new(gw_scope *s, const char *name, gw_module_forward *forward);

// Calls |visit| for the parameters of |m| and its parts until it returns false. Returns whether it
// never did. |where| is the way there, innermost part first.
typedef struct module_path {
    const struct module_path *outer;  // NULL at the module that the walk started from
    const char *name;
} module_path;
bool module_each_parameter(const gw_module *m, const module_path *where,
                           bool (*visit)(void *context, const module_path *at, gw_tensor *x),
                           void *context);

#endif
