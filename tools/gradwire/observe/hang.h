// The report of what a job waits for: the roots, which wait for nothing, and the cycles; and what waits for each.
//
//     job 9401b4f8, 3 workers: nothing has ended for 60 s
//     root   worker2 (pid 812) runs slow (hang.c:5), called by worker1, for 61 s; it sleeps in hrtimer_nanosleep
//       worker1 waits for call 14 of slow at worker2 (hang.c:11), for 61 s
//         worker0 waits in all_reduce 1 of group "world" (hang.c:12) for worker1, worker2, for 60 s
//
// Threads: any.
#ifndef GRADWIRE_HANG_H
#define GRADWIRE_HANG_H

#include <stdio.h>

#include "observe/image.h"

enum { HANG_LINES_MAX = 200, HANG_RECORDS = 8 };

typedef struct hang_options {
    bool json;
    int64_t
        stacks_ms;  // the time for the stacks of processes of roots, by eu-stack if it is installed; 0: none
    int lines_max;      // 0: HANG_LINES_MAX
    int64_t min_ns;     // waits of less than that are not looked at
    pid_t pid;          // a process that is a root even if nothing waits for it; 0: none
    const char *job;    // its name; NULL: none
    const char *cause;  // "nothing has ended for 60 s"; NULL: none
} hang_options;

// Writes the report of one job: at most |lines_max| lines, or JSON. Returns the count of roots and cycles, -1 without
// memory.
int hang_report(const image *images, int count, const hang_options *o, FILE *out);

#endif
