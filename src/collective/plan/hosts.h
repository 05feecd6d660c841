// Which members of a group share a host, by their addresses, which are equal on all members.
//
// Ownership: arguments are borrowed. Threads: any.
#ifndef COLLECTIVE_PLAN_HOSTS_H
#define COLLECTIVE_PLAN_HOSTS_H

#include <stdbool.h>

// The host size of a plan_place. An unknown address is NULL.
int hosts_find_size(const char *const *addresses, int count);

// Whether all members have an address of shared memory.
bool hosts_share_memory(const char *const *addresses, int count);

#endif
