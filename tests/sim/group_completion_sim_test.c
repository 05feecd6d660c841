// When collectives of a member that is ahead of others complete, in the simulator: calls that a root makes before the
// others call theirs complete even if its next call is refused, and no collective completes while an earlier one may
// differ (GRP-6, GRP-24).
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

static bool gets_mismatch(gw_scope *s, int rank) {
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
        double received = gw_item(s, gw_broadcast(s, g, NULL, 0));
        if (!gw_ok(s) || received != 7)
            fail_msg("w%d, broadcast %d: %g, %s", rank, i, received, gw_scope_error(s)->text);
    }
    gw_broadcast(s, g, x, rank == 0 ? MEMBERS : 0);
    expect(s, rank, "the call that w0 refuses", GW_INVALID);
    if (rank == 0) gw_wait_all(s, given, AHEAD);
    expect(s, rank, "the broadcasts of w0", GW_OK);
    sum_right(s, g, rank);
}

// w0 completes its first broadcast before w1 calls a different one. The next calls of the others fail.
static void differ_late(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_tensor *x = gw_full(s, GW_F32, rank, 1);
    if (rank == 1) cluster_pause_ms(s, 100);
    gw_broadcast(s, g, x, rank == 1);
    bool reported = gets_mismatch(s, rank);
    gw_broadcast(s, g, x, 0);
    reported = gets_mismatch(s, rank) || reported;
    gw_barrier(s, g);
    reported = gets_mismatch(s, rank) || reported;
    if (!reported) fail_msg("w%d has no error", rank);
    sum_right(s, g, rank);
}

// The first collectives of w1 and w2 differ but exchange nothing between these two, and w0 is late: the second
// collective finds the difference.
static void differ_without_the_root(gw_scope *s, int rank, void *context) {
    (void)context;
    gw_group *g = gw_group_world(s);
    gw_tensor *x = gw_full(s, GW_F32, rank, 1);
    if (rank == 0) {
        cluster_pause_ms(s, 5000);  // the others have the error by then
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

static void collectives_called_before_a_refused_call_complete(void **state) {
    (void)state;
    testing_for_seeds(20, refuse_with, NULL);
}

static void differ_with(uint64_t seed, void *context) {
    (void)context;
    run(differ_late, seed);
}

static void no_collective_completes_while_an_earlier_one_may_differ(void **state) {
    (void)state;
    testing_for_seeds(20, differ_with, NULL);
}

static void differ_without_root_with(uint64_t seed, void *context) {
    (void)context;
    run(differ_without_the_root, seed);
}

static void a_member_with_another_earlier_call_is_found_by_the_next(void **state) {
    (void)state;
    testing_for_seeds(20, differ_without_root_with, NULL);
}

GW_TESTS(group_completion_sim, collectives_called_before_a_refused_call_complete,
         no_collective_completes_while_an_earlier_one_may_differ,
         a_member_with_another_earlier_call_is_found_by_the_next);
