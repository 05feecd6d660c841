// Hooks of modules.
#include "nn/module.h"

#include "tensor/tensor.h"

enum { BEFORE, AFTER, ALWAYS_BEFORE };  // the kinds of hooks

// ---- Adding and removing ------------------------------------------------------------------------
static int add(gw_scope *s, gw_module *m, hook_function *run, void *context, int kind) {
    if (!module_is_usable(s, "a hook", m)) return 0;
    if (!run) {
        scope_fail(s, GW_INVALID, "%s: the hook is NULL", m->name);
        return 0;
    }
    int number = hooks_add(&m->hooks, run, context, kind);
    if (!number) scope_fail(s, GW_NO_MEMORY, "%s: no memory for a hook", m->name);
    return number;
}

int gw_module_register_forward_pre_hook(gw_scope *s, gw_module *m, gw_module_forward_pre_hook *hook,
                                        void *context) {
    return add(s, m, (hook_function *)hook, context, BEFORE);
}
int gw_module_register_forward_hook(gw_scope *s, gw_module *m, gw_module_forward_hook *hook,
                                    void *context) {
    return add(s, m, (hook_function *)hook, context, AFTER);
}

int module_register_hook_always(gw_scope *s, gw_module *m, gw_module_forward_pre_hook *hook,
                                void *context) {
    return add(s, m, (hook_function *)hook, context, ALWAYS_BEFORE);
}

void gw_module_remove_hook(gw_scope *s, gw_module *m, int hook) {
    if (!module_is_usable(s, "gw_module_remove_hook", m)) return;
    if (!hooks_remove(&m->hooks, hook, BEFORE) && !hooks_remove(&m->hooks, hook, AFTER) &&
        !hooks_remove(&m->hooks, hook, ALWAYS_BEFORE))
        scope_fail(s, GW_NOT_FOUND, "%s has no hook %d", m->name, hook);
}

// ---- Running ------------------------------------------------------------------------------------
gw_tensor *module_hooks_before(gw_scope *s, gw_module *m, gw_tensor *x) {
    hook_entry h;
    for (hook_walk w = hooks_walk(&m->hooks); hooks_next(&m->hooks, &w, &h);) {
        if (h.kind != ALWAYS_BEFORE && (h.kind != BEFORE || !gw_ok(s))) continue;
        gw_tensor *other = ((gw_module_forward_pre_hook *)h.run)(s, m, x, h.context);
        if (other) x = other;
    }
    return x;
}

static bool refuse_one(void *context, const module_path *where, gw_module *m) {
    gw_scope *s = context;
    (void)where;
    if (hooks_any(&m->hooks)) module_hooks_before(s, m, tensor_poison_of(s));
    if (m->refused) m->refused(s, m);
    return true;
}

void module_refuse_call(gw_scope *s, gw_module *m) {
    if (m && m != &module_poison) module_each(m, NULL, refuse_one, s);
}

void module_refuse_forward(gw_scope *s, gw_module *m) {
    if (m->refused) m->refused(s, m);
    for (int i = 0; i < m->children.count; i++)
        module_refuse_call(s, m->children.items[i].is.child);
}

gw_tensor *module_hooks_after(gw_scope *s, gw_module *m, gw_tensor *x, gw_tensor *y) {
    hook_entry h;
    for (hook_walk w = hooks_walk(&m->hooks); gw_ok(s) && hooks_next(&m->hooks, &w, &h);) {
        if (h.kind != AFTER) continue;
        gw_tensor *other = ((gw_module_forward_hook *)h.run)(s, m, x, y, h.context);
        if (other) y = other;
    }
    return gw_ok(s) ? y : tensor_poison_of(s);
}

bool module_hooks_any_after(const gw_module *m) {
    hook_entry h;
    for (hook_walk w = hooks_walk(&m->hooks); hooks_next(&m->hooks, &w, &h);)
        if (h.kind == AFTER) return true;
    return false;
}
