// Between the files about the passes that this worker takes part in. With the role but where it says so.
#ifndef DIST_PASSES_H
#define DIST_PASSES_H

#include "dist/across.h"

// What it has told of passes that have ended; and which of the others were aborted.
typedef struct initiator {
    passes_ended ended;
    uint32_t open_count;  // of its passes, on the list
    uint64_t *aborted;
    uint32_t count, capacity;
} initiator;

uint64_t initiator_key(int rank);                     // in graphs.others
initiator *initiator_of_on_loop(agent *a, int rank);  // made if it is new; NULL without memory
void initiator_free(initiator *in);
bool initiator_remember_aborted(initiator *in, uint64_t number);

across *passes_find_on_loop(agent *a, int from, uint64_t number);
bool passes_is_over_on_loop(const agent *a, int rank, uint64_t number);
void passes_put_ended_on_loop(const agent *a, int from, bytes *b);
void passes_note_ended_on_loop(agent *a, int from, passes_ended ended, int by);

// A participant's part: runs it when something has come, of that size; gives up its graph; forgets it.
void across_schedule_on_loop(across *x, uint64_t size);
void across_settle_on_loop(across *x);
void across_drop_on_loop(across *x);
void across_end(across *x);  // carries out one of the last two, without the role

#endif
