// gradwire run: how a job ends, and that no process of it stays.
#include "testing/testing.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/launched.h"

// A process that prints its pid and then runs for longer than any test; it ignores all signals that ask it to end.
#define STUBBORN "trap '' TERM INT HUP; echo $$; while :; do sleep 1000; done"

// Runs for ever; on one of |signals| it runs |words| and exits with 0. The sleeper ignores some of the signals.
#define UNTIL(signals, words)                                                                      \
    "sleep 1000 & trap \"kill -9 $!; " words "; exit 0\" " signals "; echo ready; wait"

// ---- Failures -----------------------------------------------------------------------------------

static void the_first_failure_stops_all(void **state) {
    (void)state;
    launched l = LAUNCH("run", "-n", "3", "sh", "-c",
                        "echo $$; test $RANK = 2 || exec sleep 1000; read x < /dev/null; exit 3");
    result r = finish(l);
    assert_int_equal(r.code, 3);
    const char *line = strstr(r.out, "[2] ");
    assert_non_null(line);
    char expected[100];
    snprintf(expected, sizeof expected, "gradwire: rank 2 (pid %ld) exited with code 3\n",
             strtol(line + 4, NULL, 10));
    assert_string_equal(r.err, expected);
    forget(r);
}

static void death_by_a_signal_is_named(void **state) {
    (void)state;
    result r = RUN("run", "-n", "3", "sh", "-c", "test $RANK = 1 && kill -9 $$; exec sleep 1000");
    assert_int_equal(r.code, 128 + 9);
    assert_non_null(strstr(r.err, "gradwire: rank 1 (pid "));
    assert_non_null(strstr(r.err, ") was killed by signal 9 (Killed)\n"));
    forget(r);
}

static void ranks_have_the_grace_time_to_end(void **state) {
    (void)state;
    launched l = LAUNCH("run", "-n", "2", "--grace=3600", "sh", "-c",
                        "test $RANK = 0 && { read x; exit 4; }; " UNTIL("TERM", "echo saved"));
    read_line(l.out_fd, "[1] ready");
    send_line(&l, "fail");
    result r = finish(l);
    assert_int_equal(r.code, 4);
    assert_string_equal(r.out, "[1] saved\n");
    forget(r);
}

static void a_rank_that_does_not_end_in_time_is_killed(void **state) {
    (void)state;
    launched l = LAUNCH("run", "-n", "2", "--grace=0.2", "sh", "-c",
                        "test $RANK = 0 && { read x; exit 5; }; " STUBBORN);
    int stubborn = open_process(read_line(l.out_fd, "[1] "));
    send_line(&l, "fail");
    result r = finish(l);
    assert_int_equal(r.code, 5);
    assert_non_null(strstr(r.err, "did not end within 0.2 s: killing it\n"));
    assert_true(has_ended(stubborn));
    close(stubborn);
    forget(r);
}

static void a_stopped_rank_is_ended_as_well(void **state) {
    (void)state;
    launched l =
        LAUNCH("run", "-n", "2", "--grace=3600", "sh", "-c",
               "test $RANK = 0 && { read x; exit 6; }; echo $$; kill -STOP $$; echo never");
    int stopped = open_process(read_line(l.out_fd, "[1] "));
    send_line(&l, "fail");
    result r = finish(l);
    assert_int_equal(r.code, 6);
    assert_true(has_ended(stopped));
    close(stopped);
    forget(r);
}

static void keep_waits_for_all_and_reports_each(void **state) {
    (void)state;
    path folder = make_folder(), gate = in_folder(folder, "gate");
    assert_int_equal(mkfifo(gate.text, 0600), 0);
    launched l = LAUNCH(
        "run", "-n", "3", "--on-failure=keep", "sh", "-c",
        "case $RANK in 0) read x < $0; echo worked;; 1) exit 7;; 2) read x; kill -9 $$;; esac",
        gate.text);
    // Rank 2 has no input, so either may be first.
    bool is_first[2] = { false };
    for (int i = 0; i < 2; i++) {
        const char *line = read_line(l.err_fd, "gradwire: rank ");
        is_first[line[0] == '2'] = i == 0;
    }
    assert_true(is_first[0] != is_first[1]);
    int fd = open(gate.text, O_WRONLY | O_CLOEXEC);
    assert_int_equal(write(fd, "go\n", 3), 3);
    close(fd);
    result r = finish(l);
    assert_int_equal(r.code, is_first[0] ? 7 : 128 + 9);
    assert_string_equal(r.out, "[0] worked\n");
    assert_string_equal(r.err, "");
    forget(r);
    remove_folder(folder);
}

static void a_cause_far_above_is_printed_again(void **state) {
    (void)state;
    launched l = LAUNCH(
        "run", "-n", "2", "--grace=3600", "sh", "-c",
        "test $RANK = 0 && { for i in 1 2 3 4 5 6 7; do echo line $i; done; read x; exit 8; };"
        " " UNTIL("TERM", "seq 20"));
    read_line(l.out_fd, "[1] ready");
    send_line(&l, "fail");
    result r = finish(l);
    assert_int_equal(r.code, 8);
    const char *end = strstr(r.err, "exited with code 8 first; its last lines were:\n");
    assert_non_null(end);
    assert_string_equal(strchr(end, '\n') + 1,
                        "[0] line 3\n[0] line 4\n[0] line 5\n[0] line 6\n[0] line 7\n");
    forget(r);
}

// ---- Signals ------------------------------------------------------------------------------------

static void signals_end_the_job(void **state) {
    (void)state;
    const struct {
        int number;
        const char *to_ranks;
    } cases[] = { { SIGINT, "INT" }, { SIGTERM, "TERM" }, { SIGHUP, "TERM" }, { SIGQUIT, "QUIT" } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        testing_note("signal %d", cases[i].number);
        launched l = LAUNCH("run", "-n", "2", "--grace=3600", "sh", "-c",
                            "sleep 1000 & for s in INT TERM HUP QUIT; do trap \"kill -9 $!; echo "
                            "got $s; exit 0\" $s; done;"
                            " echo ready; wait");
        read_line(l.out_fd, "[");
        read_line(l.out_fd, "[");
        kill(l.pid, cases[i].number);
        result r = finish(l);
        char expected[2][32];
        for (int rank = 0; rank < 2; rank++) {
            snprintf(expected[rank], sizeof expected[rank], "[%d] got %s\n", rank,
                     cases[i].to_ranks);
            assert_non_null(strstr(r.out, expected[rank]));
        }
        assert_int_equal(r.code, 128 + cases[i].number);
        forget(r);
    }
}

static void a_second_signal_kills_at_once(void **state) {
    (void)state;
    launched l = LAUNCH("run", "-n", "2", "--grace=3600", "sh", "-c", STUBBORN);
    int ranks[2] = { open_process(read_line(l.out_fd, "[0] ")), -1 };
    kill(l.pid, SIGINT);
    // Two signals that arrive together count as one, so more than two may be needed.
    struct pollfd ended = { .fd = l.pid_fd, .events = POLLIN };
    while (poll(&ended, 1, 50) == 0) kill(l.pid, SIGINT);
    assert_true(has_ended(ranks[0]));
    close(ranks[0]);
    result r = finish(l);
    assert_int_equal(r.code, 130);
    forget(r);
}

static void signals_at_any_time_leave_nothing(void **state) {
    (void)state;
    // Through the start, which takes a few milliseconds, and beyond.
    for (int i = 0; i < testing_scaled(100); i++) {
        launched l =
            LAUNCH("run", "-n", "4", "--grace=3600", "sh", "-c", "echo $$; exec sleep 1000");
        struct pollfd ended = { .fd = l.pid_fd, .events = POLLIN };
        const struct timespec wait = { .tv_nsec = i * 100000 };
        assert_int_equal(ppoll(&ended, 1, &wait, NULL), 0);
        kill(l.pid, SIGTERM);
        result r = finish(l);
        assert_int_equal(r.code, 128 + SIGTERM);
        for (const char *line = r.out; (line = strchr(line, ']')); line++)
            assert_int_equal(kill((pid_t)strtol(line + 1, NULL, 10), 0), -1);
        forget(r);
    }
}

static void a_reader_that_does_not_read_does_not_stop_signals(void **state) {
    (void)state;
    launched l = LAUNCH("run", "-n", "2", "--grace=3600", "sh", "-c", "echo pid $$; exec yes");
    int flood = open_process(read_line(l.out_fd, "[0] pid "));
    kill(l.pid, SIGTERM);
    struct pollfd ended = { .fd = l.pid_fd, .events = POLLIN };
    while (poll(&ended, 1, -1) != 1) continue;
    assert_true(has_ended(flood));
    close(flood);
    result r = finish(l);
    assert_int_equal(r.code, 128 + SIGTERM);
    forget(r);
}

static void user_signals_are_passed_on(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        launched l = i ? LAUNCH("run", "-n", "2", "sh", "-c", UNTIL("USR2", "echo noted"))
                       : LAUNCH("run", "--forward-signals=SIGUSR1", "-n", "2", "sh", "-c",
                                UNTIL("USR1", "echo noted"));
        read_line(l.out_fd, "[");
        read_line(l.out_fd, "[");
        kill(l.pid, i ? SIGUSR2 : SIGUSR1);
        result r = finish(l);
        assert_int_equal(r.code, 0);
        assert_non_null(strstr(r.out, "[0] noted\n"));
        assert_non_null(strstr(r.out, "[1] noted\n"));
        forget(r);
    }
}

static char state_of(const char *number) {
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/%ld/stat", strtol(number, NULL, 10));
    FILE *stat = fopen(path, "r");
    assert_non_null(stat);
    assert_int_equal(fscanf(stat, "%*d %*s %c", &state), 1);
    fclose(stat);
    return state;
}

static void a_pause_reaches_the_ranks(void **state) {
    (void)state;
    launched l = LAUNCH("run", "-n", "1", "sh", "-c", "echo $$; read x; echo awake");
    char number[16];
    snprintf(number, sizeof number, "%s", read_line(l.out_fd, "[0] "));
    kill(l.pid, SIGTSTP);
    int status;
    assert_int_equal(waitpid(l.pid, &status, WUNTRACED), l.pid);
    assert_true(WIFSTOPPED(status));
    struct pollfd nothing = { .fd = -1 };
    while (state_of(number) != 'T') poll(&nothing, 1, 1);
    kill(l.pid, SIGCONT);
    send_line(&l, "continue");
    result r = finish(l);
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out, "[0] awake\n");
    forget(r);
}

// ---- Leftovers ----------------------------------------------------------------------------------

static void processes_that_ranks_have_started_are_stopped(void **state) {
    (void)state;
    // Three that outlive their parents: in the group of the rank, in a session of its own, and one
    // below that.
    const char *script =
        "sh -c \"$0\" & setsid sh -c \"$0\" & setsid sh -c 'setsid sh -c \"$0\" &' \"$0\" &"
        " read x; exit 0";
    launched l = LAUNCH("run", "-n", "1", "--grace=0.2", "sh", "-c", script, STUBBORN);
    int others[3];
    for (int i = 0; i < 3; i++) others[i] = open_process(read_line(l.out_fd, "[0] "));
    result r = finish(l);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, "started by the ranks still running: stopping\n"));
    for (int i = 0; i < 3; i++) {
        assert_true(has_ended(others[i]));
        close(others[i]);
    }
    forget(r);
}

static void killing_the_launcher_leaves_no_process(void **state) {
    (void)state;
    const char *script =
        "setsid sh -c 'setsid sh -c \"$0\" &' \"$0\"; sh -c \"$0\" & exec sh -c \"$0\"";
    launched l = LAUNCH("run", "-n", "2", "--grace=3600", "sh", "-c", script, STUBBORN);
    int processes[6];
    for (int i = 0; i < 6; i++)
        processes[i] = open_process(read_line(l.out_fd, "[") + strlen("0] "));
    kill(l.pid, SIGKILL);
    for (int i = 0; i < 6; i++) wait_for_end(processes[i]);
    result r = finish(l);
    assert_int_equal(r.code, 128 + SIGKILL);
    forget(r);
}

static void killing_the_launcher_at_any_time_leaves_no_process(void **state) {
    (void)state;
    const char *script = "setsid sleep 1000 & exec sleep 1000";
    for (int i = 0; i < testing_scaled(100); i++) {
        launched l = LAUNCH("run", "-n", "4", "--no-prefix", "sh", "-c", script);
        struct pollfd ended = { .fd = l.pid_fd, .events = POLLIN };
        const struct timespec wait = { .tv_nsec = i * 200000 };
        assert_int_equal(ppoll(&ended, 1, &wait, NULL), 0);
        kill(l.pid, SIGKILL);
        // Its output ends when no process holds it any more.
        result r = finish(l);
        assert_int_equal(r.code, 128 + SIGKILL);
        forget(r);
    }
}

static void end_job_in_job(int signal_number) {
    const char *script = "setsid sh -c \"$0\" & exec sh -c \"$0\"";
    launched l = LAUNCH("run", "-n", "1", "--grace=3600", launched_path(), "run", "-n", "1",
                        "--grace=0.2", "sh", "-c", script, STUBBORN);
    int processes[2];
    for (int i = 0; i < 2; i++) processes[i] = open_process(read_line(l.out_fd, "[0] [0] "));
    kill(l.pid, signal_number);
    for (int i = 0; i < 2; i++) wait_for_end(processes[i]);
    result r = finish(l);
    assert_int_equal(r.code, 128 + signal_number);
    forget(r);
}

static void a_job_in_a_job_ends_with_it(void **state) {
    (void)state;
    end_job_in_job(SIGTERM);
    end_job_in_job(SIGKILL);
}

GW_TESTS(run_end, the_first_failure_stops_all, death_by_a_signal_is_named,
         ranks_have_the_grace_time_to_end, a_rank_that_does_not_end_in_time_is_killed,
         a_stopped_rank_is_ended_as_well, keep_waits_for_all_and_reports_each,
         a_cause_far_above_is_printed_again, signals_end_the_job, a_second_signal_kills_at_once,
         signals_at_any_time_leave_nothing, a_reader_that_does_not_read_does_not_stop_signals,
         user_signals_are_passed_on, a_pause_reaches_the_ranks,
         processes_that_ranks_have_started_are_stopped, killing_the_launcher_leaves_no_process,
         a_job_in_a_job_ends_with_it, killing_the_launcher_at_any_time_leaves_no_process);
