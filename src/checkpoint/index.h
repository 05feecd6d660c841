// The index of a checkpoint, index.json: which file has which numbers. docs/protocol/checkpoint.md.
#ifndef CHECKPOINT_INDEX_H
#define CHECKPOINT_INDEX_H

#include "checkpoint/part.h"
#include "checkpoint/shares.h"

// What the members have written, for the index.
typedef struct checkpoint_index_contents {
    const checkpoint *values;  // laid out, with texts; tensors are not read
    const shares *shares;
    const int *writers;  // their ranks
    int64_t step;
    int members;
    bool has_own;
    const part_facts *parts, *owns;  // by rank
} checkpoint_index_contents;

// False with |s| failed.
bool checkpoint_index_encode(gw_scope *s, const checkpoint_index_contents *x, bytes *out);

// "part-1-of-4.safetensors", "own-1-of-4.safetensors".
const char *checkpoint_index_part_name(gw_scope *s, int rank, int members);
const char *checkpoint_index_own_name(gw_scope *s, int rank, int members);

// An index that was read. The objects are of |root|.
typedef struct checkpoint_index {
    json_t *root;
    json_t *weight_map, *texts, *ranges, *files;
    int64_t step;
    int members, own;
} checkpoint_index;

// Checks its checksum and the types of its fields. False with |s| failed.
bool checkpoint_index_decode(gw_scope *s, const char *text, size_t size, checkpoint_index *out);
void checkpoint_index_fini(checkpoint_index *x);
// What it has of a file. False with |s| failed: nothing.
bool checkpoint_index_find_file(gw_scope *s, const checkpoint_index *x, const char *file,
                                part_facts *out);

#endif
