// gradwire run: ranks that start again after a failure.
#include "testing/testing.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support/launched.h"

#define ELASTIC GW_BUILD_DIR "/bin/case-restarts_elastic"
#define FIXED GW_BUILD_DIR "/bin/case-restarts_fixed"

// How often |rank| has begun attempt |attempt|.
static int starts_of(const char *out, int rank, int attempt) {
    char line[64];
    snprintf(line, sizeof line, "] rank %d attempt %d pid ", rank, attempt);
    return count_in(out, line);
}

static void note(const result *r) {
    testing_note("code %d\n%s%s", r->code, r->out, r->err);
}

// ---- One rank starts again ------------------------------------------------------------------------

// The others are the same processes before and after, take a step without it, and admit its next attempt.
static void expect_one_restarted(int rank, const char *way, const char *how) {
    char number[8], line[160];
    snprintf(number, sizeof number, "%d", rank);
    result r = RUN("run", "-n", "3", "--max-restarts=3", ELASTIC, number, way, "1");
    note(&r);
    assert_int_equal(r.code, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(starts_of(r.out, i, 0), 1);
        assert_int_equal(starts_of(r.out, i, 1), i == rank);
    }
    assert_int_equal(count_in(r.out, " continues as one of 2\n"), 2);
    assert_int_equal(count_in(r.out, " is done as one of 3\n"), 3);
    assert_int_equal(count_in(r.err, "again"), 1);
    snprintf(line, sizeof line, ") %s; it starts again, attempt 1 (2 restarts left)\n", how);
    assert_non_null(strstr(r.err, line));
    snprintf(line, sizeof line, "gradwire: rank %d (pid ", rank);
    assert_non_null(strstr(r.err, line));
    forget(r);
}

static void a_killed_rank_starts_again_and_the_others_continue(void **state) {
    (void)state;
    for (int rank = 0; rank < 3; rank++)  // rank 0 has created the job
        expect_one_restarted(rank, "kill", "was killed by signal 9 (Killed)");
    expect_one_restarted(1, "exit3", "exited with code 3");
}

static void a_rank_that_exits_with_0_without_leaving_starts_again(void **state) {
    (void)state;
    expect_one_restarted(2, "exit0", "exited with code 0 before it had left the job");
}

// They start again one by one, each at a cost of one restart.
static void two_ranks_lost_at_once_start_again(void **state) {
    (void)state;
    result r = RUN("run", "-n", "3", "--max-restarts=2", ELASTIC, "02", "kill", "1");
    note(&r);
    assert_int_equal(r.code, 0);
    assert_int_equal(count_in(r.out, " continues as one of 1\n"), 1);
    assert_int_equal(count_in(r.out, " is done as one of 3\n"), 3);
    for (int i = 0; i < 3; i++) assert_int_equal(starts_of(r.out, i, 1), i != 1);
    assert_non_null(strstr(r.err, "attempt 1 (1 restart left)\n"));
    assert_non_null(strstr(r.err, "attempt 1 (0 restarts left)\n"));
    forget(r);
}

static void a_silent_rank_is_killed_and_starts_again(void **state) {
    (void)state;
    result r = RUN("run", "-n", "3", "--max-restarts=1", ELASTIC, "1", "stop", "1");
    note(&r);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, " dead, so it is killed: "));
    assert_non_null(strstr(r.err, "; it starts again, attempt 1 (0 restarts left)\n"));
    assert_int_equal(count_in(r.out, " is done as one of 3\n"), 3);
    forget(r);
}

// Before the job is over: rank 0 ends after the test has seen it.
static void processes_that_a_failed_attempt_has_started_are_killed(void **state) {
    (void)state;
    launched l = LAUNCH("run", "-n", "3", "--max-restarts=1", "sh", "-c",
                        "sleep 10000 & echo child $!; " ELASTIC " 1 kill 1; code=$?; "
                        "[ $RANK = 0 ] && read x; exit $code");
    int child = open_process(read_line(l.out_fd, "[1] child "));
    wait_for_end(child);
    result r = finish(l);
    note(&r);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, ") exited with code 137; it starts again, attempt 1 "));
    forget(r);
}

static void processes_that_were_asked_to_end_have_the_grace_time(void **state) {
    (void)state;
    launched l = LAUNCH("run", "-n", "1", "--max-restarts=1", "--grace=10000", "sh", "-c",
                        "(trap 'sleep 0.3; echo saved; exit' TERM; echo child; "
                        "while :; do sleep 0.1; done) & exec sleep 10000");
    read_line(l.out_fd, "[0] child");
    kill(l.pid, SIGTERM);
    result r = finish(l);
    assert_int_equal(r.code, 128 + SIGTERM);
    assert_non_null(strstr(r.out, "[0] saved\n"));
    forget(r);
}

// ---- All ranks start again ------------------------------------------------------------------------

static void expect_all_restarted(const char *policy) {
    path folder = make_folder();
    result r = RUN("run", "-n", "3", "--max-restarts=1", policy, FIXED, folder.text, "kill");
    note(&r);
    assert_int_equal(r.code, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(starts_of(r.out, i, 0), 1);
        assert_int_equal(starts_of(r.out, i, 1), 1);
    }
    assert_int_equal(count_in(r.out, " begins at step 0\n"), 3);
    // A rank may have been ended before it had saved the third step.
    assert_int_equal(
        count_in(r.out, " begins at step 2\n") + count_in(r.out, " begins at step 3\n"), 3);
    assert_int_equal(count_in(r.out, " is done\n"), 3);
    assert_int_equal(count_in(r.err, "again"), 1);
    assert_non_null(strstr(r.err,
                           ") was killed by signal 9 (Killed); all ranks start again, attempt 1 "
                           "(0 restarts left)\n"));
    forget(r);
    remove_folder(folder);
}

static void a_job_of_a_world_size_starts_again_from_its_checkpoint(void **state) {
    (void)state;
    expect_all_restarted("--on-failure=auto");
    expect_all_restarted("--on-failure=restart-all");
}

// A rank that has left and exited with 0 is not absent for the next attempts of the others.
static void a_rank_that_was_done_starts_again_with_all(void **state) {
    (void)state;
    path folder = make_folder();
    result r = RUN("run", "-n", "3", "--max-restarts=2", "--backoff=0.2", "--grace=10000", FIXED,
                   folder.text, "twice");
    note(&r);
    assert_int_equal(r.code, 0);
    for (int i = 0; i < 3; i++) assert_int_equal(starts_of(r.out, i, 2), 1);
    assert_int_equal(count_in(r.out, " is done\n"), 3);
    forget(r);
    remove_folder(folder);
}

// Until rank 0 has received the request to end, which it does not obey.
static launched launch_staying(path folder) {
    launched l =
        LAUNCH("run", "-n", "3", "--max-restarts=3", "--grace=10000", FIXED, folder.text, "stays");
    read_line(l.out_fd, "[0] asked");
    return l;
}

static void a_signal_cancels_the_restart_of_all_ranks(void **state) {
    (void)state;
    path folder = make_folder();
    launched l = launch_staying(folder);
    kill(l.pid, SIGINT);
    result r = finish(l);
    note(&r);
    assert_int_equal(r.code, 128 + SIGINT);
    assert_null(strstr(r.out, "attempt 1"));
    forget(r);
    remove_folder(folder);
}

static void a_rank_that_does_not_end_for_a_restart_is_killed(void **state) {
    (void)state;
    path folder = make_folder();
    result r =
        RUN("run", "-n", "3", "--max-restarts=1", "--grace=0.1", FIXED, folder.text, "stays");
    note(&r);
    assert_int_equal(r.code, 0);
    assert_int_equal(starts_of(r.out, 0, 1), 1);
    forget(r);
    remove_folder(folder);
}

static void a_launcher_killed_during_a_restart_leaves_no_process(void **state) {
    (void)state;
    path folder = make_folder();
    launched l =
        LAUNCH("run", "-n", "3", "--max-restarts=3", "--grace=10000", FIXED, folder.text, "stays");
    int stays = open_process(read_line(l.out_fd, "[0] rank 0 attempt 0 pid "));
    read_line(l.out_fd, "[0] asked");
    kill(l.pid, SIGKILL);
    wait_for_end(stays);
    result r = finish(l);  // until no process has its output
    assert_int_equal(r.code, 128 + SIGKILL);
    assert_null(strstr(r.out, "attempt 1"));
    forget(r);
    remove_folder(folder);
}

// ---- Budgets --------------------------------------------------------------------------------------

static void a_failure_beyond_the_budget_ends_the_job(void **state) {
    (void)state;
    result r = RUN("run", "-n", "3", "--max-restarts=2", "--backoff=0", ELASTIC, "1", "kill", "2");
    note(&r);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, "attempt 2 (0 restarts left)\n"));
    assert_int_equal(starts_of(r.out, 1, 2), 1);
    forget(r);
    r = RUN("run", "-n", "3", "--max-restarts=2", "--backoff=0", ELASTIC, "1", "kill", "3");
    note(&r);
    assert_int_equal(r.code, 128 + SIGKILL);
    assert_int_equal(count_in(r.err, "it starts again"), 2);
    assert_int_equal(count_in(r.err, ") was killed by signal 9 (Killed); no restart is left\n"), 1);
    assert_int_equal(starts_of(r.out, 1, 3), 0);
    forget(r);
}

static void a_crash_loop_ends_the_job(void **state) {
    (void)state;
    result r =
        RUN("run", "-n", "3", "--max-restarts=10", "--backoff=0", ELASTIC, "2", "crash", "1");
    note(&r);
    assert_int_equal(r.code, 5);
    assert_int_equal(starts_of(r.out, 2, 3), 1);
    assert_int_equal(starts_of(r.out, 2, 4), 0);
    assert_non_null(strstr(r.err, ") exited with code 5; it does not start again, since it has "
                                  "failed 3 times within 10 s of its start\n"));
    forget(r);
}

static void a_program_that_fails_before_it_joins_does_not_start_again(void **state) {
    (void)state;
    result r = RUN("run", "-n", "2", "--max-restarts=3", "sh", "-c", "exit 4");
    note(&r);
    assert_int_equal(r.code, 4);
    assert_int_equal(count_in(r.err, "; it does not start again, since no worker had joined\n"), 1);
    forget(r);
    for (int i = 0; i < 2; i++) {
        r = RUN("run", "-n", "3", "--max-restarts=3",
                i ? "--on-failure=restart" : "--on-failure=restart-all",
                GW_BUILD_DIR "/bin/case-early_exit", "1", "3");
        note(&r);
        assert_true(r.code > 0);
        assert_null(strstr(r.err, "start again, attempt"));
        assert_null(strstr(r.err, "starts again, attempt"));
        forget(r);
    }
}

// ---- Waiting for the next attempt -----------------------------------------------------------------

static void await_delay(launched *l, int rank) {
    char line[64];
    snprintf(line, sizeof line, "gradwire: rank %d (pid ", rank);
    while (!strstr(read_line(l->err_fd, line), " again in 10000 s, attempt 2 (")) continue;
}

// The worker has joined and left before its rank fails.
static void a_job_without_a_running_rank_waits_for_the_next_attempt(void **state) {
    (void)state;
    path folder = make_folder();
    char script[600];
    snprintf(script, sizeof script,
             "sleep 0 & " FIXED " %s kill && test $TORCHELASTIC_RESTART_COUNT = 2 || exit 3",
             folder.text);
    static const char *const policies[] = { "--on-failure=restart", "--on-failure=restart-all" };
    for (int i = 0; i < 2; i++) {
        result r = RUN("run", "-n", "1", "--max-restarts=2", "--backoff=0.3", policies[i], "sh",
                       "-c", script);
        note(&r);
        assert_int_equal(r.code, 0);
        assert_int_equal(starts_of(r.out, 0, 2), 1);
        assert_non_null(strstr(r.err, " again in 0.3 s, attempt 2 (0 restarts left)\n"));
        forget(r);
    }
    remove_folder(folder);
}

static void a_signal_ends_a_job_that_waits_to_start_a_rank_again(void **state) {
    (void)state;
    launched l =
        LAUNCH("run", "-n", "3", "--max-restarts=5", "--backoff=10000", ELASTIC, "1", "kill", "2");
    await_delay(&l, 1);
    kill(l.pid, SIGTERM);
    result r = finish(l);
    note(&r);
    assert_int_equal(r.code, 128 + SIGTERM);
    assert_int_equal(starts_of(r.out, 1, 2), 0);
    forget(r);
}

static void a_signal_ends_a_job_that_waits_to_start_all_ranks_again(void **state) {
    (void)state;
    path folder = make_folder();
    launched l = LAUNCH("run", "-n", "3", "--max-restarts=5", "--backoff=10000", FIXED, folder.text,
                        "always");
    await_delay(&l, 1);
    kill(l.pid, SIGTERM);
    result r = finish(l);
    note(&r);
    assert_int_equal(r.code, 128 + SIGTERM);
    assert_null(strstr(r.out, "attempt 2"));
    forget(r);
    remove_folder(folder);
}

static void a_program_deleted_between_attempts_ends_the_job(void **state) {
    (void)state;
    path folder = make_folder(), program = in_folder(folder, "program");
    char command[600];
    snprintf(command, sizeof command, "cp %s %s", ELASTIC, program.text);
    assert_int_equal(system(command), 0);
    result r = RUN("run", "-n", "3", "--max-restarts=3", program.text, "1", "unlink", "1");
    note(&r);
    assert_int_equal(r.code, 127);
    assert_non_null(strstr(r.err, "gradwire: ranks do not start again: cannot run "));
    assert_non_null(strstr(r.err, ": No such file or directory\n"));
    forget(r);
    remove_folder(folder);
}

// ---- Exit codes -----------------------------------------------------------------------------------

static void enough_ranks_that_succeed_are_a_success(void **state) {
    (void)state;
    static const struct {
        const char *option;
        int code;
    } rows[] = { { "--min-success=1", 0 }, { "--min-success=2", 0 }, { "--min-success=3", 7 } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        result r = RUN("run", "-n", "3", "--on-failure=keep", rows[i].option, "sh", "-c",
                       "test $RANK != 1 || exit 7");
        note(&r);
        assert_int_equal(r.code, rows[i].code);
        assert_non_null(strstr(r.err, " exited with code 7\n"));
        forget(r);
    }
    launched l = LAUNCH("run", "-n", "2", "--on-failure=keep", "--min-success=1", "sh", "-c",
                        "test $RANK = 0 || { echo waits; exec sleep 10000; }");
    read_line(l.out_fd, "[1] waits");
    kill(l.pid, SIGTERM);
    result r = finish(l);
    assert_int_equal(r.code, 128 + SIGTERM);
    forget(r);
    r = RUN("run", "-n", "2", "--on-failure=keep", "--min-success=1", "/nonexistent/program");
    assert_int_equal(r.code, 127);
    forget(r);
}

GW_TESTS(run_restarts, a_killed_rank_starts_again_and_the_others_continue,
         a_rank_that_exits_with_0_without_leaving_starts_again, two_ranks_lost_at_once_start_again,
         a_silent_rank_is_killed_and_starts_again,
         processes_that_a_failed_attempt_has_started_are_killed,
         processes_that_were_asked_to_end_have_the_grace_time,
         a_rank_that_was_done_starts_again_with_all,
         a_job_of_a_world_size_starts_again_from_its_checkpoint,
         a_signal_cancels_the_restart_of_all_ranks,
         a_rank_that_does_not_end_for_a_restart_is_killed,
         a_launcher_killed_during_a_restart_leaves_no_process,
         a_failure_beyond_the_budget_ends_the_job, a_crash_loop_ends_the_job,
         a_program_that_fails_before_it_joins_does_not_start_again,
         a_job_without_a_running_rank_waits_for_the_next_attempt,
         a_signal_ends_a_job_that_waits_to_start_a_rank_again,
         a_signal_ends_a_job_that_waits_to_start_all_ranks_again,
         a_program_deleted_between_attempts_ends_the_job, enough_ranks_that_succeed_are_a_success);
