// The position of a loader, as a map, and continuing from it.
#include "data/loader.h"

enum { EPOCH, POSITION, COUNT, SEED, NUMBER_COUNT };
static const char *const names[NUMBER_COUNT] = { "epoch", "position", "count", "seed" };

gw_map *gw_data_loader_state_dict(gw_scope *s, gw_data_loader *l) {
    gw_map *map = gw_map_open(s);
    if (!loader_check(s, l, "gw_data_loader_state_dict")) return map;
    gw_map_put(s, map, names[EPOCH], gw_data_loader_epoch(l));
    gw_map_put(s, map, names[POSITION], l->position);
    gw_map_put(s, map, names[COUNT], gw_sampler_count(l->sampler));
    gw_map_put(s, map, names[SEED], (int64_t)l->seed);
    return map;
}

static int64_t number_of(gw_scope *s, const gw_map *map, const char *name) {
    gw_value v = gw_map_find(map, name);
    // In a checkpoint a number may be a tensor of one element.
    if (v.kind == GW_TENSOR && gw_numel(v.as.tensor) == 1) return gw_item_int(s, v.as.tensor);
    if (v.kind == GW_INT) return v.as.integer;
    scope_fail(s, GW_INVALID, "gw_data_loader_load_state_dict: \"%s\" is %s, not an int", name,
               v.kind == GW_NONE ? "missing" : gw_kind_name(v.kind));
    return 0;
}

static void check(gw_scope *s, const gw_data_loader *l, const int64_t *numbers) {
    int64_t count = gw_sampler_count(l->sampler);
    const char *what = "gw_data_loader_load_state_dict";
    if (numbers[COUNT] != count)
        scope_fail(s, GW_INVALID,
                   "%s: %s: the state is for epochs of %lld items, but the sampler has %lld", what,
                   l->dataset->name, (long long)numbers[COUNT], (long long)count);
    else if (numbers[EPOCH] < 0 || numbers[POSITION] < 0 || numbers[POSITION] > count)
        scope_fail(s, GW_INVALID,
                   "%s: %s: the state has position %lld in epoch %lld, which is out of range", what,
                   l->dataset->name, (long long)numbers[POSITION], (long long)numbers[EPOCH]);
}

void gw_data_loader_load_state_dict(gw_scope *s, gw_data_loader *l, gw_map *map) {
    int64_t numbers[NUMBER_COUNT] = { 0 };
    if (!loader_check(s, l, "gw_data_loader_load_state_dict")) return;
    if (!map) scope_fail(s, GW_INVALID, "gw_data_loader_load_state_dict: the map is NULL");
    for (int i = 0; i < NUMBER_COUNT && gw_ok(s); i++) numbers[i] = number_of(s, map, names[i]);
    if (gw_ok(s) && gw_map_count(map) != NUMBER_COUNT)
        scope_fail(s, GW_INVALID,
                   "gw_data_loader_load_state_dict: the map has keys that the state of a loader "
                   "does not have");
    if (gw_ok(s)) check(s, l, numbers);
    if (!gw_ok(s)) return;
    loader_rewind(l);
    l->seed = (uint64_t)numbers[SEED];
    if (l->made_sampler) l->sampler->seed = l->seed;
    l->sampler->epoch = numbers[EPOCH];
    l->position = numbers[POSITION];
}
