// The inside of modules.
#ifndef NN_MODULE_H
#define NN_MODULE_H

#include "base/handle.h"
#include "base/scope.h"
#include <gradwire/nn.h>

// A parameter, a buffer or another module, under its name.
typedef struct module_part {
    char *name;
    union {
        gw_handle *handle;
        gw_tensor *parameter;
        gw_tensor *buffer;
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
    module_parts parameters, buffers, children;  // one count on each
};

extern gw_module module_poison;  // what failed constructors return; calling it does nothing

// A module without parts, owned by |s|, or poison.
gw_module *module_new(gw_scope *s, const char *name, gw_module_forward *forward);

// Calls |visit| for the tensors of |kinds| (or'ed) of |m| and its parts until it returns false: a
// module's own parameters, then its own buffers, then those of its parts, which is the order of
// PyTorch's state_dict. Returns whether it never did.
typedef enum module_tensors {
    MODULE_PARAMETERS = 1,
    MODULE_BUFFERS = 2,
    MODULE_STATE = MODULE_PARAMETERS | MODULE_BUFFERS
} module_tensors;

// |where| is the way there, innermost part first.
typedef struct module_path {
    const struct module_path *outer;  // NULL at the module that the walk started from
    const char *name;
} module_path;
typedef bool module_visit(void *context, const module_path *at, gw_tensor *x);
bool module_each_tensor(const gw_module *m, module_tensors kinds, const module_path *where,
                        module_visit *visit, void *context);

// "encoder.0.weight" in the text of |s|.
const char *module_path_text(gw_scope *s, const module_path *at);

#endif
