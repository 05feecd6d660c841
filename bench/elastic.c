// Elastic training under `gradwire run`: one of four members is killed, or leaves, in the middle of the job, and a next attempt
// joins. Times are of one job each; this program is also the program of the ranks (gw-bench --elastic FILE).
#include "bench.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MEMBERS = 4, JOBS = 20, EVENT_STEP = 20, WIDTH = 1600, LAST = MEMBERS - 1 };

// In a file that the ranks of a job share with this process.
typedef struct elastic_times {
    bool is_leave;              // the event: else the member is killed
    double event_us;            // when it began; 0: not yet
    double next_us[MEMBERS];    // the first step after the event that each other member has made
    double before_us[MEMBERS];  // the last one before the event
    double gap_us[MEMBERS];     // the longest time between two steps
    double joined_us;           // the first step of the next attempt
    atomic_int failed_steps;
    atomic_bool is_over;
} elastic_times;

// ---- A rank -------------------------------------------------------------------------------------

static elastic_times *map_times(const char *file) {
    int fd = open(file, O_RDWR | O_CLOEXEC);
    void *at = fd >= 0
                   ? mmap(NULL, sizeof(elastic_times), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                   : MAP_FAILED;
    if (fd >= 0) close(fd);
    return at == MAP_FAILED ? NULL : at;
}

// The last rank ends or leaves in the middle of its first attempt.
static void happen(elastic_times *times, gw_elastic *job) {
    gw_launch here = gw_rpc_launched();
    if (here.rank != LAST || here.attempt || gw_elastic_step(job) != EVENT_STEP) return;
    times->event_us = now_us();
    if (times->is_leave)
        gw_elastic_leave(job);
    else
        kill(getpid(), SIGKILL);
}

static void note_step(elastic_times *times, bool counts) {
    gw_launch here = gw_rpc_launched();
    double now = now_us(), before = times->before_us[here.rank];
    if (!counts) times->failed_steps++;
    if (!counts || (here.rank == LAST && !here.attempt)) return;
    times->before_us[here.rank] = now;
    if (here.rank == LAST) {
        if (!times->joined_us) times->joined_us = now;
        return;
    }
    if (times->event_us && !times->next_us[here.rank]) times->next_us[here.rank] = now;
    if (before && now - before > times->gap_us[here.rank]) times->gap_us[here.rank] = now - before;
}

// A job without a next attempt ends by the leaves of its members.
static bool is_over(const elastic_times *times) {
    bool is_met = times->is_leave ? times->next_us[0] > 0 : times->joined_us > 0;
    return is_met || atomic_load(&times->is_over);
}

static void learn(gw_scope *root, elastic_times *times) {
    gw_module *model = gw_nn_linear(root, WIDTH, WIDTH);  // 10 MB
    gw_optimizer *opt = gw_sgd(root, gw_parameters(root, model), .lr = 1e-3);
    gw_elastic *job = gw_elastic_open(root, model, opt, .steps = 1000000, .every_ms = 0);
    for (gw_scope *s; (s = gw_elastic_begin(root, job));) {
        happen(times, job);
        if (is_over(times)) gw_elastic_leave(job);
        gw_tensor *out = gw_module_call(s, model, gw_ones(s, GW_F32, 1, WIDTH));
        gw_backward(s, gw_mean(s, gw_mul(s, out, out)));
        gw_optimizer_step(s, opt);
        note_step(times, gw_elastic_end(job, s));
    }
    gw_elastic_close(root, job);
}

int elastic_rank(const char *file) {
    elastic_times *times = map_times(file);
    if (!times) return 1;
    gw_scope *root = gw_scope_open(NULL);
    learn(root, times);
    atomic_store(&times->is_over, true);
    return gw_exit_code(gw_scope_close(root));
}

// ---- A job --------------------------------------------------------------------------------------

static _Noreturn void launch(const char *file) {
    char self[4096], command[4096];
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    if (size < 0) _exit(1);
    self[size] = '\0';
    snprintf(command, sizeof command, "%.*s/gradwire", (int)(strrchr(self, '/') - self), self);
    int fd = open("/dev/null", O_WRONLY);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0) _exit(1);
    execl(command, command, "run", "-n4", "--max-restarts=1", "--flight-dir=/tmp", "--", self,
          "--elastic", file, (char *)NULL);
    _exit(127);
}

static bool run_job(bool is_leave, elastic_times *out) {
    char file[] = "/tmp/gw-bench-XXXXXX";
    int fd = mkstemp(file), status = 1;
    bool ok = fd >= 0 && ftruncate(fd, sizeof *out) == 0;
    if (fd >= 0) close(fd);
    elastic_times *times = ok ? map_times(file) : NULL;
    if (times) times->is_leave = is_leave;
    pid_t pid = times ? fork() : -1;
    if (pid == 0) launch(file);
    if (pid > 0) waitpid(pid, &status, 0);
    if (times) {
        memcpy(out, times, sizeof *out);
        munmap(times, sizeof *times);
    }
    if (fd >= 0) unlink(file);
    return times && status == 0 && out->event_us > 0;
}

static double last_of(const double us[MEMBERS]) {
    double last = 0;
    for (int i = 0; i < LAST; i++)
        if (us[i] > last) last = us[i];
    return last;
}

static void run_jobs(gw_scope *root, samples *out, bool is_leave,
                     double (*measure)(const elastic_times *times)) {
    for (int i = 0; i < JOBS && gw_ok(root); i++) {
        elastic_times times;
        if (!run_job(is_leave, &times) || measure(&times) <= 0)
            gw_fail(root, GW_REMOTE, "a job has failed");
        else
            samples_add(out, measure(&times));
    }
}

static double to_next_step(const elastic_times *times) {
    return last_of(times->next_us) - times->event_us;
}

static double to_joined(const elastic_times *times) {
    return times->joined_us - times->event_us;
}

// -1 if the leave has cost another member a step.
static double longest_gap(const elastic_times *times) {
    return times->failed_steps ? -1 : last_of(times->gap_us);
}

static void kill_next_step(gw_scope *root, samples *out) {
    run_jobs(root, out, false, to_next_step);
}

static void kill_joined(gw_scope *root, samples *out) {
    run_jobs(root, out, false, to_joined);
}

static void leave_gap(gw_scope *root, samples *out) {
    run_jobs(root, out, true, longest_gap);
}

const bench_case elastic_cases[] = { { "elastic.kill_next_step_n4", 0, kill_next_step },
                                     { "elastic.kill_joined_n4", 0, kill_joined },
                                     { "elastic.leave_gap_n4", 0, leave_gap },
                                     { 0 } };
