// The last collectives of a group on this member: their signatures, when they began and how they ended. Printed with
// a failure (GRP-20), and returned to programs.
//
// Ownership: a group has its history from opening to end; none if allocation fails. Threads: with the loop lock.
#ifndef COLLECTIVE_RUN_HISTORY_H
#define COLLECTIVE_RUN_HISTORY_H

#include "collective/run/run.h"

enum { HISTORY_SIZE = 64 };

typedef struct history_record {
    uint64_t key, number;
    int64_t began_ns, ended_ns;  // 0: it has not ended
    gw_status status;
    bool is_printed;
    collective_signature signature;
    char origin[LIMIT_ORIGIN_BYTES + 1];
} history_record;

typedef struct history {
    uint64_t count;  // of all that have entered; the last ones are kept
    history_record records[HISTORY_SIZE];
} history;

history *history_open(void);  // NULL without memory
// |r| has entered; it has ended.
void history_begin_on_loop(run *r);
void history_end_on_loop(const run *r, gw_status status);

// The record of that key and number, if it is one of the last; NULL.
const history_record *history_find_on_loop(const gw_group *g, uint64_t key, uint64_t number);
// "; w0: collective 3: broadcast f32 3 from 0 (train.c:12)", the last of |key| below |number|.
void history_put_last(const gw_group *g, uint64_t key, uint64_t number, text_builder *out);

// The latest record of that key that has ended here; NULL.
const history_record *history_last_ended_on_loop(const gw_group *g, uint64_t key);
// Prints |why| and the records not printed before, if this member is the lowest one that lives; not for the death of a
// member.
void history_print_on_loop(gw_group *g, const gw_error *why);

#endif
