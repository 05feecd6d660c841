// The formats of a trace: each writes, as a stream, the timeline that its visitor receives.
//
//     format f;
//     if (perfetto_open(file, &f)) ok = timeline_visit(images, count, &clocks, &f.to) && f.close(f.to.state);
#ifndef GRADWIRE_TIMELINE_FORMAT_H
#define GRADWIRE_TIMELINE_FORMAT_H

#include <stdio.h>

#include "timeline/visit.h"

typedef struct format {
    visitor to;
    bool (*close)(
        void *state);  // writes what is left; false, with errno, if something could not be written
} format;

// As a trace of Perfetto: a stream of TracePackets (perfetto/trace/trace_packet.proto). Returns false without memory.
bool perfetto_open(FILE *to, format *out);

// As trace events of Chrome in JSON, for chrome://tracing, speedscope and others. Returns false without memory.
bool chrome_open(FILE *to, format *out);

#endif
