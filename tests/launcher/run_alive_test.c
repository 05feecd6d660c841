// gradwire run on two hosts, which are this one twice: whichever process of one of them is stopped or
// killed, and whenever, both hosts end, and no rank is left. tests/clusters/run_test.c cuts hosts off.
#include "testing/testing.h"

#include <dirent.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../support/launched.h"

enum { HOSTS = 2, LAST_ROWS = 8 };

typedef enum moment {
    BEFORE_MEETING,    // the other host has not been started
    IN_THE_MIDDLE,     // all ranks run
    BEFORE_RANKS_END,  // all ranks run, and end well after it
    AFTER_RANKS_END,   // those of this host have ended, those of the other one run
} moment;

// Who is hit, of which host, and how.
typedef struct row {
    bool is_link;  // else the launcher
    int host;
    int signal;
    // while it runs
    moment when;
    path folder;
    char endpoint[64];
    launched of[HOSTS];
    int ranks[HOSTS];  // descriptors of processes; -1: it has not been started
} row;

static void choose_endpoint(row *r) {
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    close(fd);
    snprintf(r->endpoint, sizeof r->endpoint, "--rdzv-endpoint=127.0.0.1:%d", ntohs(at.sin_port));
}

// A rank runs until there is a file of the name "all", or its own number.
static void start_host(row *r, int host) {
    char node[32], script[600];
    snprintf(node, sizeof node, "--node-rank=%d", host);
    snprintf(script, sizeof script,
             "echo ready $$; cd %s; until test -e all || test -e $RANK; do sleep 0.1; done",
             r->folder.text);
    // Who waits for a host that does not come ends by its own time.
    const char *timeout = r->when == BEFORE_MEETING ? "--rdzv-timeout=15" : "--rdzv-timeout=300";
    r->of[host] = LAUNCH("run", "--nnodes=2", node, r->endpoint, timeout, "-n1", "--grace=1", "sh",
                         "-c", script);
}

static void let_ranks_end(const row *r, const char *which) {
    FILE *f = fopen(in_folder(r->folder, which).text, "w");
    assert_non_null(f);
    fclose(f);
}

static void await_rank(row *r, int host) {
    r->ranks[host] =
        open_process(read_line(r->of[host].out_fd, host ? "[1] ready " : "[0] ready "));
}

static void hit(const row *r) {
    pid_t pid = r->of[r->host].pid;
    if (r->is_link) pid = find_link(pid);
    assert_int_equal(kill(pid, r->signal), 0);
}

static void begin(row *r, moment when) {
    r->when = when;
    r->folder = make_folder();
    r->ranks[0] = r->ranks[1] = -1;
    choose_endpoint(r);
    start_host(r, r->host);
    if (when == BEFORE_MEETING) hit(r);
    start_host(r, !r->host);
    if (when == BEFORE_MEETING) return;
    for (int host = 0; host < HOSTS; host++) await_rank(r, host);
    if (when == AFTER_RANKS_END) {
        let_ranks_end(r, r->host ? "1" : "0");
        wait_for_end(r->ranks[r->host]);
        r->ranks[r->host] = -1;
    }
    hit(r);
    if (when == BEFORE_RANKS_END) let_ranks_end(r, "all");
}

// Both end by themselves, and the one that was not hit says why.
static void end(row *r) {
    testing_note("%s of host %d, signal %d", r->is_link ? "link" : "launcher", r->host, r->signal);
    result other = finish(r->of[!r->host]);
    // Without ranks there is nothing to be ended for.
    if (r->when == BEFORE_MEETING && !r->is_link) kill(r->of[r->host].pid, SIGCONT);
    result own = finish(r->of[r->host]);
    testing_note("%s", other.err);
    testing_note("%s", own.err);
    // Ranks that all ended well before anybody noticed are a job that ended well.
    bool may_be_well = r->when == BEFORE_RANKS_END;
    assert_true(other.code == 125 || (may_be_well && other.code == 0));
    assert_true(own.code != 0 || may_be_well);
    for (int host = 0; host < HOSTS; host++)
        if (r->ranks[host] >= 0) wait_for_end(r->ranks[host]);
    forget(other);
    forget(own);
    remove_folder(r->folder);
}

static void hit_each(moment when) {
    row rows[LAST_ROWS];
    int count = 0;
    for (int is_link = 0; is_link < 2; is_link++)
        for (int host = 0; host < HOSTS; host++)
            for (int kills = 0; kills < 2; kills++)
                rows[count++] =
                    (row){ .is_link = is_link, .host = host, .signal = kills ? SIGKILL : SIGSTOP };
    for (int i = 0; i < count; i++) begin(&rows[i], when);
    for (int i = 0; i < count; i++) end(&rows[i]);
}

static void before_the_hosts_have_met(void **state) {
    (void)state;
    hit_each(BEFORE_MEETING);
}

static void in_the_middle_of_the_job(void **state) {
    (void)state;
    hit_each(IN_THE_MIDDLE);
}

static void before_all_ranks_end(void **state) {
    (void)state;
    hit_each(BEFORE_RANKS_END);
}

static void after_the_ranks_of_a_host_have_ended(void **state) {
    (void)state;
    hit_each(AFTER_RANKS_END);
}

// Of three hosts the last one does not come. JOIN-8: who stops waiting for it ends the wait of the others.
static void who_ends_before_all_have_met_is_told_to_the_others(void **state) {
    (void)state;
    launched of[HOSTS][HOSTS];  // of a job for each that is asked to end
    row places[HOSTS];
    setenv("GW_LOG", "info", 1);
    for (int asked = 0; asked < HOSTS; asked++) {
        choose_endpoint(&places[asked]);
        for (int host = 0; host < HOSTS; host++)
            of[asked][host] = LAUNCH("run", "--nnodes=3", host ? "--node-rank=1" : "--node-rank=0",
                                     places[asked].endpoint, "-n1", "true");
    }
    unsetenv("GW_LOG");
    for (int asked = 0; asked < HOSTS; asked++) {
        for (int host = 0; host < HOSTS; host++)
            while (!strstr(read_line(of[asked][host].err_fd, ""), " waits for rank 2 of 3 to join"))
                continue;
        kill(of[asked][asked].pid, SIGTERM);
        result own = finish(of[asked][asked]), other = finish(of[asked][!asked]);
        testing_note("%s", own.err);
        testing_note("%s", other.err);
        assert_int_equal(own.code, 128 + SIGTERM);
        assert_int_equal(other.code, 125);
        assert_non_null(strstr(
            other.err, asked ? "host1 (rank 1) has stopped waiting for rank 2 of 3" : "rank"));
        forget(own);
        forget(other);
    }
}

GW_TESTS_WITH_LIMIT(run_alive, 120, who_ends_before_all_have_met_is_told_to_the_others,
                    before_the_hosts_have_met, in_the_middle_of_the_job, before_all_ranks_end,
                    after_the_ranks_of_a_host_have_ended);
