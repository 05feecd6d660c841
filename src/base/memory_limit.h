// The most memory that this process can have: that of the machine, or the limit of its control groups (cgroups, version
// 1 and 2), whichever is less; including all swap space. A process that touches more is killed, so a request for more
// fails instead.
#ifndef BASE_MEMORY_LIMIT_H
#define BASE_MEMORY_LIMIT_H

#include <stdint.h>

// In bytes; computed once. Any thread.
uint64_t memory_limit(void);

// The least limit of the groups in |groups|, a text like /proc/self/cgroup, with |folder|
// in place of /sys/fs/cgroup; UINT64_MAX if there is none.
uint64_t memory_limit_of_groups(const char *folder, const char *groups);

#endif
