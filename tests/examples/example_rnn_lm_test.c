// The language model over two workers: it predicts the next word better than a model of one preceding word.
#include "example_run.h"
#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char one[] =
    "--text /usr/share/common-licenses/GPL-2 --vocabulary 300 --batch 5 --hidden 32 "
    "--features 32";
static const char without_times[] = "| sed 's/ *[0-9.]* s  //'";

static char *new_file(char *path) {
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    return path;
}

static void it_is_better_than_a_bigram_model(void **state) {
    (void)state;
    double reached = 0, bigram = 0;
    result *r = run("./rnn_lm --vocabulary 500 --features 128 --hidden 128 "
                    "--dropout 0.5 --epochs 8");
    assert_int_equal(r->exit_code, 0);
    const char *line = strstr(r->output, "held-out perplexity: ");
    assert_non_null(line);
    assert_int_equal(
        sscanf(line, "held-out perplexity: %lf, of a bigram model %lf", &reached, &bigram), 2);
    assert_true(bigram > 10 && bigram < 60);
    assert_true(reached < 0.95 * bigram);
    test_free(r);
}

static void it_trains_the_model_of_the_tutorial(void **state) {
    (void)state;
    assert_prints(run("./rnn_lm --tiny"), 0,
                  "Training epoch 0\nTraining epoch 1\nTraining epoch 2\nTraining epoch 3\n");
    result *r = run("./gradwire run -n 2 --no-prefix -- ./rnn_lm --tiny --stats");
    const char *step = strstr(r->output, "Training epoch 9\na step: ");
    assert_int_equal(r->exit_code, 0);
    assert_non_null(step);
    // A call forward, one in the pass, a step of two owners, and the messages that end them.
    double messages = strtod(step + strlen("Training epoch 9\na step: "), NULL);
    assert_true(messages > 8 && messages < 16);
    test_free(r);
}

static void the_model_of_the_tutorial_is_saved_and_loaded(void **state) {
    (void)state;
    char path[] = "/tmp/rnn_lm-test-XXXXXX";
    new_file(path);
    result *r = run("./rnn_lm --tiny --epochs 2 --save %s", path);
    assert_null(strstr(r->output, "Training epoch 2"));
    assert_prints(r, 0, "Training epoch 0\nTraining epoch 1\n");
    assert_prints(run("./rnn_lm --tiny --epochs 1 --load %s", path), 0, "Training epoch 0\n");
    assert_prints(run("./rnn_lm %s --load %s", one, path), 1, "emb");
    unlink(path);
    assert_prints(run("./rnn_lm --tiny --load %s", path), 1, path);
    assert_prints(run("./rnn_lm --tiny --hidden 5"), 2,
                  "rnn_lm: --hidden has no effect with --tiny");
    assert_prints(run("./rnn_lm --tiny --plot x.svg"), 2,
                  "rnn_lm: --plot has no effect with --tiny");
}

// The parent reports it: the worker itself cannot.
static void a_killed_worker_is_named(void **state) {
    (void)state;
    assert_prints(run("./rnn_lm & p=$!; until kid=$(cat /proc/$p/task/$p/children) && "
                      "test \"$kid\"; do :; done; kill -9 ${kid%%%% *}; wait $p"),
                  137, "rnn_lm: worker 0 was killed by signal 9 (Killed)\n");
}

static void it_learns_the_same_for_the_same_seed(void **state) {
    (void)state;
    result *broken =
        run("GW_TEST_CUT_EVERY=300 ./rnn_lm %s --epochs 1 --stats %s", one, without_times);
    assert_was_cut(broken);
    assert_same_output(run("./rnn_lm %s --epochs 1 %s", one, without_times), broken, 0);
}

static void it_continues_from_a_checkpoint(void **state) {
    (void)state;
    char path[] = "/tmp/rnn_lm-test-XXXXXX";
    new_file(path);
    const char *last = "| tail -n 1";
    result *saved = run("./rnn_lm %s --epochs 1 --save %s %s", one, path, last);
    result *loaded = run("./rnn_lm %s --epochs 1 --load %s --lr 1e-9 %s", one, path, last);
    assert_same_output(saved, loaded, 0);
    assert_prints(run("./rnn_lm %s --epochs 1 --load %s --layers 2", one, path), 1, "weight_ih_l1");
    unlink(path);
    assert_prints(run("./rnn_lm %s --epochs 1 --load %s", one, path), 1, path);
}

static void it_draws_the_perplexity(void **state) {
    (void)state;
    char path[] = "/tmp/rnn_lm-test-XXXXXX";
    new_file(path);
    assert_prints(run("./rnn_lm %s --epochs 2 --plot %s; cat %s", one, path, path), 0, "</svg>");
    unlink(path);
}

static void it_refuses_wrong_options_and_texts(void **state) {
    (void)state;
    assert_prints(run("./rnn_lm --hidden 0"), 2,
                  "--hidden 0: expected a whole number, 1 to 1000000");
    assert_prints(run("./rnn_lm --dropout 1"), 2, "--dropout 1: expected 0 to 0.99");
    assert_prints(run("./rnn_lm --nothing"), 2, "--nothing: no such option");
    assert_prints(run("./rnn_lm --help"), 0, "--plot FILE.svg");
    assert_prints(run("./rnn_lm --text /nowhere"), 1, "/nowhere: No such file");
    assert_prints(run("./rnn_lm --text /tmp"), 1, "/tmp: Is a directory");
    assert_prints(run("./rnn_lm --text /usr/share/common-licenses/BSD"), 1,
                  "words in 1 file without repeated passages, of 2000 that it takes");
    assert_prints(run("./rnn_lm %s --batch 100000", one), 1, "the text is too short");
    assert_prints(run("./rnn_lm %s --epochs 1 --plot /nowhere/x.svg", one), 2,
                  "/nowhere/x.svg: No such file");
    assert_prints(run("./gradwire run -n 1 --no-prefix -- ./rnn_lm"), 1,
                  "this program is for two workers");
}

GW_TESTS_WITH_LIMIT(example_rnn_lm, 200, it_is_better_than_a_bigram_model,
                    it_trains_the_model_of_the_tutorial,
                    the_model_of_the_tutorial_is_saved_and_loaded, a_killed_worker_is_named,
                    it_learns_the_same_for_the_same_seed, it_continues_from_a_checkpoint,
                    it_draws_the_perplexity, it_refuses_wrong_options_and_texts);
