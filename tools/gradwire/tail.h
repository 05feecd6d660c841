// The last lines of a rank, kept so that the cause of a failure can be shown once more below what
// others said after it.
#ifndef GRADWIRE_TAIL_H
#define GRADWIRE_TAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sink.h"

enum { TAIL_LINES = 5, TAIL_LINE_BYTES = 160 };

typedef struct tail {
    uint64_t *total;  // lines of all ranks, counted together
    uint64_t count;   // lines of this rank
    uint64_t newest;  // *total at its last line
    struct {
        uint8_t size;
        char text[TAIL_LINE_BYTES];
    } lines[TAIL_LINES];  // line i is at i % TAIL_LINES
} tail;

void tail_add(tail *t, const char *line, size_t size);

// Whether its lines are no longer at the bottom of the screen.
bool tail_is_buried(const tail *t);

void tail_put(const tail *t, const char *prefix, sink *to);

#endif
