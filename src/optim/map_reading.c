// Reading maps that may be of another program: each name is checked.
#include "optim/state.h"

#include "base/value.h"

#include <math.h>
#include <string.h>

bool map_reading_open(gw_scope *s, map_reading *r, const char *what, const gw_map *map) {
    *r = (map_reading){ .what = what, .map = map };
    if (gw_ok(s) && !map) scope_fail(s, GW_INVALID, "%s: no map", what);
    if (gw_ok(s)) r->seen = gw_alloc(s, (size_t)gw_map_count(map) + 1);
    return gw_ok(s);
}

gw_value map_reading_find(map_reading *r, const char *key) {
    size_t index = (size_t)(uintptr_t)map_find_name(&r->map->index, key);
    if (!index) return gw_none();
    r->seen[index - 1] = true;
    return r->map->values.items[index - 1];
}

gw_value map_reading_get(gw_scope *s, map_reading *r, const char *key) {
    if (!gw_ok(s)) return gw_none();
    if (!map_find_name(&r->map->index, key))
        scope_fail(s, GW_INVALID, "%s: \"%s\" is missing", r->what, key);
    return map_reading_find(r, key);
}

// A number may be a tensor of one element, in a file that has only tensors.
double map_reading_number(gw_scope *s, map_reading *r, const char *key) {
    gw_value v = map_reading_get(s, r, key);
    if (!gw_ok(s)) return 0;
    if (v.kind == GW_INT) return (double)v.as.integer;
    if (v.kind == GW_FLOAT) return v.as.real;
    if (v.kind == GW_TENSOR && gw_numel(v.as.tensor) == 1) return gw_item(s, v.as.tensor);
    scope_fail(s, GW_INVALID, "%s: \"%s\" must be a number, but is %s", r->what, key,
               gw_kind_name(v.kind));
    return 0;
}

int64_t map_reading_count(gw_scope *s, map_reading *r, const char *key) {
    double count = map_reading_number(s, r, key);
    if (gw_ok(s) && !(count >= 0 && count <= 9e15 && floor(count) == count))
        scope_fail(s, GW_INVALID, "%s: \"%s\" must be a count, but is %g", r->what, key, count);
    return gw_ok(s) ? (int64_t)count : 0;
}

void map_reading_string(gw_scope *s, map_reading *r, const char *key, const char *expected) {
    gw_value v = map_reading_get(s, r, key);
    if (!gw_ok(s)) return;
    bool is_string = v.kind == GW_STRING;
    if (is_string && strcmp(v.as.string, expected) == 0) return;
    scope_fail(s, GW_INVALID, "%s: \"%s\" is %s, not %s", r->what, key,
               is_string ? v.as.string : gw_kind_name(v.kind), expected);
}

void map_reading_close(gw_scope *s, map_reading *r) {
    for (int i = 0; gw_ok(s) && i < gw_map_count(r->map); i++)
        if (!r->seen[i])
            scope_fail(s, GW_INVALID, "%s: \"%s\" is unknown", r->what, gw_map_key(s, r->map, i));
}
