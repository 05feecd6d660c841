// gradwire run on several hosts, which are this one several times: ranks start again after a failure, and the job continues
// after the loss of a host. Each host has one rank, of the same number.
#include "testing/testing.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support/launched.h"

#define ELASTIC GW_BUILD_DIR "/bin/case-restarts_elastic"
#define FIXED GW_BUILD_DIR "/bin/case-restarts_fixed"

enum { HOSTS = 3, ARGUMENTS_MAX = 32 };

typedef struct hosts {
    int count;
    launched of[HOSTS];
    result ended[HOSTS];
} hosts;

// Starts |host| of |count|, with |more| after the options that all have.
static launched start_host(int host, int count, int port, const char *const more[]) {
    char node[32], nodes[32], endpoint[64];
    snprintf(node, sizeof node, "--node-rank=%d", host);
    snprintf(nodes, sizeof nodes, "--nnodes=%d", count);
    snprintf(endpoint, sizeof endpoint, "--rdzv-endpoint=127.0.0.1:%d", port);
    const char *arguments[ARGUMENTS_MAX] = { "gradwire", "run", nodes, node, endpoint, "-n1" };
    int n = 6;
    for (int i = 0; more[i]; i++) arguments[n++] = more[i];
    return launch(arguments);
}

static hosts start_hosts(int count, const char *const more[]) {
    hosts h = { .count = count };
    int port = testing_free_port();
    for (int i = 0; i < count; i++) h.of[i] = start_host(i, count, port, more);
    return h;
}

#define START(count, ...) start_hosts(count, (const char *const[]){ __VA_ARGS__, NULL })

static void finish_all(hosts *h) {
    for (int i = 0; i < h->count; i++) {
        h->ended[i] = finish(h->of[i]);
        testing_note("host %d: code %d\n%.1500s%.1500s", i, h->ended[i].code, h->ended[i].out,
                     h->ended[i].err);
    }
}

static void finish_with(hosts *h, int code) {
    finish_all(h);
    for (int i = 0; i < h->count; i++) assert_int_equal(h->ended[i].code, code);
}

static void forget_all(hosts *h) {
    for (int i = 0; i < h->count; i++) forget(h->ended[i]);
}

// How often the rank of |host| has begun attempt |attempt|.
static int starts_of(const hosts *h, int host, int attempt) {
    char line[64];
    snprintf(line, sizeof line, "] rank %d attempt %d pid ", host, attempt);
    return count_in(h->ended[host].out, line);
}

static int count_all(const hosts *h, const char *part) {
    int count = 0;
    for (int i = 0; i < h->count; i++) count += count_in(h->ended[i].out, part);
    return count;
}

// Once on each host.
static void expect_printed(const hosts *h, const char *line) {
    for (int i = 0; i < h->count; i++) assert_int_equal(count_in(h->ended[i].err, line), 1);
}

// ---- One rank starts again ------------------------------------------------------------------------

// The others are the same processes before and after, on whichever host the rank is.
static void a_killed_rank_starts_again_and_those_of_other_hosts_continue(void **state) {
    (void)state;
    static const char *const policies[] = { "--on-failure=auto", "--on-failure=restart" };
    for (int victim = 0; victim < HOSTS; victim++) {
        char number[8], line[160];
        snprintf(number, sizeof number, "%d", victim);
        hosts h =
            START(HOSTS, "--max-restarts=3", policies[victim % 2], ELASTIC, number, "kill", "1");
        finish_with(&h, 0);
        for (int i = 0; i < HOSTS; i++) {
            assert_int_equal(starts_of(&h, i, 0), 1);
            assert_int_equal(starts_of(&h, i, 1), i == victim);
            snprintf(line, sizeof line, "gradwire: rank %d (host %d, pid ", victim, victim);
            assert_int_equal(count_in(h.ended[i].err, line), 1);
        }
        assert_int_equal(count_all(&h, " continues as one of 2\n"), 2);
        assert_int_equal(count_all(&h, " is done as one of 3\n"), 3);
        expect_printed(&h, ") was killed by signal 9 (Killed); it starts again, attempt 1 "
                           "(2 restarts left)\n");
        forget_all(&h);
    }
}

// The loss of a rank of another host that has started again is not the cause.
static void a_rank_that_has_survived_a_loss_fails_for_its_own_reason(void **state) {
    (void)state;
    path folder = make_folder(), end = make_fifo(folder, "fifo");
    char script[1200];
    snprintf(script, sizeof script,
             "case $RANK$TORCHELASTIC_RESTART_COUNT in 00) " ELASTIC
             " 1 kill 1 && exit 3;; 01) exit 0;; 2*) " ELASTIC
             " 1 kill 1 && read x < %s; exit;; esac; exec " ELASTIC " 1 kill 1",
             end.text);
    hosts h = START(HOSTS, "--max-restarts=2", "--on-failure=restart", "sh", "-c", script);
    const char *line;
    do line = read_line(h.of[1].err_fd, "");
    while (!strstr(line, ") exited with code 3"));
    assert_non_null(strstr(line, "; it starts again, attempt 1 (0 restarts left)"));
    write_fifo(end);
    finish_with(&h, 0);
    for (int i = 0; i < HOSTS; i += 2) {
        assert_non_null(strstr(h.ended[i].err, ") was killed by signal 9 (Killed); it starts "
                                               "again, attempt 1 (1 restart left)\n"));
        assert_non_null(strstr(h.ended[i].err, ") exited with code 3; it starts again, attempt 1 "
                                               "(0 restarts left)\n"));
    }
    forget_all(&h);
    remove_folder(folder);
}

// ---- All ranks start again ------------------------------------------------------------------------

static void expect_all_started_again(hosts *h, int attempts) {
    for (int i = 0; i < h->count; i++)
        for (int attempt = 0; attempt <= attempts; attempt++)
            assert_int_equal(starts_of(h, i, attempt), attempt < attempts);
    assert_int_equal(count_all(h, " is done\n"), h->count);
}

// The end of the other ranks, which are asked to end, is no failure: there is one restart.
static void the_ranks_of_all_hosts_start_again_from_their_checkpoint(void **state) {
    (void)state;
    static const char *const policies[] = { "--on-failure=auto", "--on-failure=restart-all" };
    for (int i = 0; i < 2; i++) {
        path folder = make_folder();
        hosts h = START(HOSTS, "--max-restarts=1", policies[i], FIXED, folder.text, "kill");
        finish_with(&h, 0);
        expect_all_started_again(&h, 2);
        assert_int_equal(count_all(&h, " begins at step 0\n"), 3);
        // A rank may have been ended before it had saved the third step.
        assert_int_equal(
            count_all(&h, " begins at step 2\n") + count_all(&h, " begins at step 3\n"), 3);
        expect_printed(&h, ") was killed by signal 9 (Killed); all ranks start again, attempt 1 "
                           "(0 restarts left)\n");
        forget_all(&h);
        remove_folder(folder);
    }
}

static void a_rank_that_does_not_end_for_a_restart_is_killed_on_its_host(void **state) {
    (void)state;
    path folder = make_folder();
    hosts h = START(HOSTS, "--max-restarts=1", "--grace=0.1", FIXED, folder.text, "stays");
    finish_with(&h, 0);
    assert_int_equal(starts_of(&h, 0, 1), 1);
    expect_printed(&h, "; all ranks start again, attempt 1 (0 restarts left)\n");
    forget_all(&h);
    remove_folder(folder);
}

// The rank of host 1 fails after that of host 0 has left the job and exited with 0.
static void a_host_that_was_done_starts_its_rank_again_with_all(void **state) {
    (void)state;
    path folder = make_folder(), fifo = make_fifo(folder, "fifo"), logs = in_folder(folder, "logs");
    char script[1200];
    snprintf(script, sizeof script,
             "echo 6 > %s/step$RANK; " FIXED " %s none || exit; "
             "[ $RANK = 0 ] || [ $TORCHELASTIC_RESTART_COUNT = 1 ] || { read x < %s; exit 3; }",
             folder.text, folder.text, fifo.text);
    int port = testing_free_port();
    const char *const first[] = {
        "--max-restarts=1", "--log-dir", logs.text, "sh", "-c", script, NULL
    };
    const char *const second[] = { "--max-restarts=1", "sh", "-c", script, NULL };
    hosts h = { .count = 2,
                .of = { start_host(0, 2, port, first), start_host(1, 2, port, second) } };
    read_line(h.of[0].out_fd, "[0] rank 0 is done");
    await_in_file(in_folder(logs, "latest/events.jsonl").text, "\"exited\"");
    write_fifo(fifo);
    finish_with(&h, 0);
    assert_int_equal(starts_of(&h, 0, 1), 1);
    assert_int_equal(starts_of(&h, 1, 1), 1);
    expect_printed(&h, ") exited with code 3; all ranks start again, attempt 1 "
                       "(0 restarts left)\n");
    forget_all(&h);
    remove_folder(folder);
}

// ---- The end --------------------------------------------------------------------------------------

static void two_failures_at_once_on_two_hosts_cost_two_restarts(void **state) {
    (void)state;
    hosts h = START(HOSTS, "--max-restarts=2", "--on-failure=restart", ELASTIC, "12", "kill", "1");
    finish_with(&h, 0);
    for (int i = 0; i < HOSTS; i++) assert_int_equal(starts_of(&h, i, 1), i > 0);
    expect_printed(&h, "attempt 1 (1 restart left)\n");
    expect_printed(&h, "attempt 1 (0 restarts left)\n");
    forget_all(&h);
    h = START(HOSTS, "--max-restarts=1", "--on-failure=restart", ELASTIC, "12", "kill", "1");
    finish_with(&h, 128 + SIGKILL);
    // The job may end before the attempt has printed anything.
    assert_true(starts_of(&h, 1, 1) + starts_of(&h, 2, 1) <= 1);
    expect_printed(&h, "; it starts again, attempt 1 (0 restarts left)\n");
    expect_printed(&h, ") was killed by signal 9 (Killed); no restart is left\n");
    forget_all(&h);
}

// The failure that ends the job is described by its host.
static void a_failure_beyond_the_budget_ends_the_job_on_all_hosts(void **state) {
    (void)state;
    hosts h = START(HOSTS, "--max-restarts=2", "--backoff=0", ELASTIC, "1", "kill", "3");
    finish_with(&h, 128 + SIGKILL);
    for (int attempt = 0; attempt < 4; attempt++)
        assert_int_equal(starts_of(&h, 1, attempt), attempt < 3);
    expect_printed(&h, ") was killed by signal 9 (Killed); no restart is left\n");
    for (int i = 0; i < HOSTS; i++)
        assert_int_equal(count_in(h.ended[i].err, "gradwire: the first failure: rank 1 (host 1, "),
                         i == 1);
    assert_non_null(strstr(h.ended[1].err, "gradwire:   role default, slot 1, attempt 2, host "));
    forget_all(&h);
}

static void a_crash_loop_ends_the_job_on_all_hosts(void **state) {
    (void)state;
    hosts h = START(HOSTS, "--max-restarts=10", "--backoff=0", ELASTIC, "2", "crash", "1");
    finish_with(&h, 5);
    expect_printed(&h, ") exited with code 5; it does not start again, since it has failed 3 times "
                       "within 10 s of its start\n");
    forget_all(&h);
}

static void a_failure_before_any_worker_has_joined_ends_the_job_on_all_hosts(void **state) {
    (void)state;
    hosts h = START(HOSTS, "--max-restarts=3", "--on-failure=restart-all",
                    GW_BUILD_DIR "/bin/case-early_exit", "1", "3");
    finish_all(&h);
    for (int i = 0; i < HOSTS; i++) {
        assert_true(h.ended[i].code > 0);
        assert_int_equal(h.ended[i].code, h.ended[0].code);
    }
    expect_printed(&h, "; it does not start again, since no worker had joined\n");
    for (int i = 0; i < HOSTS; i++) assert_null(strstr(h.ended[i].err, " again, attempt"));
    forget_all(&h);
}

static void a_program_that_one_host_lacks_at_its_restart_ends_the_job(void **state) {
    (void)state;
    path folder = make_folder(), program = in_folder(folder, "program");
    char command[600];
    snprintf(command, sizeof command, "cp %s %s", ELASTIC, program.text);
    assert_int_equal(system(command), 0);
    int port = testing_free_port();
    hosts h = { .count = HOSTS };
    for (int i = 0; i < HOSTS; i++) {
        const char *const more[] = {
            "--max-restarts=3", i == 1 ? program.text : ELASTIC, "1", "unlink", "1", NULL
        };
        h.of[i] = start_host(i, HOSTS, port, more);
    }
    finish_with(&h, 127);
    expect_printed(&h, "gradwire: ranks do not start again: cannot run ");
    forget_all(&h);
    remove_folder(folder);
}

// ---- Signals --------------------------------------------------------------------------------------

static void expect_interrupted(hosts *h, int host, int attempt) {
    kill(h->of[host].pid, SIGINT);
    finish_with(h, 128 + SIGINT);
    for (int i = 0; i < h->count; i++) assert_int_equal(starts_of(h, i, attempt), 0);
    forget_all(h);
}

static void await_delay(launched *l, int rank) {
    char line[64];
    snprintf(line, sizeof line, "gradwire: rank %d (host %d, pid ", rank, rank);
    while (!strstr(read_line(l->err_fd, line), " again in 10000 s, attempt 2 (")) continue;
}

static void a_signal_to_any_host_cancels_a_restart_that_is_delayed(void **state) {
    (void)state;
    path folder = make_folder();
    for (int host = 0; host < HOSTS; host++) {
        hosts h = START(HOSTS, "--max-restarts=5", "--backoff=10000", ELASTIC, "1", "kill", "2");
        for (int i = 0; i < HOSTS; i++) await_delay(&h.of[i], 1);
        expect_interrupted(&h, host, 2);
        h = START(HOSTS, "--max-restarts=5", "--backoff=10000", FIXED, folder.text, "always");
        for (int i = 0; i < HOSTS; i++) await_delay(&h.of[i], 1);
        expect_interrupted(&h, host, 2);
    }
    remove_folder(folder);
}

// Rank 0 has been asked to end, which it does not obey; the ranks of the other hosts may have ended.
static void a_signal_to_any_host_cancels_the_restart_of_all_ranks(void **state) {
    (void)state;
    for (int host = 0; host < HOSTS; host++) {
        path folder = make_folder();
        hosts h = START(HOSTS, "--max-restarts=3", "--grace=10000", FIXED, folder.text, "stays");
        read_line(h.of[0].out_fd, "[0] asked");
        read_line(h.of[host].err_fd, "gradwire: rank 1 (host 1, pid ");
        expect_interrupted(&h, host, 1);
        remove_folder(folder);
    }
}

// ---- Lost hosts -----------------------------------------------------------------------------------

// The rank of host 1 kills its launcher, and ends with it.
static void the_others_continue_after_the_loss_of_a_host(void **state) {
    (void)state;
    static const struct {
        const char *options[3];
        int code;
    } rows[] = { { { "--max-restarts=1", "--on-failure=restart" }, 0 },
                 { { "--max-restarts=1", "--on-failure=auto" }, 0 },
                 { { "--on-failure=keep", "--grace=10" }, 125 },
                 { { "--on-failure=keep", "--min-success=2" }, 0 },
                 { { "--on-failure=keep", "--min-success=3" }, 125 } };
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        hosts h = START(HOSTS, rows[k].options[0], rows[k].options[1], ELASTIC, "1", "host", "1");
        finish_all(&h);
        assert_int_equal(h.ended[1].code, 128 + SIGKILL);
        for (int i = 0; i < HOSTS; i += 2) {
            assert_int_equal(h.ended[i].code, rows[k].code);
            assert_int_equal(count_in(h.ended[i].err, "gradwire: host 1 is lost, and the job "
                                                      "continues without it: "),
                             1);
        }
        assert_int_equal(count_all(&h, " is done as one of 2\n"), 2);
        forget_all(&h);
    }
}

static void host_0_continues_after_the_loss_of_all_others(void **state) {
    (void)state;
    static const char *const rows[][2] = { { "--max-restarts=1", "--on-failure=restart" },
                                           { "--max-restarts=1", "--on-failure=auto" },
                                           { "--on-failure=keep", "--min-success=1" } };
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        hosts h = START(HOSTS, rows[k][0], rows[k][1], ELASTIC, "12", "host", "1");
        finish_all(&h);
        assert_int_equal(h.ended[0].code, 0);
        assert_null(strstr(h.ended[0].err, "cut off"));
        assert_int_equal(count_all(&h, " is done as one of 1\n"), 1);
        forget_all(&h);
    }
}

// Ranks that remain start again after it as before: while a rank runs that has been a member of the job.
static void a_rank_starts_again_after_the_loss_of_another_host(void **state) {
    (void)state;
    path folder = make_folder(), fifo = make_fifo(folder, "fifo"), end = make_fifo(folder, "end");
    char script[1600];
    snprintf(script, sizeof script,
             "case $RANK$TORCHELASTIC_RESTART_COUNT in 20) " ELASTIC
             " 1 host 1; read x < %s; exit 3;; 21) exit 0;; 0*) " ELASTIC
             " 1 host 1; read x < %s; exit;; esac; exec " ELASTIC " 1 host 1",
             fifo.text, end.text);
    hosts h = START(HOSTS, "--max-restarts=1", "--on-failure=restart", "sh", "-c", script);
    read_line(h.of[2].err_fd, "gradwire: host 1 is lost, and the job continues without it: ");
    write_fifo(fifo);
    const char *line;
    do line = read_line(h.of[0].err_fd, "");
    while (!strstr(line, ") exited with code 3"));
    assert_non_null(strstr(line, "; it starts again, attempt 1 (0 restarts left)"));
    write_fifo(end);
    finish_all(&h);
    assert_int_equal(h.ended[0].code, 0);
    assert_int_equal(h.ended[2].code, 0);
    assert_non_null(strstr(h.ended[2].err, "; it starts again, attempt 1 (0 restarts left)\n"));
    forget_all(&h);
    remove_folder(folder);
}

// In a job of a world size, or with a policy that needs all hosts; or the lost host is host 0.
static void a_loss_that_the_job_does_not_survive_ends_it(void **state) {
    (void)state;
    static const struct {
        const char *policy, *lost;
    } rows[] = { { "--on-failure=restart-all", "1" },
                 { "--on-failure=restart", "0" },
                 { "--on-failure=auto", "0" } };
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        hosts h =
            START(HOSTS, "--max-restarts=1", rows[k].policy, ELASTIC, rows[k].lost, "host", "1");
        finish_all(&h);
        int lost = rows[k].lost[0] - '0';
        char line[64];
        snprintf(line, sizeof line, "gradwire: host %d is lost: ", lost);
        for (int i = 0; i < HOSTS; i++) {
            assert_int_equal(h.ended[i].code, i == lost ? 128 + SIGKILL : 125);
            assert_int_equal(count_in(h.ended[i].err, line), i != lost);
        }
        forget_all(&h);
    }
}

static void expect_end_without_host_2(hosts *h) {
    kill(h->of[2].pid, SIGKILL);
    finish_all(h);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(h->ended[i].code, 125);
        assert_int_equal(count_in(h->ended[i].err, "gradwire: host 2 is lost: "), 1);
    }
    forget_all(h);
}

// Ranks of a program that reports nothing are no elastic workers. Nor are those of a world size that are to start again, of
// which none runs.
static void auto_ends_a_job_of_a_world_size_that_loses_a_host(void **state) {
    (void)state;
    hosts h = START(HOSTS, "--max-restarts=1", "sh", "-c", "echo ready; exec sleep 10000");
    for (int i = 0; i < HOSTS; i++) {
        char line[32];
        snprintf(line, sizeof line, "[%d] ready", i);
        read_line(h.of[i].out_fd, line);
    }
    expect_end_without_host_2(&h);
    path folder = make_folder();
    h = START(HOSTS, "--max-restarts=5", "--backoff=10000", FIXED, folder.text, "always");
    for (int i = 0; i < HOSTS; i++) await_delay(&h.of[i], 1);
    expect_end_without_host_2(&h);
    remove_folder(folder);
}

// One of them may fail because the other one has ended for this reason.
static void workers_that_wait_for_a_lost_host_fail_to_join(void **state) {
    (void)state;
    const char *script = "[ $RANK != 1 ] || { kill -9 $PPID; exec sleep 10000; }; "
                         "exec " GW_BUILD_DIR "/bin/case-early_exit 1 0";
    hosts h = START(HOSTS, "--on-failure=keep", "sh", "-c", script);
    finish_all(&h);
    for (int i = 0; i < HOSTS; i += 2)
        assert_non_null(strstr(h.ended[i].out, "init: disconnected: rank "));
    assert_true(count_all(&h, "rank 1 of 3 cannot join: host 1 is lost: ") >= 1);
    forget_all(&h);
}

// Its link reports that, and kills it.
static void a_host_whose_launcher_is_stopped_is_lost_and_the_others_continue(void **state) {
    (void)state;
    path folder = make_folder(), fifo = make_fifo(folder, "fifo");
    char script[600];
    snprintf(script, sizeof script, "echo ready; [ $RANK = 1 ] && exec sleep 10000; read x < %s",
             fifo.text);
    hosts h = START(2, "--on-failure=keep", "sh", "-c", script);
    read_line(h.of[0].out_fd, "[0] ready");
    read_line(h.of[1].out_fd, "[1] ready");
    kill(h.of[1].pid, SIGSTOP);
    read_line(h.of[0].err_fd, "gradwire: host 1 is lost, and the job continues without it: "
                              "gradwire run on that host has not run for 7 s");
    write_fifo(fifo);
    finish_all(&h);
    assert_int_equal(h.ended[0].code, 125);
    assert_int_equal(h.ended[1].code, 128 + SIGKILL);
    forget_all(&h);
    remove_folder(folder);
}

// ---- Options and logs -----------------------------------------------------------------------------

static void hosts_that_differ_in_a_policy_or_budget_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *of[2][2], *message;
    } rows[] = {
        { { { "--on-failure=stop", "-n1" }, { "--on-failure=keep", "-n1" } },
          "host 0 was started with --on-failure stop, but host 1 with --on-failure keep" },
        { { { "--on-failure=restart", "--max-restarts=2" }, { "--max-restarts=2", "-n1" } },
          "host 0 was started with --on-failure restart, but host 1 with --on-failure auto" },
        { { { "--max-restarts=2", "-n1" }, { "--max-restarts=3", "-n1" } },
          "host 0 was started with --max-restarts 2, but host 1 with --max-restarts 3" },
        { { { "--on-failure=keep", "--min-success=1" }, { "--on-failure=keep", "-n1" } },
          "host 0 was started with --min-success 1, but host 1 with --min-success 0" },
        { { { "--max-restarts=1", "--backoff=2" }, { "--max-restarts=1", "-n1" } },
          "host 0 was started with --backoff 2000 ms, but host 1 with --backoff 1000 ms" },
        { { { "--max-restarts=1", "-n1" }, { "--max-restarts=1", "--restart-window=1" } },
          "host 0 was started with --restart-window 0 ms, but host 1 with --restart-window "
          "1000 ms" },
    };
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        hosts h = { .count = 2 };
        int port = testing_free_port();
        for (int i = 0; i < 2; i++) {
            const char *const more[] = { rows[k].of[i][0], rows[k].of[i][1], "echo", "started",
                                         NULL };
            h.of[i] = start_host(i, 2, port, more);
        }
        finish_with(&h, 125);
        for (int i = 0; i < 2; i++) assert_non_null(strstr(h.ended[i].err, rows[k].message));
        assert_int_equal(count_all(&h, "started"), 0);
        forget_all(&h);
    }
}

// Each host has the logs of its own ranks, and the events of all.
static void each_host_has_the_logs_of_its_attempts(void **state) {
    (void)state;
    path folder = make_folder();
    int port = testing_free_port();
    hosts h = { .count = HOSTS };
    path logs[HOSTS] = { in_folder(folder, "0"), in_folder(folder, "1"), in_folder(folder, "2") };
    for (int i = 0; i < HOSTS; i++) {
        const char *const more[] = {
            "--max-restarts=1", "--log-dir", logs[i].text, ELASTIC, "1", "exit3", "1", NULL
        };
        h.of[i] = start_host(i, HOSTS, port, more);
    }
    finish_with(&h, 0);
    await_in_file(in_folder(logs[1], "latest/slot1/attempt0/error.json").text,
                  "exited with code 3");
    await_in_file(in_folder(logs[1], "latest/slot1/attempt1/stdout.log").text,
                  "rank 1 is done as one of 3");
    await_in_file(in_folder(logs[2], "latest/slot2/attempt0/stdout.log").text,
                  "rank 2 is done as one of 3");
    for (int i = 0; i < HOSTS; i++) {
        path other = in_folder(logs[i], i == 1 ? "latest/slot2" : "latest/slot1");
        await_in_file(in_folder(logs[i], "latest/events.jsonl").text, "\"restart\"");
        assert_int_equal(access(other.text, F_OK), -1);
    }
    forget_all(&h);
    remove_folder(folder);
}

GW_TESTS(
    run_host_restarts, a_killed_rank_starts_again_and_those_of_other_hosts_continue,
    a_rank_that_has_survived_a_loss_fails_for_its_own_reason,
    the_ranks_of_all_hosts_start_again_from_their_checkpoint,
    a_rank_that_does_not_end_for_a_restart_is_killed_on_its_host,
    a_host_that_was_done_starts_its_rank_again_with_all,
    two_failures_at_once_on_two_hosts_cost_two_restarts,
    a_failure_beyond_the_budget_ends_the_job_on_all_hosts, a_crash_loop_ends_the_job_on_all_hosts,
    a_failure_before_any_worker_has_joined_ends_the_job_on_all_hosts,
    a_program_that_one_host_lacks_at_its_restart_ends_the_job,
    a_signal_to_any_host_cancels_a_restart_that_is_delayed,
    a_signal_to_any_host_cancels_the_restart_of_all_ranks,
    the_others_continue_after_the_loss_of_a_host, host_0_continues_after_the_loss_of_all_others,
    a_rank_starts_again_after_the_loss_of_another_host,
    a_loss_that_the_job_does_not_survive_ends_it, auto_ends_a_job_of_a_world_size_that_loses_a_host,
    workers_that_wait_for_a_lost_host_fail_to_join,
    a_host_whose_launcher_is_stopped_is_lost_and_the_others_continue,
    hosts_that_differ_in_a_policy_or_budget_are_refused, each_host_has_the_logs_of_its_attempts);
