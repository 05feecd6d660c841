// gradwire run --health-check: a command that decides whether ranks start on a host.
#include "testing/testing.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../support/launched.h"

#define ELASTIC GW_BUILD_DIR "/bin/case-restarts_elastic"

static void note(const result *r) {
    testing_note("code %d\n%s%s", r->code, r->out, r->err);
}

// The check fails until it has made its file.
static void ranks_start_once_the_check_passes(void **state) {
    (void)state;
    path folder = make_folder();
    char check[400];
    snprintf(check, sizeof check, "--health-check=cd %s; ls b && exit 0; ls a && >b; >a; exit 3",
             folder.text);
    result r = RUN("run", "-n", "2", "--host-cooldown=0.1", check, "sh", "-c", "echo runs");
    note(&r);
    assert_int_equal(r.code, 0);
    assert_int_equal(count_in(r.out, "runs\n"), 2);
    assert_int_equal(count_in(r.err, "--health-check exited with code 3: no rank starts on"), 2);
    assert_non_null(strstr(r.err, " for 0.1 s\n"));
    assert_non_null(strstr(r.err, " for 0.2 s\n"));
    assert_int_equal(count_in(r.err, "--health-check has passed: ranks start here\n"), 1);
    forget(r);
    remove_folder(folder);
}

// Once before the job, and once for each failure. The others continue meanwhile.
static void the_check_passes_before_a_failed_rank_starts_again(void **state) {
    (void)state;
    path folder = make_folder();
    char check[400], counts[300];
    snprintf(check, sizeof check, "--health-check=cd %s; echo check >>n; [ $(wc -l <n) != 2 ]",
             folder.text);
    result r = RUN("run", "-n", "3", "--max-restarts=3", "--host-cooldown=0.1", check, ELASTIC, "1",
                   "kill", "1");
    note(&r);
    assert_int_equal(r.code, 0);
    assert_int_equal(count_in(r.out, " is done as one of 3\n"), 3);
    assert_int_equal(count_in(r.err, "--health-check exited with code 1"), 1);
    assert_int_equal(count_in(r.err, "--health-check has passed"), 1);
    snprintf(counts, sizeof counts, "[ $(wc -l <%s/n) = 3 ]", folder.text);
    result lines = finish(launch_command("%s", counts));
    assert_int_equal(lines.code, 0);
    forget(lines);
    forget(r);
    remove_folder(folder);
}

static void a_signal_ends_a_job_that_waits_for_its_check(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *check =
            i ? "--health-check=echo begun; sleep 10000" : "--health-check=echo begun; exit 1";
        launched l = LAUNCH("run", "-n", "2", check, "sh", "-c", "echo runs");
        read_line(l.err_fd, i ? "begun" : "gradwire: --health-check exited with code 1");
        kill(l.pid, SIGTERM);
        result r = finish(l);  // until no process has its output
        note(&r);
        assert_int_equal(r.code, 128 + SIGTERM);
        assert_string_equal(r.out, "");
        forget(r);
    }
}

// The check waits, and so do the ranks' next attempts; the job ends all the same.
static void a_check_that_runs_ends_with_the_job(void **state) {
    (void)state;
    path folder = make_folder();
    char check[400];
    snprintf(check, sizeof check,
             "--health-check=cd %s; ls first || { >first; exit 0; }; echo second; sleep 10000",
             folder.text);
    launched l = LAUNCH("run", "-n", "3", "--max-restarts=3", check, ELASTIC, "1", "kill", "1");
    read_line(l.err_fd, "second");
    kill(l.pid, SIGINT);
    result r = finish(l);
    note(&r);
    assert_int_equal(r.code, 128 + SIGINT);
    forget(r);
    remove_folder(folder);
}

static void wrong_values_are_refused(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        { "--health-check=", "--health-check is empty, but must be a command" },
        { "--host-cooldown=-1", "--host-cooldown takes seconds from 0 to " },
    };
    for (int i = 0; i < 2; i++) {
        result r = RUN("run", "-n1", rows[i][0], "true");
        assert_int_equal(r.code, 2);
        assert_non_null(strstr(r.err, rows[i][1]));
        forget(r);
    }
}

GW_TESTS_WITH_LIMIT(run_health, 120, ranks_start_once_the_check_passes,
                    the_check_passes_before_a_failed_rank_starts_again,
                    a_signal_ends_a_job_that_waits_for_its_check,
                    a_check_that_runs_ends_with_the_job, wrong_values_are_refused);
