// gradwire run on several hosts: the launchers connect over a network, and end together when it fails. Where the kernel
// makes no hosts these tests are skipped. Connections are not encrypted here unless a test states it: links affect them
// in the same way.
#include "../support/hosts.h"
#include "testing/testing.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct job {
    hosts *net;
    int count;
    launched of[HOSTS_MAX];
    result ended[HOSTS_MAX];
} job;

// Starts two ranks of |command| on each host, with |options| of gradwire run.
static job start(hosts *net, int count, const char *options, const char *command) {
    job j = { .net = net, .count = count };
    char arguments[600];
    snprintf(arguments, sizeof arguments, "%s -- %s", options, command);
    for (int i = 0; i < count; i++) j.of[i] = hosts_launch_run(net, i, count, 2, arguments);
    return j;
}

static void finish_all(job *j, int code) {
    for (int i = 0; i < j->count; i++) {
        j->ended[i] = finish(j->of[i]);
        testing_note("host %d: %d, \"%.400s\"", i, j->ended[i].code, j->ended[i].err);
    }
    for (int i = 0; i < j->count; i++) assert_int_equal(j->ended[i].code, code);
}

static void forget_all(job *j) {
    for (int i = 0; i < j->count; i++) forget(j->ended[i]);
    hosts_close(j->net);
}

static void run_hello(hosts_options options, const char *printed) {
    hosts *net = hosts_open(options);
    job j = start(net, options.count, printed, "./hello");
    finish_all(&j, 0);
    assert_non_null(strstr(j.ended[0].out, "[0] tensor([ 6., 12., 18.])\n"));
    forget_all(&j);
}

static void ranks_of_three_hosts_are_one_job(void **state) {
    (void)state;
    run_hello((hosts_options){ .count = 3 }, "--insecure");
}

static void ranks_of_hosts_with_ipv6_only_are_one_job(void **state) {
    (void)state;
    run_hello((hosts_options){ .count = 2, .ipv6_only = true }, "--insecure");
}

static void ranks_of_hosts_with_a_key_are_one_job(void **state) {
    (void)state;
    path folder = make_folder();
    char option[300];
    snprintf(option, sizeof option, "--key=%s", make_key(folder).text);
    run_hello((hosts_options){ .count = 2 }, option);
    remove_folder(folder);
}

static void a_failure_on_one_host_is_reported_by_all(void **state) {
    (void)state;
    hosts *net = hosts_open((hosts_options){ .count = 3 });
    job j = start(net, 3, "--insecure", "sh -c 'test $RANK = 5 && exit 7; exec sleep 1000'");
    finish_all(&j, 7);
    for (int i = 0; i < 3; i++) assert_non_null(strstr(j.ended[i].err, "rank 5 (host 2, pid "));
    forget_all(&j);
}

static void wait_until_ready(job *j) {
    for (int i = 0; i < j->count; i++) {
        char beginning[32];
        snprintf(beginning, sizeof beginning, "[%d] ready", 2 * i);
        read_line(j->of[i].out_fd, beginning);
    }
}

static const char *const ready = "sh -c 'echo ready; exec sleep 1000'";

static void hosts_that_are_cut_off_report_that_they_did_not_meet(void **state) {
    (void)state;
    hosts *net = hosts_open((hosts_options){ .count = 2 });
    hosts_cut(net, 1, HOSTS_BOTH);
    job j = start(net, 2, "--insecure --rdzv-timeout=3", ready);
    finish_all(&j, 125);
    for (int i = 0; i < 2; i++)
        assert_non_null(strstr(j.ended[i].err, "the hosts of the job did not meet: "));
    forget_all(&j);
}

// Each host names the one that is cut off: that one itself, or the hosts that continue without it.
static void assert_cut_is_named(const job *j, int cut) {
    char lost[32], quoted[32];
    snprintf(lost, sizeof lost, "host %d is lost: ", cut);
    snprintf(quoted, sizeof quoted, "host%d (rank %d)", cut, cut);
    for (int i = 0; i < j->count; i++) {
        const char *text = j->ended[i].err;
        bool says_cut_off = strstr(text, "this host is cut off from the others: ");
        // Of two hosts that lose each other host 0 has the majority.
        bool says_lost = strstr(text, lost) || (says_cut_off && strstr(text, quoted));
        bool is_alone = j->count == 2 && says_cut_off;
        assert_true(i == cut ? says_cut_off || strstr(text, " is lost: ") : says_lost || is_alone);
    }
}

// The cut sends no event to any host: not even a reset.
static void a_host_that_is_cut_off_ends_and_the_others_end(void **state) {
    (void)state;
    for (int cut = 0; cut < 3; cut++) {
        hosts *net = hosts_open((hosts_options){ .count = 3 });
        job j = start(net, 3, "--insecure", ready);
        wait_until_ready(&j);
        hosts_cut(net, cut, HOSTS_BOTH);
        finish_all(&j, 125);
        assert_cut_is_named(&j, cut);
        forget_all(&j);
    }
}

// They can still end the job together.
static void with_keep_the_others_continue_without_a_host_that_is_cut_off(void **state) {
    (void)state;
    hosts *net = hosts_open((hosts_options){ .count = 3 });
    job j = start(net, 3, "--insecure --on-failure=keep", ready);
    wait_until_ready(&j);
    hosts_cut(net, 1, HOSTS_BOTH);
    for (int i = 0; i < 3; i += 2)
        read_line(j.of[i].err_fd,
                  "gradwire: host 1 is lost, and the job continues without it: host1 (rank 1)");
    kill(j.of[2].pid, SIGTERM);
    for (int i = 0; i < 3; i++) {
        j.ended[i] = finish(j.of[i]);
        testing_note("host %d: %d, \"%.400s\"", i, j.ended[i].code, j.ended[i].err);
        assert_int_equal(j.ended[i].code, i == 1 ? 125 : 128 + SIGTERM);
    }
    assert_non_null(strstr(j.ended[1].err, "this host is cut off from the others: "));
    forget_all(&j);
}

// The members that are left learn on, and admit the workers of the other host.
static void a_host_that_is_cut_off_is_replaced_by_one_that_waits(void **state) {
    (void)state;
    hosts *net = hosts_open((hosts_options){ .count = 3 });
    job j = { .net = net, .count = 3 };
    for (int i = 0; i < 3; i++) {
        j.of[i] =
            hosts_launch(net, i,
                         "exec ./gradwire run --nnodes=2 --on-failure=auto -n 2 --insecure "
                         "--rdzv-endpoint=%s:29500 -- ./case-elastic_trains 1000000 1 until:2:4",
                         hosts_address(net, 0));
        if (i == 1) read_line(j.of[0].out_fd, "[0] made step ");
    }
    read_line(j.of[2].err_fd,
              "gradwire: the ranks of the job run; waiting for a free place for this host");
    hosts_cut(net, 1, HOSTS_BOTH);
    for (int i = 0; i < 3; i++) {
        j.ended[i] = finish(j.of[i]);
        testing_note("host %d: %d, \"%.400s\"", i, j.ended[i].code, j.ended[i].err);
        assert_int_equal(j.ended[i].code, i == 1 ? 125 : 0);
    }
    assert_non_null(
        strstr(j.ended[0].err, "gradwire: host 1 has joined the job, which has 2 hosts now"));
    assert_non_null(strstr(j.ended[2].out, "[3] weights "));
    forget_all(&j);
}

// Its launcher waits only for the other hosts.
static void a_host_that_is_cut_off_when_its_ranks_have_ended_is_lost(void **state) {
    (void)state;
    static const char *const commands[] = {
        "sh -c 'echo ready; test $GROUP_RANK = 0 && exit 0; exec sleep 1000'",
        "sh -c 'echo ready; test $GROUP_RANK = 1 && exit 0; exec sleep 1000'"
    };
    for (int cut = 0; cut < 2; cut++) {
        hosts *net = hosts_open((hosts_options){ .count = 2 });
        job j = start(net, 2, "--insecure", commands[cut]);
        wait_until_ready(&j);
        hosts_cut(net, cut, HOSTS_BOTH);
        finish_all(&j, 125);
        assert_cut_is_named(&j, cut);
        forget_all(&j);
    }
}

static void without_host_0_all_end(void **state) {
    (void)state;
    hosts *net = hosts_open((hosts_options){ .count = 2 });
    job j = start(net, 2, "--insecure", ready);
    wait_until_ready(&j);
    hosts_plug(net, 0, false);
    finish_all(&j, 125);
    forget_all(&j);
}

static void a_cut_of_a_second_is_not_noticed(void **state) {
    (void)state;
    hosts *net = hosts_open((hosts_options){ .count = 2 });
    job j = start(net, 2, "--insecure", "sh -c 'echo ready; exec sleep 3'");
    wait_until_ready(&j);
    hosts_cut(net, 1, HOSTS_BOTH);
    poll(NULL, 0, 1000);
    hosts_heal(net, 1, HOSTS_BOTH);
    finish_all(&j, 0);
    forget_all(&j);
}

static void a_signal_to_one_ends_all(void **state) {
    (void)state;
    hosts *net = hosts_open((hosts_options){ .count = 2 });
    job j = start(net, 2, "--insecure", ready);
    wait_until_ready(&j);
    kill(j.of[1].pid, SIGINT);
    finish_all(&j, 130);
    forget_all(&j);
}

static void an_endpoint_that_is_not_on_host_0_is_reported(void **state) {
    (void)state;
    hosts *net = hosts_open((hosts_options){ .count = 2 });
    result r = finish(hosts_launch(net, 0,
                                   "exec ./gradwire run --nnodes=2 --node-rank=0 -n 1 --insecure "
                                   "--rdzv-endpoint=%s:29500 true",
                                   hosts_address(net, 1)));
    assert_int_equal(r.code, 125);
    assert_non_null(strstr(r.err, "is not one of this machine (rank 0), which has "));
    forget(r);
    hosts_close(net);
}

static void a_failed_connect_names_the_error_of_each_address(void **state) {
    (void)state;
    hosts *net = hosts_open((hosts_options){ .count = 2 });
    result r = finish(hosts_launch(net, 1,
                                   "exec ./gradwire run --nnodes=2 --node-rank=1 -n 1 --insecure "
                                   "--rdzv-endpoint=%s:29500 --rdzv-timeout=%g true",
                                   hosts_address(net, 0), testing_patient_ms(500) / 1000.0));
    assert_int_equal(r.code, 125);
    char wanted[128];
    snprintf(wanted, sizeof wanted, "%s:29500: Connection refused", hosts_address(net, 0));
    assert_non_null(strstr(r.err, wanted));
    forget(r);
    hosts_close(net);
}

GW_TESTS(clusters_run, ranks_of_three_hosts_are_one_job, ranks_of_hosts_with_ipv6_only_are_one_job,
         ranks_of_hosts_with_a_key_are_one_job, a_failure_on_one_host_is_reported_by_all,
         hosts_that_are_cut_off_report_that_they_did_not_meet,
         a_host_that_is_cut_off_ends_and_the_others_end,
         with_keep_the_others_continue_without_a_host_that_is_cut_off,
         a_host_that_is_cut_off_is_replaced_by_one_that_waits,
         a_host_that_is_cut_off_when_its_ranks_have_ended_is_lost, without_host_0_all_end,
         a_cut_of_a_second_is_not_noticed, a_signal_to_one_ends_all,
         an_endpoint_that_is_not_on_host_0_is_reported,
         a_failed_connect_names_the_error_of_each_address);
