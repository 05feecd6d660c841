// The member that the other members of a training job have waited for.
//
// Threads: any.
#ifndef GRADWIRE_STRAGGLER_H
#define GRADWIRE_STRAGGLER_H

#include "observe/image.h"

// Looks at the last |steps| steps of the images with records of a step, which are of one host. Returns the index of the
// image that all others of them have waited for longest: they had entered collectives, and it had not. |out_share|: which
// part of the time of these steps that was. -1: fewer than two members have made |steps| steps, or without memory.
int straggler_find(const image *images, int count, int steps, double *out_share);

#endif
