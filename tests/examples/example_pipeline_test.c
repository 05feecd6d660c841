// The pipeline example: split over three workers, it learns the weights of the unsplit model, to the bit.
#include "example_run.h"
#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char same[] = "weights and losses are those of the unsplit model";

static void it_learns_the_weights_of_the_unsplit_model(void **state) {
    (void)state;
    static const char *const schedules[] = { "1f1b", "fill-drain" };
    for (int i = 0; i < 2; i++)
        for (int micro_batches = 1; micro_batches <= 16; micro_batches *= 4)
            assert_prints(run("./pipeline --check --epochs 2 --schedule %s "
                              "--micro-batches %d",
                              schedules[i], micro_batches),
                          0, same);
}

static void autograd_and_one_optimizer_learn_the_same(void **state) {
    (void)state;
    for (int micro_batches = 1; micro_batches <= 16; micro_batches *= 4)
        assert_prints(run("./pipeline --check --epochs 2 --schedule autograd "
                          "--micro-batches %d",
                          micro_batches),
                      0, "weights and losses are those of the unsplit model, up to rounding");
    result *broken = run("GW_TEST_CUT_EVERY=200 ./pipeline --check --epochs 1 --stats "
                         "--schedule autograd");
    assert_was_cut(broken);
    assert_prints(broken, 0, "up to rounding");
}

static void it_learns_to_read_digits(void **state) {
    (void)state;
    result *r = run("./pipeline --epochs 15");
    double accuracy = 0;
    const char *line = strstr(r->output, "test accuracy: ");
    assert_non_null(line);
    assert_int_equal(sscanf(line, "test accuracy: %lf", &accuracy), 1);
    assert_true(accuracy >= 94);
    assert_prints(r, 0, "epoch  15  loss 0.0");
}

static void turns_hold_no_more_micro_batches_than_there_are_stages(void **state) {
    (void)state;
    assert_prints(run("./pipeline --epochs 1 --stats"), 0, "most micro-batches in flight: 3 2 1;");
    assert_prints(run("./pipeline --epochs 1 --stats --schedule fill-drain"), 0,
                  "most micro-batches in flight: 8 8 8;");
}

static void schedules_give_the_same_losses(void **state) {
    (void)state;
    assert_same_output(run("./pipeline --epochs 3 | grep epoch"),
                       run("./pipeline --epochs 3 --schedule fill-drain | grep epoch"), 0);
}

static void it_learns_the_same_when_connections_are_cut(void **state) {
    (void)state;
    result *broken = run("GW_TEST_CUT_EVERY=200 ./pipeline --check --epochs 1 --stats");
    assert_was_cut(broken);
    assert_prints(broken, 0, same);
}

static void it_runs_under_the_launcher(void **state) {
    (void)state;
    assert_prints(run("./gradwire run -n 3 --no-prefix -- ./pipeline --check --epochs 1"), 0, same);
    assert_prints(run("./gradwire run -n 2 --no-prefix -- ./pipeline --epochs 1"), 1,
                  "this program is for 3 workers");
}

static void it_draws_the_loss(void **state) {
    (void)state;
    char path[] = "/tmp/pipeline-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_prints(run("./pipeline --epochs 2 --plot %s; cat %s", path, path), 0, "</svg>");
    unlink(path);
}

static void it_refuses_wrong_options(void **state) {
    (void)state;
    assert_prints(run("./pipeline --schedule all"), 2,
                  "--schedule all: expected fill-drain or 1f1b or autograd");
    assert_prints(run("./pipeline --micro-batches 0"), 2, "expected a whole number, 1 to 1024");
    assert_prints(run("./pipeline --micro-batches 5"), 2,
                  "--batch 96: expected a multiple of --micro-batches 5");
    assert_prints(run("./pipeline --lr x"), 2, "--lr x: expected 0 to 1000");
    assert_prints(run("./pipeline sideways"), 2, "sideways: takes no arguments");
    assert_prints(run("./pipeline --help"), 0, "--plot FILE.svg");
    assert_prints(run("./pipeline --data /nowhere"), 1, "/nowhere: No such file");
    assert_prints(run("./pipeline --epochs 1 --plot /nowhere/x.svg"), 2,
                  "/nowhere/x.svg: No such file");
}

GW_TESTS(example_pipeline, it_learns_the_weights_of_the_unsplit_model,
         autograd_and_one_optimizer_learn_the_same, it_learns_to_read_digits,
         turns_hold_no_more_micro_batches_than_there_are_stages, schedules_give_the_same_losses,
         it_learns_the_same_when_connections_are_cut, it_runs_under_the_launcher, it_draws_the_loss,
         it_refuses_wrong_options);
