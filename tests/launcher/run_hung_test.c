// gradwire run --progress-timeout: a rank that makes no step while others wait for it fails.
#include "testing/testing.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/launched.h"

#define HANGS GW_BUILD_DIR "/bin/case-hangs"
#define TRAINS GW_BUILD_DIR "/bin/case-elastic_trains"

#define ENDLESS "1000000000"

static void keep_flights_in(path folder) {
    setenv("XDG_STATE_HOME", folder.text, 1);
}

// On a busy machine others may be late as well, and start again.
static void a_rank_that_hangs_starts_again(void **state) {
    (void)state;
    path folder = make_folder();
    keep_flights_in(folder);
    result r = RUN("run", "-n", "3", "--max-restarts=20", "--progress-timeout=3", TRAINS, ENDLESS,
                   "1", "1:hang:5", "again:3");
    testing_note("code %d\n%s%s", r.code, r.out, r.err);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, "has made no step for 3 s, and is killed now\n"));
    assert_non_null(
        strstr(r.err, ") is killed: it has made no step for 3 s, while other workers waited"));
    assert_non_null(strstr(r.err, ") was killed by signal 9 (Killed): it has made no step for 3 s, "
                                  "while other workers waited for it; it starts again, attempt 1"));
    assert_non_null(strstr(r.out, "[1] rank 1 attempt 1 "));
    assert_int_equal(count_in(r.out, "leaving at step "), 3);
    forget(r);
    remove_folder(folder);
}

static void without_restarts_it_ends_the_job(void **state) {
    (void)state;
    path folder = make_folder();
    keep_flights_in(folder);
    result r = RUN("run", "-n", "2", "--progress-timeout=3", TRAINS, "20", "2", "1:hang:5");
    testing_note("code %d\n%s%s", r.code, r.out, r.err);
    assert_int_equal(r.code, 128 + SIGKILL);
    assert_non_null(strstr(r.err, "it has made no step for 3 s"));
    assert_non_null(strstr(r.err, "gradwire: what the workers did last: gradwire dump "));
    forget(r);
    remove_folder(folder);
}

// The launcher reports the hang after the time of --progress-timeout, and does not act.
static void a_rank_that_has_made_no_step_yet_is_not_ended(void **state) {
    (void)state;
    path folder = make_folder();
    keep_flights_in(folder);
    launched l = LAUNCH("run", "-n2", "--progress-timeout=0.5", "--hang-after=3", HANGS, "barrier");
    read_line(l.err_fd, "gradwire: root   worker1 ");
    kill(l.pid, SIGINT);
    result r = finish(l);
    testing_note("%s", r.err);
    assert_int_equal(r.code, 128 + SIGINT);
    assert_null(strstr(r.err, "has made no step"));
    forget(r);
    remove_folder(folder);
}

static void wrong_values_are_refused(void **state) {
    (void)state;
    static const char *const values[] = { "--progress-timeout=-1", "--progress-timeout=x" };
    for (int i = 0; i < 2; i++) {
        result r = RUN("run", "-n1", values[i], "true");
        assert_int_equal(r.code, 2);
        assert_non_null(strstr(r.err, "--progress-timeout takes seconds from 0 to "));
        forget(r);
    }
}

GW_TESTS_WITH_LIMIT(run_hung, 180, a_rank_that_hangs_starts_again, without_restarts_it_ends_the_job,
                    a_rank_that_has_made_no_step_yet_is_not_ended, wrong_values_are_refused);
