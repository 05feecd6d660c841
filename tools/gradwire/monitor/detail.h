// What metrics have of a worker by peer, by function and by group: a copy of a part of its latest table.
//
// Ownership: the caller's, who frees it.
#ifndef GRADWIRE_DETAIL_H
#define GRADWIRE_DETAIL_H

#include <stddef.h>

#include "trace/table.h"

typedef struct detail {
    size_t bytes;  // of all of it
    uint64_t memory[MEMORY_KINDS];
    trace_peers peers;
    int counts[TRACE_SUM_KINDS];  // in |sums|, one kind after the other
    trace_sum sums[];
} detail;

// Returns NULL without memory, or if it takes more than |bytes_max|.
detail *detail_copy(const trace_table *t, size_t bytes_max);

// The first of the sums of |kind|.
const trace_sum *detail_sums(const detail *d, trace_sum_kind kind);

#endif
