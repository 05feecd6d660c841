// The examples as a user runs them: real processes, real sockets.
#include "example_run.h"
#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void hello_calls_in_three_ways(void **state) {
    (void)state;
    assert_prints(run("./gradwire run -n 2 --no-prefix -- ./hello"), 0, "tensor([ 6., 12., 18.])");
}

static void a_cpp_program_calls_and_keeps_objects(void **state) {
    (void)state;
    result *r = run("./gradwire run -n 2 --no-prefix -- ./hello_cpp");
    assert_non_null(strstr(r->output, "tensor([[3., 3.],\n        [3., 3.]])"));
    assert_non_null(strstr(r->output, "counted to 42"));
    assert_prints(r, 0, "as expected, worker1: risky: a C++ exception: no room for 9");
}

static void a_program_calls_a_different_program(void **state) {
    (void)state;
    assert_prints(run("./gradwire run -n 2 --no-prefix -- sh -c "
                      "'if [ $RANK = 0 ]; then exec ./stats_client; else exec ./stats_server; fi'"),
                  0, "count 5, mean 2.0000, std 1.5811");
}

static void a_model_learns_from_data_of_another_worker(void **state) {
    (void)state;
    result *r = run("./gradwire run -n 2 --no-prefix -- ./remote_dataset");
    assert_non_null(strstr(r->output, "step 96: 0.01"));
    assert_prints(r, 0, "as expected, invalid: worker1: dataset.batch: batch 1000 of 16");
    assert_prints(run("./gradwire run -n 1 --no-prefix -- ./remote_dataset"), 1,
                  "this program is for two workers");
}

static void another_number_of_workers_continues_from_a_checkpoint(void **state) {
    (void)state;
    char folder[] = "/tmp/checkpoints-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    static const int workers[] = { 3, 2, 1 };
    for (int i = 0; i < 3; i++) {
        result *r = run("./gradwire run -n %d --no-prefix -- ./checkpoints %s %d", workers[i],
                        folder, 40 * (i + 1));
        char line[64];
        snprintf(line, sizeof line, "begins at step %d\n", 40 * i);
        if (!strstr(r->output, line)) fail_msg("%s\n%s", r->output, r->log);
        snprintf(line, sizeof line, "ends at step %d with loss ", 40 * (i + 1));
        assert_prints(r, 0, line);
    }
    assert_prints(run("ls %s", folder), 0, "step-110\nstep-120\n");
    assert_prints(run("rm -r %s", folder), 0, "");
}

static void a_supervisor_replaces_a_worker_that_died(void **state) {
    (void)state;
    result *r = run("./supervisor");
    const char *died = strstr(r->output, "worker2 died\n");
    assert_non_null(died);
    assert_non_null(strstr(died, "worker2 joined\n"));
    assert_non_null(strstr(r->output, "is repeated: disconnected"));
    assert_prints(r, 0, "the sum of 40 squares is 22140");
}

// ---- CartPole -----------------------------------------------------------------------------------

static const char short_run[] = "--max-episodes 12 --log-interval 1 --seed 7";

static void cartpole_prints_the_lines_of_the_tutorial(void **state) {
    (void)state;
    result *r = run("./rl_cartpole --max-episodes 2 --log-interval 2");
    assert_non_null(strstr(
        r->output, "This will run until reward threshold of 475.0 is reached. Ctrl+C to exit.\n"));
    assert_prints(r, 3, "Episode 2\tLast reward: ");
}

static void cartpole_plays_the_same_episodes_for_the_same_seed(void **state) {
    (void)state;
    for (int world_size = 2; world_size <= 5; world_size += world_size == 3 ? 2 : 1)
        assert_same_output(run("./rl_cartpole %s --world-size %d", short_run, world_size),
                           run("./rl_cartpole %s --world-size %d", short_run, world_size), 3);
}

static void cartpole_plays_other_episodes_for_another_seed(void **state) {
    (void)state;
    result *a = run("./rl_cartpole --max-episodes 5 --log-interval 1 --seed 1");
    result *b = run("./rl_cartpole --max-episodes 5 --log-interval 1 --seed 2");
    assert_string_not_equal(a->output, b->output);
    test_free(a);
    test_free(b);
}

static void cartpole_plays_the_same_under_the_launcher(void **state) {
    (void)state;
    assert_same_output(
        run("./rl_cartpole %s --world-size 3", short_run),
        run("./gradwire run -n 3 --no-prefix --on-failure=keep -- ./rl_cartpole %s", short_run), 3);
}

static void cartpole_plays_the_same_when_connections_are_cut(void **state) {
    (void)state;
    result *broken = run("GW_TEST_CUT_EVERY=100 ./rl_cartpole %s --stats", short_run);
    assert_was_cut(broken);
    assert_same_output(run("./rl_cartpole %s", short_run), broken, 3);
}

static void cartpole_draws_its_learning_curve(void **state) {
    (void)state;
    char path[] = "/tmp/cartpole-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_prints(run("./rl_cartpole --max-episodes 3 --plot %s; cat %s", path, path), 0, "</svg>");
    unlink(path);
}

static void cartpole_refuses_wrong_options(void **state) {
    (void)state;
    assert_prints(run("./rl_cartpole --world-size 1"), 2,
                  "--world-size 1: expected a whole number, 2 to 1024");
    assert_prints(run("./rl_cartpole --gamma x"), 2, "--gamma x: expected 0 to 1");
    assert_prints(run("./rl_cartpole --seed -3"), 2, "--seed -3: expected");
    assert_prints(run("./rl_cartpole --nothing"), 2, "nothing");
    assert_prints(run("./rl_cartpole sideways"), 2, "sideways: takes no arguments");
    assert_prints(run("./rl_cartpole --help"), 0, "--plot FILE.svg");
    assert_prints(run("./rl_cartpole --max-episodes 1 --plot /nowhere/x.svg"), 2,
                  "/nowhere/x.svg: No such file");
}

GW_TESTS_WITH_LIMIT(examples, 120, hello_calls_in_three_ways, a_cpp_program_calls_and_keeps_objects,
                    a_program_calls_a_different_program, a_model_learns_from_data_of_another_worker,
                    another_number_of_workers_continues_from_a_checkpoint,
                    a_supervisor_replaces_a_worker_that_died,
                    cartpole_prints_the_lines_of_the_tutorial,
                    cartpole_plays_the_same_episodes_for_the_same_seed,
                    cartpole_plays_other_episodes_for_another_seed,
                    cartpole_plays_the_same_under_the_launcher,
                    cartpole_plays_the_same_when_connections_are_cut,
                    cartpole_draws_its_learning_curve, cartpole_refuses_wrong_options);
