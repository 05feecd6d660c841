// gradwire run on two hosts, which are this one twice. When any process of one host is stopped, killed or asked to end, at
// any time, both hosts end, no rank is left, and the other host prints which host or rank it was, and why.
// tests/clusters/run_test.c cuts hosts off.
#include "testing/testing.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../support/launched.h"

enum { HOSTS = 2, ROWS_MAX = 12 };

typedef enum who { LAUNCHER, LINK, RANK } who;

typedef enum moment {
    BEFORE_MEETING,   // the other host has not been started
    WHILE_MEETING,    // the other host waits for this one, which has just been started
    BEFORE_JOINING,   // all ranks run, and have not begun to join
    AMID_THE_JOB,     // all ranks have joined
    BEFORE_THE_END,   // all ranks have left the job, and then exit with 0
    AFTER_RANKS_END,  // the ranks of this host have ended; in rows of a rank, all other ranks have, and it has left the job
} moment;

// The process that gets the signal, its host, the signal and the time. Host and rank have the same number.
typedef struct row {
    who who;
    int host;
    int signal;
    moment when;
    bool on_one_host;  // both ranks are on host 0
    // while it runs
    path folder;
    char endpoint[64];
    launched of[HOSTS];
    pid_t ranks[HOSTS];
    int rank_fds[HOSTS];  // -1: there is nothing to wait for
} row;

// ---- Jobs -----------------------------------------------------------------------------------------

static void choose_endpoint(row *r) {
    snprintf(r->endpoint, sizeof r->endpoint, "--rdzv-endpoint=127.0.0.1:%d", testing_free_port());
}

static void start_host(row *r, int host) {
    const char *program = GW_BUILD_DIR "/bin/case-stages", *folder = r->folder.text;
    if (r->on_one_host) {
        if (host == 0) r->of[0] = LAUNCH("run", "-n2", "--grace=1", program, folder);
        return;
    }
    char node[32];
    snprintf(node, sizeof node, "--node-rank=%d", host);
    // A host that waits in vain for one that cannot withdraw ends by its own timeout.
    bool is_in_vain =
        r->when == BEFORE_MEETING || (r->when == WHILE_MEETING && r->signal != SIGTERM);
    r->of[host] = LAUNCH("run", "--nnodes=2", node, r->endpoint,
                         is_in_vain ? "--rdzv-timeout=15" : "--rdzv-timeout=300", "-n1",
                         "--grace=1", program, folder);
}

// |stage| of all ranks, or of one.
static void continue_stage(const row *r, const char *stage, int rank) {
    char name[32];
    snprintf(name, sizeof name, rank < 0 ? "%s" : "%s.%d", stage, rank);
    FILE *f = fopen(in_folder(r->folder, name).text, "w");
    assert_non_null(f);
    fclose(f);
}

static void await_stage(row *r, const char *stage, int host) {
    char beginning[32];
    snprintf(beginning, sizeof beginning, "[%d] %s ", host, stage);
    int of = r->on_one_host ? 0 : host;
    r->ranks[host] = (pid_t)strtol(read_line(r->of[of].out_fd, beginning), NULL, 10);
}

// Lines of two ranks of one launcher have no order.
static void await_all(row *r, const char *stage) {
    char beginning[HOSTS][32];
    for (int host = 0; host < HOSTS; host++) {
        if (!r->on_one_host) await_stage(r, stage, host);
        snprintf(beginning[host], sizeof beginning[host], "[%d] %s ", host, stage);
    }
    for (int left = r->on_one_host ? HOSTS : 0; left;) {
        const char *line = read_line(r->of[0].out_fd, "");
        for (int host = 0; host < HOSTS; host++) {
            size_t size = strlen(beginning[host]);
            if (strncmp(line, beginning[host], size) != 0) continue;
            r->ranks[host] = (pid_t)strtol(line + size, NULL, 10);
            left--;
        }
    }
}

// Until it has ended, as the launcher does: a link that does not wait for the other hosts yet ignores the signal.
static void interrupt_link(pid_t link) {
    char number[16];
    snprintf(number, sizeof number, "%d", (int)link);
    struct pollfd ended = { .fd = open_process(number), .events = POLLIN };
    assert_int_equal(kill(link, SIGTERM), 0);
    while (poll(&ended, 1, 5) != 1) kill(link, SIGTERM);
    close(ended.fd);
}

static void hit(const row *r) {
    pid_t pid = r->of[r->host].pid;
    if (r->who == LINK) pid = find_link(pid);
    if (r->who == RANK) pid = r->ranks[r->host];
    if (r->who == LINK && r->signal == SIGTERM && r->when == BEFORE_MEETING)
        interrupt_link(pid);
    else
        assert_int_equal(kill(pid, r->signal), 0);
}

static void start_both(row *r) {
    for (int host = 0; host < HOSTS; host++) start_host(r, host);
    await_all(r, "started");
    for (int host = 0; host < HOSTS; host++) {
        char pid[16];
        snprintf(pid, sizeof pid, "%d", (int)r->ranks[host]);
        r->rank_fds[host] = open_process(pid);
    }
    if (r->when == BEFORE_JOINING) return;
    continue_stage(r, "join", -1);
    await_all(r, "joined");
}

static void end_rank(row *r, int rank) {
    continue_stage(r, "end", rank);
    wait_for_end(r->rank_fds[rank]);
    r->rank_fds[rank] = -1;
}

// Waits until the job has reached the row's time.
static void reach(row *r) {
    switch (r->when) {
    case BEFORE_MEETING:
        start_host(r, r->host);
        find_link(r->of[r->host].pid);
        break;
    case WHILE_MEETING:
        while (!strstr(read_line(r->of[!r->host].err_fd, ""), " waits for rank ")) continue;
        start_host(r, r->host);
        find_link(r->of[r->host].pid);
        break;
    case BEFORE_JOINING:
    case AMID_THE_JOB: start_both(r); break;
    case BEFORE_THE_END:
        start_both(r);
        continue_stage(r, "leave", -1);
        await_all(r, "left");
        break;
    case AFTER_RANKS_END:
        start_both(r);
        continue_stage(r, "leave", r->who == RANK ? -1 : r->host);
        if (r->who == RANK)
            await_all(r, "left");
        else
            await_stage(r, "left", r->host);
        end_rank(r, r->who == RANK ? !r->host : r->host);
        break;
    }
}

// Once the hosts have met, a link leaves signals to its launcher.
static bool is_undisturbed(const row *r) {
    return r->who == LINK && r->signal == SIGTERM && r->when > WHILE_MEETING;
}

static void prepare(row *r) {
    r->folder = make_folder();
    r->rank_fds[0] = r->rank_fds[1] = -1;
    choose_endpoint(r);
    if (r->when != WHILE_MEETING) return;
    setenv("GW_LOG", "info", 1);
    start_host(r, !r->host);
    unsetenv("GW_LOG");
}

static void begin(row *r) {
    reach(r);
    hit(r);
    if (r->when == BEFORE_MEETING) start_host(r, !r->host);
    if (r->when == BEFORE_JOINING || is_undisturbed(r)) continue_stage(r, "join", -1);
    if (is_undisturbed(r)) continue_stage(r, "leave", -1);
    if (r->when == BEFORE_THE_END || is_undisturbed(r)) continue_stage(r, "end", -1);
}

// ---- How they end -----------------------------------------------------------------------------------

static bool says(const char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool says(const char *text, const char *format, ...) {
    char part[128];
    va_list args;
    va_start(args, format);
    vsnprintf(part, sizeof part, format, args);
    va_end(args);
    return strstr(text, part) != NULL;
}

// Whether the host without the signalled process names that process, or its host, and the reason.
static bool names_cause(const row *r, const char *text) {
    int n = r->host;
    if (r->who == RANK) {
        // On a busy machine another rank may end before it.
        if (says(text, "after it had lost another worker: worker%d (rank %d) ", n, n)) return true;
        bool is_named = r->on_one_host
                            ? says(text, "rank %d (pid %d)", n, (int)r->ranks[n])
                            : says(text, "rank %d (host %d, pid %d)", n, n, (int)r->ranks[n]);
        if (r->signal == SIGTERM) return is_named && says(text, "was killed by signal 15");
        bool has_not_run =
            says(text, "had been stopped (SIGSTOP) for 7 s") || says(text, "has sent nothing to");
        return is_named &&
               (r->signal == SIGKILL ? says(text, "was killed by signal 9") : has_not_run);
    }
    if (r->when < BEFORE_JOINING && says(text, "the hosts of the job did not meet: "))
        return says(text, "rank %d", n);
    bool is_asked = r->who == LAUNCHER && r->signal == SIGTERM;
    if (is_asked && says(text, "SIGTERM on host %d: ", n)) return true;
    // A launcher that ends before the hosts have met kills a link that has not ended after 4 s.
    if (is_asked && r->when != WHILE_MEETING) return false;
    // Host 1 is no quorum without a host 0 that is silent for long, as on a busy machine.
    bool is_alone = n == 0 && r->signal == SIGSTOP &&
                    says(text, "host1 was cut off from most other workers for ");
    return says(text, "host %d is lost: ", n) ||
           (says(text, "this host is cut off from the others: ") &&
            (is_alone || says(text, "host%d (rank %d)", n, n)));
}

static bool is_expected_code(const row *r, int code) {
    if (r->who == RANK)
        return code == 1 || code == 128 + (r->signal == SIGTERM ? SIGTERM : SIGKILL);
    if (is_undisturbed(r)) return code == 0;
    bool is_asked = r->who == LAUNCHER && r->signal == SIGTERM;
    if (is_asked && r->when >= BEFORE_JOINING) return code == 128 + SIGTERM;
    return code == 125 || (is_asked && r->when == WHILE_MEETING && code == 128 + SIGTERM);
}

// The launcher of the host with the signalled process.
static bool is_expected_own(const row *r, const result *own) {
    if (r->who == RANK) return is_expected_code(r, own->code);
    if (r->who == LAUNCHER && r->signal == SIGSTOP && r->when == BEFORE_MEETING)
        return own->code != 0;  // it was continued
    if (r->who == LAUNCHER) return own->code == 128 + (r->signal == SIGTERM ? SIGTERM : SIGKILL);
    if (is_undisturbed(r)) return own->code == 0;
    return own->code == 125 &&
           (r->signal == SIGTERM || says(own->err, "this host is cut off from the others: "));
}

static void note_result(const row *r, const result *other, const result *own) {
    static const char *const names[] = { "launcher", "link", "rank" };
    printf("%s of host %d, signal %d\nother %d: %s\nown %d: %s\n", names[r->who], r->host,
           r->signal, other->code, other->err, own->code, own->err);
}

static void end(row *r) {
    int hit_one = r->on_one_host ? 0 : r->host;
    result other = { 0 };
    if (!r->on_one_host) other = finish(r->of[!r->host]);
    // Without ranks there is nothing that has to be ended.
    if (r->when == BEFORE_MEETING && r->who == LAUNCHER) kill(r->of[r->host].pid, SIGCONT);
    result own = finish(r->of[hit_one]);
    if (r->on_one_host) other = own;
    note_result(r, &other, &own);
    // If all ranks exit with 0 before the signal is noticed, the job has no failure.
    bool has_no_failure = r->who != RANK && r->when == BEFORE_THE_END && other.code == 0;
    assert_true(has_no_failure || is_expected_code(r, other.code));
    assert_true(has_no_failure || is_undisturbed(r) || names_cause(r, other.err));
    assert_true((has_no_failure && own.code == 0) || is_expected_own(r, &own));
    for (int host = 0; host < HOSTS; host++)
        if (r->rank_fds[host] >= 0) wait_for_end(r->rank_fds[host]);
    forget(own);
    if (!r->on_one_host) forget(other);
    remove_folder(r->folder);
}

// ---- The rows -----------------------------------------------------------------------------------------

static const int signals[] = { SIGSTOP, SIGKILL, SIGTERM };

static int add_rows(row *rows, row like) {
    int count = 0;
    for (like.host = 0; like.host < HOSTS; like.host++) {
        for (int i = 0; i < 3; i++) {
            like.signal = signals[i];
            // Its effect depends on whether the hosts have met.
            if (like.who != LINK || like.when != WHILE_MEETING || like.signal != SIGTERM)
                rows[count++] = like;
        }
    }
    return count;
}

static void run_rows(row *rows, int count) {
    for (int i = 0; i < count; i++) prepare(&rows[i]);
    for (int i = 0; i < count; i++) begin(&rows[i]);
    for (int i = 0; i < count; i++) end(&rows[i]);
}

static void hit_hosts(moment when) {
    row rows[ROWS_MAX];
    int count = add_rows(rows, (row){ .who = LAUNCHER, .when = when });
    count += add_rows(rows + count, (row){ .who = LINK, .when = when });
    run_rows(rows, count);
}

static void hit_ranks(moment when) {
    row rows[ROWS_MAX];
    int count = add_rows(rows, (row){ .who = RANK, .when = when });
    count += add_rows(rows + count, (row){ .who = RANK, .when = when, .on_one_host = true });
    run_rows(rows, count);
}

static void before_the_hosts_have_met(void **state) {
    (void)state;
    hit_hosts(BEFORE_MEETING);
}

static void while_the_hosts_meet(void **state) {
    (void)state;
    hit_hosts(WHILE_MEETING);
}

static void before_the_ranks_join(void **state) {
    (void)state;
    hit_hosts(BEFORE_JOINING);
}

static void in_the_middle_of_the_job(void **state) {
    (void)state;
    hit_hosts(AMID_THE_JOB);
}

static void before_all_ranks_end(void **state) {
    (void)state;
    hit_hosts(BEFORE_THE_END);
}

static void after_the_ranks_of_a_host_have_ended(void **state) {
    (void)state;
    hit_hosts(AFTER_RANKS_END);
}

static void a_rank_before_it_joins(void **state) {
    (void)state;
    hit_ranks(BEFORE_JOINING);
}

static void a_rank_in_the_middle_of_the_job(void **state) {
    (void)state;
    hit_ranks(AMID_THE_JOB);
}

static void a_rank_that_has_left_when_the_others_have_ended(void **state) {
    (void)state;
    hit_ranks(AFTER_RANKS_END);
}

enum { STOPPED_MS = 2000, STOPPED_TOO_LONG_MS = 5000 };

// Of the machine, as the launchers count.
static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

// Stops the launcher of host 0 and the rank of host 1, kills the rank of host 0, and continues the others later. Returns
// for how many ms the rank was stopped at most.
static int64_t hit_while_stopped(row *r) {
    int64_t from_ms = now_ms();
    kill(r->ranks[1], SIGSTOP);
    kill(r->of[0].pid, SIGSTOP);
    hit(r);
    while (now_ms() - from_ms < STOPPED_MS) poll(NULL, 0, 100);
    kill(r->ranks[1], SIGCONT);
    int64_t stopped_ms = now_ms() - from_ms;
    for (int rank = 0; rank < HOSTS; rank++) wait_for_end(r->rank_fds[rank]);
    kill(r->of[0].pid, SIGCONT);
    return stopped_ms;
}

// A worker that was stopped for more than MEMBERSHIP_LATE_NS decides no end. MEM-21: it is fenced when the others have
// ended, and its launcher gets the cause from it. Which launcher reports first is a race, hence several jobs. On a busy
// machine the stopped launcher may be noticed first, or the rank may be stopped for so long that it is ended for that.
static void a_rank_that_is_killed_while_the_other_is_stopped(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        row r = { .who = RANK, .host = 0, .signal = SIGKILL, .when = AMID_THE_JOB };
        prepare(&r);
        reach(&r);
        bool is_late = hit_while_stopped(&r) > STOPPED_TOO_LONG_MS;
        result other = finish(r.of[1]), own = finish(r.of[0]);
        note_result(&r, &other, &own);
        if (!is_late && !says(other.err, "host 0 is lost: ")) {
            assert_true(is_expected_code(&r, other.code));
            assert_true(names_cause(&r, other.err));
        }
        forget(own);
        forget(other);
        remove_folder(r.folder);
    }
}

// The last of three hosts does not join. JOIN-8: a host that stops waiting for it ends the wait of the others.
static void a_host_that_ends_before_all_have_met_ends_the_wait_of_the_others(void **state) {
    (void)state;
    launched of[HOSTS][HOSTS];  // of a job for each that is asked to end
    row places[HOSTS];          // of which only the endpoint is used
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

GW_TESTS_WITH_LIMIT(run_alive, 120,
                    a_host_that_ends_before_all_have_met_ends_the_wait_of_the_others,
                    before_the_hosts_have_met, while_the_hosts_meet, before_the_ranks_join,
                    in_the_middle_of_the_job, before_all_ranks_end,
                    after_the_ranks_of_a_host_have_ended, a_rank_before_it_joins,
                    a_rank_in_the_middle_of_the_job,
                    a_rank_that_is_killed_while_the_other_is_stopped,
                    a_rank_that_has_left_when_the_others_have_ended);
