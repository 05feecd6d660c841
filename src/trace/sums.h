// Sums of what a worker has done by name: calls by function, collectives by group and operation.
//
// The first TRACE_SUMS_MAX names have sums of their own, and all later names one together. So a name keeps its sums, each only
// grows, and no peer can make more of them.
//
// Threads: as for the sums.
#ifndef TRACE_SUMS_H
#define TRACE_SUMS_H

#include <stdbool.h>
#include <stdint.h>

enum { TRACE_SUMS_MAX = 32, TRACE_SUM_NAME = 48, TRACE_SUM_IN = 32 };

typedef enum trace_sum_kind {
    TRACE_SUMS_MADE,  // calls to other workers that have ended, by function; their time is not measured
    TRACE_SUMS_SERVED,       // bodies that have run here, by function
    TRACE_SUMS_COLLECTIVES,  // that have ended, by operation; |in|: the group
    TRACE_SUM_KINDS
} trace_sum_kind;

typedef enum trace_sum_counter {
    TRACE_SUM_COUNT,
    TRACE_SUM_FAILED,
    TRACE_SUM_NS,  // their durations
    TRACE_SUM_COUNTERS
} trace_sum_counter;

typedef struct trace_sum {
    uint32_t hash;  // of both texts
    char name[TRACE_SUM_NAME],
        in[TRACE_SUM_IN];  // cut where they are too long; name "": of all others
    uint64_t counters[TRACE_SUM_COUNTERS];
} trace_sum;

typedef struct trace_sums {
    int count;
    trace_sum of[TRACE_SUMS_MAX + 1];
} trace_sums;

// |in|: "" if the kind has none.
void trace_sums_add(trace_sums *s, const char *name, const char *in, bool has_failed, int64_t ns);

#endif
