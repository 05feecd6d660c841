// Switching levels of records of another process on, and back.
//
// The process is not asked: the levels are a word in its memory. A lock (flock) on the memory keeps a second tool from
// switching meanwhile. The kernel gives the lock back if the tool is killed; the levels then stay on until the next tool
// switches, which finds in the memory the levels of the process.
#ifndef GRADWIRE_LEVELS_H
#define GRADWIRE_LEVELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Before a process takes the memory |fd|: |levels| are on from its start.
void levels_request(int fd, uint32_t levels);

// Adds |levels| to those that are on. |fd| keeps the lock until it is closed. Returns false with a reason.
bool levels_switch_on(int fd, uint32_t levels, char *why, size_t why_size);

// Only those of the process are on.
void levels_switch_back(int fd);

#endif
