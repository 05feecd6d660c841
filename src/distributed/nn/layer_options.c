#include "distributed/nn/layer_options.h"

#include "base/nearest.h"
#include "base/scope.h"

#include <limits.h>
#include <string.h>

_Static_assert(sizeof(gw_dtype) == sizeof(int) && sizeof(gw_padding_mode) == sizeof(int) &&
                   sizeof(gw_embedding_bag_mode) == sizeof(int),
               "enums are written as ints");

int layer_small(gw_scope *s, const gw_args *a, const char *name, int64_t value) {
    if (value >= INT_MIN && value <= INT_MAX) return (int)value;
    if (gw_ok(s))
        scope_fail_of(s, a->label, GW_INVALID, "%s is %lld, which does not fit into an int", name,
                      (long long)value);
    return 0;
}

static void read_pair(gw_scope *s, const gw_args *a, const char *name, gw_value v, int64_t *out) {
    if (v.kind != GW_LIST) {
        out[0] = out[1] = gw_int_of(s, v);
        return;
    }
    int count = gw_list_count(v.as.list);
    if (count < 1 || count > 2)
        scope_fail_of(s, a->label, GW_INVALID, "\"%s\" has %d numbers, but must have 1 or 2", name,
                      count);
    for (int i = 0; gw_ok(s) && i < 2; i++)
        out[i] = gw_int_of(s, gw_list_get(s, v.as.list, i < count ? i : 0));
}

// ---- Words --------------------------------------------------------------------------------------
static int read_dtype(gw_scope *s, const gw_args *a, gw_value v) {
    const char *name = gw_string_of(s, v);
    for (int d = 0; d < GW_DTYPE_COUNT; d++)
        if (!strcmp(gw_dtype_name((gw_dtype)d), name)) return d;
    if (gw_ok(s)) scope_fail_of(s, a->label, GW_INVALID, "\"%.40s\" is no dtype", name);
    return GW_F32;
}

static int read_word(gw_scope *s, const gw_args *a, const layer_option *o, gw_value v) {
    const char *name = gw_string_of(s, v), *known = "";
    for (int i = 0; o->words[i]; i++) {
        if (!strcmp(o->words[i], name)) return i;
        known = gw_format(s, "%s%s%s", known, i ? ", " : "", o->words[i]);
    }
    if (gw_ok(s))
        scope_fail_of(s, a->label, GW_INVALID, "\"%.40s\" is not a %s: there are %s", name, o->name,
                      known);
    return 0;
}

// ---- Options ------------------------------------------------------------------------------------
static void write_small(void *to, int value) {
    memcpy(to, &value, sizeof value);
}

static void read_option(gw_scope *s, const gw_args *a, const layer_option *o, gw_value v,
                        void *to) {
    switch (o->kind) {
    case LAYER_BOOL: *(bool *)to = gw_bool_of(s, v); break;
    case LAYER_INT: *(int64_t *)to = gw_int_of(s, v); break;
    case LAYER_SMALL: write_small(to, layer_small(s, a, o->name, gw_int_of(s, v))); break;
    case LAYER_FLOAT: *(double *)to = gw_float_of(s, v); break;
    case LAYER_PAIR: read_pair(s, a, o->name, v, to); break;
    case LAYER_DTYPE: write_small(to, read_dtype(s, a, v)); break;
    case LAYER_WORD: write_small(to, read_word(s, a, o, v)); break;
    }
}

static const layer_option *find(const layer_option *options, const char *name) {
    for (; options->name; options++)
        if (!strcmp(options->name, name)) return options;
    return NULL;
}

void layer_read(gw_scope *s, const gw_args *a, int count, const layer_option *options, void *out) {
    if (!gw_ok(s) || a->count <= count) return;
    if (!options) {
        scope_fail_of(s, a->label, GW_INVALID, "takes %d arguments, not %d", count, a->count);
        return;
    }
    if (a->count > count + 1 || a->values[count].kind != GW_MAP) {
        scope_fail_of(s, a->label, GW_INVALID, "takes %d arguments and a map of options", count);
        return;
    }
    const gw_map *given = a->values[count].as.map;
    for (int i = 0; gw_ok(s) && i < gw_map_count(given); i++) {
        const char *name = gw_map_key(s, given, i);
        const layer_option *o = find(options, name);
        gw_value v = gw_map_find(given, name);
        nearest n = nearest_to(name);
        for (const layer_option *k = options; !o && k->name; k++) nearest_offer(&n, k->name);
        if (!o)
            scope_fail_of(s, a->label, GW_INVALID, "has no option \"%.100s\"%s", name,
                          nearest_words(&n));
        else if (v.kind != GW_NONE)
            read_option(s, a, o, v, (char *)out + o->offset);
    }
}
