// Where records are missing between others: they were overwritten before they were read (TRACE_OVERTAKEN).
#ifndef GRADWIRE_TIMELINE_GAPS_H
#define GRADWIRE_TIMELINE_GAPS_H

#include "observe/image.h"

typedef struct gap {
    int image, thread;
    int64_t at_ns;  // of the first record behind it
    bool is_taken;
} gap;

// All zero: none.
typedef struct gaps {
    gap *all;  // by image and time
    int count;
} gaps;

// Returns false without memory.
bool gaps_find(const image *images, int count, gaps *out);
void gaps_fini(gaps *g);

// The first gap behind a begin of that kind, and the last one before an end: its other record may be in it. Those of its thread,
// or, if the other record may be of another thread, of the process. -1: there is none.
int gaps_behind(const gaps *g, int image, int thread, uint8_t begin_kind, int64_t at_ns);
int gaps_before(const gaps *g, int image, int thread, uint8_t begin_kind, int64_t at_ns);

// The gap that begins there, which was not taken yet; -1.
int gaps_take(gaps *g, int image, int thread, int64_t at_ns);

#endif
