// The records of the threads of one memory, read once, or again and again while the process writes them.
//
//     rings r = { .ring_records = header.ring_records };
//     rings_skip(&m, &r);
//     while (...) rings_read(&m, &r);
//     rings_fini(&r);
//
// A record that is overwritten before it is read is counted, as is one that is damaged.
#ifndef GRADWIRE_RINGS_H
#define GRADWIRE_RINGS_H

#include "observe/memory.h"
#include "trace/layout.h"

typedef struct rings_thread {
    uint64_t next;  // the index of the first record that was not read
    uint64_t lost;  // since the first read or rings_skip: not in |events|
    uint64_t
        overtaken;  // of these, between records that are in |events|: each gap has a record TRACE_OVERTAKEN
    uint64_t left_out;  // records for which there was no room: later ones
    trace_event *events;
    uint32_t count, capacity;
} rings_thread;

typedef struct rings {
    // arguments
    uint32_t ring_records;
    uint64_t *room;  // how many more records may be kept, of all that share it; NULL: any number
    // results
    rings_thread threads[TRACE_THREADS];
    uint64_t newest;  // the largest count of new records of a thread, in the last read
} rings;

// Records that are there now are not read.
bool rings_skip(const memory_reader *m, rings *r);

// Adds the new records. Returns false, with the reason, if the memory cannot be read, or without memory.
bool rings_read(const memory_reader *m, rings *r);

void rings_fini(rings *r);

#endif
