// Names of groups that are used again, in the simulator: once the program has closed a group its name is free, even
// while its collectives are under way.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <stdio.h>

enum { SEEDS = 40, TIMES = 6 };

static void expect_ok(gw_scope *s) {
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
}

static void close_ok(gw_scope *s) {
    gw_error e = gw_scope_close(s);
    assert_string_equal(e.text, "");
}

static void run(cluster_main *main) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        testing_note("seed %d", (int)seed);
        cluster_run(seed, (cluster_options){ .world_size = 3 }, main, NULL);
    }
}

static void be_ahead(gw_scope *root, int rank, void *context) {
    (void)context;
    for (int i = 0; i < TIMES; i++) {
        gw_scope *s = gw_scope_open(root);
        if (rank) cluster_pause_ms(s, 20);
        gw_scope_clear(s);
        gw_group *g = gw_group_world(s, .name = "step");
        gw_tensor *x = gw_broadcast(s, g, gw_full(s, GW_F32, rank ? 0 : i, 3), 0);
        double sum = gw_item(s, gw_sum(s, x));
        expect_ok(s);
        assert_int_equal((int)sum, 3 * i);
        close_ok(s);
    }
}

// Rank 0 has sent its broadcasts before the others call theirs.
static void the_name_of_a_closed_group_is_free(void **state) {
    (void)state;
    run(be_ahead);
}

static void hold(gw_scope *root, int rank, void *context) {
    (void)rank, (void)context;
    gw_scope *s = gw_scope_open(root), *outer = gw_scope_open(root);
    gw_keep(outer, gw_group_world(s, .name = "step"));
    close_ok(s);
    gw_group_world(root, .name = "step");
    assert_int_equal(gw_scope_error(root)->status, GW_DUPLICATE);
    gw_scope_clear(root);
    close_ok(outer);
    gw_group_world(root, .name = "step");
    expect_ok(root);
    gw_barrier(root, gw_group_world(root));
}

static void a_group_that_a_scope_holds_keeps_its_name(void **state) {
    (void)state;
    run(hold);
}

static void change_members(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_scope *s = gw_scope_open(root);
    gw_worker two[] = { gw_rpc_worker(s, "w0"), gw_rpc_worker(s, "w1") };
    if (rank < 2) gw_barrier(s, gw_group_open(s, two, 2, .name = "stage"));
    expect_ok(s);
    close_ok(s);
    cluster_pause_ms(root, rank == 0 ? 50 : 20);
    gw_scope_clear(root);
    gw_barrier(root, gw_group_world(root, .name = "stage"));
    expect_ok(root);
}

// Unexpected messages of the next group are not confused with late messages of the previous one.
static void other_members_may_use_the_name_next(void **state) {
    (void)state;
    run(change_members);
}

static void repeat(gw_scope *root, int rank, void *context) {
    (void)rank, (void)context;
    gw_group *g = gw_group_world(root, .name = "trainers"), *before;
    for (int i = 0; i < TIMES; i++) {
        before = g;
        g = gw_group_reform(root, g);
        expect_ok(root);
        gw_barrier(root, before);
        assert_int_equal(gw_scope_error(root)->status, GW_WRONG_STATE);
        gw_scope_clear(root);
        assert_int_equal(gw_group_generation(g), i + 1);
        assert_int_equal(gw_group_size(before), 3);
    }
}

static void a_scope_keeps_the_last_generation(void **state) {
    (void)state;
    run(repeat);
}

GW_TESTS(group_names_sim, the_name_of_a_closed_group_is_free,
         a_group_that_a_scope_holds_keeps_its_name, other_members_may_use_the_name_next,
         a_scope_keeps_the_last_generation);
