// The environment variables that a rank gets in addition to those of the launcher.
#ifndef GRADWIRE_ENVIRONMENT_H
#define GRADWIRE_ENVIRONMENT_H

#include "options/run_options.h"

enum { VARIABLES_MAX = 16, VARIABLE_BYTES = 1024 };

typedef struct variable {
    const char *name;
    char value[VARIABLE_BYTES];
} variable;

typedef struct variables {
    int count;
    variable list[VARIABLES_MAX];
} variables;

// |port| 0 is not known yet, |key_fd| -1 neither. |mark| is the launcher's, |job_id| that of all
// hosts, "" if there is one alone.
typedef struct variables_options {
    const run_options *run;
    int index;  // which of this host's ranks
    const char *mark, *job_id;
    int port, key_fd;
} variables_options;

void variables_make(const variables_options *o, variables *out);

#endif
