// How much memory this process can have at most: what the machine has, or what its control groups
// (cgroups, version 1 and 2) leave it, whichever is less; with all swap. A process that touches more
// is killed, so that who is asked for more says no instead.
#ifndef BASE_MEMORY_LIMIT_H
#define BASE_MEMORY_LIMIT_H

#include <stdint.h>

// In bytes; found once. Any thread.
uint64_t memory_limit(void);

// The least limit of the groups that |groups|, a text as of /proc/self/cgroup, names, in |folder|,
// which stands for /sys/fs/cgroup; UINT64_MAX if there is none.
uint64_t memory_limit_of_groups(const char *folder, const char *groups);

#endif
