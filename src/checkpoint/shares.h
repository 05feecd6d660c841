// Which writer writes which bytes: CKPT-4 of docs/protocol/checkpoint.md. The same on all members.
#ifndef CHECKPOINT_SHARES_H
#define CHECKPOINT_SHARES_H

#include "checkpoint/checkpoint.h"

// A range of an entry; |first| and |end| are bytes of it.
typedef struct share {
    int entry, writer;
    uint64_t first, end;
    bool is_whole;
} share;

typedef struct shares {
    share *items;  // in the order of the entries, then of their bytes
    int count;
    uint32_t capacity;
} shares;

enum { SHARES_SPLIT_BYTES = 1024 * 1024 };

// |c| is laid out. Entries of less than |split_bytes| are not divided. False without memory.
bool shares_divide(const checkpoint *c, int writer_count, uint64_t split_bytes, shares *out);
void shares_fini(shares *x);

// "model.0.weight", or "model.0.weight[0:500]".
const char *shares_name(gw_scope *s, const checkpoint *c, const share *at);

#endif
