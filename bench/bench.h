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

// Members of |g| that all give as many |times|: those of the slowest become rank 0's samples.
void samples_add_slowest(gw_scope *root, samples *out, gw_group *g, const double *times,
                         int64_t count);

double now_us(void);  // monotonic

typedef struct bench_case {
    const char *name;
    int workers;  // a job of so many processes, of which this case's |run| is rank 0 and the others serve; 0: no job;
        // negative: as many, which all run it
    void (*run)(gw_scope *root, samples *out);  // |root| is in the job, if there is one
} bench_case;

// Runs one case in processes of its own and prints what rank 0 has measured; of a case without a
// name the median alone. 0: it did.
int bench_run(const bench_case *c);

// Prints the table of choices among plans of collectives, with what each would take: of those that are
// named, or all. 0: it did.
int bench_print_plans(char **names, int count);

// Each file's cases end with a nameless one.
extern const bench_case floor_cases[], op_cases[], rpc_cases[], bulk_cases[], start_cases[],
    dist_cases[], rl_cases[], tls_cases[], strangers_cases[], collective_cases[], ddp_cases[],
    ddp_rpc_cases[], zero_cases[], loss_cases[];
extern const bench_case link_cases[];  // between hosts: bench/links runs them
void ddp_overlap_compute(gw_scope *root, samples *out),
    ddp_overlap_exchange(gw_scope *root, samples *out),
    ddp_overlap_both(gw_scope *root, samples *out);

#endif
