// What the page shows of a job, as JSON.
#ifndef GRADWIRE_JOB_JSON_H
#define GRADWIRE_JOB_JSON_H

#include <stdio.h>

#include "monitor/model.h"

// Without memory parts are missing, or all is "null".
void job_json_write(const model *m, FILE *out);

#endif
