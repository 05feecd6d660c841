// The examples with replicas: they learn what they are to learn, on any number of workers.
#include "example_run.h"
#include "testing/testing.h"

#include <string.h>

// ---- ddp_digits ---------------------------------------------------------------------------------

static void replicas_learn_digits(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n *= 2)
        assert_says(run("timeout 100 ./ddp_digits --world-size %d", n), 0, " % of the test digits");
    assert_says(run("timeout 100 ./ddp_digits --hook bf16"), 0, "2 members");
    assert_says(run("timeout 100 ./ddp_digits --amp"), 0, "2 members");
}

static void shards_give_one_set_of_weights_on_any_number_of_workers(void **state) {
    (void)state;
    static const char command[] =
        "timeout 100 ./ddp_digits --epochs 2 --shards 4 --world-size %d | grep -o 'weights.*'";
    assert_same_output(run(command, 1), run(command, 2), 0);
    assert_same_output(run(command, 1), run(command, 4), 0);
}

static void replicas_run_under_the_launcher(void **state) {
    (void)state;
    assert_says(run("timeout 100 ./gradwire run -n 3 --no-prefix -- ./ddp_digits"), 0, "3 members");
}

// ---- ddp_rpc ------------------------------------------------------------------------------------

static void four_roles_learn_planted_labels(void **state) {
    (void)state;
    assert_says(run("timeout 100 ./ddp_rpc"), 0, "the replicas have the same bits");
    assert_says(run("timeout 100 ./ddp_rpc --random --epochs 3"), 0,
                "the replicas have the same bits");
    assert_says(run("timeout 100 ./gradwire run -n 4 --no-prefix -- ./ddp_rpc"), 0, "same bits");
}

// ---- join_uneven --------------------------------------------------------------------------------

static void replicas_with_uneven_inputs_end_alike(void **state) {
    (void)state;
    assert_says(run("timeout 100 ./join_uneven"), 0, "worker1 has used all of its 6 inputs");
    static const char kinds[] = "timeout 100 ./join_uneven --world-size 4 --inputs %d | "
                                "grep -o 'weight.*after %d' | sort -u | wc -l";
    assert_says(run(kinds, 5, 8), 0, "1");
    assert_says(run(kinds, 0, 3), 0, "1");
    assert_says(run("timeout 100 ./gradwire run -n 3 --no-prefix -- ./join_uneven --active"), 0,
                "worker2 has used all of its 7 inputs");
}

static void they_refuse_wrong_options(void **state) {
    (void)state;
    assert_says(run("./ddp_digits --help"), 0, "--plot FILE.svg");
    assert_says(run("./ddp_rpc --help"), 0, "--plot FILE.svg");
    assert_says(run("./join_uneven --help"), 0, "--inputs N");
    assert_says(run("./ddp_digits --hook f8"), 2, "expected none or f16 or bf16");
    assert_says(run("timeout 100 ./ddp_digits --shards 3"), 1,
                "3 shards, which is no power of two");
    assert_says(run("timeout 100 ./gradwire run -n 2 --no-prefix -- ./ddp_rpc"), 1,
                "two trainers, a master and a server");
}

GW_TESTS(example_ddp, replicas_learn_digits,
         shards_give_one_set_of_weights_on_any_number_of_workers, replicas_run_under_the_launcher,
         four_roles_learn_planted_labels, replicas_with_uneven_inputs_end_alike,
         they_refuse_wrong_options);
