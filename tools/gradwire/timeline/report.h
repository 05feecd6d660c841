// What a timeline says in numbers, as text: the times of workers, collectives and calls, and where collectives stop.
#ifndef GRADWIRE_REPORT_H
#define GRADWIRE_REPORT_H

#include <stdio.h>

#include "observe/image.h"
#include "timeline/clocks.h"
#include "timeline/visit.h"

enum { REPORT_ROWS_MAX = 4096 };  // of names with times; more are counted as one

typedef struct report report;

// NULL without memory. The images live longer than the report.
report *report_open(const image *images, int count, const clocks *c);
visitor report_visitor(report *r);

// Returns false without memory.
bool report_write(report *r, FILE *out);
void report_close(report *r);

#endif
