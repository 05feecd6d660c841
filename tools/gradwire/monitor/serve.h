// The monitor of a job: looks at its workers once a second, and serves what it sees.
#ifndef GRADWIRE_SERVE_H
#define GRADWIRE_SERVE_H

#include "monitor/listen.h"

typedef struct serve_options {
    const char *wanted;  // the job (observe/find.h)
    const char *name;    // of the job, until a worker has it; NULL: none
    int expected;        // workers; 0: not known
    monitor_site *site;  // whose sockets it takes
    int lifeline_fd;     // ends at its end; -1: none
    int looks_fd;        // looks at other hosts (remote_hosts.h); -1: none
} serve_options;

// Returns after SIGINT, SIGTERM or SIGHUP, or at the end of the lifeline. False, with a sentence in |why|, if it cannot
// serve.
bool serve(const serve_options *o, char *why, size_t why_size);

#endif
