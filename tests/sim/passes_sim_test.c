// Gradients of random graphs over several workers, compared bit for bit with those of the same
// graphs in one process.
#include "passes.h"

#include "base/map.h"
#include "testing/cluster.h"
#include "testing/testing.h"

#include <string.h>

enum { SEEDS = 1000, STEPS = 2 };

typedef struct scene {
    uint64_t seed;
    passes_world world, copy;  // |copy|: the same in one process
    passes_grads last[PASSES_WORKERS_MAX];
} scene;

static void enter_barrier(gw_scope *root) {
    int count;
    const gw_worker *workers = gw_rpc_workers(root, &count);
    gw_rpc_barrier(root, workers, count);
}

// All workers, or only the first, run passes, each in scopes of its own.
static void play_some(gw_scope *root, int rank, void *context) {
    scene *c = context;
    passes_open_weights(root, &c->world, rank);
    enter_barrier(root);
    bool plays = rank == 0 || hash_u64(c->seed + (uint64_t)rank) % 3 == 0;
    for (uint64_t step = 0; plays && step < STEPS; step++) {
        uint64_t seed = c->seed * 100 + (uint64_t)rank * 10 + step;
        passes_grads expected;
        gw_scope *s = gw_scope_open(root);
        passes_play(s, rank, seed, &c->last[rank]);
        gw_scope_close_up(s);
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
    gw_scope_close_up(own);
}

static void gradients_are_those_of_one_process(void **state) {
    (void)state;
    testing_for_seeds(SEEDS, run_seed, NULL);
}

// ---- The same bits ------------------------------------------------------------------------------

static void run_inexact(uint64_t seed, void *context) {
    passes_grads first[PASSES_WORKERS_MAX];
    (void)context;
    for (int time = 0; time < 2; time++) {
        gw_scope *own = gw_scope_open(NULL);
        scene *c = open_scene(own, seed);
        c->world.is_inexact = c->world.in_order = true;
        // On another network the bits are the same.
        cluster_run(seed + (uint64_t)time * 1000,
                    (cluster_options){ .world_size = c->world.worker_count,
                                       .network = sim_varied(seed + (uint64_t)time, 0) },
                    play_some, c);
        gw_scope_close_up(own);
        if (time == 0) memcpy(first, c->last, sizeof first);
        assert_memory_equal(first[0].has, c->last[0].has, sizeof first[0].has);
        assert_memory_equal(first[0].at, c->last[0].at, sizeof first[0].at);
    }
}

static void the_same_graph_gives_the_same_bits(void **state) {
    (void)state;
    testing_for_seeds(100, run_inexact, NULL);
}

// ---- After a failed pass ------------------------------------------------------------------------

GW_FUNCTION(passes_inner, GW_INLINE, "tensor") {
    return gw_value_of(gw_mul(s, gw_arg_tensor(s, a, 0), passes_now->weights[1][0]));
}

GW_FUNCTION(passes_outer, GW_POOL, "tensor") {
    return gw_rpc_sync(s, "w1", "passes_inner", gw_arg_tensor(s, a, 0));
}

typedef struct parted {
    scene *scene;
    sim *sim;
} parted;

static void keep_sim(sim *s, void *context) {
    ((parted *)context)->sim = s;
}

static void heal(sim *s, void *arg) {
    (void)arg;
    sim_heal(s);
}

// w1 gets a gradient of the second pass from w2 before the end of the first pass from w0.
static void try_again(gw_scope *root, int rank, void *context) {
    parted *c = context;
    passes_open_weights(root, &c->scene->world, rank);
    enter_barrier(root);
    if (rank) return;
    gw_scope *s = gw_scope_open(root), *hurried = gw_scope_open(s);
    gw_tensor *x = gw_requires_grad(s, gw_ones(s, GW_F64, PASSES_SIZE));
    gw_tensor *loss = gw_sum(s, gw_tensor_of(s, gw_rpc_sync(s, "w2", "passes_outer", x)));
    sim_partition(c->sim, 0, 1, true, true);
    gw_scope_set_timeout(hurried, 300);
    gw_backward(hurried, loss);
    gw_error error = gw_scope_close(hurried);
    assert_int_equal(error.status, GW_TIMEOUT);
    assert_non_null(strstr(error.text, "the pass has not ended on w"));
    assert_true(sim_at(c->sim, sim_now_ns(c->sim) + SIM_SECOND / 5, heal, NULL));
    gw_backward(s, loss);
    assert_string_equal(gw_scope_error(s)->text, "");
    gw_tensor *sum = gw_sum(s, gw_grad(s, x));
    assert_true(gw_item(s, sum) == gw_item(s, gw_sum(s, c->scene->copy.weights[1][0])));
    gw_scope_close_up(s);
}

static void run_parted(uint64_t seed, void *context) {
    (void)context;
    gw_scope *own = gw_scope_open(NULL);
    parted c = { .scene = open_scene(own, seed) };
    passes_open_weights(own, &c.scene->copy, 1);
    cluster_run(seed, (cluster_options){ .world_size = 3, .direct = keep_sim }, try_again, &c);
    gw_scope_close_up(own);
}

static void a_failed_pass_keeps_its_graph_if_a_worker_is_notified_late(void **state) {
    (void)state;
    testing_for_seeds(20, run_parted, NULL);
}

GW_TESTS_WITH_LIMIT(passes_sim, 300, gradients_are_those_of_one_process,
                    the_same_graph_gives_the_same_bits,
                    a_failed_pass_keeps_its_graph_if_a_worker_is_notified_late);
