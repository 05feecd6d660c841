// Groups by color: members exchange their colors by one collective.
#include "base/value.h"
#include "collective/group/group.h"

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

gw_group *gw_group_split_with(gw_scope *s, gw_group *g, int color, int key,
                              gw_group_open_options options) {
    gw_scope *t = gw_scope_open(s);
    gw_list *own = gw_list_open(t);
    gw_list_add(t, own, color);
    gw_list_add(t, own, key);
    gw_list *all = gw_all_gather_value(t, g, own);
    int n = gw_group_size(g), count = 0;
    choice *choices = gw_alloc(t, (size_t)(n + 1) * sizeof *choices);
    int *ranks = gw_alloc(t, (size_t)(n + 1) * sizeof *ranks);
    if (gw_ok(t) && color >= 0) count = read_choices(t, all, color, choices);
    for (int i = 0; i < count; i++) ranks[i] = choices[i].rank;
    gw_group *out = &group_poison;
    if (gw_ok(t) && color >= 0) out = gw_group_of_with(s, g, ranks, count, options);
    gw_scope_close_up(t);
    return color < 0 && gw_ok(s) ? NULL : out;
}
