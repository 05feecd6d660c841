// What a timeline says in numbers, as text: the times of workers, collectives and calls, the critical path of the last step, where
// collectives stop, and how exact the clocks are.
#ifndef GRADWIRE_REPORT_H
#define GRADWIRE_REPORT_H

#include <stdio.h>

#include "observe/image.h"
#include "timeline/clocks.h"

enum { REPORT_ROWS_MAX = 4096 };  // of names with times; more are counted as one

// |c|: what prepare_images has found. Returns false without memory.
bool report_print(const image *images, int count, const clocks *c, FILE *out);

#endif
