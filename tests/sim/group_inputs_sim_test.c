// Inputs of collectives, in the simulator: views, bools, and empty tensors.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>

enum { MEMBERS = 3 };

typedef gw_tensor *form(gw_scope *s, gw_group *g, gw_tensor *x);

static gw_tensor *all_reduce(gw_scope *s, gw_group *g, gw_tensor *x) {
    return gw_all_reduce(s, g, x, GW_MAX);
}
static gw_tensor *reduce(gw_scope *s, gw_group *g, gw_tensor *x) {
    return gw_reduce(s, g, x, GW_MIN, 1);
}
static gw_tensor *broadcast(gw_scope *s, gw_group *g, gw_tensor *x) {
    return gw_broadcast(s, g, x, 2);
}
static gw_tensor *all_gather(gw_scope *s, gw_group *g, gw_tensor *x) {
    return gw_all_gather(s, g, x);
}
static gw_tensor *gather_to(gw_scope *s, gw_group *g, gw_tensor *x) {
    return gw_gather_to(s, g, x, 1);
}
static gw_tensor *scatter_from(gw_scope *s, gw_group *g, gw_tensor *x) {
    gw_list *items = gw_list_open(s);
    for (int i = 0; i < MEMBERS; i++) gw_list_add(s, items, x);
    return gw_scatter_from(s, g, gw_group_rank(g) == 2 ? items : NULL, 2);
}
static gw_tensor *reduce_scatter(gw_scope *s, gw_group *g, gw_tensor *x) {
    return gw_reduce_scatter(s, g, x, GW_MAX);
}
static gw_tensor *all_to_all(gw_scope *s, gw_group *g, gw_tensor *x) {
    return gw_all_to_all(s, g, x);
}

static form *const forms[] = { all_reduce, reduce,       broadcast,      all_gather,
                               gather_to,  scatter_from, reduce_scatter, all_to_all };
enum { FORMS = sizeof forms / sizeof forms[0] };

// A transposed view, a strided one, and one of bools give the results of their copies.
static void contribute_views(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_tensor *x = gw_reshape(s, gw_arange(s, GW_F32, rank, rank + 24, 1), 4, 6);
    gw_tensor *views[] = { gw_transpose(s, x, 0, 1),
                           gw_slice(s, gw_transpose(s, x, 0, 1), 1, 1, 4, 2),
                           gw_transpose(s, gw_gt(s, x, 12), 0, 1) };
    for (size_t v = 0; v < sizeof views / sizeof views[0]; v++)
        for (int f = 0; f < FORMS; f++) {
            gw_tensor *of_view = forms[f](s, g, views[v]);
            gw_tensor *of_copy = forms[f](s, g, gw_clone(s, views[v]));
            if (!gw_ok(s) || gw_dtype_of(of_view) != gw_dtype_of(of_copy) ||
                !gw_equal(s, of_view, of_copy))
                fail_msg("form %d, view %zu: %s", f, v, gw_ok(s) ? "" : gw_scope_error(s)->text);
        }
}

static void views_contribute_the_numbers_of_their_copies(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++)
        cluster_run(seed, (cluster_options){ .world_size = MEMBERS }, contribute_views, NULL);
}

static void contribute_bools(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_tensor *mine = gw_eq(s, gw_arange(s, GW_I64, 0, MEMBERS, 1), rank);  // one bit each
    gw_tensor *any = gw_all_reduce(s, g, mine, GW_BOR), *all = gw_all_reduce(s, g, mine, GW_BAND);
    assert_int_equal((int)gw_item(s, gw_sum(s, any)), MEMBERS);
    assert_int_equal((int)gw_item(s, gw_sum(s, all)), 0);
    assert_int_equal((int)gw_item(s, gw_sum(s, gw_all_reduce(s, g, mine, GW_MAX))), MEMBERS);
    assert_int_equal((int)gw_item(s, gw_sum(s, gw_all_reduce(s, g, mine, GW_MIN))), 0);
    assert_int_equal((int)gw_item(s, gw_sum(s, gw_all_reduce(s, g, mine, GW_BXOR))), MEMBERS);
    gw_all_reduce(s, g, mine, GW_SUM);
    assert_non_null(gw_scope_error(s));
    assert_int_equal(gw_scope_error(s)->status, GW_INVALID);
    gw_scope_clear(s);
    gw_barrier(s, g);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

static void bools_are_combined_and_not_added(void **state) {
    (void)state;
    cluster_run(1, (cluster_options){ .world_size = MEMBERS }, contribute_bools, NULL);
}

static void contribute_empty(gw_scope *s, int rank, void *context) {
    (void)rank, (void)context;
    gw_group *g = gw_group_world(s);
    for (int f = 0; f < FORMS; f++) {
        gw_tensor *x = forms[f](s, g, gw_zeros(s, GW_F32, 0, 5));
        if (!gw_ok(s) || gw_numel(x)) fail_msg("form %d", f);
    }
    gw_barrier(s, g);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

static void empty_tensors_are_accepted(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++)
        cluster_run(seed, (cluster_options){ .world_size = MEMBERS }, contribute_empty, NULL);
}

GW_TESTS(group_inputs_sim, views_contribute_the_numbers_of_their_copies,
         bools_are_combined_and_not_added, empty_tensors_are_accepted);
