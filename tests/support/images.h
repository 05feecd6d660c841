// Images of processes of a job that does not exist, made by hand.
#ifndef TESTS_IMAGES_H
#define TESTS_IMAGES_H

#include <stdio.h>

#include "observe/image.h"

enum { IMAGES_MAX = 8 };
// Of an array of characters.
#define IMAGES_SET(array, text) snprintf(array, sizeof(array), "%s", text)
#define IMAGES_NOW_NS INT64_C(100000000000)

typedef struct images {
    image of[IMAGES_MAX];  // by rank
    int count;
} images;

// Processes that run, each with one worker, "worker3", which serves and has no activity.
void images_open(images *x, int count);
void images_close(images *x);

trace_table *images_table(images *x, int rank);

// An activity of the program that began |seconds| ago.
trace_activity *images_add(images *x, int rank, trace_activity_kind kind, const char *what,
                           int seconds);
// The same of the body of a call.
trace_activity *images_add_of(images *x, int rank, trace_activity_kind kind, const char *what,
                              int seconds, int caller, uint64_t call);
void images_wait_for(trace_activity *a, int rank);

// A record of the first thread, which it makes.
void images_record(images *x, int rank, int kind, int64_t at_ns, const char *name);

#endif
