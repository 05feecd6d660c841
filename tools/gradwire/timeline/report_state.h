// What a report has counted.
#ifndef GRADWIRE_REPORT_STATE_H
#define GRADWIRE_REPORT_STATE_H

#include <stdio.h>

#include "timeline/clocks.h"
#include "timeline/critical.h"
#include "timeline/histogram.h"
#include "timeline/stops.h"
#include "timeline/table.h"
#include "trace/kinds.h"

// Slices and instants of one name and kind: of one worker, or of all for calls and bodies.
typedef struct row {
    int image;  // -1: all
    uint8_t kind;
    uint32_t name;  // 0: others
    uint64_t failed, unfinished;
    histogram times;
} row;

// How long at least one slice of a kind was open in a worker.
typedef struct cover {
    int64_t sum_ns, until_ns;
} cover;

// A collective of all its members.
typedef struct instance {
    int64_t first_ns, last_ns;
    uint32_t name, group;
    int last, entered;  // |last|: the image that has entered last
    int64_t sum_ns;     // of the durations
    int ended;
} instance;

// The ends of optimizer steps of a worker.
typedef struct last_steps {
    int64_t end_ns, before_ns;  // of the last one, and the one before; 0: none
} last_steps;

typedef struct report {
    const image *images;
    int count;
    const clocks *clocks;
    char **names;  // by number, from 1
    uint32_t name_count;
    table rows_by_key, instances_by_id;
    row **rows;
    int row_count;
    cover (*covers)[TRACE_KIND_COUNT];  // by image
    instance *instances;
    uint32_t instance_count;
    stops stops;
    last_steps *steps;   // by image
    critical *critical;  // of the last step; NULL: there is none
    bool failed;         // without memory
} report;

// Returns false without memory.
bool report_write(report *r, FILE *out);

#endif
