// The environment variables that a rank gets in addition to those of the launcher.
#ifndef GRADWIRE_ENVIRONMENT_H
#define GRADWIRE_ENVIRONMENT_H

#include <stdbool.h>

#include "options/run_options.h"

// |port| 0 is not known yet, |key_fd| -1 neither. |mark| is the launcher's, |job_id| that of all
// hosts, "" if there is one alone. |run_id| is for a job without either name: no mark, since it may get into the
// environment of other processes, which the guard would end.
typedef struct variables_options {
    const run_options *run;
    int index;  // which of this host's ranks
    int attempt;
    bool creates;  // of all ranks that start together, this one creates an elastic job
    const char *mark, *job_id, *run_id;
    const char *error_file;  // NULL: none
    int port, key_fd;
    int flight_fd;  // 0: none
} variables_options;

// Calls |visit| with each of them. False: a call has returned false, and was the last.
bool variables_visit(const variables_options *o,
                     bool (*visit)(void *user, const char *name, const char *value), void *user);

#endif
