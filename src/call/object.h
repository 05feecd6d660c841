// Objects and their turns. docs/protocol/objects.md.
//
// Ownership: a reference's entry has the object; a call of one of its methods keeps the entry, too. A turn is counted,
// and outlives its object if values that the object has returned are changed in the turn.
// Threads: turns with the loop lock; the struct and the scope of an object belong to the context
// that has its turn.
#ifndef CALL_OBJECT_H
#define CALL_OBJECT_H

#include "agent/bodies/turn.h"
#include "call/registry.h"

typedef struct object {
    agent *agent;
    const class *class;
    turn *turn;  // one count
    gw_scope *own;
    void *self;
    turn_request end_turn;
    pool_job end;
    task end_task;
} object;

// Makes the object in a scope seeded with |key|; NULL with |s| failed. Without the loop lock.
object *object_open(agent *a, gw_scope *s, const class *c, uint64_t key, struct context *during,
                    const gw_args *args);
void object_end_on_loop(object *o);  // its last user is gone: closes it in its turn, on the pool
void object_close(object *o);        // at once, where it may not wait; without the loop lock

// Before a turn ends: an error of the object's scope is an error of |s|. Without the loop
// lock.
void object_report_error(object *o, gw_scope *s);

#endif
