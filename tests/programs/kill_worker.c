// gradwire-kill-worker URL RANK WORLD_SIZE VICTIM [leaves|group|short|trains|lends]
//
// A worker of a job of which one, the victim, is killed. Every worker calls all others, shares references over three
// workers and drops them again, so that each reaches all failpoints; and has one call at the victim that it does not
// answer. The survivors report what they observe when the victim is dead in lines on descriptor 3:
//
//     ready
//     held                                               the victim has the call that it does not answer
//     error <when, ns> <status> <outcome> <error text>    of the pending call
//     other <status> <error text>                        of the first other failure
//     left <when, ns> <status> <remaining descriptors, memory, memory of others> <error text>
//
//     again <when, ns> <status> <outcome> <error text>    of joining again, by a victim that was only stopped
//
// And with "trains", where worker0 trains a shared model, instead of the calls among all:
//
//     trained <when, ns> <steps> 0 <error text>          by worker0: the steps of its optimizer, and the reason of its end
//     afresh <when, ns> <status> <outcome> <error text>  by the first survivor: of one more step over the remaining workers
//     steps <when, ns> <steps> 0                         the final steps of this worker's weight
//
// With "lends", workers send each other large tensors and bytes, which are lent or fill the rings; each keeps the last
// tensor of each other worker, and reads it again when the victim is dead.
//
// A line on standard input makes a survivor leave. "leaves": no worker calls another, all leave at once. "group": the
// workers are members of a group that worker0 founds. "short": they do not wait long for others to join.
#include "kill_trains.h"

#include <dirent.h>
#include <gradwire.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { REPORT_FD = 3, STEPS_MAX = 1000000, WORKERS_MAX = 8, LARGE = 300000 };

typedef struct job {
    gw_scope *root;
    FILE *report;
    const char *url;
    int rank, world_size, victim;
    bool only_leaves;  // no calls: tests a death while all leave
    bool is_group;
    bool is_short;  // does not wait long for others to join
    bool trains;
    bool lends;
    gw_tensor *kept[WORKERS_MAX];  // by the rank it is from
    int64_t numbers[WORKERS_MAX];  // each of its elements
} job;

GW_FUNCTION(kill_hold, GW_POOL) {
    return gw_value_of_future(gw_member_lost(s, NULL, 0));
}

GW_FUNCTION(kill_work, GW_POOL, "int") {
    return gw_value_of(gw_arg_int(s, a, 0) + 1);
}

GW_FUNCTION(kill_make, GW_POOL, "int") {
    return gw_value_of(gw_full(s, GW_I64, gw_arg_int(s, a, 0), 300));
}

GW_FUNCTION(kill_read, GW_POOL, "rref") {
    gw_tensor *x = gw_to_here(s, gw_arg_rref(s, a, 0));
    return gw_value_of(gw_item_int(s, gw_select(s, x, 0, 0)));
}

GW_FUNCTION(kill_add, GW_POOL, "tensor, int") {
    return gw_value_of(gw_add(s, gw_arg_tensor(s, a, 0), (float)gw_arg_int(s, a, 1)));
}

GW_FUNCTION(kill_same, GW_POOL, "any") {
    return gw_arg(s, a, 0);
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

// Counts all except the arena, of which there is one for the process.
static int count_descriptors(void) {
    DIR *d = opendir("/proc/self/fd");
    int count = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        char target[64] = "";
        ssize_t size = readlinkat(dirfd(d), e->d_name, target, sizeof target - 1);
        bool stays = !strncmp(target, "/memfd:gradwire ", 16) ||      // the arena
                     !strncmp(target, "/memfd:gradwire-flight", 22);  // records
        count += size < 0 || !stays;
    }
    if (d) closedir(d);
    return count;
}

// Counts rings, and arenas of others, which are mapped for reading.
static int count_mappings(void) {
    FILE *f = fopen("/proc/self/maps", "re");
    char line[512];
    int count = 0;
    while (f && fgets(line, sizeof line, f))
        count += strstr(line, "memfd:gradwire-ring") ||
                 (strstr(line, "memfd:gradwire") && strstr(line, " r--s "));
    if (f) fclose(f);
    return count;
}

typedef struct name {
    char text[24];
} name;

static name name_of(int rank) {
    name n;
    snprintf(n.text, sizeof n.text, "worker%d", rank);
    return n;
}

// ---- The work -----------------------------------------------------------------------------------
static void work_with(gw_scope *s, int to, int third, int64_t number) {
    int64_t got = gw_int_of(s, gw_rpc_sync(s, name_of(to).text, "kill_work", number));
    if (gw_ok(s) && got != number + 1) gw_fail(s, GW_REMOTE, "a wrong number");
    gw_rref *made = gw_remote(s, name_of(to).text, "kill_make", number);
    got = gw_int_of(s, gw_rpc_sync(s, name_of(third).text, "kill_read", made));
    if (gw_ok(s) && got != number) gw_fail(s, GW_REMOTE, "a wrong value");
}

static bool is_all(gw_scope *s, gw_tensor *x, int64_t number) {
    return gw_equal(s, x, gw_full(s, GW_F32, (float)number, LARGE));
}

static void keep(job *j, gw_scope *s, int from, gw_tensor *x, int64_t number) {
    if (!is_all(s, x, number)) gw_fail(s, GW_REMOTE, "a wrong number in a tensor");
    gw_set(j->root, &j->kept[from], x);
    j->numbers[from] = number;
}

// A tensor is sent there, is written over here, is returned, is sent to a third worker, and is kept.
static void lend_to(job *j, gw_scope *s, int to, int third, int64_t number) {
    gw_tensor *x = gw_full(s, GW_F32, (float)number, LARGE);
    gw_future *f = gw_rpc_async(s, name_of(to).text, "kill_add", x, 1);
    gw_tensor *same = gw_tensor_of(s, gw_rpc_sync(s, name_of(to).text, "kill_same", x));
    if (gw_ok(s) && !is_all(s, same, number)) gw_fail(s, GW_REMOTE, "a wrong number was returned");
    gw_fill_(s, x, -1.0);
    gw_tensor *y = gw_tensor_of(s, gw_wait(s, f));
    if (gw_ok(s)) keep(j, s, to, y, number + 1);
    y = gw_tensor_of(s, gw_rpc_sync(s, name_of(third).text, "kill_add", y, 1));
    if (gw_ok(s)) keep(j, s, third, y, number + 2);
}

// Sends more than a ring holds, not lent.
static void fill_ring(gw_scope *s, int to) {
    static char bytes[700000];
    gw_value v =
        gw_rpc_sync(s, name_of(to).text, "kill_same", gw_value_of_bytes(bytes, sizeof bytes));
    if (gw_ok(s) && v.size != sizeof bytes) gw_fail(s, GW_REMOTE, "a wrong size");
}

static void lend(job *j, gw_scope *s, int to, int third, int64_t step) {
    lend_to(j, s, to, third, step % 1000);
    if (step % 4 == 1) fill_ring(s, to);
}

// A received tensor keeps its numbers after the death of any worker.
static void read_again(job *j) {
    for (int rank = 0; rank < j->world_size; rank++) {
        gw_scope *s = gw_scope_open(j->root);
        if (j->kept[rank] && !is_all(s, j->kept[rank], j->numbers[rank]))
            fprintf(j->report, "other %d a wrong number in what worker%d lent\n", GW_REMOTE, rank);
        gw_scope_close_up(s);
        gw_set(j->root, &j->kept[rank], NULL);
    }
}

// Runs until an error.
static gw_error work(job *j) {
    for (int64_t step = 0; step < STEPS_MAX; step++) {
        gw_scope *s = gw_scope_open(j->root);
        int to = (j->rank + 1 + (int)(step % (j->world_size - 1))) % j->world_size;
        int third = (to + 1) % j->world_size;
        if (third == j->rank) third = (third + 1) % j->world_size;
        if (j->lends)
            lend(j, s, to, third, step);
        else
            work_with(s, to, third, step);
        gw_error error = gw_scope_close(s);
        if (error.status) return error;
    }
    return (gw_error){ .status = GW_OK };
}

static void report_error(const job *j, const gw_error *e) {
    fprintf(j->report, "error %" PRId64 " %d %d %s\n", now_ns(), e->status, e->outcome, e->text);
}

static gw_future *hold(gw_scope *s, int at) {
    return gw_rpc_async_with(s, gw_to(name_of(at).text), "kill_hold", GW_NO_ARGS,
                             GW_OPTIONS(gw_call_options, .timeout_ms = GW_NO_TIMEOUT));
}

static uint64_t all_but(const job *j, int one, int other) {
    return ((UINT64_C(1) << j->world_size) - 1) & ~(UINT64_C(1) << one) & ~(UINT64_C(1) << other);
}

static void train(const job *j) {
    int64_t steps = 0;
    int leader = j->victim ? 0 : 1;
    gw_scope *s = gw_scope_open(j->root);
    gw_future *held = hold(s, j->rank == j->victim ? leader : j->victim);
    gw_rpc_sync(s, name_of(j->victim).text, "kill_work", 1);
    fprintf(j->report, "held\n");
    gw_error end = { 0 };
    if (j->rank == 0) end = trains_work(j->root, all_but(j, 0, 0), STEPS_MAX, &steps);
    gw_wait(s, held);
    gw_error error = gw_scope_close(s);
    report_error(j, &error);
    if (j->rank == 0)
        fprintf(j->report, "trained %" PRId64 " %" PRId64 " 0 %s\n", now_ns(), steps, end.text);
    if (j->rank != leader) return;
    error = trains_work(j->root, all_but(j, leader, j->victim), 1, &steps);
    fprintf(j->report, "afresh %" PRId64 " %d %d %s\n", now_ns(), error.status, error.outcome,
            error.text);
}

static void play(job *j) {
    gw_scope *s = gw_scope_open(j->root);
    gw_future *held = NULL;
    if (j->rank != j->victim) held = hold(s, j->victim);
    if (held && gw_int_of(s, gw_rpc_sync(s, name_of(j->victim).text, "kill_work", 1)) == 2)
        fprintf(j->report, "held\n");
    gw_error other = gw_ok(s) ? work(j) : *gw_scope_error(s);
    gw_scope_clear(s);
    if (held) gw_wait(s, held);
    read_again(j);
    gw_error error = gw_scope_close(s);
    report_error(j, held ? &error : &other);
    fprintf(j->report, "other %d %s\n", other.status, other.text);
}

static void wait_for_a_line(void) {
    char byte = 0;
    while (byte != '\n' && read(STDIN_FILENO, &byte, 1) == 1) continue;
}

// Includes workers that have ended already, for which no event may follow.
static bool has_record_of_all(const job *j) {
    gw_scope *s = gw_scope_open(j->root);
    for (int rank = 0; rank < j->world_size; rank++) gw_rpc_worker(s, rank);
    return gw_scope_close(s).status == GW_OK;
}

static void join(job *j, gw_job_kind kind) {
    name self = name_of(j->rank);
    j->root = gw_scope_open(NULL);
    gw_watch *w = NULL;
    gw_rpc_init(j->root, .name = self.text, .job = kind, .rank = kind ? -1 : j->rank,
                .world_size = kind ? -1 : j->world_size, .init_method = j->url,
                .join_timeout_ms = j->is_short ? 1500 : 300000, .threads = 2);
    if (kind) w = gw_watch_open(j->root);
    // All workers may never be present at once: one may be killed before another has learnt of the third.
    bool is_over = false;
    while (gw_ok(j->root) && !is_over && gw_rpc_world_size(j->root) < j->world_size &&
           !has_record_of_all(j)) {
        gw_scope *s = gw_scope_open(j->root);
        gw_scope_set_timeout(s, 2000);
        is_over = gw_watch_next(s, w).kind != GW_MEMBER_JOINED;
        gw_error ignored = gw_scope_close(s);
        (void)ignored;
    }
}

// It was declared dead, and joins again as another member of the same name.
static void join_again(job *j) {
    join(j, GW_JOB_JOIN);
    int other = j->rank ? 0 : 1;
    if (gw_int_of(j->root, gw_rpc_sync(j->root, name_of(other).text, "kill_work", 1)) != 2)
        gw_fail(j->root, GW_REMOTE, "a wrong number");
    gw_rpc_leave(j->root);
    gw_error error = gw_scope_close(j->root);
    fprintf(j->report, "again %" PRId64 " %d %d %s\n", now_ns(), error.status, error.outcome,
            error.text);
}

static void run(job *j) {
    int before = count_descriptors();
    join(j, !j->is_group ? GW_JOB_NONE : j->rank ? GW_JOB_JOIN : GW_JOB_CREATE);
    if (gw_ok(j->root)) {
        fprintf(j->report, "ready\n");
        if (j->trains)
            train(j);
        else if (!j->only_leaves)
            play(j);
    } else {
        report_error(j, gw_scope_error(j->root));
    }
    if (j->rank != j->victim && !j->only_leaves) wait_for_a_line();
    gw_rpc_shutdown(j->root);
    gw_error error = gw_scope_close(j->root);
    if (j->trains) fprintf(j->report, "steps %" PRId64 " %d 0\n", now_ns(), trains_steps());
    int more = count_descriptors() - before + count_mappings();
    fprintf(j->report, "left %" PRId64 " %d %d %s\n", now_ns(), error.status, more, error.text);
    if (j->rank == j->victim && j->is_group) join_again(j);
}

int main(int argc, char **argv) {
    if (argc < 5) return 2;
    job j = { .report = fdopen(REPORT_FD, "w"),
              .url = argv[1],
              .rank = (int)strtol(argv[2], NULL, 10),
              .world_size = (int)strtol(argv[3], NULL, 10),
              .victim = (int)strtol(argv[4], NULL, 10),
              .only_leaves = argc > 5 && !strcmp(argv[5], "leaves"),
              .is_group = argc > 5 && !strcmp(argv[5], "group"),
              .is_short = argc > 5 && !strcmp(argv[5], "short"),
              .trains = argc > 5 && !strcmp(argv[5], "trains"),
              .lends = argc > 5 && !strcmp(argv[5], "lends") };
    if (!j.report) return 2;
    setvbuf(j.report, NULL, _IOLBF, 0);
    gw_scope *own = gw_scope_open(NULL);
    trains_open(own);
    run(&j);
    gw_scope_close_up(own);
    fclose(j.report);
    return 0;
}
