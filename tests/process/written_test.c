// Blocks that are written while others read them (LEND-16): the first sums of jobs are right, and each part of the rule
// is needed.
#include "base/mem.h"
#include "testing/testing.h"

#include <stdio.h>
#include <string.h>

#include "../support/launched.h"

enum { JOBS = 3, TRIES = 5 };  // a thread that only receives may start late

static void check_right(int size, const char *choice, const char *program) {
    result r = finish(launch_command("%s ./gradwire run -n %d -- ./%s", choice, size, program));
    if (r.code || r.out_size)
        fail_msg("%s, %d ranks, %s: %s%s", program, size, choice, r.out, r.err);
    forget(r);
}

static void check_job(int size, const char *choice) {
    check_right(size, choice, "case-all_reduce_zeros");
    check_right(size, choice, "case-all_reduce_two_threads");
}

static void the_first_sum_of_a_job_is_right(void **state) {
    (void)state;
    for (int i = 0; i < JOBS; i++) {
        check_job(2, "GW_COLLECTIVE=all_reduce:direct");
        check_job(3, "");
        check_job(4, "");
    }
}

#if MEM_CACHED

// Rank 0 has the given bug, and extends the interval in which a write can be lost.
static result run_with_bug(const char *bug) {
    return finish(
        launch_command("./gradwire run -n 3 -- sh -c 'test $RANK != 0 || export GW_MUTATION=%s "
                       "GW_FAILPOINT=arena_moving; exec ./gradwire-two-threads-worker'",
                       bug));
}

static void a_block_that_may_be_written_stays(void **state) {
    (void)state;
    result r = run_with_bug("");
    if (r.code || r.out_size) fail_msg("without a bug: %s%s", r.out, r.err);
    forget(r);
}

static void if_it_moved_a_write_would_be_lost(void **state) {
    (void)state;
    bool found = false;
    for (int i = 0; i < TRIES && !found; i++) {
        result r = run_with_bug("write_lost");
        found = r.code && strstr(r.out, "rank 0: ") && strstr(r.out, "numbers are wrong");
        forget(r);
    }
    assert_true(found);
}

static void if_it_moved_alone_the_writer_would_be_stopped(void **state) {
    (void)state;
    bool stopped = false;
    for (int i = 0; i < TRIES && !stopped; i++) {
        result r = run_with_bug("written_block_moves");
        if (strstr(r.out, "numbers are wrong")) fail_msg("the write is lost: %s%s", r.out, r.err);
        stopped = r.code && strstr(r.err, "signal 11");
        forget(r);
    }
    assert_true(stopped);
}

GW_TESTS_WITH_LIMIT(written, 240, the_first_sum_of_a_job_is_right,
                    a_block_that_may_be_written_stays, if_it_moved_a_write_would_be_lost,
                    if_it_moved_alone_the_writer_would_be_stopped);

#else  // under sanitizers no block moves

GW_TESTS_WITH_LIMIT(written, 240, the_first_sum_of_a_job_is_right);

#endif
