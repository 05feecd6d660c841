// The memory of a process that does not exist, made by hand.
#ifndef TESTS_MEMORIES_H
#define TESTS_MEMORIES_H

#include "trace/kinds.h"
#include "trace/layout.h"
#include "trace/table.h"

enum { MEMORIES_RECORDS = TRACE_RECORDS_MIN };

typedef struct memory {
    int fd;
    size_t size;
    char *at;
} memory;

// A process with one worker in row 1, and |count| records of its first thread.
memory memory_open(uint64_t count);
void memory_close(memory *m);

trace_header *memory_header(const memory *m);
trace_thread_row *memory_thread_row(const memory *m, int i);
trace_agent_row *memory_agent_row(const memory *m, int i);
trace_event *memory_ring(const memory *m, int i);
uint32_t memory_add_string(const memory *m, const char *text);

// Record |index| of a thread; |index| is its id, and its time.
void memory_write_record(const memory *m, int thread, uint64_t index, trace_kind kind,
                         uint32_t name);

#endif
