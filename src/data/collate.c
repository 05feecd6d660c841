// Putting items together, as torch's default_collate does.
#include <gradwire/data.h>

#include "base/scope.h"
#include "base/limits.h"
#include "tensor/tensor.h"

static gw_value put_together(gw_scope *s, gw_list *items, int depth);

static gw_value stack(gw_scope *s, gw_list *items) {
    int count = gw_list_count(items);
    gw_tensor **xs = gw_alloc(s, (size_t)count * sizeof(gw_tensor *));
    for (int i = 0; xs && i < count; i++) xs[i] = gw_tensor_of(s, gw_list_get(s, items, i));
    return gw_value_of(xs ? gw_stack(s, xs, count, 0) : tensor_poison_of(s));
}

static gw_value number_row(gw_scope *s, gw_list *items, gw_kind kind) {
    int count = gw_list_count(items);
    gw_dtype dtype = kind == GW_INT ? GW_I64 : kind == GW_FLOAT ? GW_F64 : GW_BOOL8;
    gw_tensor *row = gw_zeros(s, dtype, count);
    void *at = gw_data_for_write(s, row);
    for (int i = 0; at && i < count; i++) {
        gw_value v = gw_list_get(s, items, i);
        if (kind == GW_INT)
            ((int64_t *)at)[i] = v.as.integer;
        else if (kind == GW_FLOAT)
            ((double *)at)[i] = v.as.real;
        else
            ((bool *)at)[i] = v.as.boolean;
    }
    return gw_value_of(row);
}

// The elements |index| of all lists, put together.
static gw_value list_column(gw_scope *s, gw_list *items, int index, int depth) {
    gw_list *column = gw_list_open(s);
    for (int i = 0; i < gw_list_count(items); i++)
        gw_list_add(s, column, gw_list_get(s, gw_list_get(s, items, i).as.list, index));
    return put_together(s, column, depth - 1);
}

static gw_value join_lists(gw_scope *s, gw_list *items, int depth) {
    int size = gw_list_count(gw_list_get(s, items, 0).as.list);
    for (int i = 1; i < gw_list_count(items); i++) {
        int other = gw_list_count(gw_list_get(s, items, i).as.list);
        if (other == size) continue;
        scope_fail(s, GW_INVALID,
                   "gw_default_collate: one list has %d elements, but another list has %d", size,
                   other);
        return gw_none();
    }
    gw_list *joined = gw_list_open(s);
    for (int k = 0; k < size && gw_ok(s); k++)
        gw_list_add(s, joined, list_column(s, items, k, depth));
    return gw_value_of(joined);
}

static gw_value map_column(gw_scope *s, gw_list *items, const char *key, int depth) {
    gw_list *column = gw_list_open(s);
    for (int i = 0; i < gw_list_count(items); i++)
        gw_list_add(s, column, gw_map_get(s, gw_list_get(s, items, i).as.map, key));
    return put_together(s, column, depth - 1);
}

static gw_value join_maps(gw_scope *s, gw_list *items, int depth) {
    gw_map *first = gw_list_get(s, items, 0).as.map, *joined = gw_map_open(s);
    for (int k = 0; k < gw_map_count(first) && gw_ok(s); k++) {
        const char *key = gw_map_key(s, first, k);
        gw_map_put(s, joined, key, map_column(s, items, key, depth));
    }
    return gw_value_of(joined);
}

static bool check_kinds(gw_scope *s, gw_list *items) {
    if (gw_list_count(items) == 0)
        scope_fail(s, GW_INVALID, "gw_default_collate: the list of items is empty");
    for (int i = 1; i < gw_list_count(items) && gw_ok(s); i++) {
        gw_kind first = gw_list_get(s, items, 0).kind, kind = gw_list_get(s, items, i).kind;
        if (kind != first)
            scope_fail(s, GW_INVALID, "gw_default_collate: the first item is %s, item %d is %s",
                       gw_kind_name(first), i, gw_kind_name(kind));
    }
    return gw_ok(s);
}

static gw_value put_together(gw_scope *s, gw_list *items, int depth) {
    if (gw_ok(s) && !depth)
        scope_fail(s, GW_LIMIT, "gw_default_collate: lists and maps are nested deeper than %d",
                   LIMIT_NESTING);
    if (!gw_ok(s) || !check_kinds(s, items)) return gw_none();
    gw_kind kind = gw_list_get(s, items, 0).kind;
    switch (kind) {
    case GW_TENSOR: return stack(s, items);
    case GW_INT:
    case GW_FLOAT:
    case GW_BOOL: return number_row(s, items, kind);
    case GW_STRING:
    case GW_BYTES: return gw_value_of(items);
    case GW_LIST: return join_lists(s, items, depth);
    case GW_MAP: return join_maps(s, items, depth);
    default:
        scope_fail(s, GW_INVALID,
                   "gw_default_collate: items of kind %s cannot be combined into a batch",
                   gw_kind_name(kind));
        return gw_none();
    }
}

gw_value gw_default_collate(gw_scope *s, void *unused, gw_list *items) {
    (void)unused;
    if (gw_ok(s) && !items) scope_fail(s, GW_INVALID, "gw_default_collate: the list is NULL");
    return put_together(s, items, LIMIT_NESTING);
}
