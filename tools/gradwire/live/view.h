// The workers of a job that runs, as a table or as JSON.
#ifndef GRADWIRE_VIEW_H
#define GRADWIRE_VIEW_H

#include <stdio.h>

#include "live/live.h"

typedef enum view_order {
    VIEW_BY_RANK,
    VIEW_BY_CALLS,
    VIEW_BY_BYTES,
    VIEW_BY_PROCESSOR,
    VIEW_BY_MEMORY,
    VIEW_ORDERS
} view_order;

typedef struct view_options {
    view_order order;
    int width, height;     // of the terminal, in characters; 0: any
    const char *line_end;  // "\n"
} view_options;

void view_write(const live *l, const view_options *o, FILE *out);
void view_write_json(const live *l, FILE *out);

#endif
