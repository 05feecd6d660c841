// The workers of images: a line each, or JSON.
#ifndef GRADWIRE_WORKERS_H
#define GRADWIRE_WORKERS_H

#include <stdio.h>

#include "observe/image.h"

// The most important activity: waits of the program first, then those of bodies, then bodies; of each the oldest. NULL: none,
// or no table.
const trace_activity *workers_main_activity(const trace_table *t);

void workers_write(const image *images, int count, FILE *out);
void workers_write_json(const image *images, int count, FILE *out);

#endif
