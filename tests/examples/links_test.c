// Four workers with too few descriptors for connections to all others: each run works, or ends and names the limit. A
// run that does neither exceeds the limit of this test.
#include "example_run.h"
#include "testing/testing.h"

#include <string.h>

enum { FEWEST = 12, MOST = 20, ENOUGH = 40, NOT_SOLVED = 3 };

static bool works_with(int count) {
    testing_note("ulimit -n %d", count);
    result *r = run("exec ./gradwire run -n 4 --no-prefix -- "
                    "sh -c 'ulimit -n %d; exec ./ddp_digits --epochs 1'",
                    count);
    bool works = r->exit_code == 0 || r->exit_code == NOT_SOLVED;
    if (!works && !prints(r, "Too many open files"))
        fail_msg("with %d: exit code %d: %s", count, r->exit_code, r->log);
    test_free(r);
    return works;
}

static void workers_that_cannot_connect_to_all_others_name_the_limit(void **state) {
    (void)state;
    for (int count = FEWEST; count <= MOST; count++) {
        bool works = works_with(count);
        if (count == FEWEST) assert_false(works);
    }
    assert_true(works_with(ENOUGH));
}

GW_TESTS_WITH_LIMIT(links, 180, workers_that_cannot_connect_to_all_others_name_the_limit);
