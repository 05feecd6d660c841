// Objects and their turns. docs/protocol/objects.md.
//
// Ownership: a reference's entry has the object; who calls one keeps the entry, too. A turn is counted, and outlives its
// object where values that the object has given out are changed in it. Threads: turns with the loop lock; the struct and the
// scope of an object belong to whoever has its turn.
#ifndef CALL_OBJECT_H
#define CALL_OBJECT_H

#include "agent/agent.h"

struct context;

typedef struct turn_request {
    list_node link;
    void (*granted)(struct turn_request *r);  // with the loop lock
} turn_request;

typedef struct turn {
    _Atomic uint32_t count;
    bool taken;
    uint64_t number;        // the order in which several are taken
    list_node waiting;      // of turn_request
    struct object *object;  // NULL once it has ended, and of a turn that no object has
} turn;

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

// A turn that a context has.
typedef struct held_turn {
    list_node link;  // in the context's |turns|
    turn *turn;
    gw_scope *scope;                    // whose end gives it back
    bool holds;                         // not while its context waits
    void (*left)(struct held_turn *h);  // with the loop lock, when |scope| has ended; may be NULL
} held_turn;

// Makes the object in a scope seeded with |key|; NULL with |s| failed. Without the loop lock.
object *object_open(agent *a, gw_scope *s, const class *c, uint64_t key, struct context *during,
                    const gw_args *args);
void object_end_on_loop(object *o);  // nobody uses it any more: closes it in its turn, on the pool
void object_close(object *o);        // at once, where it may not wait; without the loop lock

turn *turn_open_on_loop(agent *a);  // one count, NULL without memory
turn *turn_retain(turn *t);         // with the loop lock or without, as releasing
void turn_release(turn *t);         // NULL is fine

// True if the turn was free; else |r| is granted later.
bool turn_take_on_loop(turn *t, turn_request *r);
void turn_give_on_loop(turn *t);
void turn_cancel_on_loop(turn_request *r);

// |h| is one of the turns of |c| from here on, whether it is held already or not. While it is, the object's scope waits as
// |c| does.
void turn_begin_on_loop(held_turn *h, turn *t, struct context *c, bool holds);
void turn_end_on_loop(held_turn *h);
void turn_pause_on_loop(held_turn *h);
void turn_resume_on_loop(held_turn *h, struct context *c);

// Before a turn ends: what went wrong in the object's scope is an error of |s|. Without the loop lock.
void object_settle(object *o, gw_scope *s);

#endif
