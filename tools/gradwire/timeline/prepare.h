// Images made ready for one timeline: the clocks of hosts aligned, older records left out.
#ifndef GRADWIRE_PREPARE_H
#define GRADWIRE_PREPARE_H

#include "observe/image.h"
#include "timeline/clocks.h"

// Moves images of several hosts to the clock of the first one (clocks.h), and leaves out what is older than |last_ns| before the
// end of the records; 0: nothing. Returns false without memory. |*out| is for clocks_fini.
bool prepare_images(image *images, int count, int64_t last_ns, clocks *out);

// The time of the first and the last record of an image; false: it has none.
bool prepare_find_times(const image *x, int64_t *out_first_ns, int64_t *out_last_ns);

#endif
