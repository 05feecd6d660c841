// The example of replicas that communicate seldom.
#include "example_run.h"
#include "testing/testing.h"

// Exit code 0: as accurate as DDP, with a third of its bytes at most.
static void local_sgd_is_as_accurate_with_a_third_of_the_bytes(void **state) {
    (void)state;
    assert_prints(run("./local_sgd"), 0, "PowerSGD");
    assert_prints(run("./gradwire run -n 4 --no-prefix -- ./local_sgd"), 0, "local SGD");
}

static void it_reports_when_too_much_is_sent(void **state) {
    (void)state;
    assert_prints(run("./local_sgd --period 2 --epochs 5"), 3,
                  "not reached: local SGD by at most 30 % of the bytes of DDP\n");
}

static void one_worker_alone_is_refused(void **state) {
    (void)state;
    assert_prints(run("./gradwire run -n 1 --no-prefix -- ./local_sgd"), 1,
                  "too few workers: gradwire run -n 2 -- local_sgd");
}

static void it_draws_three_curves(void **state) {
    (void)state;
    assert_draws("./local_sgd --epochs 2");
    assert_prints(run("./local_sgd --epochs 1 --plot local.svg >/dev/null; "
                      "grep -c '<polyline' local.svg; rm local.svg"),
                  0, "3\n");
}

static void it_refuses_wrong_options(void **state) {
    (void)state;
    assert_prints(run("./local_sgd --world-size 1"), 2, "--world-size 1: expected");
    assert_prints(run("./local_sgd --period 0"), 2, "--period 0");
}

GW_TESTS(example_local, local_sgd_is_as_accurate_with_a_third_of_the_bytes,
         it_reports_when_too_much_is_sent, one_worker_alone_is_refused, it_draws_three_curves,
         it_refuses_wrong_options);
