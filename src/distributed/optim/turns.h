// The turns in which an optimizer's parameters are changed: of the objects that have given them out, OBJ-6.
//
// Ownership: each is counted. Threads: as the optimizer.
#ifndef DISTRIBUTED_OPTIM_TURNS_H
#define DISTRIBUTED_OPTIM_TURNS_H

#include "call/object.h"

typedef struct turns {
    turn **items;
    int count;
} turns;

// Adds that of the parameter behind |r|, once; false with |s| failed.
bool turns_add(gw_scope *s, turns *ts, gw_rref *r);
// Takes all of them until |s| closes, however long that takes if it has no deadline; false with |s| failed.
bool turns_enter(gw_scope *s, const turns *ts);
void turns_fini(turns *ts);

#endif
