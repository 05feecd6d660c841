#include "monitor/detail.h"

#include <stdlib.h>
#include <string.h>

detail *detail_copy(const trace_table *t, size_t bytes_max) {
    size_t count = 0, at = 0;
    for (int k = 0; k < TRACE_SUM_KINDS; k++) count += (size_t)t->sums[k].count;
    size_t bytes = sizeof(detail) + count * sizeof(trace_sum);
    detail *d = bytes <= bytes_max ? calloc(1, bytes) : NULL;
    if (!d) return NULL;
    d->bytes = bytes;
    d->peers = t->peers;
    memcpy(d->memory, t->memory, sizeof d->memory);
    for (int k = 0; k < TRACE_SUM_KINDS; k++) {
        d->counts[k] = t->sums[k].count;
        memcpy(d->sums + at, t->sums[k].of, (size_t)t->sums[k].count * sizeof *d->sums);
        at += (size_t)t->sums[k].count;
    }
    return d;
}

const trace_sum *detail_sums(const detail *d, trace_sum_kind kind) {
    const trace_sum *at = d->sums;
    for (int k = 0; k < (int)kind; k++) at += d->counts[k];
    return at;
}
