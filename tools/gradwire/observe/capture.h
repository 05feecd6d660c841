// The records of processes while they run: more of them than their rings keep.
//
//     capture *c = capture_open(&(capture_options){ .levels = TRACE_ALL });
//     capture_add(c, fd, why, sizeof why);
//     while (...) wait(capture_read(c));
//     capture_finish(c, &images, &count);
//     capture_close(c);
//
// The processes are not asked, and do nothing more than to record: their memory is read often enough that rings are not full
// in between, if the processor allows. What is overwritten nevertheless is counted.
//
// Threads: one.
#ifndef GRADWIRE_CAPTURE_H
#define GRADWIRE_CAPTURE_H

#include "observe/image.h"

enum {
    CAPTURE_RECORDS_MAX = 16 * 1024 * 1024,  // 512 MiB
    CAPTURE_READ_MAX_MS = 20,                // the time between two reads
    CAPTURE_READ_MIN_MS = 2
};

typedef struct capture_options {
    uint32_t levels;       // switched on meanwhile
    uint64_t records_max;  // of all; later ones are left out and counted. 0: CAPTURE_RECORDS_MAX
    bool from_start;       // also the records that a memory has when it is added
    int first_step, last_step;  // only these steps of each process; |last_step| 0: all
} capture_options;

typedef struct capture capture;

capture *capture_open(const capture_options *o);  // NULL without memory

// Adds the memory |fd|, open for reading and writing, which becomes the capture's, and switches its levels on. A memory that is
// there already is no error. Returns false, with a reason, if it cannot be traced: |fd| is then closed, too.
bool capture_add(capture *c, int fd, char *why, size_t why_size);

// Reads the new records of all. Returns after how many ms to read again.
int capture_read(capture *c);

// Switches levels back, where none is to be recorded any more. Each process has the same levels as before.
void capture_stop(capture *c);

// Reads the new records a last time, and stops it: later ones are not of the capture, nor are memories that processes take later.
// Those have their levels back as soon as that is possible: while capture_is_pending, capture_read is to be called.
void capture_end(capture *c);
bool capture_is_pending(const capture *c);

// Whether all processes have done |last_step|.
bool capture_is_over(const capture *c);

// Stops it, and makes images of what was read; they are for image_free_all. Returns false without memory. Memories that cannot
// be read are left out, and counted.
bool capture_finish(capture *c, image **out, int *out_count);

int capture_count(const capture *c);        // of memories that a process has taken
int capture_refused(const capture *c);      // after capture_finish
const char *capture_why(const capture *c);  // of the first of these

void capture_close(capture *c);

#endif
