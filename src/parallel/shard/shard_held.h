// Shared by the files of this room: state of a sharded optimizer on its way to new owners, that is, the state of each
// member, and which member sends what.
#ifndef PARALLEL_SHARD_SHARD_HELD_H
#define PARALLEL_SHARD_SHARD_HELD_H

#include "parallel/shard/shard.h"

// One that some member has.
typedef struct entry {
    int member, row;  // of its rows
    bool is_saved;
    int parameter;
    int64_t first, count, steps;
    unsigned states;  // which of them, as bits
    int next;         // of the same parameter; -1
} entry;

typedef struct directory {
    entry *entries;
    int count;
    int *heads;  // by parameter
} directory;

// Members exchange what they have in |own| and |saved|, NULL: nothing. False with |s| failed.
bool held_gather(gw_scope *s, const gw_optimizer *o, gw_group *g, const held_states *own,
                 const loaded *saved, directory *out);

// Numbers of a piece that one member gives to its owner.
typedef struct segment {
    int piece, entry;  // -1: no member has them
    int64_t first, count;
} segment;

typedef struct segments {
    segment *items;
    int count, room;
} segments;

// In the order of pieces; the same on all members. False with |s| failed.
bool held_plan(gw_scope *s, const shard *next, const directory *d, segments *out);
void held_count(const gw_optimizer *o, const shard *next, const directory *d, const segments *all,
                gw_optimizer_reformed *out);

#endif
