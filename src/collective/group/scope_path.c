#include "collective/group/scope_path.h"

#include "base/mem.h"
#include "base/scope.h"

// Not in the scope: other threads call collectives in scopes inside it.
static _Thread_local call_of_several several;

call_of_several scope_path_begin_call(gw_scope *s) {
    call_of_several around = several;
    several = (call_of_several){ .scope = s, .id = scope_new_id(s) };
    return around;
}

void scope_path_end_call(call_of_several around) {
    several = around;
}

scope_path scope_path_of(gw_scope *s) {
    scope_path p = { .depth = 0 };
    gw_scope *called_in = s;
    while (called_in && called_in != several.scope) called_in = called_in->parent;
    uint64_t call = called_in ? several.id : scope_new_id(s);
    p.of_several = called_in;
    if (!called_in) called_in = s;
    int count = 0, most = SCOPE_PATH_MAX - 1;
    for (const gw_scope *x = called_in; x; x = x->parent) count++;
    p.depth = count < most ? count : most;
    for (gw_scope *x = called_in; x; x = x->parent) {
        if (--count < most) p.ids[count] = gw_scope_id(x);
        if (!x->parent) p.in_body = x->is_lent;
    }
    p.ids[p.depth++] = call;
    return p;
}

// No scope has an id so high.
void scope_path_make_call(scope_path *p, uint64_t number) {
    if (p->depth) p->ids[p->depth - 1] = UINT64_MAX - number;
}

int scope_path_leaves(const scope_path *from, const scope_path *to) {
    for (int i = 0; i < from->depth; i++)
        if (i >= to->depth || from->ids[i] != to->ids[i]) return i;
    return SCOPE_PATH_INSIDE;
}

uint64_t scope_path_at(const scope_path *p, int level) {
    if (level == SCOPE_PATH_SCOPE) return p->depth > 1 ? p->ids[p->depth - 2] : 0;
    if (level == SCOPE_PATH_CALL) level = p->depth - 1;
    return level >= 0 && level < p->depth && (level || p->in_body) ? p->ids[level] : 0;
}

// ---- The calls of a sequence --------------------------------------------------------------------

typedef struct call_path {
    uint64_t number;
    scope_path path;
} call_path;

bool call_paths_add(call_paths *all, uint64_t number, const scope_path *path) {
    if (!all->kept) all->kept = mem_calloc(CALL_PATHS_KEPT * sizeof *all->kept);
    if (all->kept) all->kept[number % CALL_PATHS_KEPT] = (call_path){ number, *path };
    return all->kept;
}

const scope_path *call_paths_find(const call_paths *all, uint64_t number) {
    const call_path *x = all->kept ? &all->kept[number % CALL_PATHS_KEPT] : NULL;
    return x && x->number == number ? &x->path : NULL;
}

void call_paths_fini(call_paths *all) {
    mem_free(all->kept);
    all->kept = NULL;
}
