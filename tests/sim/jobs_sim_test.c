// Mixed workloads under faults. Each seed belongs to one kind, so that `make sim SEED=n` repeats
// one run.
#include "jobs.h"

#include "testing/testing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 5000, HASH_EVERY = 50, REPORT_EVERY = 5000 };

static const char *const kind_names[] = { "slow",       "lossy", "crashes", "stops",
                                          "partitions", "all",   "group",   "together" };

typedef struct walk {
    jobs_kind kind;
    uint64_t seeds;
    jobs_outcome sum;
} walk;

static void add(walk *w, const jobs_outcome *o) {
    const uint64_t *from = (const uint64_t *)&o->counts;
    uint64_t *to = (uint64_t *)&w->sum.counts;
    for (size_t i = 0; i < sizeof o->counts / sizeof *from; i++) to[i] += from[i];
    w->seeds++;
    w->sum.took_ns += o->took_ns / 1000;  // us
    w->sum.calls += o->calls;
    w->sum.bodies += o->bodies;
    w->sum.things += o->things;
}

static void print_sum(FILE *to, const walk *w, uint64_t last) {
    const sim_counts *c = &w->sum.counts;
    fprintf(to,
            "%s: %" PRIu64 " seeds up to %" PRIu64 ", %" PRIu64 " decisions, %" PRIu64
            " deliveries, %.1f virtual hours, %" PRIu64 " calls, %" PRIu64 " bodies, %" PRIu64
            " objects; faults: %" PRIu64 " cuts, %" PRIu64 " frames lost, %" PRIu64
            " repeated, %" PRIu64 " crashes, %" PRIu64 " stops, %" PRIu64
            " partitions of a link, %" PRIu64 " clogs, %" PRIu64 " clock steps\n",
            kind_names[w->kind], w->seeds, last, c->decisions, c->deliveries,
            (double)w->sum.took_ns / 3.6e9, w->sum.calls, w->sum.bodies, w->sum.things, c->cuts,
            c->frames_lost, c->frames_repeated, c->crashes, c->stops, c->partitions, c->clogs,
            c->wall_steps);
    fflush(to);
}

// With JOBS_LOG in the environment, counts go to that file from time to time, and the details of a
// single seed.
static void report(const walk *w, uint64_t seed, const jobs_outcome *single) {
    const char *path = getenv("JOBS_LOG");
    FILE *f = path ? fopen(path, "a") : NULL;
    if (!f) return;
    if (single) {
        fprintf(f, "seed %" PRIu64 ": trace %016" PRIx64 ", %.6f virtual seconds\n%s", seed,
                single->trace_hash, (double)single->took_ns / 1e9, single->plan);
    }
    print_sum(f, w, seed);
    fclose(f);
}

static void run_seed(uint64_t seed, void *context) {
    walk *w = context;
    if (seed % JOBS_KIND_COUNT != (uint64_t)w->kind) return;
    jobs_outcome o = jobs_run(seed, w->kind);
    bool repeats = seed / JOBS_KIND_COUNT % HASH_EVERY == 0;
    if (repeats) assert_true(o.trace_hash == jobs_run(seed, w->kind).trace_hash);
    add(w, &o);
    if (getenv("SEED")) {
        report(w, seed, &o);
    } else if (w->seeds % REPORT_EVERY == 0) {
        report(w, seed, NULL);
    }
}

static void walk_through(jobs_kind kind) {
    walk w = { .kind = kind };
    testing_for_seeds(SEEDS, run_seed, &w);
    if (!getenv("SEED")) report(&w, 0, NULL);
}

static void calls_and_references_survive_slow_networks(void **state) {
    (void)state;
    walk_through(JOBS_SLOW);
}

static void they_survive_lost_and_repeated_frames(void **state) {
    (void)state;
    walk_through(JOBS_LOSSY);
}

static void survivors_of_crashes_get_errors_in_time(void **state) {
    (void)state;
    walk_through(JOBS_CRASHES);
}

static void a_stopped_worker_is_lost_or_continues(void **state) {
    (void)state;
    walk_through(JOBS_STOPS);
}

static void one_side_of_a_partition_continues(void **state) {
    (void)state;
    walk_through(JOBS_PARTITIONS);
}

static void all_faults_occur_together(void **state) {
    (void)state;
    walk_through(JOBS_ALL);
}

static void workers_join_and_leave_a_group(void **state) {
    (void)state;
    walk_through(JOBS_GROUP);
}

static void many_work_together(void **state) {
    (void)state;
    walk_through(JOBS_TOGETHER);
}

GW_TESTS_WITH_LIMIT(jobs_sim, 300, calls_and_references_survive_slow_networks,
                    they_survive_lost_and_repeated_frames, survivors_of_crashes_get_errors_in_time,
                    a_stopped_worker_is_lost_or_continues, one_side_of_a_partition_continues,
                    all_faults_occur_together, workers_join_and_leave_a_group, many_work_together);
