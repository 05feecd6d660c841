// Gradients of random graphs over several workers, compared bit for bit with those of the same graphs in one process.
#include "passes.h"

#include "base/map.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <string.h>

enum { SEEDS = 500, STEPS = 2 };

typedef struct scene {
    uint64_t seed;
    passes_world world, copy;  // the second is for playing here
    passes_grads last[PASSES_WORKERS_MAX];
} scene;

static void meet(gw_scope *root) {
    int count;
    const gw_worker *workers = gw_rpc_workers(root, &count);
    gw_rpc_barrier(root, workers, count);
}

// Everybody or only the first walks, each in scopes of its own.
static void play_some(gw_scope *root, int rank, void *context) {
    scene *c = context;
    passes_open_weights(root, &c->world, rank);
    meet(root);
    bool plays = rank == 0 || hash_u64(c->seed + (uint64_t)rank) % 3 == 0;
    for (uint64_t step = 0; plays && step < STEPS; step++) {
        uint64_t seed = c->seed * 100 + (uint64_t)rank * 10 + step;
        passes_grads expected;
        gw_scope *s = gw_scope_open(root);
        passes_play(s, rank, seed, &c->last[rank]);
        gw_scope_merge(s);
        if (!gw_ok(root)) return;
        if (c->world.is_inexact) continue;
        gw_scope *alone = gw_scope_open(NULL);
        passes_play_here(alone, &c->copy, rank, seed, &expected);
        gw_error error = gw_scope_close(alone);
        assert_string_equal(error.text, "");
        passes_expect_equal(&c->last[rank], &expected);
    }
}

static scene *open_scene(gw_scope *own, uint64_t seed) {
    static scene c;
    memset(&c, 0, sizeof c);
    c.seed = seed;
    c.copy.worker_count = c.world.worker_count = 2 + (int)(hash_u64(seed + 3) % 5);
    for (int rank = 0; rank < c.world.worker_count; rank++) passes_open_weights(own, &c.copy, rank);
    passes_now = &c.world;
    return &c;
}

static void run_seed(uint64_t seed, void *context) {
    (void)context;
    gw_scope *own = gw_scope_open(NULL);
    scene *c = open_scene(own, seed);
    cluster_run(seed,
                (cluster_options){ .world_size = c->world.worker_count,
                                   .threads = 1 + (int)(seed % 3),
                                   .network = sim_varied(seed, 0) },
                play_some, c);
    gw_scope_merge(own);
}

static void gradients_are_those_of_one_process(void **state) {
    (void)state;
    testing_for_seeds(SEEDS, run_seed, NULL);
}

GW_TESTS_WITH_LIMIT(passes_sim, 300, gradients_are_those_of_one_process);
