// What a process uses, from /proc.
#ifndef GRADWIRE_USAGE_OF_PROCESS_H
#define GRADWIRE_USAGE_OF_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct process_usage {
    uint64_t resident_bytes;
    int64_t processor_ns;  // of all its threads, so far
} process_usage;

// False if it has ended: all is 0.
bool process_usage_read(pid_t pid, process_usage *out);

#endif
