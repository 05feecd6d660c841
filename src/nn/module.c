#include "nn/module.h"

#include "base/mem.h"
#include "base/nearest.h"
#include "tensor/tensor.h"
#include <gradwire/autograd.h>

#include <stdatomic.h>
#include <string.h>

// ---- Life ---------------------------------------------------------------------------------------
static void free_parts(module_parts *parts) {
    for (int i = parts->count; i-- > 0;) {
        mem_free(parts->items[i].name);
        handle_release(parts->items[i].is.handle);
    }
    mem_free(parts->items);
    map_fini(&parts->indices);
}

static void destroy(gw_handle *h) {
    gw_module *m = (gw_module *)h;
    if (m->remote) m->remote->destroy(m);
    hooks_fini(&m->hooks);
    mem_free(m->numbers[0]);
    mem_free(m->numbers[1]);
    free_parts(&m->children);
    free_parts(&m->buffers);
    free_parts(&m->parameters);
    mem_free(m->settings);
    handle_release(m->kept);
    mem_free(m->name);
    mem_give(m, sizeof *m);
}

static const handle_class module_class = { .name = "module", .destroy = destroy };

gw_module module_poison = {
    .handle = { &module_class, HANDLE_IMMORTAL },
    .name = (char *)"poison",
};

gw_module *module_new(gw_scope *s, const char *name, gw_module_forward *forward) {
    if (!gw_ok(s)) return &module_poison;
    gw_module *m = mem_take_zeros(sizeof *m);
    if (!m) goto no_memory;
    handle_init(&m->handle, &module_class);
    m->forward = forward;
    m->training = true;
    m->name = mem_strdup(name);
    if (!m->name) {
        destroy(&m->handle);
        goto no_memory;
    }
    return scope_own_or(s, m, &module_poison);

no_memory:
    scope_fail(s, GW_NO_MEMORY, "no memory for the module %s", name);
    return &module_poison;
}

gw_module *module_new_with(gw_scope *s, const char *name, gw_module_forward *forward,
                           const void *settings, size_t size) {
    gw_module *m = module_new(s, name, forward);
    if (m == &module_poison) return m;
    m->settings = mem_alloc(size);
    if (m->settings) {
        memcpy(m->settings, settings, size);
        return m;
    }
    scope_fail(s, GW_NO_MEMORY, "no memory for the module %s", name);
    return &module_poison;
}

gw_module *module_new_typed(gw_scope *s, const typed_call *c, const void *settings, size_t size) {
    gw_module *m = module_new_with(s, c->name, NULL, settings, size);
    if (m == &module_poison) return m;
    m->typed = c;
    m->forward_values = c->forward;
    return m;
}

static gw_module *open_own(gw_scope *s, const char *name, bool has_forward, void *state) {
    if (gw_ok(s) && (!name || !has_forward))
        scope_fail(s, GW_INVALID, "gw_module_open: a module needs a name and a forward");
    if (!gw_ok(s)) return &module_poison;
    gw_module *m = module_new(s, name, NULL);
    if (m != &module_poison) m->state = state;
    return m;
}

gw_module *gw_module_open_tensor(gw_scope *s, const char *name, gw_module_forward *forward,
                                 void *state) {
    gw_module *m = open_own(s, name, forward, state);
    if (m != &module_poison) m->forward = forward;
    return m;
}

gw_module *gw_module_open_values(gw_scope *s, const char *name, gw_module_forward_values *forward,
                                 void *state) {
    gw_module *m = open_own(s, name, forward, state);
    if (m != &module_poison) m->forward_values = forward;
    return m;
}

void *gw_module_state(const gw_module *m) {
    return m ? m->state : NULL;
}
const char *gw_module_name(const gw_module *m) {
    return m ? m->name : "";
}

bool module_is_usable(gw_scope *s, const char *where, const gw_module *m) {
    if (gw_ok(s) && !m) scope_fail(s, GW_INVALID, "%s: no module", where);
    if (gw_ok(s) && m == &module_poison)
        scope_fail(s, GW_INVALID, "%s: the module could not be made", where);
    return gw_ok(s);
}

// ---- Parts --------------------------------------------------------------------------------------
enum { PARTS_FEW = 16 };  // so many are looked up one by one

module_part *module_find_part(const module_parts *parts, const char *name, size_t size) {
    if (parts->indices.count) {
        char whole[GW_NAME_MAX + 1];
        if (size > GW_NAME_MAX) return NULL;
        memcpy(whole, name, size);
        whole[size] = '\0';
        intptr_t index = (intptr_t)map_find_name(&parts->indices, whole);
        return index ? &parts->items[index - 1] : NULL;
    }
    for (int i = 0; i < parts->count; i++) {
        module_part *p = &parts->items[i];
        if (strncmp(p->name, name, size) == 0 && !p->name[size]) return p;
    }
    return NULL;
}

static bool put_index(module_parts *parts, const char *name, int index) {
    return map_put_name(&parts->indices, name, (void *)(intptr_t)(index + 1));
}

// Adds the names of all parts, and then |name| of the next one, to the map, if they are many.
static bool note_index(module_parts *parts, const char *name) {
    bool ok = true;
    if (parts->count < PARTS_FEW) return true;
    for (int i = (int)parts->indices.count; ok && i < parts->count; i++)
        ok = put_index(parts, parts->items[i].name, i);
    return ok && put_index(parts, name, parts->count);
}

static bool contains(const gw_module *m, const gw_module *part) {
    if (m == part) return true;
    for (int i = 0; part->depth && i < m->children.count; i++)
        if (contains(m->children.items[i].is.child, part)) return true;
    return false;
}

static int height_of(const gw_module *m) {
    int height = 0;
    for (int i = 0; i < m->children.count; i++) {
        int below = height_of(m->children.items[i].is.child);
        if (height < below) height = below;
    }
    return height + 1;
}

static void put_at_depth(gw_module *m, int depth) {
    if (m->depth >= depth) return;
    m->depth = depth;
    for (int i = 0; i < m->children.count; i++)
        put_at_depth(m->children.items[i].is.child, depth + 1);
}

static bool check_name(gw_scope *s, const gw_module *m, const char *name) {
    if (m->remote)
        return scope_fail(s, GW_INVALID,
                          "%s: the module is on another worker, and so are its parts", m->name);
    if (!name || !*name || strchr(name, '.') || strlen(name) > GW_NAME_MAX)
        return scope_fail(s, GW_INVALID,
                          "%s: \"%.200s\" cannot name a part: 1 to %d characters without '.'",
                          m->name, name ? name : "", GW_NAME_MAX);
    size_t size = strlen(name);
    if (module_find_part(&m->children, name, size) ||
        module_find_part(&m->parameters, name, size) || module_find_part(&m->buffers, name, size))
        return scope_fail(s, GW_DUPLICATE, "%s has a part \"%s\" already", m->name, name);
    return true;
}

_Atomic uint64_t module_changes = 1;

static bool add_part(gw_scope *s, const gw_module *m, module_parts *parts, const char *name,
                     void *handle) {
    char *copy = mem_strdup(name);
    if (!copy) goto no_memory;
    if (!mem_grow(&parts->items, &parts->capacity, (uint32_t)parts->count + 1,
                  sizeof *parts->items))
        goto free_copy;
    if (!note_index(parts, name)) goto free_copy;
    parts->items[parts->count++] = (module_part){ copy, { handle_retain(handle) } };
    if (m->is_numbered) atomic_fetch_add_explicit(&module_changes, 1, memory_order_relaxed);
    return true;

free_copy:
    mem_free(copy);
no_memory:
    return scope_fail(s, GW_NO_MEMORY, "%s: no memory for the part \"%s\"", m->name, name);
}

void gw_module_register_module(gw_scope *s, gw_module *m, const char *name, gw_module *child) {
    if (!module_is_usable(s, "gw_module_register_module", m) || !check_name(s, m, name)) return;
    if (child == &module_poison) {
        scope_fail(s, GW_INVALID, "%s: \"%s\" is a module that could not be made", m->name, name);
        return;
    }
    if (!child || contains(child, m)) {
        scope_fail(s, GW_INVALID, "%s: \"%s\" is not a module, or would become a part of itself",
                   m->name, name);
        return;
    }
    if (m->depth + 1 + height_of(child) > MODULE_DEPTH_MAX) {
        scope_fail(s, GW_LIMIT, "%s: \"%s\": modules can be nested at most %d deep", m->name, name,
                   MODULE_DEPTH_MAX);
        return;
    }
    if (add_part(s, m, &m->children, name, child)) put_at_depth(child, m->depth + 1);
}

static bool check_tensor(gw_scope *s, const gw_module *m, const char *kind, const char *name,
                         const gw_tensor *x) {
    if (x && !tensor_is_poison(x)) return true;
    return scope_fail(s, GW_INVALID, "%s: the %s \"%s\" is %s", m->name, kind, name,
                      x ? "a tensor that could not be made" : "no tensor");
}

void gw_module_register_parameter(gw_scope *s, gw_module *m, const char *name, gw_tensor *x) {
    if (!module_is_usable(s, "gw_module_register_parameter", m) || !check_name(s, m, name) ||
        !check_tensor(s, m, "parameter", name, x))
        return;
    gw_requires_grad(s, x);
    if (gw_ok(s)) add_part(s, m, &m->parameters, name, x);
}

void gw_module_register_buffer(gw_scope *s, gw_module *m, const char *name, gw_tensor *x) {
    if (!module_is_usable(s, "gw_module_register_buffer", m) || !check_name(s, m, name) ||
        !check_tensor(s, m, "buffer", name, x))
        return;
    if (tensor_needs_grad(x)) {
        scope_fail(s, GW_INVALID, "%s: the buffer \"%s\" needs a gradient", m->name, name);
        return;
    }
    if (tensor_is_rows(x)) {
        scope_fail(s, GW_INVALID,
                   "%s: the buffer \"%s\" is sparse by rows; gw_to_dense makes it dense", m->name,
                   name);
        return;
    }
    add_part(s, m, &m->buffers, name, x);
}

gw_module *gw_module_child(gw_scope *s, const gw_module *m, const char *name) {
    if (!module_is_usable(s, "gw_module_child", m)) return &module_poison;
    const gw_module *inner = m;
    for (const char *at = name ? name : "";;) {
        size_t size = strcspn(at, ".");
        module_part *p = module_find_part(&inner->children, at, size);
        if (!p) break;
        if (!at[size]) return p->is.child;
        inner = p->is.child;
        at += size + 1;
    }
    const char *dot = name ? strrchr(name, '.') : NULL;
    nearest n = nearest_to(dot ? dot + 1 : name);
    for (int i = 0; i < inner->children.count; i++)
        nearest_offer(&n, inner->children.items[i].name);
    scope_fail(s, GW_NOT_FOUND, "%s has no part \"%s\"%s", m->name, name ? name : "",
               nearest_words(&n));
    return &module_poison;
}

// ---- Walks --------------------------------------------------------------------------------------
static bool visit_own(const module_parts *parts, const module_path *where, module_visit *visit,
                      void *context) {
    for (int i = 0; i < parts->count; i++) {
        module_path at = { where, parts->items[i].name };
        if (!visit(context, &at, parts->items[i].is.parameter)) return false;
    }
    return true;
}

bool module_each_tensor(const gw_module *m, module_tensors kinds, const module_path *where,
                        module_visit *visit, void *context) {
    if ((kinds & MODULE_PARAMETERS) && !visit_own(&m->parameters, where, visit, context))
        return false;
    if ((kinds & MODULE_BUFFERS) && !visit_own(&m->buffers, where, visit, context)) return false;
    for (int i = 0; i < m->children.count; i++) {
        module_path at = { where, m->children.items[i].name };
        if (!module_each_tensor(m->children.items[i].is.child, kinds, &at, visit, context))
            return false;
    }
    return true;
}

bool module_each(gw_module *m, const module_path *where,
                 bool (*visit)(void *context, const module_path *where, gw_module *m),
                 void *context) {
    if (!visit(context, where, m)) return false;
    for (int i = 0; i < m->children.count; i++) {
        module_path at = { where, m->children.items[i].name };
        if (!module_each(m->children.items[i].is.child, &at, visit, context)) return false;
    }
    return true;
}

const char *module_path_text(gw_scope *s, const module_path *at) {
    const char *text = gw_format(s, "%s", at->name);
    for (at = at->outer; at; at = at->outer) text = gw_format(s, "%s.%s", at->name, text);
    return text;
}

// ---- Training and evaluation --------------------------------------------------------------------
static void set_training(gw_scope *s, gw_module *m, bool training) {
    if (!module_is_usable(s, training ? "gw_module_train" : "gw_module_eval", m)) return;
    if (m->remote) m->remote->train(s, m, training);
    if (gw_ok(s)) m->training = training;
    for (int i = 0; i < m->children.count; i++)
        set_training(s, m->children.items[i].is.child, training);
}

void gw_module_train(gw_scope *s, gw_module *m) {
    set_training(s, m, true);
}
void gw_module_eval(gw_scope *s, gw_module *m) {
    set_training(s, m, false);
}
bool gw_module_is_training(const gw_module *m) {
    return m && m->training;
}
