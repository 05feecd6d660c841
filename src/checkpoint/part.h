// One file of a checkpoint, written by a thread of low priority.
#ifndef CHECKPOINT_PART_H
#define CHECKPOINT_PART_H

#include "checkpoint/checkpoint.h"

#include <stdatomic.h>

// What the index has of a file.
typedef struct part_facts {
    uint64_t size;
    uint32_t header;  // CRC-32C of its bytes before the numbers
} part_facts;

typedef struct part_options {
    int64_t bytes_per_second;   // 0: no limit
    const _Atomic bool *stops;  // set: the writer is to end early, with CANCELLED
} part_options;

// Writes |c| to a new file, and syncs it: all is on the disk, except perhaps its name. The entries have tensors that
// do not change. False with the scope of |c| failed.
bool part_write(checkpoint *c, const char *path, part_options options, part_facts *out);

#endif
