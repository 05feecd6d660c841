// The memory of records and tables of this process: opened with the first env of the kernel (net/env_os.c), and kept until
// the process ends. Agents in the simulator record nothing.
//
// It is the memfd that the launcher has passed as GW_FLIGHT_FD, if no other process has taken that, else a new one.
// GW_FLIGHT=0 switches all off; GW_FLIGHT=N sets the count of records of a thread, GW_FLIGHT=LEVELS what is recorded.
//
// In a process that fork has made the memory is not there, and nothing is recorded.
//
// Threads: any.
#ifndef TRACE_REGION_H
#define TRACE_REGION_H

#include "trace/layout.h"

#include <stdbool.h>
#include <stddef.h>

// Opens it unless it is open. Without memory or descriptors for it, one INFO line is logged, and nothing is recorded.
void trace_open(void);

// New memory, which no process has taken yet: for a launcher, which passes it as GW_FLIGHT_FD. The descriptor, which
// exec closes; -1 with errno. A tool may write |levels| of its header before a process takes it: these are on from the
// start.
int trace_memory_make(void);

// What this process writes with. Other processes of the user may write to the header, so nothing is read from there but the
// levels.
typedef struct trace_memory {
    trace_header *header;
    trace_clock clock;
    trace_moment opened;
    uint32_t records;  // of a ring: a power of two
} trace_memory;

// NULL: not open.
const trace_memory *trace_region(void);

// |size| bytes at |offset| of the memory, mapped; NULL without memory.
void *trace_map(uint64_t offset, uint64_t size);

typedef struct trace_identity {
    const char *name;
    int rank, world_size;
    uint64_t incarnation;
} trace_identity;

// A row for a worker of this process; -1: not open, or all rows are in use.
int trace_agent_open(void);
void trace_agent_identify(int agent, const trace_identity *is);
void trace_agent_close(int agent);
// Publishes a table of |size| bytes, which are dropped if they are too many. One thread at a time.
void trace_agent_publish(int agent, const void *table, size_t size);

#endif
