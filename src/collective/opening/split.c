// Groups by color: members exchange their colors by one collective.
#include "base/value.h"
#include "collective/api/requests.h"
#include "collective/backend/backend.h"

#include <stdlib.h>

#undef GW_ORIGIN
#define GW_ORIGIN "gw_group_split"  // the origin of calls here, in errors

// ---- Groups by color ----------------------------------------------------------------------------

typedef struct choice {
    int rank;  // in the group that is split
    int64_t color, key;
} choice;

static int compare(const void *x, const void *y) {
    const choice *a = x, *b = y;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    return a->rank - b->rank;
}

// The members of |color|, in order.
static int read_choices(gw_scope *s, const gw_list *all, int64_t color, choice *out) {
    int count = 0;
    for (int i = 0; i < gw_list_count(all) && gw_ok(s); i++) {
        gw_list *both = gw_list_of(s, gw_list_get(s, all, i));
        choice x = { .rank = i,
                     .color = gw_int_of(s, gw_list_get(s, both, 0)),
                     .key = gw_int_of(s, gw_list_get(s, both, 1)) };
        if (x.color == color) out[count++] = x;
    }
    qsort(out, (size_t)count, sizeof *out, compare);
    return count;
}

static bool check_backend(gw_scope *s, const char *name) {
    const backend *found;
    gw_error error;
    if (name && backend_find(name, &found, &error)) scope_fail_with(s, &error);
    return gw_ok(s);
}

// Before the exchange, in which the other members then get the error; after it they open the group.
static bool check(gw_scope *s, gw_group *g, gw_group_open_options o) {
    if (!gw_ok(s)) return true;  // the exchange is entered as failed
    if (!request_is_usable(s, g, "gw_group_split", 0)) return false;
    if ((!o.name || group_check_name(s, o.name)) && group_check_options(s, o) &&
        check_backend(s, o.backend))
        return true;
    request_refuse(s, g, 0);
    return false;
}

gw_group *gw_group_split_with(gw_scope *s, gw_group *g, int color, int key,
                              gw_group_open_options options) {
    if (!check(s, g, options)) return &group_poison;
    gw_scope *t = gw_scope_open(s);
    int n = gw_group_size(g), count = 0;
    choice *choices = gw_alloc(t, (size_t)(n + 1) * sizeof *choices);
    int *ranks = gw_alloc(t, (size_t)(n + 1) * sizeof *ranks);
    gw_list *own = gw_list_open(t);
    gw_list_add(t, own, color);
    gw_list_add(t, own, key);
    gw_list *all = gw_all_gather_value(t, g, own);
    if (gw_ok(t) && color >= 0) count = read_choices(t, all, color, choices);
    for (int i = 0; i < count; i++) ranks[i] = choices[i].rank;
    gw_group *out = &group_poison;
    if (gw_ok(t) && color >= 0) out = gw_group_of_with(s, g, ranks, count, options);
    gw_scope_close_up(t);
    return color < 0 && gw_ok(s) ? NULL : out;
}
