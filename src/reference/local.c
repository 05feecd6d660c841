// gw_local: code of the owner enters an object of its worker.
#include "reference/references.h"

#include "base/mem.h"

#include <string.h>

typedef struct local_turn {
    held_turn held;
    entry *entry;
} local_turn;

static void left(held_turn *h) {
    local_turn *t = (local_turn *)(void *)h;
    entry_release_on_loop(t->entry);
    mem_free(t);
}

static gw_status enter(gw_scope *s, entry *e, gw_error *error) {
    agent *a = e->agent;
    local_turn *t = mem_calloc(sizeof *t);
    if (!t) return error_set(error, GW_NO_MEMORY, "no memory for a turn");
    t->entry = e;
    t->held.left = left;
    env_enter(a->env);
    entry_retain_on_loop(e);
    env_leave(a->env);
    gw_status status = context_enter(a, s, e->object->turn, &t->held, error);
    if (!status) return GW_OK;
    env_enter(a->env);
    entry_release_on_loop(e);
    env_leave(a->env);
    mem_free(t);
    return status;
}

// The caller reads the object as a struct, so its class must be the right one.
static bool is_of_class(const object *o, const char *name, gw_error *error) {
    if (!strcmp(o->class->name, name)) return true;
    error_set(error, GW_INVALID, "gw_local: the reference is to a %s, not to a %s", o->class->name,
              name);
    return false;
}

void *gw_local_with(gw_scope *s, gw_rref *r, const char *class_name) {
    if (!rref_is_usable(s, r)) return NULL;
    gw_error error;
    if (!class_name) {
        scope_fail(s, GW_INVALID, "gw_local: the name of the class is missing");
        return NULL;
    }
    gw_status status = local_entry(s, r, &error);
    object *o = status ? NULL : entry_object(r->entry, &error);
    if (o && is_of_class(o, class_name, &error) &&
        (context_has_turn(s, o->turn) || enter(s, r->entry, &error) == GW_OK))
        return o->self;
    scope_fail_with(s, &error);
    return NULL;
}
