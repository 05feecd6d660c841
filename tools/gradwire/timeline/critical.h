// The critical path of one step over workers: what would have to be faster for the step to end earlier.
//
// The path is walked back from the end of the step. Where an arrow reaches the worker, the path continues at its source: a call's
// reply, the last member that entered a collective, the begin of a body or of a part of a pass that runs there. In between the time
// is that of the innermost slice of the worker. Whether the worker has waited for what an arrow stands for is not known: it is assumed.
#ifndef GRADWIRE_CRITICAL_H
#define GRADWIRE_CRITICAL_H

#include "timeline/visit.h"

// A part of the path: of one worker, or on the way between two.
typedef struct critical_part {
    int image, source;  // |source| -1: within the worker; else the worker that is waited for
    uint8_t kind;       // of the slice; 0: none, the program itself
    uint32_t name;
    int64_t sum_ns;
} critical_part;

typedef struct critical critical;

// Of the time from |from_ns| to |until_ns|, which is the end on worker |image|. NULL without memory.
critical *critical_open(int image, int64_t from_ns, int64_t until_ns);

// Collects the slices of that time.
visitor critical_visitor(critical *c);

// Walks the path. |*out|: its parts, the longest first, until critical_close. Returns false without memory.
bool critical_find(critical *c, const critical_part **out, int *out_count);

int64_t critical_length_ns(const critical *c);

void critical_close(critical *c);

#endif
