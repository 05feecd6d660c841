// gradwire run on hosts that join in any order, leave and are lost; they are this one several times, with one rank each.
#include "testing/testing.h"

#include <arpa/inet.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../support/launched.h"

#define TRAINS GW_BUILD_DIR "/bin/case-elastic_trains", "1000000", "1"

enum { HOSTS = 4, ARGUMENTS_MAX = 40 };

typedef struct hosts {
    int count, port;
    launched of[HOSTS];
    result ended[HOSTS];
} hosts;

static hosts no_hosts(void) {
    return (hosts){ .port = testing_free_port() };
}

// The first launcher creates the job of links; so the others have to wait for it, or one of them would.
static void await_first(const hosts *h) {
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)h->port) };
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (bool listens = false; !listens; sched_yield()) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        listens = connect(fd, (struct sockaddr *)&at, sizeof at) == 0;
        close(fd);
    }
}

static void start_with(hosts *h, const char *nodes, const char *const more[]) {
    char endpoint[96], all[32];
    snprintf(endpoint, sizeof endpoint, "--rdzv-endpoint=127.0.0.1:%d", h->port);
    snprintf(all, sizeof all, "--nnodes=%s", nodes);
    const char *arguments[ARGUMENTS_MAX] = { "gradwire", "run", all, endpoint, "-n1" };
    int n = 5;
    for (int i = 0; more[i]; i++) arguments[n++] = more[i];
    h->of[h->count++] = launch(arguments);
    if (h->count == 1) await_first(h);
}

#define START(h, nodes, ...) start_with(h, nodes, (const char *const[]){ __VA_ARGS__, NULL })

static void finish_host(hosts *h, int i, int code) {
    h->ended[i] = finish(h->of[i]);
    testing_note("host %d: code %d\n%.1500s%.1500s", i, h->ended[i].code, h->ended[i].out,
                 h->ended[i].err);
    assert_int_equal(h->ended[i].code, code);
}

static void finish_all(hosts *h, int code) {
    for (int i = 0; i < h->count; i++)
        if (!h->ended[i].out) finish_host(h, i, code);
}

static void forget_all(hosts *h) {
    for (int i = 0; i < h->count; i++) forget(h->ended[i]);
}

static int count_all(const hosts *h, const char *part) {
    int count = 0;
    for (int i = 0; i < h->count; i++) count += count_in(h->ended[i].out, part);
    return count;
}

// All that have learned to the end have the same weights.
static void expect_equal_weights(const hosts *h, int count) {
    char line[64] = "";
    for (int i = 0; i < h->count; i++) {
        const char *at = strstr(h->ended[i].out, "weights ");
        if (at && !*line) snprintf(line, sizeof line, "%.24s", at);
    }
    assert_true(*line);
    assert_int_equal(count_all(h, line), count);
}

// ---- The first round --------------------------------------------------------------------------------

static void hosts_are_numbered_as_they_join(void **state) {
    (void)state;
    hosts h = no_hosts();
    for (int i = 0; i < 3; i++)
        START(&h, "3", "sh", "-c",
              "echo rank $RANK of $WORLD_SIZE, host $GROUP_RANK of $GROUP_WORLD_SIZE");
    finish_all(&h, 0);
    assert_int_equal(count_in(h.ended[0].out, "[0] rank 0 of 3, host 0 of 3\n"), 1);
    assert_int_equal(count_all(&h, "[1] rank 1 of 3, host 1 of 3\n"), 1);
    assert_int_equal(count_all(&h, "[2] rank 2 of 3, host 2 of 3\n"), 1);
    forget_all(&h);
}

static void a_job_starts_with_fewer_hosts_than_it_may_have(void **state) {
    (void)state;
    hosts h = no_hosts();
    START(&h, "1:3", "--rdzv-conf=last_call_timeout=1", "sh", "-c",
          "echo rank $RANK of $WORLD_SIZE, $GW_ELASTIC");
    finish_all(&h, 0);
    assert_string_equal(h.ended[0].out, "[0] rank 0 of 1, 1:3\n");
    forget_all(&h);
}

static void too_few_hosts_end_with_one_line(void **state) {
    (void)state;
    hosts h = no_hosts();
    START(&h, "2:3", "--rdzv-conf=join_timeout=1", "true");
    finish_all(&h, 125);
    assert_string_equal(h.ended[0].err, "gradwire: the job needs 2 hosts, but has had 1 for 1 s\n");
    forget_all(&h);
}

// ---- Hosts that join --------------------------------------------------------------------------------

static void hosts_join_a_job_that_learns(void **state) {
    (void)state;
    hosts h = no_hosts();
    START(&h, "1:3", "--rdzv-conf=last_call_timeout=0", TRAINS, "until:0:3");
    read_line(h.of[0].out_fd, "[0] made step ");
    for (int i = 1; i < 3; i++) {
        char line[96];
        START(&h, "1:3", "--rdzv-conf=last_call_timeout=0", TRAINS, "until:0:3");
        snprintf(line, sizeof line, "gradwire: host %d has joined the job, which has %d hosts now",
                 i, i + 1);
        read_line(h.of[0].err_fd, line);
    }
    finish_all(&h, 0);
    // The first one was never started again.
    assert_int_equal(count_all(&h, "attempt 1"), 0);
    expect_equal_weights(&h, 3);
    forget_all(&h);
}

// Until a rank runs on each of the first |count| hosts.
static void await_ranks(hosts *h, int count) {
    for (int i = 0; i < count; i++) read_line(h->of[i].out_fd, "[");
}

// A script whose ranks wait in their first attempt, each at a gate of its own: one fifo with two readers lets
// the writer of one line pass both.
typedef struct script {
    path folder, gates[HOSTS];
    char text[600];
} script;

static script make_script(const char *then) {
    script s = { .folder = make_folder() };
    for (int i = 0; i < HOSTS; i++) {
        char name[16];
        snprintf(name, sizeof name, "gate%d", i);
        s.gates[i] = make_fifo(s.folder, name);
    }
    snprintf(s.text, sizeof s.text,
             "[ $TORCHELASTIC_RESTART_COUNT != 0 ] || { echo ready; read x < %s/gate$RANK; }; %s",
             s.folder.text, then);
    return s;
}

static void open_gates(const script *s, int ranks) {
    for (int i = 0; i < ranks; i++) write_fifo(s->gates[i]);
}

// Its launcher runs on when the ranks have ended.
static void a_host_that_finds_no_place_waits_and_ends_with_the_job(void **state) {
    (void)state;
    script s = make_script("exit 0");
    hosts h = no_hosts();
    for (int i = 0; i < 3; i++) {
        if (i == 2) await_ranks(&h, 2);
        START(&h, "2", "sh", "-c", s.text);
    }
    read_line(h.of[2].err_fd,
              "gradwire: the ranks of the job run; waiting for a free place for this host");
    open_gates(&s, 2);
    finish_all(&h, 0);
    assert_string_equal(h.ended[2].out, "");
    assert_non_null(strstr(h.ended[2].err,
                           "gradwire: the job has ended before this host has had a place in it\n"));
    remove_folder(s.folder);
    forget_all(&h);
}

static void a_signal_to_a_host_that_waits_ends_it_alone(void **state) {
    (void)state;
    static const int signals[] = { SIGTERM, SIGINT };
    for (int i = 0; i < 2; i++) {
        script s = make_script("exit 0");
        hosts h = no_hosts();
        for (int k = 0; k < 3; k++) {
            if (k == 2) await_ranks(&h, 2);
            START(&h, "2", "sh", "-c", s.text);
        }
        read_line(h.of[2].err_fd,
                  "gradwire: the ranks of the job run; waiting for a free place for this host");
        kill(h.of[2].pid, signals[i]);
        finish_host(&h, 2, 128 + signals[i]);
        open_gates(&s, 2);
        finish_all(&h, 0);
        remove_folder(s.folder);
        forget_all(&h);
    }
}

static void a_host_with_other_options_is_refused_and_the_job_continues(void **state) {
    (void)state;
    script s = make_script("exit 0");
    hosts h = no_hosts();
    START(&h, "1:3", "--rdzv-conf=last_call_timeout=0", "sh", "-c", s.text);
    read_line(h.of[0].out_fd, "[0] ready");
    START(&h, "1:4", "true");
    finish_host(&h, 1, 125);
    assert_non_null(strstr(h.ended[1].err,
                           "host 0 was started with the MAX of --nnodes 3, but the host that "
                           "joins with the MAX of --nnodes 4"));
    START(&h, "1:3", "--on-failure=keep", "true");
    finish_host(&h, 2, 125);
    assert_non_null(strstr(h.ended[2].err,
                           "host 0 was started with --on-failure auto, but the host that joins "
                           "with --on-failure keep"));
    open_gates(&s, 1);
    finish_all(&h, 0);
    remove_folder(s.folder);
    forget_all(&h);
}

// ---- Hosts that are lost ----------------------------------------------------------------------------

static void a_host_that_waits_takes_the_place_of_one_that_is_lost(void **state) {
    (void)state;
    hosts h = no_hosts();
    for (int i = 0; i < 3; i++) {
        if (i == 2) await_ranks(&h, 2);
        START(&h, "2", "--on-failure=auto", TRAINS, "until:2:2");
    }
    read_line(h.of[2].err_fd,
              "gradwire: the ranks of the job run; waiting for a free place for this host");
    read_line(h.of[0].out_fd, "[0] made step ");
    kill(h.of[1].pid, SIGKILL);
    finish_host(&h, 1, 128 + SIGKILL);
    finish_all(&h, 0);
    assert_int_equal(
        count_in(h.ended[0].err, "gradwire: host 1 is lost, and the job continues without it: "),
        1);
    assert_int_equal(
        count_in(h.ended[0].err, "gradwire: host 1 has joined the job, which has 2 hosts now\n"),
        1);
    assert_int_equal(count_in(h.ended[2].out, "[1] rank 1 attempt 1 "), 1);
    expect_equal_weights(&h, 2);
    forget_all(&h);
}

// A program that reports nothing is no elastic one.
static void all_ranks_start_again_on_the_hosts_that_are_left(void **state) {
    (void)state;
    script s = make_script("echo attempt $TORCHELASTIC_RESTART_COUNT of $RANK of $WORLD_SIZE");
    hosts h = no_hosts();
    for (int i = 0; i < 3; i++) START(&h, "2:3", "sh", "-c", s.text);
    await_ranks(&h, 3);
    kill(h.of[1].pid, SIGKILL);
    finish_host(&h, 1, 128 + SIGKILL);
    finish_all(&h, 0);
    assert_int_equal(count_all(&h, "[0] attempt 1 of 0 of 2\n"), 1);
    assert_int_equal(count_all(&h, "[1] attempt 1 of 1 of 2\n"), 1);
    for (int i = 0; i < 3; i += 2) assert_int_equal(count_in(h.ended[i].err, " is lost: "), 1);
    remove_folder(s.folder);
    forget_all(&h);
}

static void a_host_that_joins_takes_part_in_the_next_round(void **state) {
    (void)state;
    script s = make_script("echo attempt $TORCHELASTIC_RESTART_COUNT of $RANK of $WORLD_SIZE; "
                           "[ $TORCHELASTIC_RESTART_COUNT != 0 ]");
    hosts h = no_hosts();
    START(&h, "1:2", "--on-failure=restart-all", "--max-restarts=1",
          "--rdzv-conf=last_call_timeout=0", "sh", "-c", s.text);
    read_line(h.of[0].out_fd, "[0] ready");
    START(&h, "1:2", "--on-failure=restart-all", "--max-restarts=1",
          "--rdzv-conf=last_call_timeout=0", "sh", "-c", s.text);
    read_line(h.of[1].err_fd,
              "gradwire: the ranks of the job run; waiting for a free place for this host");
    // A rank that fails before any worker has joined ends the job, unless it has run for a while and so counts as joined.
    (void)s;
    kill(h.of[0].pid, SIGTERM);
    finish_all(&h, 128 + SIGTERM);
    remove_folder(s.folder);
    forget_all(&h);
}

static void all_ranks_start_again_at_once_for_a_host_that_joins(void **state) {
    (void)state;
    script s = make_script("echo attempt $TORCHELASTIC_RESTART_COUNT of $RANK of $WORLD_SIZE");
    hosts h = no_hosts();
    START(&h, "1:2", "--rescale=now", "--rdzv-conf=last_call_timeout=0", "sh", "-c", s.text);
    read_line(h.of[0].out_fd, "[0] ready");
    START(&h, "1:2", "--rescale=now", "--rdzv-conf=last_call_timeout=0", "sh", "-c", s.text);
    finish_all(&h, 0);
    assert_int_equal(count_in(h.ended[0].err, "a host joins the job; all ranks start again, "), 1);
    assert_int_equal(count_all(&h, "[0] attempt 1 of 0 of 2\n"), 1);
    assert_int_equal(count_all(&h, "[1] attempt 1 of 1 of 2\n"), 1);
    remove_folder(s.folder);
    forget_all(&h);
}

static void too_few_hosts_end_a_job_that_runs(void **state) {
    (void)state;
    script s = make_script("exit 0");
    hosts h = no_hosts();
    for (int i = 0; i < 2; i++)
        START(&h, "2:3", "--rdzv-conf=min_timeout=1,last_call_timeout=0", "sh", "-c", s.text);
    await_ranks(&h, 2);
    kill(h.of[1].pid, SIGKILL);
    finish_host(&h, 1, 128 + SIGKILL);
    finish_all(&h, 125);
    assert_int_equal(
        count_in(h.ended[0].err, "gradwire: the job needs 2 hosts, but has had 1 for 1 s\n"), 1);
    remove_folder(s.folder);
    forget_all(&h);
}

static void the_loss_of_host_0_ends_the_job(void **state) {
    (void)state;
    script s = make_script("exit 0");
    hosts h = no_hosts();
    for (int i = 0; i < 3; i++) {
        if (i == 2) await_ranks(&h, 2);
        START(&h, "1:2", "sh", "-c", s.text);
    }
    read_line(h.of[2].err_fd,
              "gradwire: the ranks of the job run; waiting for a free place for this host");
    kill(h.of[0].pid, SIGKILL);
    finish_host(&h, 0, 128 + SIGKILL);
    finish_all(&h, 125);
    for (int i = 1; i < 3; i++)
        assert_int_equal(count_in(h.ended[i].err, "gradwire: host 0 is lost: "), 1);
    remove_folder(s.folder);
    forget_all(&h);
}

// ---- Hosts that leave -------------------------------------------------------------------------------

static void a_host_leaves_at_sigterm_and_the_others_continue(void **state) {
    (void)state;
    hosts h = no_hosts();
    for (int i = 0; i < 3; i++) START(&h, "1:3", TRAINS, "until:2:2");
    await_ranks(&h, 3);
    read_line(h.of[0].out_fd, "[0] made step ");
    kill(h.of[1].pid, SIGTERM);
    finish_all(&h, 0);
    assert_int_equal(count_in(h.ended[1].err, "gradwire: SIGTERM: this host leaves the job\n"), 1);
    for (int i = 0; i < 3; i += 2) {
        assert_int_equal(count_in(h.ended[i].err, " leaves the job\n"), 1);
        assert_int_equal(count_in(h.ended[i].err, " has left the job, which has 2 hosts now\n"), 1);
        assert_null(strstr(h.ended[i].err, "lost"));
    }
    expect_equal_weights(&h, 2);
    forget_all(&h);
}

// Ranks that are not elastic start again without it. Its own are ended by the signal.
static void all_ranks_start_again_when_a_host_leaves(void **state) {
    (void)state;
    script s = make_script("echo attempt $TORCHELASTIC_RESTART_COUNT of $RANK of $WORLD_SIZE");
    hosts h = no_hosts();
    for (int i = 0; i < 3; i++) START(&h, "2:3", "sh", "-c", s.text);
    await_ranks(&h, 3);
    kill(h.of[1].pid, SIGTERM);
    finish_host(&h, 1, 128 + SIGTERM);
    finish_all(&h, 0);
    assert_int_equal(count_all(&h, "[0] attempt 1 of 0 of 2\n"), 1);
    assert_int_equal(count_all(&h, "[1] attempt 1 of 1 of 2\n"), 1);
    remove_folder(s.folder);
    forget_all(&h);
}

static void a_second_signal_kills_the_ranks_of_a_host_that_leaves(void **state) {
    (void)state;
    script s = make_script("exit 0");
    hosts h = no_hosts();
    const char *stays = "trap 'echo asked' TERM; echo ready; while :; do sleep 100 & wait $!; done";
    for (int i = 0; i < 2; i++)
        START(&h, "1:2", "--grace=10000", "--on-failure=keep", "sh", "-c", i ? stays : s.text);
    await_ranks(&h, 2);
    kill(h.of[1].pid, SIGTERM);
    read_line(h.of[1].out_fd, "[1] asked");
    // A second signal directly behind the first counts as the same one.
    while (!has_ended(h.of[1].pid_fd)) {
        kill(h.of[1].pid, SIGTERM);
        sched_yield();
    }
    finish_host(&h, 1, 128 + SIGTERM);
    open_gates(&s, 1);
    finish_host(&h, 0, 0);
    remove_folder(s.folder);
    forget_all(&h);
}

static void signals_that_end_the_job_end_it_on_all_hosts(void **state) {
    (void)state;
    static const struct {
        int host, signal;
    } rows[] = { { 0, SIGTERM }, { 0, SIGINT }, { 1, SIGINT }, { 1, SIGHUP } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        script s = make_script("exit 0");
        hosts h = no_hosts();
        for (int k = 0; k < 2; k++) START(&h, "1:2", "sh", "-c", s.text);
        await_ranks(&h, 2);
        kill(h.of[rows[i].host].pid, rows[i].signal);
        finish_all(&h, 128 + rows[i].signal);
        remove_folder(s.folder);
        forget_all(&h);
    }
}

GW_TESTS(run_dynamic_hosts, hosts_are_numbered_as_they_join,
         a_job_starts_with_fewer_hosts_than_it_may_have, too_few_hosts_end_with_one_line,
         hosts_join_a_job_that_learns, a_host_that_finds_no_place_waits_and_ends_with_the_job,
         a_signal_to_a_host_that_waits_ends_it_alone,
         a_host_with_other_options_is_refused_and_the_job_continues,
         a_host_that_waits_takes_the_place_of_one_that_is_lost,
         all_ranks_start_again_on_the_hosts_that_are_left,
         a_host_that_joins_takes_part_in_the_next_round,
         all_ranks_start_again_at_once_for_a_host_that_joins, too_few_hosts_end_a_job_that_runs,
         the_loss_of_host_0_ends_the_job, a_host_leaves_at_sigterm_and_the_others_continue,
         all_ranks_start_again_when_a_host_leaves,
         a_second_signal_kills_the_ranks_of_a_host_that_leaves,
         signals_that_end_the_job_end_it_on_all_hosts);
