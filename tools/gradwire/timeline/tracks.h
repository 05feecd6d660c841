// The tracks of a timeline, made when they are first used.
#ifndef GRADWIRE_TRACKS_H
#define GRADWIRE_TRACKS_H

#include "observe/image.h"
#include "timeline/table.h"
#include "timeline/visit.h"

enum { TRACKS_ROWS_MAX = 256 };  // of one name

// Rows of one name, of which each has the end of its last slice.
typedef struct tracks_rows {
    uint32_t parent;
    int pid, count;
    char *name;
    struct {
        int64_t end_ns;
        uint32_t track;
    } * rows;
} tracks_rows;

// A thread: the ends of the slices that are open, the innermost last.
typedef struct tracks_thread {
    uint32_t track;
    int depth;
    int64_t ends[64];
} tracks_thread;

typedef struct tracks {
    const visitor *to;
    const image *images;
    int image_count;
    bool is_one_host;
    uint32_t count;           // of all tracks so far
    int made_up;              // numbers of processes and threads that the kernel does not use
    uint32_t *processes;      // by image
    int *pids;                // by image
    tracks_thread **threads;  // by image and thread
    table rows_by_key, counters;
    tracks_rows *rows;
    uint32_t rows_count;
    bool failed;  // without memory
} tracks;

// Makes the tracks of processes and threads.
bool tracks_open(const image *images, int count, bool is_one_host, const visitor *to, tracks *out);
void tracks_close(tracks *t);

// The track of a slice that begins and ends there, later than the slices before: the thread, if the slice is within
// that which is open there, else a row of its own. 0: all rows are in use, or without memory.
uint32_t tracks_of_thread(tracks *t, int image_index, int thread, int64_t begin_ns, int64_t end_ns);

// A row of those of (|kind|, |sub|) of a process; |name| is used for the first one.
typedef struct tracks_key {
    int image;
    uint32_t kind, sub;
} tracks_key;
uint32_t tracks_of_rows(tracks *t, tracks_key key, const char *name, int64_t begin_ns,
                        int64_t end_ns);

uint32_t tracks_of_counter(tracks *t, int image_index, uint32_t name, const char *text);

#endif
