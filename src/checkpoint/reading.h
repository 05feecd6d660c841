// One checkpoint that is read: CKPT-10 of docs/protocol/checkpoint.md.
//
// Ownership: all texts and tensors belong to the scope. Threads: as the scope.
#ifndef CHECKPOINT_READING_H
#define CHECKPOINT_READING_H

#include "checkpoint/file.h"
#include "checkpoint/index.h"

// An open file of a checkpoint, whose header is that of the index.
typedef struct reading_part {
    const char *name;
    file file;
    checkpoint_source source;
    checkpoint header;
    json_t *checks;
    uint64_t start;  // of the numbers
} reading_part;

typedef struct reading {
    gw_scope *scope;
    const char *path;
    checkpoint_index index;
    reading_part *parts;  // own parts, too
    int part_count;
    json_t *places;     // by name: the number of the part, and of the entry there
    checkpoint values;  // that were read so far
} reading;

// Opens the folder |path|, and checks all but the numbers. A failure is one of |s|; the reading is closed in any case.
void reading_open(reading *r, gw_scope *s, const char *path);
void reading_close(reading *r);

// The values; the own values of the member of that rank. In |out|.
gw_map *reading_values(reading *r, gw_scope *out);
gw_map *reading_own(reading *r, int rank, gw_scope *out);

#endif
