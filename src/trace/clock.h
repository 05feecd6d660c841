// The clock of records.
#ifndef TRACE_CLOCK_H
#define TRACE_CLOCK_H

#include "trace/layout.h"

#include <stdbool.h>
#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

static inline int64_t trace_read_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// Whether the processor's counter has one rate in all states and on all cores.
static inline trace_clock trace_clock_best(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    if (__get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8)) return TRACE_CLOCK_COUNTER;
#endif
    return TRACE_CLOCK_MONOTONIC;
}

static inline uint64_t trace_ticks(trace_clock clock) {
#if defined(__x86_64__)
    if (clock == TRACE_CLOCK_COUNTER) return __rdtsc();
#endif
    (void)clock;
    return (uint64_t)trace_read_ns(CLOCK_MONOTONIC);
}

static inline trace_moment trace_now(trace_clock clock) {
    return (trace_moment){ .ticks = trace_ticks(clock),
                           .monotonic_ns = trace_read_ns(CLOCK_MONOTONIC),
                           .wall_ns = trace_read_ns(CLOCK_REALTIME) };
}

#endif
