// gw-bench: measures one case at a time and prints "case median_us min_us".
#ifndef BENCH_H
#define BENCH_H

#include <gradwire.h>
#include <stdbool.h>

// Durations of one case, in microseconds.
typedef struct samples {
    double *us;
    int count, capacity;
} samples;

void samples_add(samples *out, double us);

// Each member of |g| contributes the same number of |times|; those of the slowest member become rank 0's samples.
void samples_add_slowest(gw_scope *root, samples *out, gw_group *g, const double *times,
                         int64_t count);

double now_us(void);  // monotonic

typedef struct bench_case {
    const char *name;
    int workers;  // n > 0: a job of n processes; rank 0 calls |run|, the others serve; 0: no job;
        // -n: a job of n processes, which all call |run|
    void (*run)(gw_scope *root, samples *out);  // |root| is in the job, if there is one
} bench_case;

// Runs one case in separate processes and prints the result of rank 0; for a case without a name the median alone.
// Returns 0 on success.
int bench_run(const bench_case *c);

// A rank of a job of bench/elastic.c. Returns its exit code.
int elastic_rank(const char *file);

// Prints the table of choices among plans of collectives, with the measured time of each plan: of the named operations,
// or all. Returns 0 on success.
int bench_print_plans(char **names, int count);

// Each file's cases end with a nameless one.
extern const bench_case floor_cases[], op_cases[], rpc_cases[], bulk_cases[], start_cases[],
    dist_cases[], rl_cases[], tls_cases[], refusal_cases[], collective_cases[], ddp_cases[],
    ddp_rpc_cases[], zero_cases[], loss_cases[], checkpoint_cases[], elastic_cases[];
extern const bench_case link_cases[];  // between hosts: bench/links runs them
void ddp_overlap_compute(gw_scope *root, samples *out),
    ddp_overlap_exchange(gw_scope *root, samples *out),
    ddp_overlap_both(gw_scope *root, samples *out);

#endif
