// A stopped worker holds up no job: once the others have declared it dead it is killed, by the launcher or by the
// program that started it. Calls have deadlines of 60 s; none expires.
#include "../support/launched.h"
#include "testing/testing.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The others declare it dead; on a busy machine the launcher may notice before that it is stopped.
static void expect_killed(const result *r, int rank, pid_t pid) {
    char declared[160], stopped[160];
    snprintf(declared, sizeof declared,
             "gradwire: the other workers have declared rank %d (pid %d) dead, so it is killed: "
             "worker%d (rank %d) has sent nothing to worker",
             rank, (int)pid, rank, rank);
    snprintf(stopped, sizeof stopped, "gradwire: rank %d (pid %d) is killed: it had been stopped",
             rank, (int)pid);
    testing_note("%s", r->err);
    assert_true(strstr(r->err, declared) || strstr(r->err, stopped));
}

static void the_launcher_kills_a_worker_that_the_others_declare_dead(void **state) {
    (void)state;
    launched l = LAUNCH("run", "-n", "4", "sh", "-c",
                        "echo $$; exec " GW_BUILD_DIR "/bin/batch_rpc --epochs 2000");
    pid_t pid = (pid_t)strtol(read_line(l.out_fd, "[3] "), NULL, 10);
    read_line(l.out_fd, "[0] epoch");
    kill(pid, SIGSTOP);
    result r = finish(l);
    expect_killed(&r, 3, pid);
    assert_int_equal(r.code, 128 + 9);
    forget(r);
}

static void with_keep_the_launcher_waits_for_the_others(void **state) {
    (void)state;
    launched l = LAUNCH("run", "-n", "4", "--on-failure=keep", "sh", "-c",
                        "echo $$; exec " GW_BUILD_DIR "/bin/batch_rpc --epochs 2000");
    pid_t pid = (pid_t)strtol(read_line(l.out_fd, "[2] "), NULL, 10);
    read_line(l.out_fd, "[0] epoch");
    kill(pid, SIGSTOP);
    result r = finish(l);
    expect_killed(&r, 2, pid);
    // The server's answers fail, with the name, and so does the server.
    assert_non_null(strstr(r.err, "gradwire: rank 0 (pid "));
    assert_int_equal(r.code, 128 + 9);
    forget(r);
}

// Runs |program|, sends |signal| to its third child when it has printed |line|, and returns its output.
static char *run_and_end_one(const char *program, const char *line, const char *signal,
                             int *out_status) {
    static char output[1 << 16];
    char command[1024];
    snprintf(command, sizeof command,
             "cd %s/bin && f=$(mktemp) && { ./%s > $f 2>&1 & } && pid=$!; "
             "tail -n +1 -f --pid=$pid $f | grep -q -m1 '%s'; "
             "set -- $(cat /proc/$pid/task/*/children); kill -%s $3; "
             "wait $pid; status=$?; cat $f; rm $f; exit $status",
             GW_BUILD_DIR, program, line, signal);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    size_t size = fread(output, 1, sizeof output - 1, f);
    output[size] = '\0';
    *out_status = pclose(f) >> 8;
    testing_note("%s\n%s", command, output);
    return output;
}

static void a_program_that_starts_its_workers_kills_them_alike(void **state) {
    (void)state;
    static const char *const forms[] = { "batch_rpc --epochs 2000",
                                         "batch_rpc --form agent --episodes 100000 --lr 0.00001" };
    static const char *const lines[] = { "^epoch", "^episode" };
    for (int i = 0; i < 2; i++) {
        int status;
        char *printed = run_and_end_one(forms[i], lines[i], "STOP", &status);
        assert_non_null(strstr(printed, "batch_rpc: worker 2 was killed by signal 9 (Killed)"));
        assert_int_equal(status, 128 + 9);
    }
}

static void a_replica_that_is_killed_is_named_and_ends_the_others(void **state) {
    (void)state;
    static const char *const programs[] = { "ddp_digits --world-size 4 --epochs 2000",
                                            "ddp_rpc --epochs 20000",
                                            "pipeline_ddp --epochs 2000" };
    for (int i = 0; i < 3; i++) {
        int status;
        char *printed = run_and_end_one(programs[i], "^epoch", "KILL", &status);
        assert_non_null(strstr(printed, ": worker 2 was killed by signal 9 (Killed)"));
        assert_int_equal(status, 128 + 9);
    }
}

static void federated_averaging_continues_without_a_stopped_client(void **state) {
    (void)state;
    int status;
    char *printed = run_and_end_one("fedavg --rounds 200", "^round", "STOP", &status);
    assert_non_null(strstr(printed, " is lost: "));
    // On a busy machine other workers may detect the loss before the server does.
    assert_true(strstr(printed, " has sent nothing to ") ||
                strstr(printed, " has received nothing from "));
    assert_int_equal(status, 0);
}

// The launcher's first child is its guard.
static void replicas_continue_without_a_stopped_trainer(void **state) {
    (void)state;
    int status;
    char *printed =
        run_and_end_one("ddp_survives --losses 0 --epochs 60", "^epoch", "STOP", &status);
    assert_non_null(strstr(printed, " dead, so it is killed: worker"));
    assert_non_null(strstr(printed, "; it starts again, attempt 1 "));
    assert_int_equal(status, 0);
}

// A worker may be starting, joining, or serving when it is killed.
static void workers_that_are_killed_while_they_join_are_replaced(void **state) {
    (void)state;
    result r = finish(launch_command(
        "./supervisor & pid=$!; for i in 1 2 3; do until set -- $(cat /proc/$pid/task/*/children) "
        "&& "
        "test \"$3\"; do :; done; kill -9 $3; while test -e /proc/$3 && kill -0 $pid; do :; done; "
        "done 2>/dev/null; wait $pid"));
    testing_note("%s%s", r.out, r.err);
    assert_non_null(strstr(r.out, " died\n"));
    assert_non_null(strstr(r.out, "the sum of 40 squares is 22140\n"));
    assert_int_equal(r.code, 0);
    forget(r);
}

static void a_client_that_is_killed_while_it_joins_is_not_waited_for(void **state) {
    (void)state;
    result r = finish(launch_command(
        "./fedavg --rounds 3 & pid=$!; until set -- $(cat /proc/$pid/task/*/children) && "
        "test \"$2\"; do :; done 2>/dev/null; kill -9 $2; wait $pid"));
    testing_note("%s%s", r.out, r.err);
    assert_non_null(strstr(r.out, "client2 is lost: "));
    assert_non_null(strstr(r.out, "round   3  3 clients"));
    assert_int_equal(r.code, 0);
    forget(r);
}

// Its clients continue without the stopped server, and report that; it starts no more of them.
static void a_server_that_was_stopped_in_the_first_round_ends(void **state) {
    (void)state;
    launched l = launch_command("exec ./fedavg --rounds 2");
    read_line(l.out_fd, "client3 joins");
    kill(l.pid, SIGSTOP);
    read_line(l.err_fd, "gradwire: server (rank 0) has sent nothing to client1 for");
    kill(l.pid, SIGCONT);
    result r = finish(l);
    testing_note("%s%s", r.out, r.err);
    assert_non_null(strstr(r.err, "gradwire: server"));
    assert_int_equal(r.code, 1);
    forget(r);
}

static void clients_of_a_server_that_is_killed_end_with_it(void **state) {
    (void)state;
    launched l = launch_command("exec ./fedavg --rounds 2");
    read_line(l.out_fd, "client1 joins");
    kill(l.pid, SIGKILL);
    result r = finish(l);  // when no process has its streams any more
    testing_note("%s%s", r.out, r.err);
    assert_int_equal(r.code, 128 + 9);
    forget(r);
}

static void few_descriptors_are_named_and_end_a_server(void **state) {
    (void)state;
    result r = finish(launch_command("ulimit -n 20; exec ./fedavg --rounds 2"));
    testing_note("%s%s", r.out, r.err);
    if (r.code) assert_non_null(strstr(r.err, "Too many open files"));
    assert_true(r.code <= 1);
    forget(r);
}

static void a_worker_that_ends_without_joining_is_named(void **state) {
    (void)state;
    launched l = LAUNCH("run", "-n", "3", "sh", "-c",
                        "test $RANK = 1 && exit 0; exec " GW_BUILD_DIR "/bin/hello");
    const char *line;
    do line = read_line(l.err_fd, "gradwire: rank 1 (pid ");
    while (!strstr(line, " exited with code 0 without joining, and "));
    kill(l.pid, SIGTERM);
    forget(finish(l));
}

GW_TESTS_WITH_LIMIT(examples_stopped, 50, the_launcher_kills_a_worker_that_the_others_declare_dead,
                    with_keep_the_launcher_waits_for_the_others,
                    a_program_that_starts_its_workers_kills_them_alike,
                    a_replica_that_is_killed_is_named_and_ends_the_others,
                    federated_averaging_continues_without_a_stopped_client,
                    replicas_continue_without_a_stopped_trainer,
                    workers_that_are_killed_while_they_join_are_replaced,
                    a_client_that_is_killed_while_it_joins_is_not_waited_for,
                    a_server_that_was_stopped_in_the_first_round_ends,
                    clients_of_a_server_that_is_killed_end_with_it,
                    few_descriptors_are_named_and_end_a_server,
                    a_worker_that_ends_without_joining_is_named);
