// The records of a job as one timeline.
//
// A track for each thread; slices that overlap, calls by the worker that is called, collectives by group, passes, have
// rows of their own. Bounded: at most 256 rows of a kind; a slice for which there is none is an instant with a mark.
#ifndef GRADWIRE_TIMELINE_H
#define GRADWIRE_TIMELINE_H

#include "observe/image.h"
#include "timeline/clocks.h"
#include "timeline/visit.h"

// |c|: what prepare_images has found. Returns false without memory.
bool timeline_visit(const image *images, int count, const clocks *c, const visitor *to);

#endif
