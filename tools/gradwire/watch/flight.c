#include "watch/flight.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "observe/dump.h"
#include "observe/find.h"
#include "observe/hang.h"
#include "observe/image.h"
#include "system/clock.h"

enum { FLIGHTS_MAX = 8, JOBS_KEPT = 5, HANG_CHECK_MS = 1000, STACKS_MS = 3000 };

// ---- Where --------------------------------------------------------------------------------------

static bool make_folders(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        bool ok = mkdir(path, 0777) == 0 || errno == EEXIST;
        *slash = '/';
        if (!ok) return false;
    }
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

// The folder with one folder for each job; false if there is none.
static bool find_base(const job *j, char out[LOG_PATH_BYTES]) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int size;
    if (j->options.flight_dir)
        size = snprintf(out, LOG_PATH_BYTES, "%s", j->options.flight_dir);
    else if (j->options.log_dir)
        size = snprintf(out, LOG_PATH_BYTES, "%s", j->logs.path);
    else if (state && state[0] == '/')
        size = snprintf(out, LOG_PATH_BYTES, "%s/gradwire", state);
    else if (home && home[0] == '/')
        size = snprintf(out, LOG_PATH_BYTES, "%s/.local/state/gradwire", home);
    else
        return errno = ENOENT, false;
    if (size >= LOG_PATH_BYTES) errno = ENAMETOOLONG;
    return size < LOG_PATH_BYTES;
}

// "flight.gwt", "flight.1.gwt" of the second one; of host 2 "flight.host2.gwt".
static bool choose_path(const job *j, int number, char out[LOG_PATH_BYTES]) {
    char base[LOG_PATH_BYTES], host[16] = "", which[16] = "";
    if (!find_base(j, base)) return false;
    if (run_has_hosts(&j->options)) snprintf(host, sizeof host, ".host%d", j->options.node_rank);
    if (number) snprintf(which, sizeof which, ".%d", number);
    int size = snprintf(out, LOG_PATH_BYTES, "%s/%s", base, j->name);
    if (size >= LOG_PATH_BYTES - 64) return errno = ENAMETOOLONG, false;
    bool is_log_folder =
        j->options.log_dir && !j->options.flight_dir;  // which exists, or the user has removed it
    if (!is_log_folder && !make_folders(out)) return false;
    snprintf(out + size, (size_t)(LOG_PATH_BYTES - size), "/flight%s%s.gwt", host, which);
    return true;
}

// ---- Old jobs -----------------------------------------------------------------------------------

static bool is_flight(const char *name) {
    size_t size = strlen(name);
    return strncmp(name, "flight.", 7) == 0 && size > 4 && !strcmp(name + size - 4, ".gwt");
}

// Removes its flight files, and the folder if nothing else is in it.
static void remove_job(const char *folder) {
    DIR *d = opendir(folder);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));)
        if (is_flight(e->d_name)) unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    rmdir(folder);
}

typedef struct old_job {
    char name[JOB_ID_SIZE];
    struct timespec changed;
} old_job;

static int by_age(const void *a, const void *b) {
    const struct timespec *x = &((const old_job *)a)->changed, *y = &((const old_job *)b)->changed;
    if (x->tv_sec != y->tv_sec) return x->tv_sec < y->tv_sec ? 1 : -1;
    return (x->tv_nsec < y->tv_nsec) - (x->tv_nsec > y->tv_nsec);
}

static bool is_job_name(const char *name) {
    return strlen(name) == JOB_ID_SIZE - 1 && strspn(name, "0123456789abcdef") == JOB_ID_SIZE - 1;
}

// Only folders of jobs are touched. With --log-dir the user removes them.
static void keep_newest(const job *j) {
    enum { JOBS_SEEN = 256 };
    char base[LOG_PATH_BYTES], path[LOG_PATH_BYTES + JOB_ID_SIZE];
    old_job *jobs = calloc(JOBS_SEEN, sizeof *jobs);
    int count = 0;
    bool removes = !j->options.log_dir || j->options.flight_dir;
    DIR *d = jobs && removes && find_base(j, base) ? opendir(base) : NULL;
    for (struct dirent *e; d && count < JOBS_SEEN && (e = readdir(d));) {
        struct stat about;
        if (!is_job_name(e->d_name) || fstatat(dirfd(d), e->d_name, &about, 0) != 0) continue;
        snprintf(jobs[count].name, sizeof jobs[count].name, "%s", e->d_name);
        jobs[count++].changed = about.st_mtim;
    }
    if (d) closedir(d);
    if (count) qsort(jobs, (size_t)count, sizeof *jobs, by_age);
    for (int i = JOBS_KEPT; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", base, jobs[i].name);
        remove_job(path);
    }
    free(jobs);
}

// ---- Writing ------------------------------------------------------------------------------------

typedef struct images {
    image *list;
    int count;
} images;

// Of all ranks of this host that are workers.
static images take_images(const job *j,
                          bool (*take)(int fd, image *out, char *why, size_t why_size)) {
    images x = { .list = calloc((size_t)j->options.rank_count, sizeof *x.list) };
    char why[IMAGE_WHY_SIZE];
    for (int i = 0; x.list && i < j->options.rank_count; i++) {
        const rank *r = &j->ranks[i];
        if (r->flight_fd <= 0 || !take(r->flight_fd, &x.list[x.count], why, sizeof why)) continue;
        find_life(&x.list[x.count++]);
    }
    return x;
}

// False without workers, or with errno.
static bool write_file(job *j, int number, char out[LOG_PATH_BYTES]) {
    images x = take_images(j, image_take);
    errno = 0;
    bool ok = x.count && choose_path(j, number, out) && dump_write(out, x.list, x.count);
    int error = errno;
    image_free_all(x.list, x.count);
    errno = error;
    if (ok) {
        log_folder_event(&j->logs, "flight", "s:s", "path", out);
        keep_newest(j);
    }
    return ok;
}

void flight_failed(job *j) {
    flight_state *f = &j->flight;
    char path[LOG_PATH_BYTES];
    if (f->count == FLIGHTS_MAX) return;
    if (write_file(j, f->count, path)) {
        memcpy(f->path, path, sizeof path);
        f->count++;
    } else if (errno) {
        f->error = errno;
    }
}

void flight_take_signal(job *j, int signal_number) {
    flight_state *f = &j->flight;
    char path[LOG_PATH_BYTES];
    if (write_file(j, f->count, path)) {
        f->count += f->count < FLIGHTS_MAX - 1;
        sink_print(j->messages, "%s: what the workers did last is in %s; gradwire dump shows it",
                   signals_name(signal_number), path);
    } else {
        sink_print(j->messages, "%s: nothing is written: %s", signals_name(signal_number),
                   errno ? strerror(errno) : "no rank is a worker");
    }
}

void flight_print_path(const job *j) {
    const flight_state *f = &j->flight;
    if (!j->cause) return;
    if (f->path[0])
        sink_print(j->messages, "what the workers did last: gradwire dump %s", f->path);
    else if (f->error)
        sink_print(j->messages, "what the workers did last could not be written: %s",
                   strerror(f->error));
}

void flight_lose_trace(job *j) {
    int count = j->options.rank_count, *fds = calloc((size_t)count, sizeof *fds);
    for (int i = 0; fds && i < count; i++) fds[i] = j->ranks[i].flight_fd;
    recorder_lost(&j->recorder, fds, fds ? count : 0);
    free(fds);
    sink_print(j->messages, "--trace: the process that records has ended; there is no trace");
}

// ---- Jobs without progress ----------------------------------------------------------------------

static void print_report(job *j, const images *x, const char *cause, pid_t pid, int64_t stacks_ms) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) return;
    const hang_options o = { .job = j->name, .cause = cause, .pid = pid, .stacks_ms = stacks_ms };
    hang_report(x->list, x->count, &o, out);
    fclose(out);
    for (char *line = text, *end; line && (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        sink_print(j->messages, "%s", line);
    }
    free(text);
}

static void report(job *j, const char *cause, pid_t pid, int64_t stacks_ms) {
    images x = take_images(j, image_take);
    if (x.count) print_report(j, &x, cause, pid, stacks_ms);
    image_free_all(x.list, x.count);
}

static void report_before_kill(job *j, pid_t pid, const char *how, int64_t stacks_ms) {
    char cause[96];
    if (j->flight.kills_reported++ >= FLIGHTS_MAX) return;
    snprintf(cause, sizeof cause, "process %d %s, and is killed now", (int)pid, how);
    report(j, cause, pid, stacks_ms);
}

void hang_before_kill(job *j, pid_t pid, const char *how) {
    report_before_kill(j, pid, how, 0);
}

void hang_before_kill_with_stacks(job *j, pid_t pid, const char *how) {
    report_before_kill(j, pid, how, STACKS_MS);
}

void hang_check(job *j) {
    flight_state *f = &j->flight;
    int64_t now_ms = clock_now_ms();
    images x = take_images(j, image_take_tables);
    f->checked_ms = now_ms;
    if (progress_update(&f->progress, x.list, x.count, now_ms)) f->is_reported = false;
    int64_t after_ms = j->options.hang_after_ms;
    if (!f->is_reported && progress_has_stopped(&f->progress, now_ms, after_ms)) {
        char cause[64];
        f->is_reported = true;
        snprintf(cause, sizeof cause, "no call and no collective has ended for %lld s",
                 (long long)(after_ms / 1000));
        report(j, cause, 0, 0);
    }
    image_free_all(x.list, x.count);
}

int64_t hang_deadline_ms(const job *j) {
    bool checks = j->options.hang_after_ms && j->policy.stage == AWAITING_RANKS && j->has_begun;
    return checks ? j->flight.checked_ms + HANG_CHECK_MS : INT64_MAX;
}
