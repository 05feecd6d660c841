#include "parallel/module_replica.h"

#include "base/mem.h"
#include "tensor/tensor.h"
#include <gradwire/ops.h>

#include <string.h>

static bool found(void *context, const module_path *at, gw_tensor *x) {
    (void)context, (void)at, (void)x;
    return false;
}

bool module_has_buffers(const gw_module *m) {
    return !module_each_tensor(m, MODULE_BUFFERS, NULL, found, NULL);
}

static bool has_none(void *context, const module_path *where, gw_module *m) {
    (void)context, (void)where;
    return !hooks_any(&m->hooks);
}

bool module_has_hooks(gw_module *m) {
    return !module_each(m, NULL, has_none, NULL);
}

// ---- Parts --------------------------------------------------------------------------------------

// The same parts, each with a count.
static bool copy_parts(module_parts *to, const module_parts *from) {
    *to = (module_parts){ 0 };
    if (!from->count) return true;
    to->items = mem_alloc((size_t)from->count * sizeof *to->items);
    if (!to->items) return false;
    to->count = from->count;
    to->capacity = (uint32_t)from->count;
    memcpy(to->items, from->items, (size_t)from->count * sizeof *to->items);
    for (int i = 0; i < to->count; i++) handle_retain(to->items[i].is.handle);
    return true;
}

static bool copy_buffers(gw_scope *s, module_parts *buffers) {
    for (int i = 0; i < buffers->count; i++) {
        gw_tensor *copy = gw_clone(s, buffers->items[i].is.buffer);
        if (!gw_ok(s)) return false;
        handle_release(buffers->items[i].is.handle);
        buffers->items[i].is.buffer = handle_retain(copy);
    }
    return true;
}

static bool replace_children(gw_scope *s, module_parts *children) {
    for (int i = 0; i < children->count; i++) {
        gw_module *r = module_replica_open(s, children->items[i].is.child);
        handle_release(children->items[i].is.handle);
        children->items[i].is.child = r;
        if (!r) return false;
    }
    return true;
}

// ---- Life ---------------------------------------------------------------------------------------

static void forget_names(module_parts *parts) {
    for (int i = 0; i < parts->count; i++) parts->items[i].name = NULL;
}

// The parameters and hooks of the original module stay there.
void module_replica_close(gw_module *r) {
    if (!r || r->remote) {
        handle_release(r);
        return;
    }
    for (int i = 0; i < r->children.count; i++) {
        module_replica_close(r->children.items[i].is.child);
        r->children.items[i].is.child = NULL;
    }
    forget_names(&r->parameters);
    forget_names(&r->buffers);
    forget_names(&r->children);
    r->settings = NULL;
    r->kept = NULL;
    r->name = NULL;
    handle_release(r);
}

gw_module *module_replica_open(gw_scope *s, gw_module *m) {
    if (m->remote) return handle_retain(m);
    gw_module *r = mem_take(sizeof *r);
    if (r) {
        // But for the handle, whose count other threads change.
        memcpy(&r->handle + 1, &m->handle + 1, sizeof *m - sizeof m->handle);
        handle_init(&r->handle, m->handle.class);
        r->numbers[0] = r->numbers[1] = NULL;
        bool ok = hooks_copy(&r->hooks, &m->hooks);  // a hook may add and remove some
        ok = copy_parts(&r->parameters, &m->parameters) && ok;
        ok = copy_parts(&r->buffers, &m->buffers) && ok;
        ok = copy_parts(&r->children, &m->children) && ok;
        if (ok && copy_buffers(s, &r->buffers) && replace_children(s, &r->children)) return r;
        module_replica_close(r);
    }
    scope_fail(s, GW_NO_MEMORY, "no memory for a copy of the module %s", m->name);
    return NULL;
}
