// Which processors a rank runs on with --bind: its share of those that the launcher may use. Where there are fewer than ranks
// each has one, and ranks take turns at them.
#ifndef GRADWIRE_BINDING_H
#define GRADWIRE_BINDING_H

#include <stdbool.h>
#include <stddef.h>

// How many processors the launcher may use; 1 if that cannot be found out.
int binding_processors(void);

// This process, as rank |index| of |count| on this host, before it has other threads. False with errno.
bool binding_set(int index, int count);

// The same in words, "0-3,8"; "" if it cannot be known.
void binding_describe(int index, int count, char *out, size_t size);

#endif
