// A timeline as a trace of Perfetto: a stream of TracePackets (perfetto/trace/trace_packet.proto), written by hand.
#ifndef GRADWIRE_PERFETTO_H
#define GRADWIRE_PERFETTO_H

#include <stdio.h>

#include "timeline/visit.h"

typedef struct perfetto perfetto;

// NULL without memory.
perfetto *perfetto_open(FILE *to);
visitor perfetto_visitor(perfetto *p);

// Writes what is left. Returns false, with errno, if something could not be written.
bool perfetto_close(perfetto *p);

#endif
