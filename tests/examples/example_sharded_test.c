// The examples that shard the memory of replicas, and that split replicas into stages.
#include "example_run.h"
#include "testing/testing.h"

#include <string.h>

// ---- zero_memory --------------------------------------------------------------------------------

static void sharding_changes_no_sums(void **state) {
    (void)state;
    // The last column of the three rows.
    static const char sums[] = "./zero_memory --width 64 | awk '/^%s  *[0-9]/ { print $6 }'";
    assert_same_output(run(sums, "ZeRO-2"), run(sums, "plain"), 0);
    assert_same_output(run(sums, "ZeRO-1"), run(sums, "plain"), 0);
    assert_prints(run("./gradwire run -n 2 --no-prefix -- ./zero_memory --width 64"), 0,
                  "plain       0.3       0.3      0.7");
    assert_draws("./zero_memory --width 64");
}

// ---- pipeline_ddp -------------------------------------------------------------------------------

static void replicated_stages_have_the_weights_of_the_unsplit_model(void **state) {
    (void)state;
    assert_prints(run("./pipeline_ddp --check"), 0, "the weights are those of the unsplit model");
    assert_prints(run("./pipeline_ddp --check --epochs 1 --micro-batches 1 --size 3"), 3,
                  "the weights are those of the unsplit model");
    assert_prints(run("./gradwire run -n 4 --no-prefix -- ./pipeline_ddp"), 0,
                  "% of the test digits");
}

static void it_draws_and_refuses_wrong_options(void **state) {
    (void)state;
    assert_draws("./pipeline_ddp --epochs 2");
    assert_prints(run("./pipeline_ddp --size 12"), 2, "--size 12");
    assert_prints(run("./gradwire run -n 2 --no-prefix -- ./pipeline_ddp"), 1,
                  "two stages of two replicas");
}

GW_TESTS(example_sharded, sharding_changes_no_sums,
         replicated_stages_have_the_weights_of_the_unsplit_model,
         it_draws_and_refuses_wrong_options);
