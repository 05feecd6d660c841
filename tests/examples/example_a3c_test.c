// The actor-critic example: workers that push gradients learn to keep a pole upright, and to swing
// one up.
#include "example_run.h"
#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The score of the learnt policy, after "score " in the last line.
static double score_of(result *r) {
    double score = 0;
    assert_int_equal(r->exit_code, 0);
    const char *line = strstr(r->output, "seed ");
    assert_non_null(line);
    line = strstr(line, "score ");
    assert_non_null(line);
    assert_int_equal(sscanf(line, "score %lf", &score), 1);
    test_free(r);
    return score;
}

static void it_keeps_the_pole_upright(void **state) {
    (void)state;
    assert_true(score_of(run("./a3c --goal 300 --evaluate 30 --seed 3")) > 200);
}

// An agent that never swings the pendulum up gets -800 to -1,200.
static void it_swings_the_pendulum_up(void **state) {
    (void)state;
    assert_true(score_of(run("./a3c --task pendulum --goal -330 --evaluate 30 "
                             "--seed 3")) > -600);
}

static const char short_run[] = "--steps 3000 --evaluate 2 --workers";

static void one_worker_plays_the_same_for_the_same_seed(void **state) {
    (void)state;
    static const char *const cut = "| sed 's/, [0-9.]* s$//'";  // the time it took
    assert_same_output(run("./a3c %s 1 %s", short_run, cut), run("./a3c %s 1 %s", short_run, cut),
                       0);
    result *broken = run("GW_TEST_CUT_EVERY=50 ./a3c %s 1 --seed 4 --stats %s", short_run, cut);
    assert_was_cut(broken);
    assert_same_output(run("./a3c %s 1 --seed 4 %s", short_run, cut), broken, 0);
}

static void an_update_is_one_round_trip(void **state) {
    (void)state;
    result *r = run("./a3c %s 2 --stats", short_run);
    double messages = 0;
    const char *line = strstr(r->output, "an update: ");
    assert_non_null(line);
    assert_int_equal(sscanf(line, "an update: %lf messages", &messages), 1);
    assert_true(messages >= 2 && messages < 2.5);  // and some at the start
    test_free(r);
}

static void it_runs_several_times_and_prints_the_mean(void **state) {
    (void)state;
    assert_prints(run("./a3c %s 2 --runs 2", short_run), 0, "cartpole over 2 seeds: ");
    assert_prints(run("./a3c %s 2 --runs 2 --task pendulum", short_run), 0,
                  "pendulum over 2 seeds: -");
}

static void it_runs_under_the_launcher(void **state) {
    (void)state;
    assert_prints(run("./gradwire run -n 5 --no-prefix -- ./a3c --steps 3000"), 0,
                  "over 100 new episodes");
    assert_prints(run("./gradwire run -n 1 --no-prefix -- ./a3c"), 1,
                  "this program is for two processes or more");
}

static void it_draws_the_scores(void **state) {
    (void)state;
    char path[] = "/tmp/a3c-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_prints(run("./a3c %s 2 --plot %s; cat %s", short_run, path, path), 0, "</svg>");
    unlink(path);
}

static void it_refuses_wrong_options(void **state) {
    (void)state;
    assert_prints(run("./a3c --task chess"), 2, "--task chess: expected cartpole or pendulum");
    assert_prints(run("./a3c --workers 0"), 2, "--workers 0: expected a whole number, 1 to 256");
    assert_prints(run("./a3c --gamma 2"), 2, "--gamma 2: expected 0 to 1");
    assert_prints(run("./a3c --steps -1"), 2, "--steps -1: expected");
    assert_prints(run("./a3c --nothing"), 2, "--nothing: no such option");
    assert_prints(run("./a3c --help"), 0, "--plot FILE.svg");
    assert_prints(run("./a3c %s 1 --plot /nowhere/x.svg", short_run), 2,
                  "/nowhere/x.svg: No such file");
}

GW_TESTS(example_a3c, it_keeps_the_pole_upright, it_swings_the_pendulum_up,
         one_worker_plays_the_same_for_the_same_seed, an_update_is_one_round_trip,
         it_runs_several_times_and_prints_the_mean, it_runs_under_the_launcher, it_draws_the_scores,
         it_refuses_wrong_options);
