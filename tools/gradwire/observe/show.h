// Texts about workers and records.
#ifndef GRADWIRE_SHOW_H
#define GRADWIRE_SHOW_H

#include "observe/image.h"

enum { SHOW_SIZE = 512 };

// "0.4 s", "61 s".
typedef struct show_time {
    char text[24];
} show_time;
show_time show_duration(int64_t ns);

// "3.1 MB".
typedef struct show_bytes {
    char text[24];
} show_bytes;
show_bytes show_size(uint64_t size);

const char *show_life(image_life life);               // "runs", "stopped", "ended"
const char *show_phase(trace_phase_of_worker phase);  // "serving"
const char *show_kind(trace_activity_kind kind);      // "runs", "collective", as in JSON

// "begin all_reduce (collective), 4096 bytes": a record, without its time.
void show_record(const image *x, const image_record *r, char *out, size_t size);

#endif
