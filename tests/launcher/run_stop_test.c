// gradwire stop, and gradwire run --on-signal.
#include "testing/testing.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support/launched.h"

#define TRAINS GW_BUILD_DIR "/bin/case-elastic_trains"
#define ENDLESS "1000000000"

static void note(const result *r) {
    testing_note("code %d\n%s%s", r->code, r->out, r->err);
}

static result stop(const char *option, pid_t process) {
    char number[16];
    snprintf(number, sizeof number, "%d", (int)process);
    result r = option ? RUN("stop", option, number) : RUN("stop", number);
    note(&r);
    return r;
}

static void a_job_is_stopped_by_the_number_of_its_launcher(void **state) {
    (void)state;
    launched l = LAUNCH("run", "-n", "2", "sh", "-c", "echo runs; exec sleep 10000");
    for (int i = 0; i < 2; i++) read_line(l.out_fd, "[");
    result stopped = stop(NULL, l.pid);
    assert_int_equal(stopped.code, 0);
    assert_true(has_ended(l.pid_fd));
    result r = finish(l);
    note(&r);
    assert_int_equal(r.code, 128 + SIGINT);
    assert_non_null(strstr(r.err, "gradwire: gradwire stop (pid "));
    forget(stopped);
    forget(r);
}

// By a worker; all members leave together, with a checkpoint, and the job that follows begins there.
static void the_members_of_an_elastic_job_write_a_checkpoint(void **state) {
    (void)state;
    path folder = make_folder(), saved = in_folder(folder, "saved");
    setenv("XDG_STATE_HOME", folder.text, 1);
    launched l = LAUNCH("run", "-n", "2", "--checkpoint-dir", saved.text, "--max-restarts=1",
                        "--grace=10000", TRAINS, ENDLESS, "2");
    int worker = (int)strtol(read_line(l.out_fd, "[0] opened at step 0 pid "), NULL, 10);
    read_line(l.out_fd, "[0] made step 2 ");
    result stopped = stop("--checkpoint", worker);
    assert_int_equal(stopped.code, 0);
    result r = finish(l);
    note(&r);
    assert_int_equal(r.code, 128 + SIGTERM);
    const char *left = strstr(r.out, "leaving at step ");
    assert_non_null(left);
    long step = strtol(left + strlen("leaving at step "), NULL, 10);
    assert_true(step > 2);
    char last[24], beginning[48];
    snprintf(last, sizeof last, "%ld", step + 1);
    snprintf(beginning, sizeof beginning, "opened at step %ld pid ", step);
    result next = RUN("run", "-n", "2", "--checkpoint-dir", saved.text, TRAINS, last, "2");
    note(&next);
    assert_int_equal(next.code, 0);
    assert_int_equal(count_in(next.out, beginning), 2);
    forget(stopped);
    forget(r);
    forget(next);
    remove_folder(folder);
}

static void what_is_no_job_is_refused(void **state) {
    (void)state;
    result r = RUN("stop", "no-such-job");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "gradwire stop: there is no job no-such-job "));
    forget(r);
    result self = stop(NULL, getpid());
    assert_int_equal(self.code, 1);
    forget(self);
    result wrong = RUN("stop", "--chekpoint");
    assert_int_equal(wrong.code, 2);
    assert_non_null(strstr(wrong.err, "--checkpoint"));
    forget(wrong);
}

static void a_host_that_waits_for_others_is_stopped(void **state) {
    (void)state;
    launched l = LAUNCH("run", "-n", "1", "--nnodes=2", "--node-rank=1", "--insecure",
                        "--rdzv-endpoint=127.0.0.1:1", "true");
    find_link(l.pid);
    result stopped = stop(NULL, l.pid);
    assert_int_equal(stopped.code, 0);
    result r = finish(l);
    note(&r);
    assert_int_equal(r.code, 128 + SIGINT);
    forget(stopped);
    forget(r);
}

// ---- --on-signal ----------------------------------------------------------------------------------

static void a_signal_may_mean_to_leave(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        launched l = LAUNCH("run", "-n", "2", "--grace=10000",
                            i ? "--on-signal=USR1:leave" : "--on-signal=SIGUSR2:leave", "sh", "-c",
                            "trap 'echo asked; exit 0' TERM; echo runs; "
                            "while :; do sleep 0.1; done");
        for (int k = 0; k < 2; k++) read_line(l.out_fd, "[");
        kill(l.pid, i ? SIGUSR1 : SIGUSR2);
        result r = finish(l);
        note(&r);
        assert_int_equal(r.code, 128 + SIGTERM);
        assert_int_equal(count_in(r.out, "asked\n"), 2);
        forget(r);
    }
}

static void a_signal_may_be_forwarded_or_write_the_records(void **state) {
    (void)state;
    launched l = LAUNCH("run", "-n", "1", "--on-signal=USR2:dump,USR1:forward", "sh", "-c",
                        "trap 'echo noted; exit 0' USR1; echo runs; while :; do sleep 0.1; done");
    read_line(l.out_fd, "[0] runs");
    kill(l.pid, SIGUSR2);
    read_line(l.err_fd, "gradwire: SIGUSR2: nothing is written: no rank is a worker");
    kill(l.pid, SIGUSR1);
    result r = finish(l);
    note(&r);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "noted\n"));
    forget(r);
}

static void wrong_actions_are_refused(void **state) {
    (void)state;
    static const char *const values[] = { "USR1",       "USR1:",      "USR3:dump", "USR1:dumps",
                                          "USR1:dump,", "TERM:leave", "",          ":leave" };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        result r = RUN("run", "-n1", "--on-signal", values[i], "true");
        assert_int_equal(r.code, 2);
        assert_non_null(strstr(r.err, "--on-signal is a list such as "));
        forget(r);
    }
}

GW_TESTS_WITH_LIMIT(run_stop, 120, a_job_is_stopped_by_the_number_of_its_launcher,
                    the_members_of_an_elastic_job_write_a_checkpoint, what_is_no_job_is_refused,
                    a_host_that_waits_for_others_is_stopped, a_signal_may_mean_to_leave,
                    a_signal_may_be_forwarded_or_write_the_records, wrong_actions_are_refused);
