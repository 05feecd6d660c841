// The CartPole example's own agent and observers in the simulator: they play the same episodes on
// every network.
#include "cartpole_play.h"
#include "agent/state/agent.h"
#include "runtime/runtime.h"
#include "testing/sim.h"
#include "testing/testing.h"

#include <stdlib.h>
#include <string.h>

enum { WORKERS_MAX = 3, EPISODES = 2, SEEDS = 1000 };

typedef struct worker {
    env *env;
    int rank, world_size;
    FILE *out;  // rank 0
    gw_error error;
} worker;

static void run_worker(void *arg) {
    worker *w = arg;
    gw_scope *root = gw_scope_open(NULL);
    gw_seed(root, 7);
    runtime_open_on(
        root, w->env, true,
        GW_OPTIONS(
            gw_rpc_options, .name = gw_format(root, w->rank == 0 ? "agent" : "observer%d", w->rank),
            .rank = w->rank, .world_size = w->world_size, .init_method = "tcp://127.0.0.1:29500"));
    if (w->rank == 0) cartpole_play(root, EPISODES, w->out);
    gw_rpc_shutdown(root);
    w->error = gw_scope_close(root);
}

// Returns the episodes in the simulation of |seed|, as text. The caller frees it.
static char *play(uint64_t seed, int world_size, sim_options options, sim_counts *out_counts) {
    char *text = NULL;
    size_t size = 0;
    worker workers[WORKERS_MAX] = { 0 };
    sim *s = sim_open(seed, options);
    assert_non_null(s);
    for (int i = 0; i < world_size; i++) {
        workers[i] = (worker){ .env = sim_env(s, i), .rank = i, .world_size = world_size };
        if (i == 0) workers[i].out = open_memstream(&text, &size);
        assert_true(sim_spawn(s, i, run_worker, &workers[i]));
    }
    bool finished = sim_run(s, 600 * SIM_SECOND);
    fclose(workers[0].out);
    assert_true(finished);
    for (int i = 0; i < world_size; i++) {
        if (workers[i].error.status) print_message("worker %d: %s\n", i, workers[i].error.text);
        assert_int_equal(workers[i].error.status, GW_OK);
    }
    if (out_counts) *out_counts = sim_count(s);
    sim_close(s);
    return text;
}

typedef struct expectation {
    char *text[WORKERS_MAX + 1];  // by world size
    uint64_t cuts;
} expectation;

static void play_on_a_bad_network(uint64_t seed, void *context) {
    expectation *e = context;
    int world_size = 2 + (int)(seed % 2);
    sim_counts counts;
    char *text = play(seed, world_size,
                      (sim_options){ .delay_max_us = 2000, .cut_per_million = 5000 }, &counts);
    assert_string_equal(text, e->text[world_size]);
    e->cuts += counts.cuts;
    free(text);
}

static void it_plays_the_same_episodes_over_delays_and_cut_connections(void **state) {
    (void)state;
    expectation e = { 0 };
    for (int n = 2; n <= WORKERS_MAX; n++)
        e.text[n] =
            play(1, n, (sim_options){ .delay_max_us = -1, .interleave_per_million = -1 }, NULL);
    assert_non_null(strstr(e.text[2], "2: "));
    testing_for_seeds(SEEDS, play_on_a_bad_network, &e);
    assert_true(e.cuts > 0);
    for (int n = 2; n <= WORKERS_MAX; n++) free(e.text[n]);
}

GW_TESTS_WITH_LIMIT(cartpole_sim, 120, it_plays_the_same_episodes_over_delays_and_cut_connections);
