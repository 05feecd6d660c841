// A child process that detects the end of this one, however it ends: the kernel closes the end of a pipe.
#ifndef GRADWIRE_LIFELINE_H
#define GRADWIRE_LIFELINE_H

#include <sys/types.h>

// As fork. |*out_fd|: in the child an end of the pipe, which is readable when the parent has ended or has closed its own; in the
// parent that end, which no other process may have. -1 with errno.
pid_t lifeline_fork(int *out_fd);

#endif
