// gradwire run on several hosts, which are this one several times: the launchers meet, start their ranks, and end
// together.
#include "testing/testing.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/launched.h"

enum { HOSTS = 2, ARGUMENTS_MAX = 32 };

static char endpoint[64];

static void choose_endpoint(void) {
    snprintf(endpoint, sizeof endpoint, "--rdzv-endpoint=127.0.0.1:%d", testing_free_port());
}

// Starts one of HOSTS, with |more| after the options that all have.
static launched start_host(int node, const char *const more[]) {
    char rank[32], count[32];
    snprintf(rank, sizeof rank, "--node-rank=%d", node);
    snprintf(count, sizeof count, "--nnodes=%d", HOSTS);
    const char *arguments[ARGUMENTS_MAX] = { "gradwire", "run", count, rank, endpoint };
    int n = 5;
    for (int i = 0; more[i]; i++) arguments[n++] = more[i];
    return launch(arguments);
}

#define HOST(node, ...) start_host(node, (const char *const[]){ __VA_ARGS__, NULL })

// The option for a timeout that the expected event precedes, also on a busy machine.
static const char *rdzv_timeout(int ms) {
    static char option[64];
    snprintf(option, sizeof option, "--rdzv-timeout=%g", testing_patient_ms(ms) / 1000.0);
    return option;
}

typedef struct both {
    result of[HOSTS];
} both;

static both finish_both(launched first, launched second) {
    both b = { .of = { [1] = finish(second) } };
    b.of[0] = finish(first);
    for (int i = 0; i < HOSTS; i++)
        testing_note("host %d: %d, \"%.300s\"", i, b.of[i].code, b.of[i].err);
    return b;
}

static void forget_both(both b) {
    for (int i = 0; i < HOSTS; i++) forget(b.of[i]);
}

static void expect_code(both b, int code) {
    for (int i = 0; i < HOSTS; i++) assert_int_equal(b.of[i].code, code);
}

static int count(const char *text, const char *part) {
    int n = 0;
    for (; (text = strstr(text, part)); text++) n++;
    return n;
}

// ---- Ranks --------------------------------------------------------------------------------------

static void ranks_are_counted_over_all_hosts(void **state) {
    (void)state;
    choose_endpoint();
    const char *script = "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE "
                         "$GROUP_RANK/$GROUP_WORLD_SIZE $MASTER_ADDR $MASTER_PORT $GW_JOB_ID";
    both b = finish_both(HOST(0, "--nproc-per-node=2", "sh", "-c", script),
                         HOST(1, "--nproc-per-node=2", "sh", "-c", script));
    expect_code(b, 0);
    int port[HOSTS];
    char job[HOSTS][64];
    for (int rank = 0; rank < 4; rank++) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "[%d] %d/4 %d/2 %d/2 127.0.0.1 ", rank, rank, rank % 2,
                 rank / 2);
        const char *line = strstr(b.of[rank / 2].out, wanted);
        assert_non_null(line);
        assert_int_equal(sscanf(line + strlen(wanted), "%d %63s", &port[rank / 2], job[rank / 2]),
                         2);
    }
    assert_in_range(port[0], 1, 65535);
    assert_int_equal(port[0], port[1]);
    assert_string_equal(job[0], job[1]);
    forget_both(b);
}

static void workers_of_two_hosts_are_one_job(void **state) {
    (void)state;
    choose_endpoint();
    char program[4200];
    snprintf(program, sizeof program, "%s", launched_path());
    snprintf(strrchr(program, '/') + 1, 64, "hello");
    both b =
        finish_both(HOST(0, "-n1", "--grace=2", program), HOST(1, "-n1", "--grace=2", program));
    expect_code(b, 0);
    forget_both(b);
}

static void hosts_wait_for_each_other_and_name_a_host_that_did_not_join(void **state) {
    (void)state;
    choose_endpoint();
    launched alone = HOST(0, "-n1", rdzv_timeout(500), "echo", "started");
    result r = finish(alone);
    assert_int_equal(r.code, 125);
    assert_string_equal(r.out, "");
    assert_non_null(strstr(r.err, "the hosts of the job did not meet: "));
    assert_non_null(strstr(r.err, "rank 1 of 2 did not join"));
    forget(r);
}

static void a_signal_ends_the_wait_for_others(void **state) {
    (void)state;
    choose_endpoint();
    launched alone = HOST(1, "-n1", "echo", "started");
    find_link(alone.pid);
    kill(alone.pid, SIGINT);
    result r = finish(alone);
    assert_int_equal(r.code, 130);
    assert_string_equal(r.out, "");
    assert_non_null(strstr(r.err, "SIGINT: ending before all hosts have met"));
    forget(r);
}

static void hosts_with_different_options_are_refused(void **state) {
    (void)state;
    choose_endpoint();
    both b = finish_both(HOST(0, "-n2", "echo", "started"), HOST(1, "-n3", "echo", "started"));
    expect_code(b, 125);
    for (int i = 0; i < HOSTS; i++) {
        assert_string_equal(b.of[i].out, "");
        assert_non_null(strstr(b.of[i].err, "host 0 was started with -n 2, but host 1 with -n 3"));
    }
    forget_both(b);
}

// ---- The end ------------------------------------------------------------------------------------

static void the_first_failure_ends_all_and_is_printed_by_all(void **state) {
    (void)state;
    choose_endpoint();
    const char *script = "test $RANK = 3 && exit 7; exec sleep 1000";
    both b = finish_both(HOST(0, "-n2", "sh", "-c", script), HOST(1, "-n2", "sh", "-c", script));
    expect_code(b, 7);
    for (int i = 0; i < HOSTS; i++) {
        assert_int_equal(count(b.of[i].err, "rank 3 (host 1, pid "), 1);
        assert_int_equal(count(b.of[i].err, "exited with code 7"), 1);
        assert_int_equal(count(b.of[i].err, "\n"), 1);
    }
    forget_both(b);
}

static void all_hosts_print_the_same_of_two_failures(void **state) {
    (void)state;
    choose_endpoint();
    const char *script = "exit $((RANK + 10))";
    both b = finish_both(HOST(0, "-n1", "sh", "-c", script), HOST(1, "-n1", "sh", "-c", script));
    assert_true(b.of[0].code == 10 || b.of[0].code == 11);
    assert_int_equal(b.of[1].code, b.of[0].code);
    assert_string_equal(b.of[1].err, b.of[0].err);
    forget_both(b);
}

static void a_rank_whose_program_failed_first_is_the_cause_on_all_hosts(void **state) {
    (void)state;
    choose_endpoint();
    const char *program = GW_BUILD_DIR "/bin/case-first_failure";
    both b = finish_both(HOST(0, "-n1", program, "barrier"), HOST(1, "-n1", program, "barrier"));
    expect_code(b, 77);
    for (int i = 0; i < HOSTS; i++)
        assert_non_null(strstr(b.of[i].err, "gradwire: rank 0 (host 0, pid "));
    forget_both(b);
}

static void a_program_that_one_host_lacks_is_reported_by_all(void **state) {
    (void)state;
    choose_endpoint();
    both b = finish_both(HOST(0, "-n1", "sleep", "1000"), HOST(1, "-n1", "no-such-program"));
    expect_code(b, 127);
    for (int i = 0; i < HOSTS; i++)
        assert_non_null(strstr(b.of[i].err, "cannot run no-such-program"));
    forget_both(b);
}

static void a_host_whose_ranks_have_ended_waits_for_the_others(void **state) {
    (void)state;
    choose_endpoint();
    launched second = HOST(1, "-n1", "true");
    launched first = HOST(0, "-n1", "sh", "-c", "echo ready; read x; exit 5");
    read_line(first.out_fd, "[0] ready");
    assert_false(has_ended(second.pid_fd));
    send_line(&first, "go");
    both b = finish_both(first, second);
    expect_code(b, 5);
    assert_non_null(strstr(b.of[1].err, "rank 0 (host 0, pid "));
    forget_both(b);
}

static void keep_lets_the_others_end_by_themselves(void **state) {
    (void)state;
    choose_endpoint();
    launched first =
        HOST(0, "-n1", "--on-failure=keep", "sh", "-c", "echo ready; read x; echo end");
    launched second = HOST(1, "-n1", "--on-failure=keep", "sh", "-c", "exit 4");
    read_line(first.out_fd, "[0] ready");
    read_line(second.err_fd, "gradwire: rank 1 (host 1, pid ");
    send_line(&first, "go");
    both b = finish_both(first, second);
    expect_code(b, 4);
    assert_non_null(strstr(b.of[0].out, "[0] end"));
    forget_both(b);
}

static void a_signal_to_any_host_ends_all(void **state) {
    (void)state;
    for (int to = 0; to < HOSTS; to++) {
        choose_endpoint();
        const char *script = "echo ready; exec sleep 1000";
        launched l[HOSTS] = { HOST(0, "-n1", "sh", "-c", script),
                              HOST(1, "-n1", "sh", "-c", script) };
        read_line(l[0].out_fd, "[0] ready");
        read_line(l[1].out_fd, "[1] ready");
        kill(l[to].pid, SIGINT);
        both b = finish_both(l[0], l[1]);
        expect_code(b, 130);
        char other[32];
        snprintf(other, sizeof other, "SIGINT on host %d: ", to);
        assert_non_null(strstr(b.of[to].err, "SIGINT: stopping 1 rank"));
        assert_non_null(strstr(b.of[1 - to].err, other));
        forget_both(b);
    }
}

// ---- Lost hosts ---------------------------------------------------------------------------------

static void a_host_whose_launcher_is_killed_is_lost_to_the_others(void **state) {
    (void)state;
    for (int killed = 0; killed < HOSTS; killed++) {
        choose_endpoint();
        const char *script = "echo ready $$; exec sleep 1000";
        launched l[HOSTS] = { HOST(0, "-n1", "sh", "-c", script),
                              HOST(1, "-n1", "sh", "-c", script) };
        read_line(l[1 - killed].out_fd, killed ? "[0] ready" : "[1] ready");
        int rank_fd =
            open_process(read_line(l[killed].out_fd, killed ? "[1] ready " : "[0] ready "));
        kill(l[killed].pid, SIGKILL);
        wait_for_end(rank_fd);
        both b = finish_both(l[0], l[1]);
        assert_int_equal(b.of[1 - killed].code, 125);
        char lost[32];
        snprintf(lost, sizeof lost, "host %d is lost: ", killed);
        assert_non_null(strstr(b.of[1 - killed].err, lost));
        forget_both(b);
    }
}

// Its link receives nothing and sends nothing, as if the network were down.
static void a_host_that_is_cut_off_ends_itself(void **state) {
    (void)state;
    choose_endpoint();
    const char *script = "echo ready; exec sleep 1000";
    launched l[HOSTS] = { HOST(0, "-n1", "sh", "-c", script), HOST(1, "-n1", "sh", "-c", script) };
    read_line(l[0].out_fd, "[0] ready");
    read_line(l[1].out_fd, "[1] ready");
    pid_t link = find_link(l[1].pid);
    kill(link, SIGSTOP);
    result first = finish(l[0]);
    testing_note("host 0: %d, \"%s\"", first.code, first.err);
    assert_int_equal(first.code, 125);
    assert_non_null(strstr(first.err, "host 1 is lost: "));
    result second = finish(l[1]);
    testing_note("host 1: %d, \"%s\"", second.code, second.err);
    assert_int_equal(second.code, 125);
    // It detects either that the others have continued without it, or that they have ended.
    assert_true(strstr(second.err, "this host is cut off from the others: ") ||
                strstr(second.err, "host 0 is lost: "));
    forget(first);
    forget(second);
}

// Host 0, whose ranks report the death, does not have its process.
static void a_member_declared_dead_is_ended_on_its_host(void **state) {
    (void)state;
    choose_endpoint();
    const char *script = "echo $$; exec " GW_BUILD_DIR "/bin/batch_rpc --epochs 2000";
    launched l[HOSTS] = { HOST(0, "-n2", "--grace=1", "sh", "-c", script),
                          HOST(1, "-n2", "--grace=1", "sh", "-c", script) };
    pid_t pid = (pid_t)strtol(read_line(l[1].out_fd, "[3] "), NULL, 10);
    read_line(l[0].out_fd, "[0] epoch");
    kill(pid, SIGSTOP);
    both b = finish_both(l[0], l[1]);
    // The launcher kills a stopped rank itself if the members are later than 7 s.
    char by_members[160], by_launcher[160];
    snprintf(by_members, sizeof by_members,
             "gradwire: the other workers have declared rank 3 (pid %d) dead, so it is killed: "
             "worker3 (rank 3)",
             (int)pid);
    snprintf(by_launcher, sizeof by_launcher,
             "gradwire: rank 3 (pid %d) is killed: it had been stopped (SIGSTOP) for 7 s",
             (int)pid);
    assert_true(strstr(b.of[1].err, by_members) || strstr(b.of[1].err, by_launcher));
    assert_true(b.of[0].code > 0);
    assert_int_equal(b.of[1].code, b.of[0].code);
    forget_both(b);
}

// The launcher of its host notifies those of the others (LAUN-9).
static void a_rank_that_cannot_join_any_more_fails_the_joining_on_other_hosts(void **state) {
    (void)state;
    choose_endpoint();
    const char *program = GW_BUILD_DIR "/bin/case-early_exit";
    both b = finish_both(HOST(0, "-n1", "--on-failure=keep", program, "1", "kill"),
                         HOST(1, "-n1", "--on-failure=keep", program, "1", "kill"));
    assert_non_null(strstr(b.of[0].out, "[0] init: disconnected: rank 1 of 2 cannot join: rank 1 "
                                        "(host 1, pid "));
    forget_both(b);
}

// ---- Keys ---------------------------------------------------------------------------------------

static void ranks_are_given_the_key_by_a_descriptor_alone(void **state) {
    (void)state;
    path folder = make_folder(), key = in_folder(folder, "job.key");
    result made = RUN("key");
    assert_int_equal(made.code, 0);
    FILE *f = fopen(key.text, "w");
    assert_non_null(f);
    assert_int_equal(fchmod(fileno(f), 0600), 0);
    fputs(made.out, f);
    fclose(f);
    const char *secret = strrchr(made.out, ' ') + 1;
    const char *script = "cat /proc/self/fd/$GW_KEY_FD; tr '\\0' '\\n' < /proc/self/environ; "
                         "tr '\\0' ' ' < /proc/self/cmdline";
    choose_endpoint();
    setenv("GW_KEY_FILE", key.text, 1);
    both b = finish_both(HOST(0, "-n2", "--key", key.text, "sh", "-c", script),
                         HOST(1, "-n2", "sh", "-c", script));
    unsetenv("GW_KEY_FILE");
    expect_code(b, 0);
    for (int i = 0; i < HOSTS; i++) {
        assert_int_equal(count(b.of[i].out, secret), 2);  // once by each rank, read from there
        assert_int_equal(count(b.of[i].out, "GW_KEY_FILE"), 0);
    }
    forget_both(b);
    forget(made);
    remove_folder(folder);
}

static path write_certificate(path folder, const char *ca, const char *name) {
    path file = in_folder(folder, name);
    result r = RUN("key", "--ca", ca, name);
    assert_int_equal(r.code, 0);
    FILE *f = fopen(file.text, "w");
    assert_non_null(f);
    assert_int_equal(fchmod(fileno(f), 0600), 0);
    assert_true(fputs(r.out, f) >= 0);
    fclose(f);
    forget(r);
    return file;
}

static void launchers_meet_with_certificates(void **state) {
    (void)state;
    path folder = make_folder(), ca = in_folder(folder, "ca.pem");
    char command[600];
    snprintf(command, sizeof command, "umask 077; %s ca > %s", launched_path(), ca.text);
    assert_int_equal(system(command), 0);
    path first = write_certificate(folder, ca.text, "host0=0"),
         second = write_certificate(folder, ca.text, "host1=1");
    choose_endpoint();
    both b = finish_both(HOST(0, "-n2", "--key", first.text, "true"),
                         HOST(1, "-n2", "--key", second.text, "true"));
    expect_code(b, 0);
    forget_both(b);
    // A host with the certificate of another host, but its own rank. Host 0 waits for the right one.
    choose_endpoint();
    launched l[HOSTS] = { HOST(0, "-n2", "--key", first.text, "true"),
                          HOST(1, "-n2", "--key", first.text, "true") };
    b.of[1] = finish(l[1]);
    kill(l[0].pid, SIGTERM);
    b.of[0] = finish(l[0]);
    assert_int_equal(b.of[0].code, 128 + SIGTERM);
    assert_int_equal(b.of[1].code, 125);
    assert_non_null(
        strstr(b.of[1].err, "the certificate of this worker is for gradwire:*/0/host0"));
    forget_both(b);
    remove_folder(folder);
}

static void a_key_is_required_beyond_loopback(void **state) {
    (void)state;
    result r =
        RUN("run", "--nnodes=2", "--node-rank=0", "--rdzv-endpoint=10.0.0.1:29500", "-n1", "true");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "--rdzv-endpoint is \"10.0.0.1:29500\""));
    assert_non_null(strstr(r.err, "gradwire key > job.key"));
    assert_non_null(strstr(r.err, "--insecure"));
    forget(r);
}

GW_TESTS(run_hosts, ranks_are_counted_over_all_hosts, workers_of_two_hosts_are_one_job,
         hosts_wait_for_each_other_and_name_a_host_that_did_not_join,
         a_signal_ends_the_wait_for_others, hosts_with_different_options_are_refused,
         the_first_failure_ends_all_and_is_printed_by_all, all_hosts_print_the_same_of_two_failures,
         a_rank_whose_program_failed_first_is_the_cause_on_all_hosts,
         a_program_that_one_host_lacks_is_reported_by_all,
         a_host_whose_ranks_have_ended_waits_for_the_others, keep_lets_the_others_end_by_themselves,
         a_signal_to_any_host_ends_all, a_host_whose_launcher_is_killed_is_lost_to_the_others,
         a_host_that_is_cut_off_ends_itself, a_member_declared_dead_is_ended_on_its_host,
         a_rank_that_cannot_join_any_more_fails_the_joining_on_other_hosts,
         ranks_are_given_the_key_by_a_descriptor_alone, launchers_meet_with_certificates,
         a_key_is_required_beyond_loopback);
