// Members that are ahead of others, in the simulator: what a root calls before the others have come stays whole if its
// next call is refused, and nothing is told as done while what was called before it may differ (GRP-6, GRP-24).
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>

enum { MEMBERS = 3, AHEAD = 3 };

static void sum_right(gw_scope *s, gw_group *g, int rank) {
    double sum = gw_item(s, gw_all_reduce(s, g, gw_full(s, GW_F32, rank + 1, 1), GW_SUM));
    if (!gw_ok(s) || sum != 6) fail_msg("w%d: %g, %s", rank, sum, gw_scope_error(s)->text);
}

static void expect(gw_scope *s, int rank, const char *what, gw_status status) {
    if (gw_scope_error(s)->status != status)
        fail_msg("w%d, %s: \"%s\"", rank, what, gw_scope_error(s)->text);
    gw_scope_clear(s);
}

static bool hears_mismatch(gw_scope *s, int rank) {
    bool ok = gw_ok(s);
    if (!ok) expect(s, rank, "a call", GW_MISMATCH);
    return !ok;
}

// w0 has called four collectives before the others call their first.
static void refuse_ahead(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_tensor *x = gw_full(s, GW_F32, 7, 1);
    gw_future *given[AHEAD] = { NULL };
    if (rank == 0)
        for (int i = 0; i < AHEAD; i++) given[i] = gw_broadcast_async(s, g, x, 0);
    else
        cluster_pause_ms(s, 100);
    for (int i = 0; rank && i < AHEAD; i++) {
        double came = gw_item(s, gw_broadcast(s, g, NULL, 0));
        if (!gw_ok(s) || came != 7)
            fail_msg("w%d, broadcast %d: %g, %s", rank, i, came, gw_scope_error(s)->text);
    }
    gw_broadcast(s, g, x, rank == 0 ? MEMBERS : 0);
    expect(s, rank, "the call that w0 refuses", GW_INVALID);
    if (rank == 0) gw_wait_all(s, given, AHEAD);
    expect(s, rank, "what w0 has sent", GW_OK);
    sum_right(s, g, rank);
}

// w0 is done with its first broadcast before w1 calls another one; the others hear of it by their next call.
static void differ_behind(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_tensor *x = gw_full(s, GW_F32, rank, 1);
    if (rank == 1) cluster_pause_ms(s, 100);
    gw_broadcast(s, g, x, rank == 1);
    bool heard = hears_mismatch(s, rank);
    gw_broadcast(s, g, x, 0);
    heard = hears_mismatch(s, rank) || heard;
    gw_barrier(s, g);
    heard = hears_mismatch(s, rank) || heard;
    if (!heard) fail_msg("w%d has heard nothing", rank);
    sum_right(s, g, rank);
}

// w1 and w2 exchange nothing in their first collectives, which differ, and w0 has not come: the second one shows it.
static void differ_without_the_root(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_tensor *x = gw_full(s, GW_F32, rank, 1);
    if (rank == 0) {
        cluster_pause_ms(s, 5000);  // the others have heard of it
        gw_broadcast(s, g, x, 0);
        expect(s, rank, "the first", GW_MISMATCH);
        gw_broadcast(s, g, NULL, 2);
        expect(s, rank, "the second", GW_MISMATCH);
    } else {
        gw_future *first =
            rank == 1 ? gw_broadcast_async(s, g, NULL, 0) : gw_reduce_async(s, g, x, GW_SUM, 0);
        gw_wait(s, gw_broadcast_async(s, g, rank == 2 ? x : NULL, 2));
        expect(s, rank, "the second", GW_MISMATCH);
        gw_wait(s, first);
        if (rank == 1 || !gw_ok(s)) expect(s, rank, "the first", GW_MISMATCH);
    }
    sum_right(s, g, rank);
}

static void run(cluster_main *play, uint64_t seed) {
    cluster_run(seed, (cluster_options){ .world_size = MEMBERS, .network = sim_varied(seed, 0) },
                play, NULL);
}

static void refuse_with(uint64_t seed, void *context) {
    (void)context;
    run(refuse_ahead, seed);
}

static void what_was_called_before_a_refused_call_is_whole(void **state) {
    (void)state;
    testing_for_seeds(20, refuse_with, NULL);
}

static void differ_with(uint64_t seed, void *context) {
    (void)context;
    run(differ_behind, seed);
}

static void nothing_is_done_while_what_was_before_it_may_differ(void **state) {
    (void)state;
    testing_for_seeds(20, differ_with, NULL);
}

static void differ_without_root_with(uint64_t seed, void *context) {
    (void)context;
    run(differ_without_the_root, seed);
}

static void who_has_called_something_else_before_is_found_by_the_next(void **state) {
    (void)state;
    testing_for_seeds(20, differ_without_root_with, NULL);
}

GW_TESTS(group_settled_sim, what_was_called_before_a_refused_call_is_whole,
         nothing_is_done_while_what_was_before_it_may_differ,
         who_has_called_something_else_before_is_found_by_the_next);
