// The example of replicas that seldom talk.
#include "example_run.h"
#include "testing/testing.h"

// Exit code 0: as accurate as DDP, by a third of its bytes at most.
static void local_sgd_is_as_good_by_a_third_of_the_bytes(void **state) {
    (void)state;
    assert_says(run("timeout 100 ./local_sgd"), 0, "PowerSGD");
    assert_says(run("timeout 100 ./gradwire run -n 4 --no-prefix -- ./local_sgd"), 0, "local SGD");
}

static void it_says_when_too_much_is_sent(void **state) {
    (void)state;
    assert_says(run("timeout 100 ./local_sgd --period 2 --epochs 5"), 3, "test accuracy");
}

static void it_refuses_wrong_options(void **state) {
    (void)state;
    assert_says(run("./local_sgd --help"), 0, "--plot FILE.svg");
    assert_says(run("./local_sgd --period 0"), 2, "--period 0");
}

GW_TESTS(example_local, local_sgd_is_as_good_by_a_third_of_the_bytes, it_says_when_too_much_is_sent,
         it_refuses_wrong_options);
