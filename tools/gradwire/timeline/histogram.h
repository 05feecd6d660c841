// Durations, counted by size: percentiles within 4 %, in memory that does not grow.
#ifndef GRADWIRE_HISTOGRAM_H
#define GRADWIRE_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_PARTS = 16, HISTOGRAM_BUCKETS = 61 * HISTOGRAM_PARTS };

// All zero: empty.
typedef struct histogram {
    uint64_t count;
    double sum_ns;
    int64_t min_ns, max_ns;
    uint32_t buckets[HISTOGRAM_BUCKETS];
} histogram;

void histogram_add(histogram *h, int64_t ns);

// The duration that |part| of all are at most; 0 if there is none.
int64_t histogram_find(const histogram *h, double part);

#endif
