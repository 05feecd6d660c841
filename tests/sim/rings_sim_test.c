// Jobs whose workers communicate through rings: the code of net/shm/ring.h over simulated memory, with bells that are
// late or spurious, connections that break, invalid words, workers that crash or stop; then sessions continue, over
// other rings or the next address.
#include "jobs.h"
#include "testing/testing.h"

static void run_seed(uint64_t seed, void *context) {
    (void)context;
    jobs_outcome o = jobs_run(seed, JOBS_RINGS);
    if (seed % 20 == 0) assert_true(o.trace_hash == jobs_run(seed, JOBS_RINGS).trace_hash);
}

static void jobs_survive_rings_that_break(void **state) {
    (void)state;
    testing_for_seeds(200, run_seed, NULL);
}

GW_TESTS_WITH_LIMIT(rings_sim, 300, jobs_survive_rings_that_break);
