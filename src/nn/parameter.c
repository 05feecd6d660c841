// Parameters and buffers of modules by number and by name, and lists of parameters.
#include "nn/module.h"

#include "base/nearest.h"
#include "tensor/tensor.h"

#include <string.h>

static const char *kind_name(module_tensors kind) {
    return kind == MODULE_BUFFERS ? "buffer" : "parameter";
}

static bool count_one(void *context, const module_path *at, gw_tensor *x) {
    (void)at, (void)x;
    ++*(int *)context;
    return true;
}

static int count_tensors(const gw_module *m, module_tensors kind) {
    int count = 0;
    if (m && !module_numbers_get((gw_module *)m, kind == MODULE_BUFFERS, 0, &count, NULL))
        module_each_tensor(m, kind, NULL, count_one, &count);
    return count;
}

int gw_module_parameter_count(const gw_module *m) {
    return count_tensors(m, MODULE_PARAMETERS);
}
int gw_module_buffer_count(const gw_module *m) {
    return count_tensors(m, MODULE_BUFFERS);
}

// ---- By number ----------------------------------------------------------------------------------
typedef struct numbered {
    gw_scope *scope;
    module_tensors kind;
    int left;  // tensors to skip before the wanted one
    gw_tensor *found;
    const char *name;  // NULL: none wanted
} numbered;

static bool reach(void *context, const module_path *at, gw_tensor *x) {
    numbered *n = context;
    if (n->left-- > 0) return true;
    n->found = x;
    if (n->name) n->name = module_path_text(n->scope, at);
    return false;
}

static bool find_numbered(const gw_module *m, int index, numbered *out) {
    if (!gw_ok(out->scope)) return false;
    if (!m)
        return scope_fail(out->scope, GW_INVALID, "%s %d was requested, but the module is NULL",
                          kind_name(out->kind), index);
    out->left = index;
    if (index >= 0 && !module_each_tensor(m, out->kind, NULL, reach, out)) return gw_ok(out->scope);
    return scope_fail(out->scope, GW_INVALID, "%s: %s %d of %d", m->name, kind_name(out->kind),
                      index, count_tensors(m, out->kind));
}

static const char *name_at(gw_scope *s, const gw_module *m, module_tensors kind, int index) {
    numbered n = { .scope = s, .kind = kind, .name = "" };
    return find_numbered(m, index, &n) ? n.name : "";
}

static gw_tensor *tensor_at(gw_scope *s, const gw_module *m, module_tensors kind, int index) {
    int count;
    gw_tensor *x = NULL;
    bool is_found = gw_ok(s) && m &&
                    module_numbers_get((gw_module *)m, kind == MODULE_BUFFERS, index, &count, &x);
    if (is_found && x) return x;
    numbered n = { .scope = s, .kind = kind };
    return find_numbered(m, index, &n) ? n.found : tensor_poison_of(s);
}

const char *gw_module_parameter_name(gw_scope *s, const gw_module *m, int index) {
    return name_at(s, m, MODULE_PARAMETERS, index);
}
const char *gw_module_buffer_name(gw_scope *s, const gw_module *m, int index) {
    return name_at(s, m, MODULE_BUFFERS, index);
}
gw_tensor *gw_module_parameter_at(gw_scope *s, const gw_module *m, int index) {
    return tensor_at(s, m, MODULE_PARAMETERS, index);
}
gw_tensor *gw_module_buffer_at(gw_scope *s, const gw_module *m, int index) {
    return tensor_at(s, m, MODULE_BUFFERS, index);
}

// ---- By name ------------------------------------------------------------------------------------
static gw_tensor *find_named(const gw_module *m, module_tensors kind, const char *name) {
    if (!m || !name) return NULL;
    for (;;) {
        size_t size = strcspn(name, ".");
        const module_parts *parts = name[size]               ? &m->children
                                    : kind == MODULE_BUFFERS ? &m->buffers
                                                             : &m->parameters;
        const module_part *found = module_find_part(parts, name, size);
        if (!found) return NULL;
        if (!name[size]) return found->is.parameter;
        m = found->is.child;
        name += size + 1;
    }
}

static void offer_tensors(const gw_module *m, module_tensors kind, nearest *n) {
    const module_parts *own = kind == MODULE_BUFFERS ? &m->buffers : &m->parameters;
    for (int i = 0; i < own->count; i++) nearest_offer(n, own->items[i].name);
}

static gw_tensor *get_named(gw_scope *s, const gw_module *m, module_tensors kind,
                            const char *name) {
    if (!gw_ok(s)) return tensor_poison_of(s);
    gw_tensor *x = find_named(m, kind, name);
    if (x) return x;
    if (m && m->remote) {
        scope_fail(s, GW_INVALID,
                   "the %ss of %s are on another worker: gw_parameters lists references to its "
                   "parameters, gw_module_state_dict returns copies",
                   kind_name(kind), m->name);
        return tensor_poison_of(s);
    }
    nearest n = nearest_to(name);
    if (m) offer_tensors(m, kind, &n);
    scope_fail(s, GW_NOT_FOUND, "%s has no %s \"%s\"%s", m ? m->name : "a NULL module",
               kind_name(kind), name ? name : "", nearest_words(&n));
    return tensor_poison_of(s);
}

gw_tensor *gw_module_parameter_find(const gw_module *m, const char *name) {
    return find_named(m, MODULE_PARAMETERS, name);
}
gw_tensor *gw_module_buffer_find(const gw_module *m, const char *name) {
    return find_named(m, MODULE_BUFFERS, name);
}
gw_tensor *gw_module_parameter_get(gw_scope *s, const gw_module *m, const char *name) {
    return get_named(s, m, MODULE_PARAMETERS, name);
}
gw_tensor *gw_module_buffer_get(gw_scope *s, const gw_module *m, const char *name) {
    return get_named(s, m, MODULE_BUFFERS, name);
}

// ---- As a list, and as a map --------------------------------------------------------------------
typedef struct lister {
    gw_scope *scope;
    gw_list *list;  // or
    gw_map *map;
    map listed;  // by handle
} lister;

// A parameter of several modules is listed once: it, or a reference to it, is one handle.
static void list_once(lister *l, gw_value v) {
    uint64_t key = (uintptr_t)v.as.tensor;
    if (map_find(&l->listed, key)) return;
    if (map_put(&l->listed, key, v.as.tensor))
        gw_list_add(l->scope, l->list, v);
    else
        scope_fail(l->scope, GW_NO_MEMORY, "no memory for a list of parameters");
}

static void list_value(lister *l, const module_path *at, gw_value v) {
    if (l->map)
        gw_map_put(l->scope, l->map, module_path_text(l->scope, at), v);
    else
        list_once(l, v);
}

static bool list_parameters(void *context, const module_path *where, gw_module *m) {
    lister *l = context;
    for (int i = 0; i < m->parameters.count; i++) {
        module_path at = { where, m->parameters.items[i].name };
        list_value(l, &at, gw_value_of(m->parameters.items[i].is.parameter));
    }
    gw_map *remote = m->remote ? m->remote->parameters(l->scope, m) : NULL;
    for (int i = 0; remote && gw_ok(l->scope) && i < gw_map_count(remote); i++) {
        module_path at = { where, gw_map_key(l->scope, remote, i) };
        list_value(l, &at, gw_map_find(remote, at.name));
    }
    return gw_ok(l->scope);
}

gw_list *gw_parameters_with(gw_scope *s, gw_module *const *modules, int count) {
    lister l = { .scope = s, .list = gw_list_open(s) };
    scope_check_array(s, "gw_parameters", modules, count);
    for (int i = 0; gw_ok(s) && i < count && module_is_usable(s, "gw_parameters", modules[i]); i++)
        module_each(modules[i], NULL, list_parameters, &l);
    map_fini(&l.listed);
    return l.list;
}

gw_map *gw_module_named_parameters(gw_scope *s, gw_module *m) {
    lister l = { .scope = s, .map = gw_map_open(s) };
    if (module_is_usable(s, "gw_module_named_parameters", m))
        module_each(m, NULL, list_parameters, &l);
    return l.map;
}
