// gradwire run: the reports of its workers about joining and about each other, and their effects.
#include "testing/testing.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/launched.h"

// ---- A launcher that is late ----------------------------------------------------------------------

// A launcher that is stopped by its last rank before any rank joins, until every rank has printed |last|
// to its file in |folder|.
static launched start_late(path folder, int count, const char *program, const char *last) {
    char n[16], script[1024], file[16];
    snprintf(n, sizeof n, "%d", count);
    snprintf(script, sizeof script,
             "cd %s; test $RANK = %d && kill -STOP $PPID && touch go;"
             " until test -e go; do sleep 0.01; done;"
             " " GW_BUILD_DIR "/bin/%s > $RANK; code=$?; echo ended >> $RANK; exit $code",
             folder.text, count - 1, program);
    launched l = LAUNCH("run", "-n", n, "sh", "-c", script);
    for (int i = 0; i < count; i++) {
        snprintf(file, sizeof file, "%d", i);
        await_in_file(in_folder(folder, file).text, last);
    }
    return l;
}

static void a_late_launcher_loses_no_report(void **state) {
    (void)state;
    path folder = make_folder();
    launched l = start_late(folder, 30, "case-launcher_late", "all fine");
    kill(l.pid, SIGCONT);
    result r = finish(l);
    testing_note("%s", r.err);
    assert_null(strstr(r.err, "gradwire: rank "));
    assert_int_equal(r.code, 0);
    forget(r);
    remove_folder(folder);
}

// ---- Ranks that end before they have joined -------------------------------------------------------

// The others would wait for it until join_timeout, which is longer than this test may take.
static void a_rank_that_cannot_join_any_more_fails_the_joining_of_the_others(void **state) {
    (void)state;
    static const char *const ends[][2] = { { "kill", "was killed by signal 9 (Killed)" },
                                           { "0", "exited with code 0" },
                                           { "3", "exited with code 3" } };
    for (int i = 0; i < 3; i++) {
        for (int rank = 0; rank < 3; rank++) {
            char number[8], expected[64];
            snprintf(number, sizeof number, "%d", rank);
            testing_note("rank %d, %s", rank, ends[i][0]);
            result r = RUN("run", "-n", "3", "--on-failure=keep",
                           GW_BUILD_DIR "/bin/case-early_exit", number, ends[i][0]);
            assert_true(r.code > 0);
            for (int other = 0; other < 3; other++) {
                if (other == rank) continue;
                snprintf(expected, sizeof expected,
                         "[%d] init: disconnected: rank %d of 3 cannot join: ", other, rank);
                const char *line = strstr(r.out, expected);
                testing_note("%s%s", r.out, r.err);
                assert_non_null(line);
                assert_non_null(strstr(line, ends[i][1]));
            }
            forget(r);
        }
    }
}

// ---- First causes -----------------------------------------------------------------------------------

// The launcher's message about failures: one line, among those of ranks.
static const char *find_failure_line(const char *text) {
    const char *line = strstr(text, "\ngradwire: rank ");
    assert_non_null(line);
    assert_null(strstr(line + 1, "\ngradwire: rank "));
    return line + 1;
}

static void a_rank_that_exits_with_0_in_the_middle_is_the_cause(void **state) {
    (void)state;
    result r = RUN("run", "-n", "3", GW_BUILD_DIR "/bin/case-first_cause", "0");
    testing_note("%s", r.err);
    assert_int_equal(r.code, 1);
    assert_int_equal(strncmp(find_failure_line(r.err), "gradwire: rank 1 (pid ", 22), 0);
    assert_non_null(strstr(find_failure_line(r.err),
                           " exited with code 0 before the job was over, and then rank "));
    forget(r);
}

// The launcher notices all ends at once, and derives their order from the reports of ranks.
static void of_ends_that_are_noticed_together_the_first_is_named(void **state) {
    (void)state;
    path folder = make_folder();
    launched l = start_late(folder, 3, "case-first_cause 7", "ended");
    kill(l.pid, SIGCONT);
    result r = finish(l);
    testing_note("%s", r.err);
    assert_int_equal(r.code, 7);
    assert_int_equal(strncmp(find_failure_line(r.err), "gradwire: rank 1 (pid ", 22), 0);
    assert_non_null(strstr(find_failure_line(r.err), " exited with code 7\n"));
    forget(r);
    remove_folder(folder);
}

// It waits in gw_rpc_shutdown, so the ranks that fail because of it end at the same time or before it.
static void a_rank_whose_program_failed_first_is_the_cause(void **state) {
    (void)state;
    static const char *const ways[] = { "barrier", "named", "kill" };
    for (int i = 0; i < 6; i++) {
        bool keeps = i % 2;
        result r = RUN("run", "-n", "3", keeps ? "--on-failure=keep" : "--on-failure=stop",
                       GW_BUILD_DIR "/bin/case-first_failure", ways[i / 2]);
        testing_note("%s, %s: %s", ways[i / 2], keeps ? "keep" : "stop", r.err);
        assert_int_equal(r.code, 77);
        const char *line = strstr(r.err, "\ngradwire: rank ");
        assert_non_null(line);
        if (!keeps) line = find_failure_line(r.err) - 1;
        assert_int_equal(strncmp(line, "\ngradwire: rank 0 (pid ", 23), 0);
        assert_non_null(strstr(line, " exited with code 77\n"));
        forget(r);
    }
}

// ---- Output -----------------------------------------------------------------------------------------

static void the_output_of_a_killed_rank_is_printed(void **state) {
    (void)state;
    result r = RUN("run", "-n", "2", GW_BUILD_DIR "/bin/case-lost_output");
    assert_int_equal(r.code, 128 + SIGKILL);
    static const char *const lines[] = { "before joining", "step 0", "step 1", "step 2", "step 3" };
    for (int i = 0; i < 5; i++) {
        char line[64];
        snprintf(line, sizeof line, "[1] %s\n", lines[i]);
        assert_non_null(strstr(r.out, line));
    }
    forget(r);
}

GW_TESTS(run_workers, a_late_launcher_loses_no_report,
         a_rank_that_cannot_join_any_more_fails_the_joining_of_the_others,
         a_rank_that_exits_with_0_in_the_middle_is_the_cause,
         of_ends_that_are_noticed_together_the_first_is_named,
         a_rank_whose_program_failed_first_is_the_cause, the_output_of_a_killed_rank_is_printed);
