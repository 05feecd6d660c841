// Which members of a group share a host, by their addresses, which all members have alike.
//
// Ownership: arguments are borrowed. Threads: any.
#ifndef COLLECTIVE_HOSTS_H
#define COLLECTIVE_HOSTS_H

// Members of each host, if all hosts have as many, one behind the other, and a power of two; else 0.
// An address may be NULL: it is not known.
int hosts_find_size(const char *const *addresses, int count);

#endif
