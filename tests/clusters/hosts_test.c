// Jobs whose ranks are on several hosts, over links that are slow, narrow, or down for a while. Where the kernel makes
// no hosts these tests are skipped. Most connections are not encrypted here: links affect sessions in the same way with
// TLS.
#include "../support/hosts.h"
#include "testing/testing.h"

#include <gradwire.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// One rank on each of |count| hosts, of which the first is |first|, from |port| on.
typedef struct job {
    const char *command;
    int first, count, port;
    launched ranks[HOSTS_MAX];
} job;

static void start_rank(hosts *net, job *j, int rank) {
    j->ranks[rank] =
        hosts_launch(net, j->first + rank,
                     "export GW_INSECURE=1 RANK=%d WORLD_SIZE=%d MASTER_ADDR=%s MASTER_PORT=%d; "
                     "exec %s",
                     rank, j->count, hosts_address(net, j->first), j->port, j->command);
}

static void start_job(hosts *net, job *j) {
    if (!j->count) j->count = 2;
    if (!j->port) j->port = 29500;
    for (int rank = 0; rank < j->count; rank++) start_rank(net, j, rank);
}

// Waits for a real duration: how long a link is down.
static void wait_ms(int ms) {
    poll(NULL, 0, ms);
}

// All ranks end, with |code|; returns the output of the first, for the caller to free.
static char *finish_job(job *j, int code) {
    char *printed = NULL;
    for (int rank = 0; rank < j->count; rank++) {
        result r = finish(j->ranks[rank]);
        testing_note("rank %d: %.200s%.300s", rank, r.out, r.err);
        assert_int_equal(r.code, rank ? 0 : code);
        if (rank == 0) printed = r.out;
        if (rank) free(r.out);
        free(r.err);
    }
    return printed;
}

static void run_hello(hosts_options options) {
    hosts *net = hosts_open(options);
    job j = { .command = "./hello" };
    start_job(net, &j);
    char *printed = finish_job(&j, 0);
    assert_string_equal(printed, "tensor([ 6., 12., 18.])\n");
    free(printed);
    hosts_close(net);
}

static void two_hosts_reach_each_other(void **state) {
    (void)state;
    run_hello((hosts_options){ .count = 2 });
}

static void ipv6_alone_is_enough(void **state) {
    (void)state;
    run_hello((hosts_options){ .count = 2, .ipv6_only = true });
}

static void packets_may_be_small(void **state) {
    (void)state;
    hosts *net = hosts_open((hosts_options){ .count = 3, .mtu = 1400, .rate_mbit = 1000 });
    job j = { .command = "./batch_rpc --epochs 3", .count = 3 };
    start_job(net, &j);
    char *printed = finish_job(&j, 3);  // three epochs are too few to learn much
    assert_non_null(strstr(printed, "2 trainers, answered together"));
    free(printed);
    hosts_close(net);
}

// The results equal those of one host.
static void a_link_that_is_down_for_a_second_loses_nothing(void **state) {
    (void)state;
    static const char command[] = "./rl_cartpole --max-episodes 12 --log-interval 1 --seed 7";
    result here = finish(launch_command("./gradwire run --no-prefix -n 3 -- %s", command));
    assert_int_equal(here.code, 3);
    hosts *net = hosts_open((hosts_options){ .count = 3, .rate_mbit = 1000 });
    job j = { .command = command, .count = 3 };
    start_job(net, &j);
    const char *beginning = "Episode 3\t";
    read_line(j.ranks[0].out_fd, beginning);
    hosts_plug(net, 1, false);
    wait_ms(1000);
    hosts_plug(net, 1, true);
    char *printed = finish_job(&j, 3);
    const char *rest = strstr(here.out, "Episode 4\t");
    assert_non_null(rest);
    assert_string_equal(printed, rest);
    free(printed);
    forget(here);
    hosts_close(net);
}

// For long tests that add little to the shorter ones: `make clusters` runs them.
static void be_patient(void) {
    if (!getenv("GW_CLUSTERS")) testing_skip("make clusters runs it");
}

// A server with a client on its host, and others that are distributed over the other hosts; all have begun when this
// returns.
typedef struct federation {
    hosts *net;
    path folder;
    int others;
    launched server, clients[3];
} federation;

static federation start_federation(int hosts, int others) {
    federation f = { .net = hosts_open((hosts_options){ .count = hosts, .rate_mbit = 1000 }),
                     .folder = make_folder(),
                     .others = others };
    // Hosts have their files in common, and find each other only through a file.
    f.server = hosts_launch(f.net, 0,
                            "export GW_INSECURE=1 GW_INTERFACE=eth0; exec ./fedavg --clients 1 "
                            "--await %d --shares %d --rounds 300 --at file://%s/store",
                            1 + others, 1 + others, f.folder.text);
    for (int i = 0; i < others; i++)
        f.clients[i] = hosts_launch(f.net, 1 + i % (hosts - 1),
                                    "export GW_INSECURE=1 GW_INTERFACE=eth0; exec ./fedavg "
                                    "--join file://%s/store --shares %d --number %d",
                                    f.folder.text, 1 + others, i + 2);
    while (!strstr(read_line(f.server.out_fd, ""), "round")) continue;
    return f;
}

// The last |count| clients have ended, and report the reason.
static void expect_cut_off(const federation *f, int count) {
    for (int i = f->others - count; i < f->others; i++) {
        result r = finish(f->clients[i]);
        testing_note("%.300s", r.err);
        assert_int_not_equal(r.code, 0);
        char printed[80];
        snprintf(printed, sizeof printed, "client%d was cut off from most other workers for ",
                 i + 2);
        // A machine that is busy may run it only after the network is up again.
        assert_true(strstr(r.err, printed) ||
                    strstr(r.err, "the other workers have declared this worker dead: "));
        forget(r);
    }
}

// The server has continued without the last |count| clients, and reports the reason of each loss.
static void finish_federation(federation *f, int count) {
    result r = finish(f->server);
    testing_note("%.100s %.300s", r.out, r.err);
    assert_int_equal(r.code, 0);
    for (int i = f->others - count; i < f->others; i++) {
        char printed[80];
        snprintf(printed, sizeof printed, "client%d is lost: client%d", i + 2, i + 2);
        assert_non_null(strstr(r.out, printed));
    }
    forget(r);
    for (int i = 0; i < f->others - count; i++) {
        r = finish(f->clients[i]);
        assert_int_equal(r.code, 0);
        forget(r);
    }
    hosts_close(f->net);
    remove_folder(f->folder);
}

// MEM-4: a worker without a quorum is fenced, the others continue, and they stay apart when the link is up again.
static void a_worker_without_a_quorum_is_fenced_and_the_others_continue(void **state) {
    (void)state;
    federation f = start_federation(4, 3);
    hosts_plug(f.net, 3, false);
    wait_ms(20000);
    hosts_plug(f.net, 3, true);
    expect_cut_off(&f, 1);
    finish_federation(&f, 1);
}

// Of two halves the one with the lowest rank continues, and the other one ends, in 10 s.
static void of_two_halves_the_one_with_the_lowest_rank_continues(void **state) {
    (void)state;
    be_patient();
    federation f = start_federation(2, 2);
    hosts_plug(f.net, 1, false);
    wait_ms(20000);
    hosts_plug(f.net, 1, true);
    expect_cut_off(&f, 2);
    finish_federation(&f, 2);
}

// The host loses power: no connection is closed on the network, and after the restart no connection exists.
static void a_host_that_loses_power_is_declared_dead(void **state) {
    (void)state;
    be_patient();
    federation f = start_federation(4, 3);
    hosts_cut(f.net, 3, HOSTS_BOTH);
    kill(f.clients[2].pid, SIGKILL);
    forget(finish(f.clients[2]));
    finish_federation(&f, 1);
}

static void frames_may_be_lost_in_one_direction_only(void **state) {
    (void)state;
    be_patient();
    federation f = start_federation(4, 3);
    hosts_cut(f.net, 3, HOSTS_FROM);
    expect_cut_off(&f, 1);
    finish_federation(&f, 1);
}

GW_FUNCTION(hosts_echo, GW_INLINE, "int") {
    return gw_arg(s, a, 0);
}

// Each writes its log to |log|.
static pid_t start_worker(hosts *net, int rank, const char *address, const char *log) {
    pid_t pid = hosts_fork(net, rank);
    if (pid) return pid;
    char url[64];
    snprintf(url, sizeof url, "tcp://%s:29500", hosts_address(net, 0));
    if (address) setenv("GW_ADDRESS", address, 1);
    if (!freopen(log, "ae", stderr)) _exit(99);
    gw_scope *root = gw_scope_open(NULL);
    gw_rpc_init(root, .rank = rank, .world_size = 3, .init_method = url, .insecure = true);
    if (rank == 2 && gw_int_of(root, gw_rpc_sync(root, "worker1", "hosts_echo", 7)) != 7)
        gw_fail(root, GW_INVALID, "it is not the same");
    gw_rpc_shutdown(root);
    _exit(gw_exit_code(gw_scope_close(root)));
}

// Worker 1 has an address that the others cannot reach, as behind a firewall. The coordinator notifies it that worker 2
// needs a connection, and it connects to worker 2.
static void connections_opened_from_one_side_are_enough(void **state) {
    (void)state;
    hosts *net = hosts_open((hosts_options){ .count = 3 });
    path folder = make_folder(), log = in_folder(folder, "log");
    const char *address = hosts_add_one_way(net, 1);
    pid_t pids[3];
    for (int i = 0; i < 3; i++) pids[i] = start_worker(net, i, i == 1 ? address : NULL, log.text);
    for (int i = 0; i < 3; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    result r = finish(launch_command("cat %s", log.text));
    testing_note("\"%s\"", r.out);
    forget(r);
    remove_folder(folder);
    hosts_close(net);
}

// The jobs have different ports, and nothing else keeps them apart.
static void two_jobs_on_one_network_do_not_mix(void **state) {
    (void)state;
    hosts *net = hosts_open((hosts_options){ .count = 3 });
    job a = { .command = "./batch_rpc --epochs 3", .count = 3 };
    job b = { .command = "./hello", .first = 1, .port = 29501 };
    start_job(net, &a);
    start_job(net, &b);
    char *of_b = finish_job(&b, 0), *of_a = finish_job(&a, 3);
    assert_string_equal(of_b, "tensor([ 6., 12., 18.])\n");
    assert_non_null(strstr(of_a, "2 trainers, answered together"));
    free(of_a);
    free(of_b);
    hosts_close(net);
}

// The environment of a pod of examples/kubernetes/job.yaml, except the name of the first: a secret's file is a link to
// one that only its user can read.
static void pods_join_with_a_key(void **state) {
    (void)state;
    hosts *net = hosts_open((hosts_options){ .count = 3 });
    path folder = make_folder();
    result r = finish(launch_command("umask 077; ./gradwire key > %s/data && chmod 0400 %s/data && "
                                     "ln -s data %s/job.key",
                                     folder.text, folder.text, folder.text));
    assert_int_equal(r.code, 0);
    forget(r);
    job j = { .count = 3 };
    for (int i = 0; i < j.count; i++)
        j.ranks[i] = hosts_launch(net, i,
                                  "export JOB_COMPLETION_INDEX=%d WORLD_SIZE=%d MASTER_ADDR=%s "
                                  "GW_KEY_FILE=%s/job.key; exec ./batch_rpc --epochs 3",
                                  i, j.count, hosts_address(net, 0), folder.text);
    char *printed = finish_job(&j, 3);
    assert_non_null(strstr(printed, "2 trainers, answered together"));
    free(printed);
    remove_folder(folder);
    hosts_close(net);
}

GW_TESTS_WITH_LIMIT(clusters_hosts, 120, two_hosts_reach_each_other, ipv6_alone_is_enough,
                    packets_may_be_small, a_link_that_is_down_for_a_second_loses_nothing,
                    a_worker_without_a_quorum_is_fenced_and_the_others_continue,
                    of_two_halves_the_one_with_the_lowest_rank_continues,
                    a_host_that_loses_power_is_declared_dead,
                    frames_may_be_lost_in_one_direction_only,
                    connections_opened_from_one_side_are_enough, two_jobs_on_one_network_do_not_mix,
                    pods_join_with_a_key);
