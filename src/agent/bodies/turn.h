// Turns: an object is used by one context at a time. docs/protocol/objects.md.
//
// Ownership: counted; a turn outlives its object if values that the object has returned are changed in the turn.
// Threads: with the loop lock, except for counting.
#ifndef AGENT_BODIES_TURN_H
#define AGENT_BODIES_TURN_H

#include "agent/state/agent.h"

struct context;

typedef struct turn_request {
    list_node link;
    void (*granted)(struct turn_request *r);  // with the loop lock
} turn_request;

typedef struct turn {
    _Atomic uint32_t count;
    bool taken;
    uint64_t number;    // the order in which several are taken
    list_node waiting;  // of turn_request
    // Of its object; NULL once that has ended, and of a turn that no object has.
    gw_scope *own;
    const char *class_name;
} turn;

// A turn that a context has.
typedef struct held_turn {
    list_node link;  // in the context's |turns|
    turn *turn;
    gw_scope *scope;                    // whose end gives it back
    bool holds;                         // not while its context waits
    void (*left)(struct held_turn *h);  // when |scope| has ended; may be NULL
} held_turn;

turn *turn_open_on_loop(agent *a);  // one count, NULL without memory
turn *turn_retain(turn *t);         // with the loop lock or without, as releasing
void turn_release(turn *t);         // NULL is fine

// True if the turn was free; else |r| is granted later.
bool turn_take_on_loop(turn *t, turn_request *r);
void turn_give_on_loop(turn *t);
void turn_cancel_on_loop(turn_request *r);

// |h| is one of the turns of |c| from here on, whether it is held already or not. While it is, the
// object's scope waits as |c| does.
void turn_begin_on_loop(held_turn *h, turn *t, struct context *c, bool holds);
void turn_end_on_loop(held_turn *h);
void turn_pause_on_loop(held_turn *h);
void turn_resume_on_loop(held_turn *h, struct context *c);

// The scope of the object of |t| leads to |c|, or, with NULL, to none.
void turn_lead_to(const turn *t, struct context *c);

#endif
