// The board: an object of the parent that holds the trainers' reports and the live trainers.
#ifndef BOARD_H
#define BOARD_H

#include "../common/curve.h"
#include "options.h"

#include <gradwire.h>

#include <stdbool.h>

typedef struct worker {
    gw_process *process;  // NULL: it has ended
    bool has_reported, has_finished;
    int64_t hash;  // of its weights in the end
} worker;

typedef struct board {
    gw_scope *own;
    const options *o;
    worker workers[WORKERS_MAX + 1];  // by number
    int started;
    bool has_group;  // of trainers, which continues without lost members
    int killed;
    int lost;      // killed, by this program or another
    int admitted;  // after the initial members

    int64_t epoch;  // the last one that was reported
    int64_t size;   // of the group then
    double accuracy;
    curve progress;
    gw_future *end;  // resolves when all have finished
} board;

// Creates the board under a name, by which trainers find it.
gw_rref *board_start(gw_scope *root);

// Resolves |end| if no trainer is learning any more.
void board_consider(gw_scope *s, board *self);

// Fails with INVALID unless all finished trainers have the same weights, bit for bit. Prints the result.
void board_conclude(gw_scope *s, board *self);

#endif
