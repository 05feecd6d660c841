// Joining a job of known size in the simulator: a worker that gives up ends the wait of the others.
#include "runtime/runtime.h"
#include "testing/sim.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <string.h>

typedef struct joiner {
    env *env;
    int rank;
    int64_t join_timeout_ms;
    gw_error error;
} joiner;

static void join_three(void *arg) {
    joiner *j = arg;
    gw_scope *root = gw_scope_open(NULL);
    runtime_open_on(root, j->env, true,
                    GW_OPTIONS(gw_rpc_options, .rank = j->rank, .world_size = 3,
                               .join_timeout_ms = j->join_timeout_ms,
                               .init_method = "tcp://127.0.0.1:29500"));
    j->error = gw_scope_close(root);
}

// JOIN-8: rank 2 does not join, and one of the others stops waiting for it before the other one does.
static void one_gives_up(uint64_t seed, void *context) {
    int gives_up = *(int *)context;
    sim *s = sim_open(seed, (sim_options){ 0 });
    joiner all[2];
    for (int i = 0; i < 2; i++) {
        all[i] = (joiner){ .env = sim_env(s, i),
                           .rank = i,
                           .join_timeout_ms = i == gives_up ? 2000 : 300000 };
        sim_spawn(s, i, join_three, &all[i]);
    }
    assert_true(sim_run(s, 20 * SIM_SECOND));
    testing_note("%s; %s", all[0].error.text, all[1].error.text);
    assert_int_equal(all[gives_up].error.status, GW_TIMEOUT);
    assert_int_not_equal(all[!gives_up].error.status, GW_OK);
    sim_close(s);
}

static void a_worker_that_gives_up_ends_the_wait_of_the_others(void **state) {
    (void)state;
    for (int gives_up = 0; gives_up < 2; gives_up++)
        testing_for_seeds(300, one_gives_up, &gives_up);
}

GW_TESTS(joining_sim, a_worker_that_gives_up_ends_the_wait_of_the_others);
