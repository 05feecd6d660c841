// The groups of workers that enter collectives together, by their ranks.
#include "collective/rpc/collective.h"

#include "base/mem.h"

#include <stdio.h>

const service_data collective_data = { 0 };

map *collective_groups_of(const agent *a) {
    return agent_state(a, &collective_data);
}

static char *key_of(const uint32_t *ranks, int count) {
    size_t size = (size_t)count * 8 + 1, at = 0;
    char *key = mem_alloc(size);
    for (int i = 0; key && i < count; i++)
        at += (size_t)snprintf(key + at, size - at, "%x,", ranks[i]);
    return key;
}

static collective_group *make_group(agent *a, const char *key, const uint32_t *ranks, int count) {
    map *groups = collective_groups_of(a);
    if (groups->count >= LIMIT_COLLECTIVE_GROUPS) return NULL;
    collective_group *m = mem_calloc(sizeof *m + (size_t)count * sizeof m->members[0]);
    if (!m) return NULL;
    m->agent = a;
    m->count = count;
    for (int i = 0; i < count; i++) m->members[i].rank = ranks[i];
    if (map_put_name(groups, key, m)) return m;
    mem_free(m);
    return NULL;
}

collective_group *collective_group_of_on_loop(agent *a, const uint32_t *ranks, int count) {
    char *key = key_of(ranks, count);
    if (!key) return NULL;
    collective_group *m = map_find_name(collective_groups_of(a), key);
    if (!m) m = make_group(a, key, ranks, count);
    mem_free(key);
    return m;
}

int collective_index_of(const collective_group *m, int rank) {
    for (int i = 0; i < m->count; i++)
        if (m->members[i].rank == (uint32_t)rank) return i;
    return -1;
}

const char *collective_name_of(const collective_group *m, int index) {
    return agent_member(m->agent, (int)m->members[index].rank)->name;
}
