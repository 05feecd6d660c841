// Parameters of modules by number and by name, and lists of them.
#include "nn/module.h"

#include "tensor/tensor.h"

#include <string.h>

bool module_each_parameter(const gw_module *m, const module_path *where,
                           bool (*visit)(void *context, const module_path *at, gw_tensor *x),
                           void *context) {
    for (int i = 0; i < m->parameters.count; i++) {
        module_path at = { where, m->parameters.items[i].name };
        if (!visit(context, &at, m->parameters.items[i].is.parameter)) return false;
    }
    for (int i = 0; i < m->children.count; i++) {
        module_path at = { where, m->children.items[i].name };
        if (!module_each_parameter(m->children.items[i].is.child, &at, visit, context))
            return false;
    }
    return true;
}

static bool count_one(void *context, const module_path *at, gw_tensor *x) {
    (void)at, (void)x;
    ++*(int *)context;
    return true;
}

int gw_module_parameter_count(const gw_module *m) {
    int count = 0;
    module_each_parameter(m, NULL, count_one, &count);
    return count;
}

// ---- By number ----------------------------------------------------------------------------------
typedef struct numbered {
    gw_scope *scope;
    int left;  // parameters before the wanted one
    gw_tensor *found;
    const char *name;  // NULL: not asked for
} numbered;

static const char *path_text(gw_scope *s, const module_path *at) {
    const char *text = at->name;
    for (at = at->outer; at; at = at->outer) text = gw_format(s, "%s.%s", at->name, text);
    return text;
}

static bool reach(void *context, const module_path *at, gw_tensor *x) {
    numbered *n = context;
    if (n->left-- > 0) return true;
    n->found = x;
    if (n->name) n->name = gw_format(n->scope, "%s", path_text(n->scope, at));
    return false;
}

static bool find_numbered(const gw_module *m, int index, numbered *out) {
    if (!gw_ok(out->scope)) return false;
    out->left = index;
    if (index >= 0 && !module_each_parameter(m, NULL, reach, out)) return gw_ok(out->scope);
    scope_fail(out->scope, GW_INVALID, "%s: parameter %d of %d", m->name, index,
               gw_module_parameter_count(m));
    return false;
}

const char *gw_module_parameter_name(gw_scope *s, const gw_module *m, int index) {
    numbered n = { .scope = s, .name = "" };
    return find_numbered(m, index, &n) ? n.name : "";
}

gw_tensor *gw_module_parameter_at(gw_scope *s, const gw_module *m, int index) {
    numbered n = { .scope = s };
    return find_numbered(m, index, &n) ? n.found : &tensor_poison;
}

// ---- By name ------------------------------------------------------------------------------------
gw_tensor *gw_module_parameter_find(const gw_module *m, const char *name) {
    for (;;) {
        size_t size = strcspn(name, ".");
        const module_parts *parts = name[size] ? &m->children : &m->parameters;
        const module_part *found = NULL;
        for (int i = 0; i < parts->count && !found; i++)
            if (strncmp(parts->items[i].name, name, size) == 0 && !parts->items[i].name[size])
                found = &parts->items[i];
        if (!found) return NULL;
        if (!name[size]) return found->is.parameter;
        m = found->is.child;
        name += size + 1;
    }
}

gw_tensor *gw_module_parameter_get(gw_scope *s, const gw_module *m, const char *name) {
    if (!gw_ok(s)) return &tensor_poison;
    gw_tensor *x = gw_module_parameter_find(m, name);
    if (x) return x;
    scope_fail(s, GW_NOT_FOUND, "%s has no parameter \"%s\"", m->name, name);
    return &tensor_poison;
}

// ---- As a list ----------------------------------------------------------------------------------
typedef struct lister {
    gw_scope *scope;
    gw_list *list;
} lister;

static bool list_one(void *context, const module_path *at, gw_tensor *x) {
    (void)at;
    lister *l = context;
    for (int i = 0; i < gw_list_count(l->list); i++)
        if (gw_list_get(l->scope, l->list, i).as.tensor == x) return true;
    gw_list_add(l->scope, l->list, x);
    return gw_ok(l->scope);
}

gw_list *gw_parameters_of(gw_scope *s, gw_module *const *modules, int count) {
    lister l = { s, gw_list_open(s) };
    for (int i = 0; i < count && gw_ok(s); i++)
        module_each_parameter(modules[i], NULL, list_one, &l);
    return l.list;
}
