// The records of all threads of images in the order of time.
//
//     merge m;
//     for (bool ok = merge_open(images, count, &m); ok && merge_next(&m, &x);) ...
//     merge_close(&m);
#ifndef GRADWIRE_MERGE_H
#define GRADWIRE_MERGE_H

#include "observe/image.h"

typedef struct merge_item {
    const image_record *record;
    uint32_t number;  // of the record among all: threads one after the other
    int image, thread;
} merge_item;

typedef struct merge_cursor {
    int64_t at_ns;
    const image_record *at, *end;
    uint32_t number;
    int image, thread;
} merge_cursor;

typedef struct merge {
    merge_cursor *heap;
    int size;
} merge;

// Returns false without memory.
bool merge_open(const image *images, int count, merge *out);
bool merge_next(merge *m, merge_item *out);
void merge_close(merge *m);

// How many records there are; more than UINT32_MAX - 2 are too many.
uint64_t merge_count(const image *images, int count);

#endif
