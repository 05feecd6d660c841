// Which records belong together: the begin and the end of a slice, and slices of which one leads to the other.
//
// The order of time decides: an end belongs to the last begin of its kind, worker and id that has none yet.
#ifndef GRADWIRE_PAIRS_H
#define GRADWIRE_PAIRS_H

#include "observe/image.h"

#define PAIRS_NONE UINT32_MAX

// A slice that leads to another one. Records by their numbers (merge.h).
typedef struct pairs_link {
    uint32_t source;  // the begin of a slice
    uint32_t target;  // the begin or the end of another one
} pairs_link;

// An end whose begin is missing.
typedef struct pairs_orphan {
    int image, thread;
    uint32_t number;
    const image_record *end;
    int gap;  // its begin may be in (gaps.h); -1: it is before the first record
} pairs_orphan;

typedef struct pairs {
    uint32_t *partners;  // by record: the end of a begin, and the begin of an end; PAIRS_NONE
    // The last collective that was entered -> its end on each other member; a pass -> its parts on other workers.
    pairs_link *links;    // by source
    uint32_t *by_target;  // indices of |links|
    uint32_t link_count;
    pairs_orphan *orphans;  // by image, the latest first
    uint32_t orphan_count;
} pairs;

// Returns false without memory.
bool pairs_find(const image *images, int count, pairs *out);
void pairs_free(pairs *p);

// The index of the first link of |source|, link_count: none; the others follow it.
uint32_t pairs_first_link(const pairs *p, uint32_t source);
// The link to |target|; PAIRS_NONE.
uint32_t pairs_link_to(const pairs *p, uint32_t target);

// The number of its worker, of the first one for a record of the process; -1: not known.
int pairs_rank(const image *x, const image_record *r);

#endif
