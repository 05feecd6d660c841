// What is made of other collectives: groups by color, and several tensors at once.
#include "base/value.h"
#include "collective/group.h"
#include "tensor/tensor.h"

#include <gradwire/ops.h>
#include <stdlib.h>

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

// Those of |color|, in order.
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

// ---- Several tensors ----------------------------------------------------------------------------

static bool check_several(gw_scope *s, const char *what, gw_tensor *const *xs, int count) {
    if (count < 0 || (count && !xs))
        scope_fail(s, GW_INVALID, "%s: %d tensors%s", what, count, xs ? "" : " at NULL");
    for (int i = 0; i < count && gw_ok(s); i++) tensor_is_given(s, what, xs[i]);
    return gw_ok(s);
}

// All of |dtype| behind each other; NULL without one.
static gw_tensor *join(gw_scope *s, gw_tensor *const *xs, int count, int dtype) {
    int found = 0;
    gw_tensor **flat = gw_alloc(s, (size_t)(count + 1) * sizeof *flat);
    for (int i = 0; flat && i < count; i++)
        if (xs[i]->dtype == dtype) flat[found++] = gw_reshape(s, xs[i], -1);
    return flat && found ? gw_cat(s, flat, found, 0) : NULL;
}

static void take_apart(gw_scope *s, gw_tensor *joined, gw_tensor *const *xs, int count, int dtype,
                       gw_tensor **out) {
    int64_t at = 0;
    for (int i = 0; i < count && gw_ok(s); i++) {
        if (xs[i]->dtype != dtype) continue;
        gw_tensor *part = gw_slice(s, joined, 0, at, at + xs[i]->numel, 1);
        out[i] = gw_reshape_with(s, part, (gw_shape){ xs[i]->dims, xs[i]->sizes });
        at += xs[i]->numel;
    }
}

typedef gw_tensor *collective_of_one(gw_scope *s, gw_group *g, gw_tensor *x, int argument,
                                     gw_collective_options options);

static gw_tensor *reduce_one(gw_scope *s, gw_group *g, gw_tensor *x, int op,
                             gw_collective_options options) {
    return gw_all_reduce_with(s, g, x, (gw_reduce_op)op, options);
}

static gw_tensor *broadcast_one(gw_scope *s, gw_group *g, gw_tensor *x, int root,
                                gw_collective_options options) {
    return gw_broadcast_with(s, g, x, root, options);
}

static gw_list *do_several(gw_scope *s, const char *what, gw_group *g, gw_tensor *const *xs,
                           int count, collective_of_one *one, int argument,
                           gw_collective_options options) {
    gw_list *list = gw_list_open(s);
    if (s->error) one(s, g, NULL, argument, options);  // tells the others
    if (s->error || !check_several(s, what, xs, count)) return list;
    gw_scope *t = gw_scope_open(s);
    gw_tensor **out = gw_alloc(t, (size_t)(count + 1) * sizeof *out);
    for (int dtype = 0; dtype < GW_DTYPE_COUNT; dtype++) {
        gw_tensor *joined = out && count ? join(t, xs, count, dtype) : NULL;
        if (joined) take_apart(t, one(t, g, joined, argument, options), xs, count, dtype, out);
    }
    for (int i = 0; i < count && gw_ok(t); i++) gw_list_add(s, list, out[i]);
    gw_scope_close_up(t);
    return list;
}

gw_list *gw_all_reduce_all_with(gw_scope *s, gw_group *g, gw_tensor *const *xs, int count,
                                gw_reduce_op op, gw_collective_options options) {
    return do_several(s, "gw_all_reduce_all", g, xs, count, reduce_one, op, options);
}

gw_list *gw_broadcast_all_with(gw_scope *s, gw_group *g, gw_tensor *const *xs, int count, int root,
                               gw_collective_options options) {
    return do_several(s, "gw_broadcast_all", g, xs, count, broadcast_one, root, options);
}

void gw_monitored_barrier_with(gw_scope *s, gw_group *g, gw_collective_options options) {
    gw_barrier_with(s, g, options);
}
