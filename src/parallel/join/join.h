// Shared by the files of this room: joins. docs/protocol/replicas.md, UNEVEN-1 to UNEVEN-6.
//
// Ownership: a gw_join is a handle, which keeps its joinables and a group of its own. Threads: of the
// model; the join state in a gw_ddp changes with the loop lock held.
#ifndef PARALLEL_JOIN_JOIN_H
#define PARALLEL_JOIN_JOIN_H

#include "optim/optimizer.h"
#include "parallel/ddp/ddp.h"
#include <gradwire/join.h>

struct gw_join {
    gw_handle handle;
    agent *agent;   // one count
    gw_scope *own;  // holds the group and the joinables
    gw_group *group;
    gw_join_options options;
    gw_joinable *parts;  // in the memory of |own|
    int count;

    gw_join_iteration at;
    bool is_over;  // closed, ended, or failed with |error|
    gw_error error;
};

// ---- Iterations (join_iteration.c) --------------------------------------------------------------

gw_group *joinable_group(const gw_joinable *p);  // NULL: it names none
// One begins on this member, which is active. False with |s| failed.
bool join_begin_iteration(gw_scope *s, gw_join *j, bool synchronised);
// Shadows the iterations of the active members until none is active, and finishes.
void join_shadow_active(gw_scope *s, gw_join *j);
// The others get the error of |s|: this member ends the join with it.
void join_fail(gw_scope *s, gw_join *j);

#endif
