// The turns in which an owner changes an optimizer's parameters: the turns of the objects that have returned references
// to these parameters (OBJ-6).
//
// Ownership: each is counted. Threads: the same as for the optimizer.
#ifndef DISTRIBUTED_OPTIM_TURNS_H
#define DISTRIBUTED_OPTIM_TURNS_H

#include "call/object.h"

typedef struct turns {
    turn **items;
    int count;
} turns;

// Adds the turn of the parameter behind |r|, unless it is present. False with |s| failed.
bool turns_add(gw_scope *s, turns *ts, gw_rref *r);
// Takes all turns until |s| closes. Waits up to the deadline of |s|, for ever if it has none. False
// with |s| failed.
bool turns_enter(gw_scope *s, const turns *ts);
void turns_fini(turns *ts);

#endif
