// Hooks of modules.
#include "nn/module.h"

#include "base/mem.h"
#include "tensor/tensor.h"

#include <string.h>

struct module_hook {
    int id;  // growing
    gw_module_forward_pre_hook *before;
    gw_module_forward_hook *after;  // one of the two
    void *context;
};

// ---- Adding and removing ------------------------------------------------------------------------
static int add(gw_scope *s, gw_module *m, module_hook hook) {
    if (!module_is_usable(s, "a hook", m)) return 0;
    if (!hook.before && !hook.after) {
        scope_fail(s, GW_INVALID, "%s: a hook is a function", m->name);
        return 0;
    }
    if (m->hooks.count == m->hooks.capacity) {
        int capacity = m->hooks.capacity ? m->hooks.capacity * 2 : 2;
        module_hook *items = mem_realloc(m->hooks.items, (size_t)capacity * sizeof *items);
        if (!items) {
            scope_fail(s, GW_NO_MEMORY, "%s: no memory for a hook", m->name);
            return 0;
        }
        m->hooks.items = items;
        m->hooks.capacity = capacity;
    }
    hook.id = ++m->hooks.last_id;
    m->hooks.items[m->hooks.count++] = hook;
    return hook.id;
}

int gw_module_register_forward_pre_hook(gw_scope *s, gw_module *m, gw_module_forward_pre_hook *hook,
                                        void *context) {
    return add(s, m, (module_hook){ .before = hook, .context = context });
}
int gw_module_register_forward_hook(gw_scope *s, gw_module *m, gw_module_forward_hook *hook,
                                    void *context) {
    return add(s, m, (module_hook){ .after = hook, .context = context });
}

void gw_module_remove_hook(gw_scope *s, gw_module *m, int hook) {
    if (!module_is_usable(s, "gw_module_remove_hook", m)) return;
    for (int i = 0; i < m->hooks.count; i++) {
        if (m->hooks.items[i].id != hook) continue;
        size_t behind = (size_t)(--m->hooks.count - i);
        memmove(&m->hooks.items[i], &m->hooks.items[i + 1], behind * sizeof *m->hooks.items);
        return;
    }
    scope_fail(s, GW_NOT_FOUND, "%s has no hook %d", m->name, hook);
}

void module_hooks_fini(gw_module *m) {
    mem_free(m->hooks.items);
}

// ---- Running ------------------------------------------------------------------------------------
// Finds the first hook with an id above |*id|. A hook may add and remove hooks.
static bool next(const gw_module *m, int *id, module_hook *out) {
    for (int i = 0; i < m->hooks.count; i++) {
        if (m->hooks.items[i].id <= *id) continue;
        *out = m->hooks.items[i];
        *id = out->id;
        return true;
    }
    return false;
}

gw_tensor *module_hooks_before(gw_scope *s, gw_module *m, gw_tensor *x) {
    module_hook hook;
    for (int id = 0; gw_ok(s) && next(m, &id, &hook);) {
        gw_tensor *other = hook.before ? hook.before(s, m, x, hook.context) : NULL;
        if (other) x = other;
    }
    return x;
}

gw_tensor *module_hooks_after(gw_scope *s, gw_module *m, gw_tensor *x, gw_tensor *y) {
    module_hook hook;
    for (int id = 0; gw_ok(s) && next(m, &id, &hook);) {
        gw_tensor *other = hook.after ? hook.after(s, m, x, y, hook.context) : NULL;
        if (other) y = other;
    }
    return gw_ok(s) ? y : tensor_poison_of(s);
}

bool module_hooks_any_after(const gw_module *m) {
    for (int i = 0; i < m->hooks.count; i++)
        if (m->hooks.items[i].after) return true;
    return false;
}
