// The examples with a server or an agent in the middle: they reach their goals, with any number of workers.
#include "example_run.h"
#include "testing/testing.h"

#include <string.h>

// ---- Parameter server ---------------------------------------------------------------------------

static void late_gradients_learn_digits(void **state) {
    (void)state;
    result *r = run("./parameter_server --form push");
    assert_non_null(strstr(r->output, " steps late"));
    assert_prints(r, 0, "3 trainers, 1800 steps: 9");
}

static void passes_through_the_server_learn_digits(void **state) {
    (void)state;
    assert_prints(run("./parameter_server --seed 2"), 0, "3 trainers, 1800 steps: 9");
}

static void trainers_step_the_weights_of_the_server_concurrently(void **state) {
    (void)state;
    assert_prints(run("./parameter_server --form hogwild"), 0, "3 trainers, 1800 steps: 9");
    assert_prints(run("./parameter_server --form hogwild --momentum 0.5 --lr 0.05"), 0,
                  "3 trainers, 1800 steps: 9");
}

static void a_parameter_server_learns_under_the_launcher(void **state) {
    (void)state;
    assert_prints(run("./gradwire run -n 2 --no-prefix -- ./parameter_server"), 0,
                  "1 trainers, 1800 steps: 9");
    assert_prints(run("./gradwire run -n 1 --no-prefix -- ./parameter_server"), 1,
                  "a server and at least one trainer");
}

static void a_parameter_server_refuses_wrong_options(void **state) {
    (void)state;
    assert_prints(run("./parameter_server --form pull"), 2, "expected backward or push or hogwild");
    assert_prints(run("./parameter_server --lr -1"), 2, "--lr -1: expected 0 to 1000");
    assert_prints(run("./parameter_server --world-size 1"), 2,
                  "expected a whole number, 2 to 1024");
    assert_prints(run("./parameter_server --help"), 0, "--plot FILE.svg");
    assert_prints(run("./parameter_server --plot /nowhere/x.svg"), 2,
                  "--plot /nowhere/x.svg: No such");
    assert_prints(run("./parameter_server --data /nowhere"), 1, "/nowhere: No such file");
    assert_prints(run("./parameter_server --data /tmp"), 1, "/tmp: Is a directory");
    assert_prints(run("./parameter_server --data /dev/null"), 1,
                  "/dev/null: has 0 digits, but needs more than the 360 that are for testing");
    assert_prints(
        run("./parameter_server --data gradwire"), 1,
        "gradwire:1: not a digit: a label 0 to 9, a space and 64 pixels 0 to 9 or A to G");
    assert_prints(run("./parameter_server --epochs 1 --lr 0"), 3, "steps: ");
}

static void a_parameter_server_draws_its_accuracy(void **state) {
    (void)state;
    assert_draws("./parameter_server");
}

// ---- Batched calls ------------------------------------------------------------------------------

static void trainers_are_answered_together(void **state) {
    (void)state;
    assert_prints(run("./batch_rpc"), 0, "4 trainers, answered together: 9");
    assert_prints(run("./batch_rpc --no-batch --lr 0.1"), 0, "4 trainers, answered one by one: 9");
}

static void observers_are_answered_together(void **state) {
    (void)state;
    assert_prints(run("./batch_rpc --form agent --seed 2"), 0, "4 observers, answered together: ");
    assert_prints(run("./batch_rpc --form agent --episodes 3 --no-batch"), 3,
                  "4 observers, answered one by one: ");
}

static void a_batch_plays_the_same_for_the_same_seed(void **state) {
    (void)state;
    const char *command =
        "./batch_rpc --form agent --episodes 10 --world-size 4 --seed 3 2>/dev/null "
        "| grep episode";
    assert_same_output(run("%s", command), run("%s", command), 0);
}

static void batches_work_under_the_launcher(void **state) {
    (void)state;
    assert_prints(run("./gradwire run -n 2 --no-prefix -- ./batch_rpc --lr 0.1"), 0,
                  "1 trainers, answered together: 9");
}

static void batch_rpc_draws_and_refuses(void **state) {
    (void)state;
    assert_draws("./batch_rpc");
    assert_prints(run("./batch_rpc --form both"), 2, "--form both: expected server or agent");
    assert_prints(run("./batch_rpc --gamma 2"), 2, "--gamma 2: expected 0 to 1");
    assert_prints(run("./batch_rpc --no-batch=1"), 2, "--no-batch takes no value");
    assert_prints(run("./batch_rpc --help"), 0, "--form server|agent");
    assert_prints(run("./batch_rpc --world-size 9 --batch 300"), 1,
                  "8 trainers have no 300 digits each");
}

GW_TESTS(example_server, late_gradients_learn_digits, passes_through_the_server_learn_digits,
         trainers_step_the_weights_of_the_server_concurrently,
         a_parameter_server_learns_under_the_launcher, a_parameter_server_refuses_wrong_options,
         a_parameter_server_draws_its_accuracy, trainers_are_answered_together,
         observers_are_answered_together, a_batch_plays_the_same_for_the_same_seed,
         batches_work_under_the_launcher, batch_rpc_draws_and_refuses);
