// Backward passes through collectives of which some members have nothing to differentiate, in the simulator.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <string.h>

enum { MEMBERS = 3 };

static gw_tensor *brought(gw_scope *s, bool needs, int64_t rows) {
    gw_tensor *x = gw_ones(s, GW_F32, rows, 2);
    return needs ? gw_requires_grad(s, x) : x;
}

static void expect_sum(gw_scope *s, gw_group *g) {
    gw_tensor *all = gw_all_reduce(s, g, gw_full(s, GW_F32, gw_group_rank(g) + 1, 1), GW_SUM);
    if (!gw_ok(s)) fail_msg("%s", gw_scope_error(s)->text);
    assert_int_equal((int)gw_item(s, all), MEMBERS * (MEMBERS + 1) / 2);
}

// Member 0 has sent its part, and is in its pass when the others give up.
static void differentiate_what_has_failed(gw_scope *root, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(root);
    gw_scope *s = gw_scope_open(root);
    if (rank == 2) cluster_pause_ms(s, 5000);
    gw_tensor *out = gw_reduce(s, g, brought(s, true, 2), GW_SUM, 1, .timeout_ms = 1000);
    assert_true(rank == 0 ? gw_ok(s) : !gw_ok(s));
    if (rank == 0) gw_backward(s, gw_sum(s, out));
    const gw_error *e = gw_scope_error(s);
    if (e->status != GW_TIMEOUT || !strstr(e->text, "group \"world\": collective 1: "))
        fail_msg("%s", e->text);
    gw_scope_clear(s);
    gw_scope_close_up(s);
    expect_sum(root, g);  // each has heard it once
}

static void a_pass_ends_with_what_it_differentiates(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        cluster_outcome x = cluster_run(seed, (cluster_options){ .world_size = MEMBERS },
                                        differentiate_what_has_failed, NULL);
        assert_true(x.took_ns < 20 * SIM_SECOND);
    }
}

GW_TESTS(group_needs_sim, a_pass_ends_with_what_it_differentiates);
