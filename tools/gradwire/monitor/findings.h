// What a job without progress waits for, as lines (observe/hang.h).
#ifndef GRADWIRE_FINDINGS_H
#define GRADWIRE_FINDINGS_H

#include "monitor/model.h"

// Writes at most |size| lines: roots and cycles, and after each what waits for it. Waits of less than |min_ms| do not
// count. Returns how many; 0 without memory.
int findings_take(const image *images, int count, int64_t min_ms, model_finding *out, int size);

#endif
