// The federated example: federated training is as accurate as training on all data in one process, whichever clients
// join and leave.
#include "example_run.h"
#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Both accuracies are above 96 %, and that of the clients at most 1 % behind.
static void assert_learns(result *r) {
    double clients, central;
    assert_int_equal(r->exit_code, 0);
    const char *line = strstr(r->output, "test accuracy: ");
    assert_non_null(line);
    assert_int_equal(
        sscanf(line, "test accuracy: %lf %% from the clients, %lf %%", &clients, &central), 2);
    assert_true(clients > 96 && central > 96);
    assert_true(clients >= central - 1.0);
}

static void averaging_is_as_accurate_as_training_in_one_process(void **state) {
    (void)state;
    result *r = run("./fedavg --seed 4");
    assert_learns(r);
    assert_non_null(strstr(r->output, "computed for a link of 10 Gb/s"));
    test_free(r);
}

static void gradients_are_as_accurate_as_training_in_one_process(void **state) {
    (void)state;
    result *r = run("./fedavg --method sgd --seed 6");
    assert_learns(r);
    test_free(r);
}

static void it_continues_when_clients_join_leave_and_die(void **state) {
    (void)state;
    result *r = run("./fedavg --clients 6 --add 10 --leave 50 --kill 55 --seed 4");
    assert_non_null(strstr(r->output, "client7 joins"));
    assert_non_null(strstr(r->output, "client1 is dismissed"));
    // The client may have answered before it is killed: then the next round cannot call it.
    assert_non_null(strstr(r->output, "client6 is lost: client6"));
    assert_non_null(strstr(r->output, "round  60  5 clients"));
    assert_learns(r);
    test_free(r);
}

static void it_counts_bytes_of_a_larger_model(void **state) {
    (void)state;
    result *r = run("./fedavg --model-parameters 2000000 --rounds 1 --epochs 1 --clients 2");
    // Two clients, sent and returned, four bytes each.
    assert_prints(r, 0, "a round of 2.001 million parameters: 32.0");
}

static void clients_may_be_started_by_hand(void **state) {
    (void)state;
    char path[] = "/tmp/fedavg-test-XXXXXX";
    assert_non_null(mkdtemp(path));
    result *r = run("(./fedavg --join file://%s/meet --shares 3 --number 3 & "
                    "./fedavg --clients 2 --shares 3 --at file://%s/meet --await 3 "
                    "--rounds 5; wait)",
                    path, path);
    rmdir(path);
    assert_non_null(strstr(r->output, "client3 joins"));
    assert_prints(r, 0, "round   5  3 clients");
}

// Makes a certificate authority in |folder|, and its keys for the server and two clients.
static void make_keys(const char *folder) {
    assert_prints(
        run("D=%s; ./gradwire ca > $D/ca.pem && for name in server client1 client2; do "
            "./gradwire key --ca $D/ca.pem $name > $D/$name.pem || exit 1; done; echo made",
            folder),
        0, "made");
}

static void clients_have_keys_of_their_own(void **state) {
    (void)state;
    char path[] = "/tmp/fedavg-test-XXXXXX";
    assert_non_null(mkdtemp(path));
    make_keys(path);
    result *r = run("export GW_TRANSPORT=tcp D=%s; for number in 1 2; do "
                    "GW_KEY_FILE=$D/client$number.pem ./fedavg --join file://$D/meet "
                    "--shares 2 --number $number & done; GW_KEY_FILE=$D/server.pem "
                    "./fedavg --clients 0 --await 2 --at file://$D/meet --rounds 5; wait",
                    path);
    assert_prints(r, 0, "round   5  2 clients");
    // The owner of another client cannot join as this one.
    r = run("export GW_TRANSPORT=tcp D=%s; rm -f $D/meet; GW_KEY_FILE=$D/server.pem ./fedavg "
            "--clients 0 --await 1 --at file://$D/meet & server=$!; GW_KEY_FILE=$D/client1.pem "
            "./fedavg --join file://$D/meet --number 2 --shares 2; echo \"ended: $?\"; "
            "kill $server; rm -r $D",
            path);
    assert_true(prints(r, "client2"));
    assert_prints(r, 0, "ended: 1");
}

static void it_draws_the_accuracy(void **state) {
    (void)state;
    char path[] = "/tmp/fedavg-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_prints(run("./fedavg --rounds 3 --plot %s; cat %s", path, path), 0, "</svg>");
    unlink(path);
}

static void it_refuses_wrong_options(void **state) {
    (void)state;
    assert_prints(run("./fedavg --method max"), 2, "--method max: expected avg or sgd");
    assert_prints(run("./fedavg --clients 63"), 2,
                  "--clients 63: expected a whole number, 0 to 62");
    assert_prints(run("./fedavg --clients 0"), 2, "no client would be left");
    assert_prints(run("./fedavg --clients 1 --kill 3"), 2, "no client would be left");
    assert_prints(run("./fedavg --rounds 5 --kill 5"), 2,
                  "--kill: expected a round before the last");
    assert_prints(run("./fedavg --lr x"), 2, "--lr x: expected 0 to 1000");
    assert_prints(run("./fedavg --nothing"), 2, "--nothing: no such option");
    assert_prints(run("./fedavg --ruonds=3"), 2,
                  "--ruonds=3: no such option, see --help; did you mean \"--rounds\"?");
    assert_prints(run("./fedavg sideways"), 2, "sideways: takes no arguments");
    assert_prints(run("./fedavg --rounds"), 2, "--rounds: expected N");
    assert_prints(run("./fedavg --help"), 0, "--model-parameters N");
    assert_prints(run("./fedavg --data /nowhere"), 1, "/nowhere: No such file");
    assert_prints(run("./fedavg --rounds 1 --plot /nowhere/x.svg"), 2,
                  "/nowhere/x.svg: No such file");
}

GW_TESTS(example_fedavg, averaging_is_as_accurate_as_training_in_one_process,
         gradients_are_as_accurate_as_training_in_one_process,
         it_continues_when_clients_join_leave_and_die, it_counts_bytes_of_a_larger_model,
         clients_may_be_started_by_hand, clients_have_keys_of_their_own, it_draws_the_accuracy,
         it_refuses_wrong_options);
