// Saving and loading the state of an optimizer with owners.
#include "base/value.h"
#include "distributed/optim/optimizer.h"

#include "optim/state.h"

#include <stdlib.h>
#include <string.h>

void owners_write(gw_scope *s, const gw_optimizer *o, gw_map *map) {
    const owners *e = owners_of(o);
    if (!calls_may_wait(s, "gw_optimizer_state_dict")) return;
    gw_future **fs = gw_alloc(s, (size_t)e->count * sizeof(gw_future *));
    for (int i = 0; i < e->count && gw_ok(s); i++)
        fs[i] = gw_rpc_async(s, e->items[i].object, "state");
    for (int i = 0; i < e->count && gw_ok(s); i++) {
        const gw_map *part = gw_map_of(s, gw_wait(s, fs[i]));
        for (int k = 0; k < gw_map_count(part) && gw_ok(s); k++)
            gw_map_put_with(s, map, gw_map_key(s, part, k), part->values.items[k]);
    }
}

// The index of the owner whose parameter |key| names. -1: this worker's, or no parameter's; -2: an
// entry that all owners need.
static int owner_of_key(const owners *e, const char *key) {
    char *end;
    if (*key < '0' || *key > '9') return -2;
    long number = strtol(key, &end, 10);
    return *end == '.' && number < e->number_count ? e->owner_of[number] : -1;
}

static gw_map *part_of(gw_scope *s, const owners *e, const gw_map *map, int owner) {
    gw_map *part = gw_map_open(s);
    for (int i = 0; map && i < gw_map_count(map) && gw_ok(s); i++) {
        const char *key = gw_map_key(s, map, i);
        int whose = owner_of_key(e, key);
        if (whose == owner || whose == -2) gw_map_put_with(s, part, key, map->values.items[i]);
    }
    return part;
}

void owners_load(gw_scope *s, gw_optimizer *o, gw_map *map) {
    owners *e = owners_of(o);
    loaded l;
    if (!calls_may_wait(s, "gw_optimizer_load_state_dict") ||
        !state_read(s, o, "gw_optimizer_load_state_dict", map ? part_of(s, e, map, -1) : NULL, &l))
        return;
    gw_future **fs = gw_alloc(s, (size_t)e->count * sizeof(gw_future *));
    for (int i = 0; i < e->count && gw_ok(s); i++)
        fs[i] = gw_rpc_async(s, e->items[i].object, "check", part_of(s, e, map, i));
    if (gw_ok(s)) gw_wait_all(s, fs, e->count);
    if (!gw_ok(s)) {
        state_forget(&l);
        return;
    }
    e->sent_count = 0;
    for (int i = 0; i < e->count; i++) fs[i] = gw_rpc_async(s, e->items[i].object, "load");
    state_take_over(o, &l);
    gw_wait_all(s, fs, e->count);
}
