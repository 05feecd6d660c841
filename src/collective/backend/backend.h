// Backends: the transport of the values of a group's collectives.
//
// The layer of groups handles names, numbers, signatures, aborts, deadlines, futures and gradients. This layer calls a
// backend when all members have entered a collective with matching signatures; a backend moves only bytes, by the same
// calls in the same order on every member. Operations that a backend does not have are composed of operations that it
// has (backend_run.c). The sessions carry everything else by plans: values, lists, sparse tensors, and collectives with
// a key unless the backend takes keys.
//
// All members start the same calls, even if an abort has ended the collective meanwhile (backend_turn.c). |abort| is
// for a group that is broken: after |abort| nothing is started.
//
// The table fits MPI, NCCL and UCC: it has a communicator from a list of ranks, calls that end later, and an abort.
// Channels are parallel communicators, of MPI_Comm_dup or ncclCommSplit, or tags of UCC.
//
// Threads: |start| and |abort| are called with the loop lock held and only queue work; |done| is called without it,
// on any thread.
#ifndef COLLECTIVE_BACKEND_BACKEND_H
#define COLLECTIVE_BACKEND_BACKEND_H

#include "base/list.h"
#include "collective/plan/plan.h"
#include "tensor/combine.h"

typedef enum backend_guarantee {
    // all_reduce adds in the order of tensor/combine.h. Without it the caller computes sums, unless the program
    // allows any order.
    BACKEND_BITS = 1,
    // Groups may be opened after a member of the job is lost.
    BACKEND_SURVIVES_LOSS = 2,
    // |abort| ends what was started. Without it a call may never end, and keeps its memory.
    BACKEND_CANCELS = 4,
    // Calls are matched by |key|, |number| and |part|, and may be started in different orders: there are no turns,
    // and collectives with a key use the backend.
    BACKEND_KEYS = 8,
} backend_guarantee;

// One call of one communicator. The bytes of the members are contiguous, in the order of ranks.
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
    // Called once, unless the call never ends; |error| is NULL on success.
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
    // The limit for one call, over all members; at least LIMIT_WORKERS * 8. The sessions carry larger sums; larger
    // broadcasts and gathers are split into several calls; a larger all_to_all breaks the group.
    uint64_t bytes_max;
    uint32_t devices;  // bits of gw_device; the sessions carry tensors of other devices
    uint32_t guarantees;
    // The number of collectives that it carries in parallel, at least 2: one is under way in each channel, and all
    // members start those of a channel in one order. Half of the channels are for final sequences.
    int channels;
    // Opens a communicator. All members open theirs in one order. It may complete after this returns.
    gw_status (*open)(const backend_members *m, void **out, gw_error *error);
    void (*start)(void *communicator, backend_call *c);
    void (*abort)(void *communicator);  // called once; calls that have not begun end as CANCELLED
    void (*close)(void *communicator);  // calls under way may never end
    // Called when a worker was lost: operations over the whole job may never end. NULL: there are none.
    void (*lose)(void);
} backend;

// NULL is "session". INVALID, with the available names.
gw_status backend_find(const char *name, const backend **out, gw_error *error);
void backends_lose(void);  // calls |lose| of all
extern const backend backend_session, backend_mpi;
extern const backend *backend_of_tests;  // one more

static inline bool backend_has(const backend *b, operation o) {
    return b->operations & 1u << o;
}

#endif
