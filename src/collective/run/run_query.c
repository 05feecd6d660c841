// Queries about the runs of a group.
#include "collective/run/run.h"

#include <stdio.h>

run *group_find_run_on_loop(const gw_group *g, uint64_t key, uint64_t number) {
    list_each(l, &g->runs) {
        run *r = list_entry(l, run, link);
        if (r->number == number && r->sequence->key == key) return r;
    }
    return NULL;
}

void run_name_missing(const run *r, char *out, size_t size) {
    const gw_group *g = r->group;
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; i < g->count && at + LIMIT_NAME_BYTES + 16 < size; i++) {
        const run_partner *m = &r->partners[i];
        if (!m->is_partner || (r->enters_missing ? m->entered : m->next_receive < 0)) continue;
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
