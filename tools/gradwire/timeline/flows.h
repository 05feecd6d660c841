// The arrows of slices: a call to its body and back, and the links of pairs.h.
#ifndef GRADWIRE_FLOWS_H
#define GRADWIRE_FLOWS_H

#include "timeline/state.h"

// Adds those of a slice. |begin|, |end|: the numbers of its records; PAIRS_NONE.
void flows_add(timeline *t, visit_event *e, uint32_t begin, uint32_t end);

#endif
