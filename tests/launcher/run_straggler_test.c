// gradwire run --straggler: a rank that the others wait for is named, or replaced.
#include "testing/testing.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/launched.h"

#define TRAINS GW_BUILD_DIR "/bin/case-elastic_trains"
#define ENDLESS "1000000000"

static const char named[] = "is a straggler: the other ranks have waited for it for ";

static void a_straggler_is_named(void **state) {
    (void)state;
    path folder = make_folder();
    setenv("XDG_STATE_HOME", folder.text, 1);
    launched l = LAUNCH("run", "-n", "3", "--max-restarts=1", TRAINS, ENDLESS, "1", "slow:1:30");
    const char *line = read_line(l.err_fd, "gradwire: rank 1 (pid ");
    assert_non_null(strstr(line, named));
    assert_non_null(strstr(line, " % of the time of the last 100 steps"));
    kill(l.pid, SIGINT);
    result r = finish(l);
    assert_int_equal(r.code, 128 + SIGINT);
    forget(r);
    remove_folder(folder);
}

// Its next attempt is as fast as the others; all leave once it has joined.
static void a_straggler_is_replaced_without_a_restart_of_the_budget(void **state) {
    (void)state;
    path folder = make_folder();
    setenv("XDG_STATE_HOME", folder.text, 1);
    result r = RUN("run", "-n", "3", "--max-restarts=1", "--straggler=replace", TRAINS, ENDLESS,
                   "1", "slow:1:30", "again:3");
    testing_note("code %d\n%.4000s%s", r.code, r.out, r.err);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, named));
    assert_non_null(strstr(r.err, "; it leaves, and starts again\n"));
    assert_non_null(strstr(r.out, "[1] rank 1 attempt 1 "));
    assert_null(strstr(r.err, "restarts left"));
    forget(r);
    remove_folder(folder);
}

static void it_is_refused_where_a_rank_cannot_start_again_alone(void **state) {
    (void)state;
    static const char *const rows[][3] = {
        { "--straggler=x", "-n1", "--straggler is report, replace or ignore, not \"x\"" },
        { "--straggler=replace", "-n1", "--straggler=replace needs --max-restarts=N" },
        { "--straggler=replace", "--nnodes=1:2", "--straggler=replace is for jobs on one host" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        result r = RUN("run", "-n1", "--insecure", "--rdzv-endpoint=127.0.0.1:1", rows[i][0],
                       rows[i][1], "true");
        assert_int_equal(r.code, 2);
        assert_non_null(strstr(r.err, rows[i][2]));
        forget(r);
    }
}

GW_TESTS_WITH_LIMIT(run_straggler, 180, a_straggler_is_named,
                    a_straggler_is_replaced_without_a_restart_of_the_budget,
                    it_is_refused_where_a_rank_cannot_start_again_alone);
