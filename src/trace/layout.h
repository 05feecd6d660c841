// The memory in which a worker process keeps its records and tables, and the bytes of a dump of it.
//
// The memory is a memfd: it outlives the process while another process, such as the launcher, has it open. A reader
// asks nothing of the process. It reads the file and trusts none of its bytes (image.h of tools/gradwire).
//
//     header | strings | thread_row[TRACE_THREADS] | agent_row[TRACE_AGENTS] | ring[TRACE_THREADS]
//
// All offsets and counts are constants of the version, but for |ring_records|. Bytes are those of the machine.
#ifndef TRACE_LAYOUT_H
#define TRACE_LAYOUT_H

#include <stdatomic.h>
#include <stdint.h>

enum {
    TRACE_VERSION = 2,
    TRACE_THREADS = 64,  // that record at one time; threads beyond that record nothing
    TRACE_AGENTS = 4,    // of one process that have tables
    TRACE_STRINGS_BYTES = 256 * 1024,
    TRACE_TABLE_BYTES = 32 * 1024,
    TRACE_RECORDS = 16 * 1024,  // of each thread, by default
    TRACE_RECORDS_MIN = 1024,
    TRACE_RECORDS_MAX = 1024 * 1024,
    TRACE_PAGE = 4096,
};

#define TRACE_MAGIC "gwtrace"                // 8 bytes with the zero
#define TRACE_MEMORY_NAME "gradwire-flight"  // of the memfd

// The same moment on each clock.
typedef struct trace_moment {
    uint64_t ticks;
    int64_t monotonic_ns, wall_ns;
} trace_moment;

// What the ticks of records are.
typedef enum trace_clock {
    TRACE_CLOCK_MONOTONIC,  // nanoseconds of CLOCK_MONOTONIC
    TRACE_CLOCK_COUNTER     // of the processor's invariant counter
} trace_clock;

typedef struct trace_header {
    char magic[8];
    uint32_t version, ring_records;
    _Atomic int32_t owner;  // the pid of the process that writes; 0: none yet
    uint32_t clock;         // a trace_clock
    uint64_t start_time;    // of the process, in the units of /proc/PID/stat
    trace_moment opened;
    _Atomic uint32_t levels;  // of trace_level, for which records are made: also written by tools
    _Atomic uint32_t string_bytes;  // of the strings, each with its zero; the first is ""
    _Atomic uint32_t threads_left_out;
    uint32_t attempt;
    char program[64], host[64];
    char mark[256];  // of the job's processes, from the launcher; "": it has none
    char job[64];    // the id that the launcher prints; ""
    // Of the process that has switched |levels| on for a time; 0: none. It has a lock (flock) on the memory meanwhile.
    int32_t tracer;
    _Atomic uint32_t own_levels;  // of the process: which are on again afterwards
} trace_header;

// One event.
typedef struct trace_event {
    uint64_t ticks;
    uint64_t id;  // the same in all records about one thing, on all workers
    uint64_t value;
    uint32_t name;    // an offset in the strings
    uint16_t number;  // the low bits of its index in the ring
    uint8_t agent;    // an index of agent_row
    uint8_t kind;     // a trace_kind
} trace_event;

_Static_assert(sizeof(trace_event) == 32, "a record has 32 bytes");

typedef struct trace_thread_row {
    _Atomic uint64_t
        head;  // the count of records in the ring so far; also of earlier threads that had this row
    _Atomic int32_t tid;  // 0: no thread has the row
    char name[20];
} trace_thread_row;

// Identity and tables of one worker. A table is written to the half that is not |current|, which is then exchanged: a
// writer that ends in between leaves the other one whole.
typedef struct trace_agent_row {
    _Atomic uint32_t is_open;
    int32_t rank, world_size;
    uint64_t incarnation;
    char name[128];
    _Atomic uint64_t
        written;  // the count of tables so far: the latest is in half |written| % 2; 0: none
    struct {
        uint32_t bytes;
        unsigned char data[TRACE_TABLE_BYTES - 8];
    } tables[2];
} trace_agent_row;

static inline uint64_t trace_round_up(uint64_t size) {
    return (size + TRACE_PAGE - 1) / TRACE_PAGE * TRACE_PAGE;
}
static inline uint64_t trace_strings_at(void) {
    return trace_round_up(sizeof(trace_header));
}
static inline uint64_t trace_threads_at(void) {
    return trace_strings_at() + TRACE_STRINGS_BYTES;
}
static inline uint64_t trace_agents_at(void) {
    return trace_round_up(trace_threads_at() + TRACE_THREADS * sizeof(trace_thread_row));
}
static inline uint64_t trace_rings_at(void) {
    return trace_round_up(trace_agents_at() + TRACE_AGENTS * sizeof(trace_agent_row));
}
static inline uint64_t trace_ring_bytes(uint32_t records) {
    return (uint64_t)records * sizeof(trace_event);
}
static inline uint64_t trace_memory_bytes(uint32_t records) {
    return trace_rings_at() + TRACE_THREADS * trace_ring_bytes(records);
}

#endif
