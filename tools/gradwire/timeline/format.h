// The formats of a trace: each writes, as a stream, the timeline that its visitor receives.
//
//     format f;
//     if (perfetto_open(file, &f)) ok = timeline_visit(images, count, &clocks, &f.to) && f.close(f.to.state);
#ifndef GRADWIRE_TIMELINE_FORMAT_H
#define GRADWIRE_TIMELINE_FORMAT_H

#include <stddef.h>
#include <stdio.h>

#include "timeline/visit.h"

typedef struct format {
    visitor to;
    bool (*close)(
        void *state);  // writes what is left; false, with errno, if something could not be written
} format;

// For the formats. Opens one with a new state of |state_size| bytes, zeros, which begins with its writer (writer.h). Returns false
// without memory.
bool format_open(const format *of, size_t state_size, FILE *to, format *out);
// Writes what is left, and frees the state after |fini|, which frees what it points to. Returns false with errno.
bool format_close(void *state, void (*fini)(void *state));

// As a trace of Perfetto: a stream of TracePackets (perfetto/trace/trace_packet.proto). Returns false without memory.
bool perfetto_open(FILE *to, format *out);

// As trace events of Chrome in JSON, for chrome://tracing, speedscope and others. Returns false without memory.
bool chrome_open(FILE *to, format *out);

#endif
