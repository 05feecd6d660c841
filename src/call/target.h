// Targets of a call other than a worker: a value that its owner keeps, and the entry for the result of a call. The
// service of references fills the table of this kind when the service opens.
//
// Threads: with the loop lock, unless stated otherwise.
#ifndef CALL_TARGET_H
#define CALL_TARGET_H

#include "agent/bodies/turn.h"
#include "call/object.h"
#include "future/future.h"

// The owner's side: the kept value, or the error in making it, or its waiters. Counted.
typedef struct entry entry;

typedef struct target_class {
    // ---- The caller's side ----------------------------------------------------------------------

    // The owner of the value of |r|, and the agent of |r|. Any thread.
    int (*owner)(const gw_rref *r);
    const agent *(*agent_of)(const gw_rref *r);
    // Its numbers, for a request; why it is of no use.
    gw_status (*check)(const gw_rref *r, uint64_t *out_id, uint64_t *out_fork, gw_error *error);
    // The value behind it, an argument of an operator: one count, NULL without memory. Without the
    // lock.
    gw_future *(*value_behind)(gw_rref *r);

    // ---- The callee's side ----------------------------------------------------------------------

    // A creating request has arrived: the entry of its result, one count.
    gw_status (*accept)(agent *a, int from, uint64_t id, uint64_t fork, entry **out,
                        gw_error *error);
    // A request through a reference has arrived: the entry of its target, one count; REF_LOST if |from|
    // may not use it.
    gw_status (*find)(agent *a, int from, uint64_t id, uint64_t fork, entry **out, gw_error *error);
    void (*release)(entry *e);
    // The origin of the entry: |size| bytes of any kind.
    void (*set_origin)(entry *e, const char *origin, size_t size);
    // An object returns its value in the turn |t|; NULL: no object's.
    void (*set_turn)(entry *e, turn *t);
    void (*make)(entry *e, result *value, object *o);  // takes a count on |value|, or the object
    bool (*await)(entry *e, continuation *c);          // runs |c| when it is made; false if it is
    // The object, counted by |e|; or the error of making it, or INVALID because it is a value.
    object *(*object)(const entry *e, gw_error *error);
} target_class;

#define NO_RANK INT64_MIN  // of a target that is a name or a reference

// The rank behind |to|; NOT_FOUND, INVALID. Any thread.
gw_status target_resolve(const agent *a, gw_target to, int *out_rank, gw_error *error);

#endif
