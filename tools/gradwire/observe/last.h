// The last records of a worker, of all of its threads.
#ifndef GRADWIRE_LAST_H
#define GRADWIRE_LAST_H

#include "observe/image.h"

// Writes at most |size| of them, the newest first. |agent|: an index of the agents of |x|; records of the process as a
// whole count too. Returns how many.
int last_records(const image *x, int agent, const image_record **out, int size);

#endif
