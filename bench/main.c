// gw-bench [--list] [--counts] [--bind] [--tcp] [name...]: runs the cases whose names begin with one of the names, or
// all of them.
#include "bench.h"

#include "agent/state/agent.h"
#include "net/env_os.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const bench_case *const all_cases[] = {
    floor_cases,   op_cases,   start_cases,      rpc_cases,    bulk_cases,    dist_cases,
    rl_cases,      tls_cases,  collective_cases, ddp_cases,    ddp_rpc_cases, zero_cases,
    refusal_cases, loss_cases, checkpoint_cases, elastic_cases
};

typedef struct job_counts {
    uint64_t messages;
    env_os_counts loop;
    struct rusage used;
} job_counts;

double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

void samples_add(samples *out, double us) {
    if (out->count == out->capacity) {
        int capacity = out->capacity ? out->capacity * 2 : 1024;
        double *more = realloc(out->us, (size_t)capacity * sizeof(double));
        if (!more) return;
        out->us = more;
        out->capacity = capacity;
    }
    out->us[out->count++] = us;
}

void samples_add_slowest(gw_scope *root, samples *out, gw_group *g, const double *times,
                         int64_t count) {
    gw_tensor *slowest = gw_all_reduce(root, g, gw_from(root, times, count), GW_MAX);
    const double *us = gw_data(slowest);
    for (int i = 0; i < count && gw_ok(root) && gw_group_rank(g) == 0; i++) samples_add(out, us[i]);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool shows_counts, binds;

// Resources that a sample has used in this process, on average over all samples; warm-up and joining are included. The
// other process uses about the same.
static double cpu_us(const struct rusage *used) {
    const struct timeval u = used->ru_utime, s = used->ru_stime;
    return (double)(u.tv_sec + s.tv_sec) * 1e6 + (double)(u.tv_usec + s.tv_usec);
}

static void print_counts(const job_counts *c, int count) {
    printf(
        " | messages %.2f wakes %.2f kicks %.2f sleeps %.2f looks %.1f faults %.2f switches %.2f "
        "cpu %.1f us",
        (double)c->messages / count, (double)c->loop.wakes / count, (double)c->loop.kicks / count,
        (double)c->loop.sleeps / count, (double)c->loop.polls / count,
        (double)c->used.ru_minflt / count, (double)(c->used.ru_nvcsw + c->used.ru_nivcsw) / count,
        cpu_us(&c->used) / count);
}

static void report(const bench_case *c, samples *s, const job_counts *counts) {
    if (s->count == 0) return;
    qsort(s->us, (size_t)s->count, sizeof(double), by_size);
    if (!*c->name) {
        printf(" %.1f us", s->us[s->count / 2]);
        fflush(stdout);
        return;
    }
    printf("%s %.2f %.2f", c->name, s->us[s->count / 2], s->us[0]);
    if (shows_counts) print_counts(counts, s->count);
    puts("");
    fflush(stdout);
}

static job_counts count_job(gw_scope *root) {
    job_counts c = { 0 };
    getrusage(RUSAGE_SELF, &c.used);
    agent *a = root->slots[SCOPE_AGENT].data;
    if (a) c.loop = env_os_count(a->env);
    if (a) c.messages = gw_rpc_get_stats(root).messages_sent;
    return c;
}

static void join_job(gw_scope *root, int rank, int workers, const char *file) {
    gw_rpc_init(root, .name = gw_format(root, "w%d", rank), .rank = rank, .world_size = workers,
                .init_method = gw_format(root, "file://%s", file), .timeout_ms = GW_NO_TIMEOUT);
}

// Binds each process to one processor, as mpirun does; processes share processors where there are fewer.
static void bind_to_processor(int rank) {
    cpu_set_t all, own;
    sched_getaffinity(0, sizeof all, &all);
    int left = rank % CPU_COUNT(&all);
    CPU_ZERO(&own);
    for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&own); i++)
        if (CPU_ISSET(i, &all) && left-- == 0) CPU_SET(i, &own);
    sched_setaffinity(0, sizeof own, &own);
}

// One worker of a case's job; rank 0 reports.
static int run_worker(const bench_case *c, int rank, const char *file) {
    samples s = { 0 };
    if (binds) bind_to_processor(rank);
    gw_scope *root = gw_scope_open(NULL);
    gw_seed(root, 1);
    if (c->workers) join_job(root, rank, abs(c->workers), file);
    if ((rank == 0 || c->workers < 0) && gw_ok(root)) c->run(root, &s);
    job_counts counts = count_job(root);
    if (c->workers) gw_rpc_shutdown(root);
    int code = gw_exit_code(gw_scope_close(root));
    if (code == 0) report(c, &s, &counts);
    free(s.us);
    return code;
}

// Runs every case in new processes, so that none inherits another's warm memory or threads.
int bench_run(const bench_case *c) {
    char file[] = "/tmp/gw-bench-XXXXXX";
    int fd = mkstemp(file), count = c->workers ? abs(c->workers) : 1, failed = 0;
    if (fd < 0) {
        fprintf(stderr, "gw-bench: %s: %s\n", file, strerror(errno));
        return 1;
    }
    close(fd);
    fflush(NULL);
    pid_t parent = getpid();
    for (int rank = 0; rank < count; rank++) {
        pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent) _exit(1);
            exit(run_worker(c, rank, file));
        }
        if (pid < 0) failed = 1;
    }
    int status;
    while (wait(&status) > 0)
        if (status != 0) failed = 1;
    unlink(file);
    if (failed) fprintf(stderr, "gw-bench: %s failed\n", c->name);
    return failed;
}

static const bench_case *find_joined(const char *name) {
    static const bench_case *const files[] = { link_cases, collective_cases };
    for (int i = 0; i < 2; i++)
        for (const bench_case *c = files[i]; c->name; c++)
            if (strcmp(c->name, name) == 0) return c;
    return NULL;
}

// Runs this process as one worker of a case of links.c or collective.c, as the environment defines.
static int join_case(const char *name) {
    const bench_case *c = find_joined(name);
    const char *rank = getenv("RANK");
    if (!c || !rank) {
        fprintf(stderr, "gw-bench: no such case of links.c or collective.c, or no RANK\n");
        return 2;
    }
    samples s = { 0 };
    gw_scope *root = gw_scope_open(NULL);
    if (c->workers)
        gw_rpc_init(root, .name = gw_format(root, "w%s", rank), .timeout_ms = GW_NO_TIMEOUT);
    if ((c->workers <= 0 || rank[0] == '0') && gw_ok(root)) c->run(root, &s);
    job_counts counts = count_job(root);
    if (c->workers) gw_rpc_shutdown(root);
    int code = gw_exit_code(gw_scope_close(root));
    if (code == 0 && s.count > 0) {
        qsort(s.us, (size_t)s.count, sizeof(double), by_size);
        printf("%s %.2f %.2f p99 %.2f max %.2f of %d", c->name, s.us[s.count / 2], s.us[0],
               s.us[s.count * 99 / 100], s.us[s.count - 1], s.count);
        print_counts(&counts, s.count);
        puts("");
    }
    free(s.us);
    return code;
}

static bool is_wanted(const char *name, char **wanted, int count) {
    for (int i = 0; i < count; i++)
        if (strncmp(name, wanted[i], strlen(wanted[i])) == 0) return true;
    return count == 0;
}

static const char usage[] =
    "usage: gw-bench [--list] [--counts] [--bind] [--tcp] [name...]\n"
    "       gw-bench --plans [operation...]\n"
    "Prints \"case median_us min_us\" for each case that begins with a "
    "name. --list lists them; --counts\n"
    "adds the resources of a sample; --bind gives each process a processor; "
    "--tcp has processes speak TCP,\n"
    "and lend nothing, on one host, too. --plans prints what each plan of "
    "a collective takes, of those\n"
    "named or all.";

static bool lists;

static bool take_flag(const char *text) {
    if (strcmp(text, "--list") == 0)
        lists = true;
    else if (strcmp(text, "--counts") == 0)
        shows_counts = true;
    else if (strcmp(text, "--bind") == 0)
        binds = true;
    else
        return strcmp(text, "--tcp") == 0 && setenv("GW_TRANSPORT", "tcp", 1) == 0;
    return true;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--plans") == 0) return bench_print_plans(argv + 2, argc - 2);
    if (argc > 2 && strcmp(argv[1], "--join") == 0) return join_case(argv[2]);
    if (argc > 2 && strcmp(argv[1], "--elastic") == 0) return elastic_rank(argv[2]);
    int first = 1;
    while (first < argc && take_flag(argv[first])) first++;
    if (first < argc && argv[first][0] == '-') {
        puts(usage);
        return strcmp(argv[first], "--help") == 0 ? 0 : 2;
    }
    int failed = 0, found = 0;
    for (size_t i = 0; i < sizeof all_cases / sizeof *all_cases; i++) {
        for (const bench_case *c = all_cases[i]; c->name; c++) {
            if (!is_wanted(c->name, argv + first, argc - first)) continue;
            found++;
            if (lists)
                puts(c->name);
            else
                failed |= bench_run(c);
        }
    }
    if (!found) fprintf(stderr, "gw-bench: no such case, see --list\n");
    return failed || !found;
}
