// A worker, or a process without one, as a row of what top and the page of a job show.
//
// Threads: any.
#ifndef GRADWIRE_LIVE_ROW_H
#define GRADWIRE_LIVE_ROW_H

#include <jansson.h>

#include "live/live.h"

enum { LIVE_WAIT_SIZE = 512 };

typedef struct live_row {
    char job[FIND_KEY_SIZE];
    char worker[128];  // "": a process without a worker
    char program[64], host[64];
    pid_t pid;
    uint64_t start_time;  // of the process
    int agent;            // an index of the workers of the process; -1: none
    int rank, world_size;
    uint32_t attempt;
    int64_t opened_ns;  // how long ago it opened its memory
    image_life life;
    const char *phase;                  // "serving", "left"; "-": not known
    double rates[TRACE_COUNTERS];       // each second
    double processors;                  // 1: one in use
    uint64_t counters[TRACE_COUNTERS];  // so far
    process_usage usage;
    const char *waits_kind;  // of the most important activity; NULL: none
    char waits_for[LIVE_WAIT_SIZE];
    int64_t waits_ns;
    const trace_table *table;  // its latest, until the next look; NULL: none
} live_row;

void live_row_fill(const live *l, const live_worker *w, live_row *out);

// NULL without memory.
json_t *live_row_json(const live_row *r);

#endif
