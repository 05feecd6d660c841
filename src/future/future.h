// Futures: results to come, once.
//
// Ownership: a handle. A future of a call that is out is also held by the agent. Threads: |result| may be read by
// anyone; the rest with the loop lock.
#ifndef FUTURE_FUTURE_H
#define FUTURE_FUTURE_H

#include "agent/agent.h"

typedef struct result result;

// What happens next, with the loop lock held, when something has resolved.
typedef struct continuation {
    list_node link;
    void (*run)(struct continuation *c);
} continuation;

// Told that what it would complete has been cancelled; once.
typedef struct canceller {
    void (*run)(struct canceller *c);
} canceller;

struct gw_future {
    gw_handle handle;
    agent *agent;
    _Atomic(result *) result;  // NULL until resolved
    list_node waits;           // of threads
    list_node nexts;           // of continuation
    task burial;

    list_node sibling;  // in |calls| of the callee, or |unresolved| of the agent
    uint8_t makers;     // counts that are held by what will complete it
    bool cancelled;
    canceller *on_cancel;  // or NULL

    // of a call that is out
    uint64_t call;  // 0: none
    int to;
    timer deadline;
    int64_t length_ms;  // from the call to its deadline
    bool fetches;       // a value, by a fetch instead of a request
    bool once;          // the result is read once, by the thread that called
    list_node made;     // in |calls| of the work that it is part of
    uint64_t frame;     // the last one of its request

    // to whom the value is promised
    list_node forwards;  // of forward, in the order of sending
    uint32_t honoured;   // how many of them the callee has sent, says its reply

    // of the value behind a reference (gw_by_value): ref's
    struct by_value *by_value;

    uint64_t promise;  // of a promised future: its id, while the agent has it in |promises|
    int producer;      // -1: its value has come, before the request that mentions it
    uint64_t producer_incarnation;
    bool of_reference;  // it is the value behind a reference
    int early_from;     // who has sent the value that came early, and how large it is
    uint64_t early_bytes;

    uint32_t name_size;
    char function[];  // "" if it is no call
};

extern gw_future future_poison;  // what failed calls return

gw_future *future_open(agent *a, const char *function);  // one count; NULL without memory
void future_release_on_loop(gw_future *f);

// Takes |r|. Only the first completion counts.
void future_complete_on_loop(gw_future *f, result *r);
void future_fail_on_loop(gw_future *f, const gw_error *error);
void futures_close_on_loop(agent *a,
                           const gw_error *why);  // those that the program has not completed

// Runs |c| when |f| resolves; false if it has.
bool future_await_on_loop(gw_future *f, continuation *c);
void continuation_cancel_on_loop(continuation *c);

// The result, borrowed from |f|; NULL until then.
static inline result *future_result(const gw_future *f) {
    return atomic_load_explicit(&((gw_future *)f)->result, memory_order_acquire);
}

// Waits with the thread of |s| until |f| resolves or |until_ns|. False at |until_ns|.
bool future_wait_on_loop(gw_future *f, gw_scope *s, int64_t until_ns);

// |out| gets what |in| resolves to.
gw_status future_follow_on_loop(gw_future *out, gw_future *in, gw_error *error);

#endif
