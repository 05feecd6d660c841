#include "collective/scope_path.h"

#include "base/scope.h"

void scope_path_begin_call(gw_scope *s) {
    s->collective_call = scope_new_id(s);
}

void scope_path_end_call(gw_scope *s) {
    s->collective_call = 0;
}

scope_path scope_path_of(gw_scope *s) {
    scope_path p = { .depth = 0 };
    gw_scope *called_in = s;
    while (called_in && !called_in->collective_call) called_in = called_in->parent;
    uint64_t call = called_in ? called_in->collective_call : scope_new_id(s);
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

int scope_path_leaves(const scope_path *from, const scope_path *to) {
    for (int i = 0; i < from->depth; i++)
        if (i >= to->depth || from->ids[i] != to->ids[i]) return i;
    return SCOPE_PATH_INSIDE;
}

uint64_t scope_path_at(const scope_path *p, int level) {
    return level < p->depth && (level || p->in_body) ? p->ids[level] : 0;
}

bool scope_path_shares(const scope_path *a, const scope_path *b, int level) {
    return level < a->depth && level < b->depth && a->ids[level] == b->ids[level];
}
