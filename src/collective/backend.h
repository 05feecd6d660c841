// Backends: who carries the values of a group's collectives.
//
// The layer of groups keeps names, numbers, signatures, verdicts, deadlines, futures and gradients. A
// backend is asked when all members have entered a collective and have said the same, and knows
// nothing but bytes: on every member the same calls in the same order. What it has not, is composed
// of what it has (backend_run.c), or goes over the sessions, which carry everything by plans: values,
// lists, sparse tensors, and what has a key unless the backend takes keys.
//
// A verdict may end a collective that has begun in the backend. Then every member calls |abort| once
// for each verdict before it starts another: what was started before may never end, and what is
// started behind it is matched among itself.
//
// The table is fit for MPI, and for NCCL and UCC: a communicator from a list of ranks, calls that end
// later, abort.
//
// Threads: |start| and |abort| are called with the loop lock held and only put down what is to be
// done; |done| is called without it, on any thread.
#ifndef COLLECTIVE_BACKEND_H
#define COLLECTIVE_BACKEND_H

#include "base/list.h"
#include "collective/plan.h"
#include "tensor/combine.h"

typedef enum backend_guarantee {
    BACKEND_BITS = 1,  // sums in the order of tensor/combine.h; without it they are made here
    BACKEND_SURVIVES_LOSS = 2,  // of a member: others go on
    BACKEND_CANCELS = 4,        // what was started can be ended
    BACKEND_KEYS = 8,           // calls may be started in different orders
} backend_guarantee;

// One call of one communicator. Members' bytes lie behind each other, in the order of ranks.
typedef struct backend_call {
    operation operation;  // all_to_all, all_gather, gather, broadcast, all_reduce
    combine_op op;        // of all_reduce, as the two that follow
    gw_dtype dtype;
    int root;
    const void *from;
    void *to;                               // the same as |from| of broadcast
    uint64_t size;                          // bytes of |from|; all_to_all: see |sizes_from|
    const uint64_t *sizes_from, *sizes_to;  // bytes for, and from, each member; NULL where not used
    // Called once, unless the call never ends; |error|: NULL if it went well.
    void (*done)(struct backend_call *c, const gw_error *error);
    // the backend's
    list_node link;
    uint64_t generation;
} backend_call;

typedef struct backend_members {
    const int *ranks;  // in the job
    int count, self;
    const char *name;  // of the group, for errors
} backend_members;

typedef struct backend {
    const char *name;
    uint32_t operations;  // bits of |operation|
    uint32_t ops;         // bits of combine_op, for all_reduce
    uint32_t dtypes;      // bits of gw_dtype, for all_reduce; all are moved
    uint32_t devices;     // bits of gw_device
    uint32_t guarantees;
    // A communicator. All members open theirs in one order. It may still be on its way when this returns.
    gw_status (*open)(const backend_members *m, void **out, gw_error *error);
    void (*start)(void *communicator, backend_call *c);
    void (*abort)(void *communicator);
    void (*close)(void *communicator);  // what is under way may never end
} backend;

// NULL is "session". INVALID, with the names that there are.
gw_status backend_find(const char *name, const backend **out, gw_error *error);
extern const backend backend_session, backend_mpi;
extern const backend *backend_of_tests;  // one more

static inline bool backend_has(const backend *b, operation o) {
    return b->operations & 1u << o;
}

#endif
