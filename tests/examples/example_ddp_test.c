// The examples with replicas: they reach their goals, on any number of workers.
#include "example_run.h"
#include "testing/testing.h"

#include <string.h>

// ---- ddp_digits ---------------------------------------------------------------------------------

static void replicas_learn_digits(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n *= 2)
        assert_prints(run("./ddp_digits --world-size %d", n), 0, " % of the test digits");
    assert_prints(run("./ddp_digits --hook bf16"), 0, "2 members");
    assert_prints(run("./ddp_digits --amp"), 0, "2 members");
}

static void shards_give_one_set_of_weights_on_any_number_of_workers(void **state) {
    (void)state;
    static const char command[] =
        "./ddp_digits --epochs 2 --shards 4 --world-size %d | grep -o 'weights.*'";
    assert_same_output(run(command, 1), run(command, 2), 0);
    assert_same_output(run(command, 1), run(command, 4), 0);
}

static void replicas_run_under_the_launcher(void **state) {
    (void)state;
    assert_prints(run("./gradwire run -n 3 --no-prefix -- ./ddp_digits"), 0, "3 members");
}

// ---- ddp_rpc ------------------------------------------------------------------------------------

static void four_roles_learn_planted_labels(void **state) {
    (void)state;
    assert_prints(run("./ddp_rpc"), 0, "the replicas have the same bits");
    assert_prints(run("./ddp_rpc --random --epochs 3"), 0, "the replicas have the same bits");
    assert_prints(run("./gradwire run -n 4 --no-prefix -- ./ddp_rpc"), 0, "same bits");
}

// ---- join_uneven --------------------------------------------------------------------------------

static void replicas_with_uneven_inputs_end_alike(void **state) {
    (void)state;
    assert_prints(run("./join_uneven"), 0, "worker1 has used all of its 6 inputs");
    static const char kinds[] = "./join_uneven --world-size 4 --inputs %d | "
                                "grep -o 'weight.*after %d' | sort -u | wc -l";
    assert_prints(run(kinds, 5, 8), 0, "1");
    assert_prints(run(kinds, 0, 3), 0, "1");
    assert_prints(run("./gradwire run -n 3 --no-prefix -- ./join_uneven --active"), 0,
                  "worker2 has used all of its 7 inputs");
}

// ---- ddp_survives -------------------------------------------------------------------------------

// Members are started again, and have the same weights, bit for bit; each epoch is in the curve, and 97 % of the test
// digits are recognised (else the exit code is 3).
static void assert_survives(int members, int losses) {
    result *r = run("./ddp_survives --world-size %d --losses %d", members, losses);
    int again = 0, whole = 0;
    for (const char *at = r->log; (at = strstr(at, "; it starts again, attempt ")); at++) again++;
    for (const char *at = r->output; (at = strstr(at, "30 epochs, weights ")); at++) {
        assert_memory_equal(at, strstr(r->output, "30 epochs, weights "), 35);
        whole++;
    }
    assert_int_equal(again, losses);
    assert_int_equal(whole, members);
    assert_prints(r, 0, "epoch 30 of 30  test accuracy 9");
}

static void replicas_survive_losses_and_admit_new_ones(void **state) {
    (void)state;
    assert_survives(3, 2);
    assert_survives(2, 4);
    assert_survives(3, 0);
    assert_prints(run("grep -vcE '^ *(//|$)' %s/examples/ddp_survives/main.c | awk '$1 <= 60'",
                      GW_SOURCE_DIR),
                  0, "4");
}

// ---- ddp_digits --elastic, preempted ------------------------------------------------------------

// The lines that a program needs to survive losses, and its result.
static void a_plain_program_becomes_elastic_by_ten_lines(void **state) {
    (void)state;
    assert_prints(run("grep -v '^ *//' %s/examples/ddp_digits/main.c | grep -cE 'elastic|job' | "
                      "awk '{ print $1 <= 10 ? \"few\" : \"many\" }'",
                      GW_SOURCE_DIR),
                  0, "few");
    assert_prints(run("./gradwire run -n 3 --max-restarts=1 --no-prefix -- ./ddp_digits --elastic"),
                  0, "epoch 30 of 30  test accuracy 9");
}

static void a_preempted_training_has_the_weights_of_one_that_was_not(void **state) {
    (void)state;
    static const char
        whole[] = "./gradwire run -n 2 --max-restarts=1 --no-prefix -- ./preempted --epochs 6 | "
                  "grep -o 'finished, weights .*' | sort -u",
        again[] =
            "d=$(mktemp -d); for i in 1 2 3 4 5 6 7 8; do ./gradwire run -n 2 --max-restarts=1 "
            "--checkpoint-dir $d --no-prefix -- ./preempted --epochs 6 --every 100; done | "
            "grep -o 'finished, weights .*' | head -2 | sort -u; rm -r $d";
    assert_same_output(run(whole), run(again), 0);
    assert_prints(run("./gradwire run -n 2 --max-restarts=1 --no-prefix -- ./preempted --epochs 6 "
                      "--every 100"),
                  0, ": leaving, weights ");
}

// ---- ddp_elastic --------------------------------------------------------------------------------

static void replicas_that_are_started_again_have_the_same_weights(void **state) {
    (void)state;
    static const char elastic[] =
        "./gradwire run -n 3 --max-restarts=2 -- ./ddp_elastic --kills 2 2>&1";
    result *r = run(elastic);
    assert_non_null(strstr(
        r->output, "was killed by signal 9 (Killed); it starts again, attempt 1 (1 restart left)"));
    assert_non_null(strstr(r->output, "finished after 1320 of 1320 steps"));
    assert_prints(r, 0, " % of the test digits, weights ");
    assert_prints(run("%s | grep -o 'weights .*' | sort -u | wc -l", elastic), 0, "1");
    assert_prints(run("./ddp_elastic --nothing"), 2, "--nothing: no such option, see --help");
}

static void they_draw_curves(void **state) {
    (void)state;
    assert_draws("./ddp_digits --epochs 2");
    assert_draws("./ddp_rpc --epochs 2");
    assert_draws("./join_uneven");
    assert_draws("./ddp_survives");
}

static void they_print_the_missed_goal(void **state) {
    (void)state;
    assert_prints(run("./ddp_digits --epochs 1"), 3,
                  "not reached: test accuracy of at least 97 %\n");
    assert_prints(run("./ddp_rpc --epochs 1"), 3, "not reached: loss of at most 0.7\n");
}

static void they_refuse_wrong_options(void **state) {
    (void)state;
    static const char *const programs[] = { "ddp_digits",  "ddp_rpc",      "join_uneven",
                                            "local_sgd",   "pipeline_ddp", "zero_memory",
                                            "ddp_survives" };
    for (int i = 0; i < 7; i++) {
        assert_prints(run("./%s --help", programs[i]), 0, "--plot FILE.svg");
        assert_prints(run("./%s --nothing", programs[i]), 2,
                      "--nothing: no such option, see --help");
        assert_prints(run("./%s --plot /nowhere/x.svg", programs[i]), 2,
                      "--plot /nowhere/x.svg: No such file or directory\n");
    }
    assert_prints(run("./ddp_survives --world-size 1"), 2, "expected a whole number, 2 to ");
    // The launcher starts the rank that reports it again, which then has nothing to do.
    assert_prints(run("./ddp_survives --losses 0 --epochs 1"), 0, "not reached: test accuracy of ");
    assert_prints(run("./ddp_digits --hook f8"), 2, "expected none or f16 or bf16");
    assert_prints(run("./ddp_digits --shards 3"), 1, ".shards is 3, but must be a power of two");
    assert_prints(run("./gradwire run -n 2 --no-prefix -- ./ddp_rpc"), 1,
                  "two trainers, a master, a server");
}

GW_TESTS(example_ddp, replicas_learn_digits,
         shards_give_one_set_of_weights_on_any_number_of_workers, replicas_run_under_the_launcher,
         four_roles_learn_planted_labels, replicas_survive_losses_and_admit_new_ones,
         a_plain_program_becomes_elastic_by_ten_lines,
         a_preempted_training_has_the_weights_of_one_that_was_not,
         replicas_that_are_started_again_have_the_same_weights,
         replicas_with_uneven_inputs_end_alike, they_draw_curves, they_print_the_missed_goal,
         they_refuse_wrong_options);
