#include "distributed/nn/layer_options.h"

#include "base/scope.h"

#include <limits.h>
#include <string.h>

static gw_value option(const gw_args *a, int index, const char *name) {
    bool has = index < a->count && a->values[index].kind == GW_MAP;
    return has ? gw_map_find(a->values[index].as.map, name) : gw_none();
}

void layer_bool(gw_scope *s, const gw_args *a, int index, const char *name, bool *out) {
    gw_value v = option(a, index, name);
    if (v.kind != GW_NONE) *out = gw_bool_of(s, v);
}

void layer_int(gw_scope *s, const gw_args *a, int index, const char *name, int64_t *out) {
    gw_value v = option(a, index, name);
    if (v.kind != GW_NONE) *out = gw_int_of(s, v);
}

int layer_small(gw_scope *s, const gw_args *a, const char *name, int64_t value) {
    if (value >= INT_MIN && value <= INT_MAX) return (int)value;
    if (gw_ok(s)) scope_fail(s, GW_INVALID, "%s: %s is %lld", a->label, name, (long long)value);
    return 0;
}

void layer_float(gw_scope *s, const gw_args *a, int index, const char *name, double *out) {
    gw_value v = option(a, index, name);
    if (v.kind != GW_NONE) *out = gw_float_of(s, v);
}

const char *layer_string(gw_scope *s, const gw_args *a, int index, const char *name) {
    gw_value v = option(a, index, name);
    return v.kind == GW_NONE ? NULL : gw_string_of(s, v);
}

gw_dtype layer_dtype(gw_scope *s, const gw_args *a, int index) {
    gw_value v = option(a, index, "dtype");
    if (v.kind == GW_NONE) return GW_F32;
    const char *name = gw_string_of(s, v);
    for (int d = 0; gw_ok(s) && d < GW_DTYPE_COUNT; d++)
        if (!strcmp(gw_dtype_name((gw_dtype)d), name)) return (gw_dtype)d;
    scope_fail(s, GW_INVALID, "%s: \"%.40s\" is no dtype", a->label, name);
    return GW_F32;
}

void layer_pair(gw_scope *s, const gw_args *a, int index, const char *name, int64_t out[2]) {
    gw_value v = option(a, index, name);
    if (v.kind == GW_NONE) return;
    if (v.kind != GW_LIST) {
        out[0] = out[1] = gw_int_of(s, v);
        return;
    }
    int count = gw_list_count(v.as.list);
    if (count < 1 || count > 2)
        scope_fail(s, GW_INVALID, "%s: \"%s\" has %d numbers, not 1 or 2", a->label, name, count);
    for (int i = 0; gw_ok(s) && i < 2; i++)
        out[i] = gw_int_of(s, gw_list_get(s, v.as.list, i < count ? i : 0));
}

// ---- Checking -----------------------------------------------------------------------------------
static bool is_among(const char *name, const char *names) {
    size_t size = strlen(name);
    for (const char *at = names; *at; at += strcspn(at, " "), at += *at == ' ')
        if (strcspn(at, " ") == size && !memcmp(at, name, size)) return true;
    return false;
}

void layer_check_options(gw_scope *s, const gw_args *a, int index, const char *names) {
    if (!gw_ok(s) || a->count <= index) return;
    if (a->count > index + 1 || a->values[index].kind != GW_MAP) {
        scope_fail(s, GW_INVALID, "%s: takes %d arguments and a map of options", a->label, index);
        return;
    }
    const gw_map *options = a->values[index].as.map;
    for (int i = 0; i < gw_map_count(options); i++) {
        const char *name = gw_map_key(s, options, i);
        if (is_among(name, names)) continue;
        scope_fail(s, GW_INVALID, "%s: has no option \"%.100s\"", a->label, name);
        return;
    }
}

void layer_check_count(gw_scope *s, const gw_args *a, int count) {
    if (gw_ok(s) && a->count != count)
        scope_fail(s, GW_INVALID, "%s: takes %d arguments, not %d", a->label, count, a->count);
}
