// Which members of a group share a host, by their addresses, which are equal on all members.
//
// Ownership: arguments are borrowed. Threads: any.
#ifndef COLLECTIVE_PLAN_HOSTS_H
#define COLLECTIVE_PLAN_HOSTS_H

// The count of members on each host, if it is the same on all hosts, a power of two, and the members of a host are
// consecutive; else 0. An unknown address is NULL.
int hosts_find_size(const char *const *addresses, int count);

#endif
