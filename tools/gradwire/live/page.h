// A page of the table of workers, and its lines.
#ifndef GRADWIRE_PAGE_H
#define GRADWIRE_PAGE_H

#include <stdbool.h>
#include <stdio.h>

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
    bool peers;         // what each worker exchanges with each other one, in place of the workers
    int width, height;  // of the terminal, in characters; 0: any
    const char *line_end;  // "\n"
} view_options;

enum { PAGE_LINE_SIZE = 1024 };

// Cuts |line|, which is UTF-8, to the width, and writes it.
void page_write_line(char *line, const view_options *o, FILE *out);
void page_cut(char *line, int width);

#endif
