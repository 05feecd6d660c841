// A process that traces the workers of a job on this host: `gradwire trace`, which reads their memory.
//
//     tracer t;
//     if (!tracer_open(&t, &(tracer_wish){ .levels = "call", .file = "job.gwt" }, timeout_ms, &error)) ...
//     tracer_finish(&t, timeout_ms, &error);
//
// The program is $GW_TOOL, which `gradwire run` sets, else "gradwire" on the path.
//
// Threads: one at a time, without the loop lock.
#ifndef RUNTIME_TRACER_H
#define RUNTIME_TRACER_H

#include <gradwire/status.h>

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct tracer_wish {
    const char *levels;  // NULL: those of the program
    const char *steps;   // "100-110"; NULL: all
    const char *file;
    double seconds;   // 0: until tracer_finish
    bool from_start;  // also the records that workers have kept from before
} tracer_wish;

typedef struct tracer {
    pid_t pid;  // 0: none
    int fd;     // its output
} tracer;

// Starts it, and waits until the levels of all workers of the job are on. |timeout_ms| INT64_MAX: without a limit.
gw_status tracer_open(tracer *t, const tracer_wish *w, int64_t timeout_ms, gw_error *error);

// Ends the time of the trace, unless that is over, and waits until the file is written. What was lost is logged.
gw_status tracer_finish(tracer *t, int64_t timeout_ms, gw_error *error);

// Ends its process without a file, if it is open: levels stay on until the next trace ends.
void tracer_kill(tracer *t);

// Writes |count| files of records as one trace to |file|, in the format of its name.
gw_status tracer_merge(const char *const *files, int count, const char *file, int64_t timeout_ms,
                       gw_error *error);

#endif
