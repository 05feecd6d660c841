// Queries about the runs of a group.
#include "collective/run/run.h"

#include "agent/bodies/observe.h"
#include "collective/group/groups_state.h"

#include <stdio.h>

run *group_find_run_on_loop(const gw_group *g, uint64_t key, uint64_t number) {
    list_each(l, &g->runs) {
        run *r = list_entry(l, run, link);
        if (r->number == number && r->sequence->key == key) return r;
    }
    return NULL;
}

bool run_is_missing(const run *r, int i) {
    const run_partner *m = &r->partners[i];
    return m->is_partner && !(r->enters_missing ? m->entered : m->next_receive < 0);
}

static const run *find_run_of(const gw_future *f) {
    map_cursor at = { 0 };
    for (const gw_group *g; (g = groups_next_on_loop(f->agent, &at));) {
        list_each(l, &g->runs) {
            const run *r = list_entry(l, run, link);
            if (r->future == f) return r;
        }
    }
    return NULL;
}

void run_describe_on_loop(const run *r, trace_activity *out) {
    const gw_group *g = r->group;
    out->kind = TRACE_WAITS_COLLECTIVE;
    out->number = r->number;
    snprintf(out->what, sizeof out->what, "%s", operation_name(r->signature.operation));
    snprintf(out->in, sizeof out->in, "%.90s", g->name);
    if (r->origin[0]) activity_set_site(out, r->origin);
    for (int i = 0; i < g->count; i++)
        if (run_is_missing(r, i)) trace_activity_add_rank(out, g->members[i].rank);
}

void run_describe(const gw_future *f, trace_activity *out) {
    const run *r = find_run_of(f);
    if (r) run_describe_on_loop(r, out);
}

void run_name_missing(const run *r, char *out, size_t size) {
    const gw_group *g = r->group;
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; i < g->count && at + LIMIT_NAME_BYTES + 16 < size; i++) {
        if (!run_is_missing(r, i)) continue;
        at +=
            (size_t)snprintf(out + at, size - at, "%s%s", at ? ", " : "", group_member_name(g, i));
    }
}

run *group_find_detached_on_loop(const gw_group *g, uint64_t key, uint64_t number) {
    list_each(l, &g->detached) {
        run *r = list_entry(l, run, link);
        if (r->key == key && r->number == number) return r;
    }
    return NULL;
}

uint32_t group_count_detached_on_loop(const gw_group *g) {
    uint32_t count = 0;
    list_each(l, &g->detached) count += !list_entry(l, run, link)->enters_missing;
    return count;
}
