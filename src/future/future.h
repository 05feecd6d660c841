// Futures: a result that is set later, once.
//
// Ownership: a handle. The agent holds one count on the future of a call that awaits its reply.
// Threads: any thread may read |result|; the rest needs the loop lock.
#ifndef FUTURE_FUTURE_H
#define FUTURE_FUTURE_H

#include "agent/bodies/context.h"
#include "agent/messages/message_io.h"

// ---- Results ------------------------------------------------------------------------------------

// The result of a future, or the value of a reference. Set once, read by any number of scopes.
//
// A result is a value of this worker, an error, or an incoming message that each reader decodes
// into its own scope. Ownership: counted. Threads: immutable; counted on any thread, see
// result_release_on_loop.
typedef struct result result;

struct result {
    _Atomic uint32_t count;
    bool pins;           // the message's blocks: readers' tensors are views of them
    gw_error *error;     // set: an error
    incoming *incoming;  // set: decoded at |value_at|
    size_t value_at;
    gw_value value;  // owned
    task deferred_free;
};

// A copy of |v|. NULL without memory.
result *result_of_value(gw_value v);
// Never NULL: without memory it is that error.
result *result_of_error(const gw_error *error);
// Takes |p|. |pins|: it may be read more than once. NULL without memory; then |p| is still the
// caller's.
result *result_of_incoming(incoming *p, size_t value_at, bool pins);

result *result_retain(result *r);
void result_release(result *r);  // without the loop lock: may run destructors of its values
void result_release_on_loop(agent *a, result *r);

// The value, made in |s|; fails |s| with the error.
gw_value result_give(result *r, gw_scope *s);

// The value of a future that has resolved, made in |s|; fails |s| with its error.
gw_value future_give(gw_future *f, gw_scope *s);

// The error, or NULL.
static inline const gw_error *result_error(const result *r) {
    return r->error;
}

// ---- Futures ------------------------------------------------------------------------------------

// Runs once, when the future that its owner would complete is cancelled.
typedef struct canceller {
    void (*run)(struct canceller *c);
    // The futures that the owner waits for, one after the other, then NULL; may be NULL.
    gw_future *(*waits_for)(const struct canceller *c, int i);
} canceller;

// The source that completes a future, if the program does not. A function may be NULL. They run with the loop lock
// held.
typedef struct future_source {
    bool (*cancel)(gw_future *f);  // false: it is cancelled like any other
    void (*start)(gw_future *f);   // a thread here awaits it: begins to fetch the value
    // For promises: the rank of the worker that can send the value to its consumers itself, -1 if
    // this worker has to; and the request to that worker to do so, false if it cannot be sent.
    int (*producer)(const gw_future *f);
    bool (*forward)(gw_future *f, int consumer, uint64_t promise);
    // Fills what a wait for it waits for (trace/table.h).
    void (*describe)(const gw_future *f, struct trace_activity *out);
    bool is_owner;  // of the referenced value: it sends the value even if this worker is lost
    // The error of the future was given to the program, by a wait or a query. Without the
    // loop lock.
    void (*reported)(gw_future *f);
    void (*free)(gw_future *f);  // without the loop lock
} future_source;

struct gw_future {
    gw_handle handle;
    agent *agent;
    _Atomic(result *) result;  // NULL until resolved
    list_node waits;           // of threads
    list_node nexts;           // of continuation
    task deferred_free;
    list_node let_go;  // while so many references to it wait to be dropped
    uint32_t let_go_count;
    bool opened;              // by gw_future_open: a holder of a handle may complete it
    _Atomic uint32_t awaits;  // of such a one: 1 for all handles, and the counts of those that wait

    uint8_t makers;  // counts on it of the objects that will complete it
    bool cancelled;
    canceller *on_cancel;         // or NULL
    list_node sibling;            // in |calls| of the callee, or among the unresolved
    const future_source *source;  // NULL: the program
    void *source_state;

    // of a call that awaits its reply
    uint64_t call;  // 0: none
    int to;
    timer deadline;
    int64_t length_ms;         // from the call to its deadline
    bool fetches;              // a value, by a fetch instead of a request
    bool once;                 // the result is read once, by the thread that called
    work_item made;            // of the work that it is part of
    struct call_await *await;  // its reply needs the callee's program; NULL: it does not
    uint64_t message;          // its request, in the ids of peers

    // the consumers to which the value is promised
    list_node forwards;          // of forward, in the order of sending
    uint32_t honoured;           // how many of them the callee has sent, from its reply
    void (*keep)(gw_future *f);  // sends the value to them once it has resolved; NULL without any

    // of a promise of another worker
    uint64_t promise;   // its id, while it is among the promises
    int producer;       // -1: its value arrived before the request that mentions it
    bool of_reference;  // it is the value behind a reference
    int unexpected_from;  // the sender of a value that arrived before its request, and the size of that
    uint64_t unexpected_bytes;

    const char *called_at;  // in the program, "train.c:12"; or NULL
    uint32_t name_size;
    char function[];  // "" if it is no call
};

extern gw_future future_poison;  // returned by failed calls

gw_future *future_open(agent *a, const char *function);  // one count; NULL without memory
void future_release_on_loop(gw_future *f);

// Counts of waiters for |f| that cannot complete it. A future that only these hold, and that
// nothing else completes, fails. See Note [Abandoned futures].
gw_future *future_await_retain(gw_future *f);  // of a caller that holds |f|
void future_await_release(gw_future *f);       // without the loop lock
void future_await_release_on_loop(gw_future *f);
bool future_is_sole(const gw_future *f);  // the caller's handle, and no waiter

// Takes |r|. Only the first completion counts.
void future_complete_on_loop(gw_future *f, result *r);
void future_fail_on_loop(gw_future *f, const gw_error *error);

// Resolves |f| with CANCELLED, unless it has resolved, and runs its canceller.
void future_cancel_on_loop(gw_future *f);
// Called before the caller releases its count on |f|: cancels |f| if only its makers hold it then.
void future_abandon_on_loop(gw_future *f);
// The same, and then releases the count, one of those that wait. Inside another call of it that
// happens later, so that chains of futures have any length.
void future_drop_on_loop(gw_future *f);

// The service of futures that the program completes, and what it keeps.
extern const service future_service;
extern const service_data future_data;
gw_status future_state_open(agent *a, const gw_rpc_options *options, void **state, gw_error *error);
void future_state_free(void *state);
list_node *futures_unresolved(const agent *a);
// |more| functions are to run after a future: less than 0, these are over.
void futures_count_then_on_loop(agent *a, int more);
bool futures_have_then_on_loop(const agent *a);

// lost.c: the futures of gw_member_lost, and that |rank| is lost.
list_node *futures_lost(const agent *a);
void futures_lost_on_loop(agent *a, int rank);

// process.c: worker processes of this program, and the ends of their workers at the agent.
list_node *futures_processes(const agent *a);
void processes_joined_on_loop(agent *a, int rank);
void processes_lost_on_loop(agent *a, int rank);
void processes_stop_on_loop(agent *a, const gw_error *why);
void processes_close(agent *a);  // ends them. Without the loop lock

// Runs |c| when |f| resolves; false if it has.
bool future_await_on_loop(gw_future *f, continuation *c);

// The result, borrowed from |f|; NULL until then.
static inline result *future_result(const gw_future *f) {
    return atomic_load_explicit(&((gw_future *)f)->result, memory_order_acquire);
}

// Waits with the thread of |s| until |f| resolves or |until_ns|. False at |until_ns|.
bool future_wait_on_loop(gw_future *f, gw_scope *s, int64_t until_ns);

// Resolves |out| with the result of |in|. INVALID if that waits for |out| itself.
gw_status future_follow_on_loop(gw_future *out, gw_future *in, gw_error *error);

#endif
