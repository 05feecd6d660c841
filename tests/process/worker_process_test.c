// Workers that a program starts of itself: whatever their end, no wait for them lasts until a deadline.
#include "../support/launched.h"
#include "testing/testing.h"

#include <string.h>

static void every_wait_ends_with_the_outcome_of_the_worker(void **state) {
    (void)state;
    result r = finish(launch_command("exec ./case-worker_process"));
    testing_note("%d: %s%s", r.code, r.out, r.err);
    static const char *const lines[] = {
        "exits joins: disconnected: exits (pid ",
        ") exited with code 3 before it had joined the job\n",
        "exits ends: 3\n",
        "prints prints\n",
        "prints ends: 137\n",
        "killed ends: 137\n",
        "stops ends: 137\n",
        "closed is gone: 1\n",
        "serves answers: 8\n",
        "serves ends: 0\n",
    };
    const char *at = r.out;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        at = strstr(at, lines[i]);
        if (!at) fail_msg("no line \"%s\" where expected", lines[i]);
    }
    assert_null(strstr(r.out, "call: "));
    assert_int_equal(r.code, 0);
    forget(r);
}

// A member that was never connected has 31 s otherwise.
GW_TESTS_WITH_LIMIT(worker_process, 25, every_wait_ends_with_the_outcome_of_the_worker);
