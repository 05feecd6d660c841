// What members of a group are told, in the simulator: everyone of what has gone wrong, and in time.
#include "testing/cluster.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <string.h>

// ---- What differs -------------------------------------------------------------------------------

enum { CALLS_MAX = 8 };

typedef struct difference {
    int members;
    int64_t numbers;
    uint64_t key;
    bool with_barriers;  // odd members enter one, and no broadcast
} difference;

static bool has_heard(gw_scope *s, const char *part) {
    if (gw_ok(s)) return false;
    const gw_error *e = gw_scope_error(s);
    if (e->status != GW_MISMATCH || !strstr(e->text, part)) fail_msg("%s", e->text);
    gw_scope_clear(s);
    return true;
}

// Who only sends may succeed, and hears of it by one of its next calls.
static void name_own_root(gw_scope *s, int rank, void *context) {
    const difference *d = context;
    gw_group *g = gw_group_world(s, .timeout_ms = 60000);
    gw_barrier(s, g, .key = d->key);
    if (d->with_barriers && rank % 2)
        gw_barrier(s, g, .key = d->key);
    else
        gw_broadcast(s, g, gw_full(s, GW_F32, rank, d->numbers), rank, .key = d->key);
    bool heard = has_heard(s, "broadcast");
    for (int i = 0; i < CALLS_MAX && !heard; i++) {
        gw_barrier(s, g, .key = d->key);
        heard = has_heard(s, "broadcast");
    }
    if (!heard) fail_msg("w%d of %d has heard nothing", rank, d->members);
    cluster_pause_ms(s, 60000);  // until all have
    gw_barrier(s, g, .key = d->key);
    if (!gw_ok(s)) fail_msg("w%d cannot go on: %s", rank, gw_scope_error(s)->text);
}

static void differ_with_seed(uint64_t seed, void *context) {
    (void)context;
    static const int members[] = { 2, 3, 5, 8 };
    difference d = { .members = members[seed % 4],
                     .numbers = seed / 4 % 4 ? 4 : 40000,
                     .key = seed / 16 % 3 ? 0 : 7,
                     .with_barriers = seed / 48 % 4 == 0 };
    cluster_run(seed, (cluster_options){ .world_size = d.members, .network = sim_varied(seed, 0) },
                name_own_root, &d);
}

static void who_only_sends_hears_of_others_that_do_something_else(void **state) {
    (void)state;
    testing_for_seeds(120, differ_with_seed, NULL);
}

GW_TESTS(group_told_sim, who_only_sends_hears_of_others_that_do_something_else);
