// Slices: where they are, what they are called, and what they have.
#ifndef GRADWIRE_SLICES_H
#define GRADWIRE_SLICES_H

#include "timeline/merge.h"
#include "timeline/state.h"

// Visits the slice that |x| begins.
void slices_visit(timeline *t, const merge_item *x);

// Visits those of an image whose begin is missing: from its first record on, the longest first, so that they nest.
void slices_visit_orphans(timeline *t, int image);

#endif
