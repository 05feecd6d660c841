// The memory of one process (src/trace/layout.h), copied and checked.
//
//     image x;
//     char why[IMAGE_WHY_SIZE];
//     if (!image_take(fd, &x, why, sizeof why)) ...
//     image_free(&x);
//
// The process is not asked, and may write meanwhile, be stopped, or have ended. No byte of its memory is trusted: what
// cannot be understood is an error, or is left out and counted.
//
// Ownership: an image owns all that it points to. Threads: any.
#ifndef GRADWIRE_IMAGE_H
#define GRADWIRE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "observe/rings.h"
#include "trace/layout.h"
#include "trace/table.h"

enum { IMAGE_WHY_SIZE = 256, IMAGE_NO_AGENT = 255 };

typedef struct image_record {
    int64_t at_ns;  // of CLOCK_MONOTONIC
    uint64_t id, value;
    uint32_t name;  // an offset in the strings of the image
    uint8_t agent;  // an index of |agents|, or IMAGE_NO_AGENT
    uint8_t kind;   // a trace_kind
} image_record;

typedef struct image_thread {
    int row;  // in the memory
    int tid;  // 0: it has ended
    char name[20];
    uint64_t
        lost;  // records that have been overwritten, damaged or left out: nearly all older ones
    uint64_t overtaken;  // of these, between those that are here (TRACE_OVERTAKEN)
    uint64_t left_out;   // later ones, for which there was no room
    uint32_t record_count;
    image_record *records;  // in order of time
} image_thread;

typedef struct image_agent {
    int row;  // in the memory
    bool is_open;
    int rank, world_size;
    uint64_t incarnation;
    char name[128];
    trace_table *table;  // NULL: it has published none that can be read
} image_agent;

// What has become of the process.
typedef enum image_life {
    IMAGE_LIFE_UNKNOWN,  // not looked up yet
    IMAGE_RUNS,
    IMAGE_STOPPED,
    IMAGE_HAS_ENDED,
    IMAGE_LIFE_COUNT
} image_life;

typedef struct image {
    // of the header
    pid_t pid;
    uint64_t start_time;  // in the units of /proc/PID/stat
    trace_clock clock;
    trace_moment opened, taken;  // |taken|: when the image was made
    uint32_t levels, ring_records, threads_left_out, attempt;
    char program[64], host[64], mark[256], job[64];
    // filled by find.h
    image_life life;
    char wchan[64];  // where its first thread sleeps in the kernel; "": not known
    // of the tables and rings
    int agent_count, thread_count;
    image_agent *agents;
    image_thread *threads;
    uint32_t string_bytes;
    char *strings;  // each with its zero; the first is ""
} image;

// Reads all from the memfd |fd|. Returns false, with the reason in |why|, if it is no such memory, or without memory.
// A memory that no process has taken is an error, too.
bool image_take(int fd, image *out, char *why, size_t why_size);

// The same with only the records that |r| has, which become those of the image.
bool image_take_kept(int fd, rings *r, image *out, char *why, size_t why_size);

// The same without records and strings, which is a small part of the work.
bool image_take_tables(int fd, image *out, char *why, size_t why_size);

void image_free(image *x);
void image_free_all(image *images, int count);  // and the array

// The text of a record.
const char *image_name(const image *x, const image_record *r);

// How many calls and collectives of its workers have ended. If it is the same after a time, none has.
uint64_t image_progress(const image *x);

// How long the oldest of the waits of its workers has lasted; 0: none waits. Waits in gw_rpc_shutdown do not count, nor
// do calls that are queued. |now_ns| of CLOCK_MONOTONIC.
int64_t image_oldest_wait_ns(const image *x, int64_t now_ns);

// The age of the table of |a|, when the image was made.
int64_t image_table_age_ns(const image *x, const image_agent *a);

// How long |a| has lasted then.
int64_t image_activity_age_ns(const image *x, const trace_activity *a);

bool image_is_wait(trace_activity_kind kind);

#endif
