// The results of a program do not depend on the transport between its workers.
#include "example_run.h"
#include "testing/testing.h"

typedef struct program {
    const char *command;
    const char *filter;  // removes values that depend on the clock
    int exit_code;
} program;

static const program programs[] = {
    { "rl_cartpole --max-episodes 6 --log-interval 1 --seed 7", "cat", 3 },
    { "batch_rpc --form agent --episodes 10 --world-size 3 --seed 3", "grep episode", 3 },
    { "a3c --steps 2000 --evaluate 2 --workers 1", "sed 's/, [0-9.]* s$//'", 0 },
    { "pipeline --epochs 2", "grep epoch", 0 },
    { "fedavg --rounds 2 --seed 4", "sed -n 's/  [0-9.]* MB.*//p'", 0 },
    { "parameter_server --world-size 2 --epochs 2",
      "sed 's/[0-9.]* [a-z]* a step//; s/[0-9.]* s$//'", 3 },
    { "rnn_lm --tiny --epochs 1", "sed 's/[0-9.]* s\\b.*//; s/[0-9]* tokens a second//'", 0 },
};

static const char *const settings[] = { "GW_TRANSPORT=tcp", "GW_LEND=0" };

static result *run_with(const char *setting, const program *p) {
    return run("out=$(%s ./%s); code=$?; echo \"$out\" | %s; exit $code", setting, p->command,
               p->filter);
}

static void examples_compute_the_same_over_every_transport(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
        for (size_t k = 0; k < sizeof settings / sizeof settings[0]; k++)
            assert_same_output(run_with("", &programs[i]), run_with(settings[k], &programs[i]),
                               programs[i].exit_code);
}

static const program replicas[] = {
    { "ddp_digits --epochs 2 --world-size 3", "grep -o 'weights.*'", 3 },
    { "ddp_rpc --random --epochs 5", "grep replicas",
      0 },  // the order of trainers' steps on the table varies
    { "pipeline_ddp --check --epochs 2", "grep -e epoch -e unsplit", 3 },
    { "join_uneven --world-size 3", "sort", 0 },
    { "local_sgd --epochs 2", "grep epoch", 3 },
};

static void replicas_have_the_same_bits_over_every_transport_and_when_it_is_cut(void **state) {
    (void)state;
    static const char *const ways[] = { "GW_TRANSPORT=tcp", "GW_LEND=0", "GW_TEST_CUT_EVERY=50",
                                        "GW_TRANSPORT=tcp GW_TEST_CUT_EVERY=50" };
    for (size_t i = 0; i < sizeof replicas / sizeof replicas[0]; i++) {
        result *usual = run_with("", &replicas[i]);
        for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++) {
            result *r = run_with(ways[k], &replicas[i]);
            assert_int_equal(r->exit_code, replicas[i].exit_code);
            assert_string_equal(r->output, usual->output);
            test_free(r);
        }
        assert_int_equal(usual->exit_code, replicas[i].exit_code);
        test_free(usual);
    }
}

GW_TESTS_WITH_LIMIT(examples_transports, 120, examples_compute_the_same_over_every_transport,
                    replicas_have_the_same_bits_over_every_transport_and_when_it_is_cut);
