// The board: what trainers report, and who of them is there. An object of the parent's.
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
    bool has_group;  // of trainers, which goes on without those that are lost
    int killed;
    int lost;    // killed, by this program or by others
    int let_in;  // beyond those of the beginning

    int64_t epoch;  // the last one that was reported
    int64_t size;   // of the group then
    double accuracy;
    curve progress;
    gw_future *end;  // resolves when all have finished
} board;

// Makes the board, which trainers find by its name.
gw_rref *board_start(gw_scope *root);

// Resolves |end| if nobody is left who learns.
void board_consider(gw_scope *s, board *self);

// INVALID unless those that have finished have the same bits. Prints how it went.
void board_conclude(gw_scope *s, board *self);

#endif
