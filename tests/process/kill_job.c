#include "kill_job.h"

#include "../support/launched.h"
#include "testing/testing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <gradwire.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HIGH = 20, LINE_MAX_BYTES = 1024 };

typedef struct worker {
    pid_t pid;
    FILE *report;
    int command_fd;
    int log_fd;  // its output
    char line[LINE_MAX_BYTES];
    bool was_ready, was_held;
} worker;

typedef struct job {
    const kill_case *c;
    path folder;
    char url[300];
    int point_fd, go_fd;  // of the victim's failpoint
    worker workers[KILL_WORKERS_MAX];
    int64_t killed_ns;
    int steps;  // that all weights must have at the end; -1: unknown
} job;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

// ---- Evidence -----------------------------------------------------------------------------------
static void print_logs(job *j) {
    char text[8192];
    for (int rank = 0; rank < j->c->world_size; rank++) {
        ssize_t n = pread(j->workers[rank].log_fd, text, sizeof text, 0);
        printf("---- worker%d printed\n%.*s", rank, (int)(n > 0 ? n : 0), text);
    }
    fflush(stdout);
}

static const char *signal_name(int number) {
    return number == SIGKILL ? "SIGKILL" : number == SIGTERM ? "SIGTERM" : "SIGSTOP";
}

__attribute__((format(printf, 2, 3))) static void check_failed(job *j, const char *format, ...) {
    char what[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    print_logs(j);
    fail_msg("%s at %s:%d of worker%d of %d over %s: %s", signal_name(j->c->signal), j->c->point,
             j->c->pass, j->c->victim, j->c->world_size, j->c->tcp ? "tcp" : "file", what);
}

// ---- Starting -----------------------------------------------------------------------------------
// Moves descriptors to high numbers, so that they do not collide with those of the worker.
static int move_up(int fd) {
    int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH);
    assert_true(high >= HIGH);
    close(fd);
    return high;
}

static void open_pipe(int *out_read, int *out_write) {
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    *out_read = move_up(ends[0]);
    *out_write = move_up(ends[1]);
}

static bool leaves(const kill_case *c) {
    return !strcmp(c->point, "shutdown") || !strcmp(c->point, "draining");
}

static bool joins(const kill_case *c) {
    return !strcmp(c->point, "join") || !strcmp(c->point, "join_published");
}

// Whether the worker may still be joining; in a group another worker may join at any time.
static bool is_joining(const job *j, int rank) {
    return (joins(j->c) || j->c->group) && !j->workers[rank].was_ready;
}

static const char *mode_of(const kill_case *c) {
    if (leaves(c)) return "leaves";
    if (!strcmp(c->point, "join")) return "short";
    if (c->trains) return "trains";
    if (c->lends) return "lends";
    return c->group ? "group" : NULL;
}

static void start_worker(job *j, int rank) {
    worker *w = &j->workers[rank];
    const kill_case *c = j->c;
    int command, report, point = -1, go = -1;
    open_pipe(&command, &w->command_fd);
    int report_read;
    open_pipe(&report_read, &report);
    if (rank == c->victim) {
        open_pipe(&j->point_fd, &point);
        open_pipe(&go, &j->go_fd);
    }
    w->log_fd = move_up(memfd_create("log", MFD_CLOEXEC));
    char program[512], numbers[3][16], chosen[64];
    snprintf(program, sizeof program, "%s/bin/gradwire-kill-worker", GW_BUILD_DIR);
    snprintf(numbers[0], 16, "%d", rank);
    snprintf(numbers[1], 16, "%d", c->world_size);
    snprintf(numbers[2], 16, "%d", c->victim);
    snprintf(chosen, sizeof chosen, "%s:%d", c->point, c->pass);
    w->pid = fork();
    assert_true(w->pid >= 0);
    if (w->pid == 0) {
        dup2(command, 0);
        dup2(w->log_fd, 1);
        dup2(w->log_fd, 2);
        dup2(report, 3);
        if (point >= 0) {
            dup2(point, 4);
            dup2(go, 5);
            setenv("GW_FAILPOINT", chosen, 1);
            setenv("GW_FAILPOINT_OUT", "4", 1);
            setenv("GW_FAILPOINT_IN", "5", 1);
        }
        if (c->cuts) setenv("GW_TEST_CUT_EVERY", "40", 1);
        execl(program, program, j->url, numbers[0], numbers[1], numbers[2], mode_of(c),
              (char *)NULL);
        _exit(126);
    }
    close(command);
    close(report);
    if (point >= 0) {
        close(point);
        close(go);
    }
    w->report = fdopen(report_read, "r");
    assert_non_null(w->report);
}

// ---- Output -------------------------------------------------------------------------------------
// Returns the rest of the next line that begins with |word|; NULL if the worker ends without it.
static const char *read_report(worker *w, const char *word) {
    size_t size = strlen(word);
    while (fgets(w->line, sizeof w->line, w->report)) {
        w->line[strcspn(w->line, "\n")] = '\0';
        if (!strncmp(w->line, "ready", 5)) w->was_ready = true;
        if (!strncmp(w->line, "held", 4)) w->was_held = true;
        if (!strncmp(w->line, word, size)) return w->line + size + (w->line[size] == ' ');
    }
    return NULL;
}

typedef struct outcome {
    int64_t when_ns;
    int status, number;  // the outcome, or how many descriptors more are open
    char text[LINE_MAX_BYTES];
} outcome;

static outcome read_outcome(job *j, int rank, const char *word) {
    outcome t = { 0 };
    const char *rest = read_report(&j->workers[rank], word);
    if (!rest) check_failed(j, "worker%d ended before it reported \"%s\"", rank, word);
    int at = 0;
    if (sscanf(rest, "%" SCNd64 " %d %d %n", &t.when_ns, &t.status, &t.number, &at) != 3)
        check_failed(j, "worker%d reported \"%s %s\"", rank, word, rest);
    snprintf(t.text, sizeof t.text, "%s", rest + at);
    return t;
}

// ---- Checks -------------------------------------------------------------------------------------
static void check_error(job *j, int rank, const outcome *t) {
    char name[16];
    snprintf(name, sizeof name, "worker%d", j->c->victim);
    bool joining = is_joining(j, rank);
    // A worker that joins a group late may never have the victim in its view.
    bool unseen = j->c->group && !j->workers[rank].was_held && t->status == GW_NOT_FOUND;
    bool is_expected =
        t->status == GW_DISCONNECTED || (joining && t->status == GW_TIMEOUT) || unseen;
    bool named = strstr(t->text, name) || (joining && strstr(t->text, "rank"));
    // A call that the victim received may have run; a call that was being sent may not be delivered.
    bool is_true = t->number == GW_MAY_HAVE_RUN ||
                   (t->number == GW_NOT_DELIVERED && !j->workers[rank].was_held) ||
                   (joining && t->number == GW_OUTCOME_NONE);
    if (!is_expected || !named || !is_true)
        check_failed(j, "worker%d got status %d, outcome %d, \"%s\"", rank, t->status, t->number,
                     t->text);
}

// Reads how many steps the trainer has taken, if it is alive, and checks that training continues without the victim.
static void check_training(job *j) {
    int leader = j->c->victim ? 0 : 1;
    outcome t = { 0 };
    if (leader == 0) {
        t = read_outcome(j, 0, "trained");
        j->steps = t.status + 1;
        if (!strstr(t.text, "worker")) check_failed(j, "training ended with \"%s\"", t.text);
    }
    int64_t killed_steps = t.status;
    t = read_outcome(j, leader, "afresh");
    if (t.status)
        check_failed(j, "after %d steps, one more failed with status %d, \"%s\"", (int)killed_steps,
                     t.status, t.text);
}

// All survivors have taken the same steps.
static void check_steps(job *j, int rank) {
    outcome t = read_outcome(j, rank, "steps");
    if (j->steps < 0) j->steps = t.status;
    if (t.status != j->steps)
        check_failed(j, "worker%d has taken %d steps, and others %d", rank, t.status, j->steps);
}

static void check_left(job *j, int rank) {
    if (j->c->trains) check_steps(j, rank);
    outcome t = read_outcome(j, rank, "left");
    // The root scope of a worker that failed to join has that error.
    bool fine = t.status == GW_OK || is_joining(j, rank);
    if (!fine || t.number != 0)
        check_failed(j, "worker%d left with status %d, \"%s\", and %d more descriptors", rank,
                     t.status, t.text, t.number);
    if (leaves(j->c)) kill_report(j->c, t.when_ns - j->killed_ns);
}

// The first other failure is because of the victim, and all received numbers are right.
static void check_other(job *j, int rank) {
    const char *rest = read_report(&j->workers[rank], "other");
    char name[16];
    snprintf(name, sizeof name, "worker%d", j->c->victim);
    if (!rest || !strstr(rest, name) || strstr(rest, "a wrong"))
        check_failed(j, "worker%d: what failed first is \"%s\"", rank, rest ? rest : "nothing");
}

static int64_t check_errors(job *j) {
    int64_t last_ns = 0;
    for (int rank = 0; rank < j->c->world_size; rank++) {
        if (rank == j->c->victim) continue;
        outcome t = read_outcome(j, rank, "error");
        check_error(j, rank, &t);
        if (j->c->lends && j->workers[rank].was_held) check_other(j, rank);
        if (t.when_ns < j->killed_ns)
            check_failed(j, "worker%d lost it before it was killed: \"%s\"", rank, t.text);
        // A worker that never had the victim in its view has waited for it to join, so its time is not counted.
        if (t.status == GW_NOT_FOUND) continue;
        kill_report(j->c, t.when_ns - j->killed_ns);
        if (t.when_ns > last_ns) last_ns = t.when_ns;
    }
    return last_ns ? last_ns - j->killed_ns : 0;
}

// ---- The job ------------------------------------------------------------------------------------
static void open_job(job *j, const kill_case *c) {
    *j = (job){ .c = c, .folder = make_folder(), .point_fd = -1, .go_fd = -1, .steps = -1 };
    if (c->tcp) {
        snprintf(j->url, sizeof j->url, "tcp://127.0.0.1:%d", testing_free_port());
    } else {
        snprintf(j->url, sizeof j->url, "file://%s", in_folder(j->folder, "store").text);
    }
    for (int rank = 0; rank < c->world_size; rank++) start_worker(j, rank);
}

static void pause_victim(job *j) {
    pid_t victim = j->workers[j->c->victim].pid;
    assert_int_equal(kill(victim, SIGSTOP), 0);
    assert_int_equal(write(j->go_fd, "!", 1), 1);
    poll(NULL, 0, j->c->pause_ms);
    assert_int_equal(kill(victim, SIGCONT), 0);
    poll(NULL, 0, j->c->pause_ms);
}

static void kill_victim(job *j) {
    char byte;
    struct pollfd point = { .fd = j->point_fd, .events = POLLIN };
    while (poll(&point, 1, -1) != 1) continue;
    if (read(j->point_fd, &byte, 1) != 1)
        check_failed(j, "the victim ended before it reached the failpoint");
    if (j->c->pause_ms) pause_victim(j);
    j->killed_ns = now_ns();
    assert_int_equal(kill(j->workers[j->c->victim].pid, j->c->signal), 0);
    if (j->c->signal == SIGSTOP) assert_int_equal(write(j->go_fd, "!", 1), 1);
}

static void let_leave(job *j) {
    for (int rank = 0; rank < j->c->world_size && !leaves(j->c); rank++)
        if (rank != j->c->victim) assert_int_equal(write(j->workers[rank].command_fd, "\n", 1), 1);
    for (int rank = 0; rank < j->c->world_size; rank++)
        if (rank != j->c->victim) check_left(j, rank);
}

// A stopped victim finds out by itself that it is fenced, reports it, and may join again.
static void continue_victim(job *j) {
    int victim = j->c->victim;
    assert_int_equal(kill(j->workers[victim].pid, SIGCONT), 0);
    outcome t = read_outcome(j, victim, "error");
    if (t.status != GW_FENCED)
        check_failed(j, "the victim got status %d, \"%s\"", t.status, t.text);
    read_outcome(j, victim, "left");
    if (!j->c->group) return;
    t = read_outcome(j, victim, "again");
    if (t.status) check_failed(j, "joining again: status %d, \"%s\"", t.status, t.text);
}

static void reap(job *j) {
    for (int rank = 0; rank < j->c->world_size; rank++) {
        int status;
        while (waitpid(j->workers[rank].pid, &status, 0) < 0) assert_int_equal(errno, EINTR);
        if (rank != j->c->victim && status)
            check_failed(j, "worker%d ended with status %d", rank, status);
    }
}

static void check_folder(job *j) {
    DIR *d = opendir(j->folder.text);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.' && strcmp(e->d_name, "store") != 0)
            check_failed(j, "a file %s is left", e->d_name);
    closedir(d);
}

static void close_job(job *j) {
    for (int rank = 0; rank < j->c->world_size; rank++) {
        worker *w = &j->workers[rank];
        fclose(w->report);
        close(w->command_fd);
        close(w->log_fd);
    }
    close(j->point_fd);
    close(j->go_fd);
    remove_folder(j->folder);
}

int64_t kill_run(const kill_case *c) {
    job j;
    open_job(&j, c);
    kill_victim(&j);
    int64_t latency_ns = leaves(c) ? 0 : check_errors(&j);
    if (c->trains) check_training(&j);
    if (c->signal == SIGSTOP) continue_victim(&j);
    let_leave(&j);
    reap(&j);
    check_folder(&j);
    close_job(&j);
    return latency_ns;
}

void kill_report(const kill_case *c, int64_t latency_ns) {
    const char *path = getenv("GW_KILL_REPORT");
    FILE *f = path && *path ? fopen(path, "a") : NULL;
    if (!f) return;
    fprintf(f, "%s %s %" PRId64 "\n", signal_name(c->signal), c->point, latency_ns / 1000);
    fclose(f);
}
