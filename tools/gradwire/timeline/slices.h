// Slices: where they are, what they are called, and what they have.
#ifndef GRADWIRE_SLICES_H
#define GRADWIRE_SLICES_H

#include "timeline/merge.h"
#include "timeline/state.h"

// Visits the slice that |x| begins.
void slices_visit(timeline *t, const merge_item *x);

// Visits those of an image whose begin is missing: before the first record (|gap| -1), or in a gap. From there on, the longest
// first, so that they nest.
void slices_visit_orphans(timeline *t, int image, int gap);

// Finds in which gaps begins may be, before slices are visited.
void slices_sort_orphans(timeline *t);

#endif
