// Backends: who carries the values of a group's collectives.
//
// The layer of groups keeps names, numbers, signatures, verdicts, deadlines, futures and gradients. A
// backend is asked when all members have entered a collective and have said the same, and knows
// nothing but bytes: on every member the same calls in the same order. What it has not, is composed
// of what it has (backend_run.c), or goes over the sessions, which carry everything by plans: values,
// lists, sparse tensors, and what has a key unless the backend takes keys.
//
// What one member starts all do, also when a verdict has ended the collective meanwhile
// (backend_turn.c). |abort| is for a group that is broken: nothing is started behind it.
//
// The table is fit for MPI, and for NCCL and UCC: a communicator from a list of ranks, calls that end
// later, abort. Lanes are communicators side by side, of MPI_Comm_dup or ncclCommSplit, or tags of UCC.
//
// Threads: |start| and |abort| are called with the loop lock held and only put down what is to be
// done; |done| is called without it, on any thread.
#ifndef COLLECTIVE_BACKEND_H
#define COLLECTIVE_BACKEND_H

#include "base/list.h"
#include "collective/plan.h"
#include "tensor/combine.h"

typedef enum backend_guarantee {
    // all_reduce adds in the order of tensor/combine.h. Without it sums are made here, unless the
    // program allows any order.
    BACKEND_BITS = 1,
    // Groups may be opened after a member of the job is lost.
    BACKEND_SURVIVES_LOSS = 2,
    // |abort| ends what was started. Without it that may never end, and keeps its memory.
    BACKEND_CANCELS = 4,
    // Calls are matched by |key|, |number| and |part|, and may be started in different orders: there are
    // no turns, and what has a key goes through the backend.
    BACKEND_KEYS = 8,
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
    int channel;                            // below |channels|
    uint64_t key, number;                   // of the collective
    int part;                               // its calls are counted from 0
    // Called once, unless the call never ends; |error|: NULL if it went well.
    void (*done)(struct backend_call *c, const gw_error *error);
    list_node link;  // the backend's
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
    // Of what one call has of all members, at least LIMIT_WORKERS * 8. A larger sum goes over the sessions, and what is
    // larger of broadcasts and gatherings goes in several calls; of all_to_all it breaks the group.
    uint64_t bytes_max;
    uint32_t devices;  // bits of gw_device; what lies on none of them goes over the sessions
    uint32_t guarantees;
    // How many collectives it carries side by side, at least 2: one is under way in each lane, and all
    // members start those of a lane in one order. Half of them are for series.
    int channels;
    // A communicator. All members open theirs in one order. It may still be on its way when this returns.
    gw_status (*open)(const backend_members *m, void **out, gw_error *error);
    void (*start)(void *communicator, backend_call *c);
    void (*abort)(void *communicator);  // once; calls that have not begun end as CANCELLED
    void (*close)(void *communicator);  // what is under way may never end
    // A worker was lost, so that what waits for all of the job, in a group or not, may never end. NULL: nothing does.
    void (*lose)(void);
} backend;

// NULL is "session". INVALID, with the names that there are.
gw_status backend_find(const char *name, const backend **out, gw_error *error);
void backends_lose(void);  // tells all
extern const backend backend_session, backend_mpi;
extern const backend *backend_of_tests;  // one more

static inline bool backend_has(const backend *b, operation o) {
    return b->operations & 1u << o;
}

#endif
