// The variable GW_TRACE=LEVELS[:FILE]: what this process records from its start, and the file of a trace of its job.
//
// Threads: any.
#ifndef TRACE_WANTED_H
#define TRACE_WANTED_H

#include <stdbool.h>
#include <stdint.h>

typedef struct trace_wanted {
    uint32_t levels;
    char level_names[64];  // as they were given
    const char *file;      // NULL: no trace is written
} trace_wanted;

// |text|: the value of GW_TRACE; NULL: it is not set. Returns false if it is not set or empty, with |why| "", or if it is
// wrong, with a sentence.
bool trace_wanted_parse(const char *text, trace_wanted *out, char why[256]);

#endif
