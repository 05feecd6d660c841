// The last lines of a rank, kept so that the cause of a failure can be printed once more below later output of other
// ranks.
#ifndef GRADWIRE_LAST_LINES_H
#define GRADWIRE_LAST_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "output/sink.h"

enum { LAST_LINES_MAX = 5, LAST_LINE_BYTES = 160 };

typedef struct last_lines {
    uint64_t *total;  // lines of all ranks, counted together
    uint64_t count;   // lines of this rank
    uint64_t newest;  // *total at its last line
    struct {
        uint8_t size;
        char text[LAST_LINE_BYTES];
    } lines[LAST_LINES_MAX];  // line i is at i % LAST_LINES_MAX
} last_lines;

void last_lines_add(last_lines *t, const char *line, size_t size);

// Whether its lines are no longer at the bottom of the screen.
bool last_lines_are_buried(const last_lines *t);

void last_lines_put(const last_lines *t, const char *prefix, sink *to);

#endif
