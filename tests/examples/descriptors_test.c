// A job with a limit of descriptors, for each limit from too low to enough: it works, or reports which limit was
// reached.
#include "example_run.h"
#include "testing/testing.h"

#include <string.h>

enum { FEWEST = 4, MOST = 24 };

static void expect_work_or_error(result *r, int count, bool *works) {
    *works = r->exit_code == 0;
    if (*works) assert_non_null(strstr(r->output, "tensor([ 6., 12., 18.])"));
    if (!*works && !prints(r, "Too many open files"))
        fail_msg("with %d: exit code %d: %s", count, r->exit_code, r->log);
    test_free(r);
}

static void a_job_with_few_descriptors_works_or_reports_it(void **state) {
    (void)state;
    bool works = true;
    for (int count = FEWEST; count <= MOST; count++) {
        expect_work_or_error(
            run("ulimit -n %d; exec ./gradwire run -n 2 --no-prefix -- ./hello", count), count,
            &works);
        if (count == FEWEST) assert_false(works);
    }
    assert_true(works);
}

static void workers_with_few_descriptors_work_or_report_it(void **state) {
    (void)state;
    bool works = true;
    for (int count = FEWEST; count <= MOST; count++) {
        expect_work_or_error(run("exec ./gradwire run -n 2 --no-prefix -- "
                                 "sh -c 'ulimit -n %d; exec ./hello'",
                                 count),
                             count, &works);
        if (count == FEWEST) assert_false(works);
    }
    assert_true(works);
}

GW_TESTS_WITH_LIMIT(descriptors, 180, a_job_with_few_descriptors_works_or_reports_it,
                    workers_with_few_descriptors_work_or_report_it);
