// The state of the service of calls in an agent: calls that wait for their replies, calls that the agent serves, and
// promises.
//
// Ownership: the agent owns the state. Threads: with the loop lock, unless stated otherwise.
#ifndef CALL_CALLS_H
#define CALL_CALLS_H

#include "agent/state/agent.h"
#include "call/protocol.h"
#include "call/registry.h"
#include "call/target.h"
#include "trace/sums.h"

typedef struct calls {
    gw_registry *registry;       // any thread, once the agent has opened
    const target_class *target;  // any thread, once the agent has opened
    struct {
        uint32_t calls_per_peer;
        uint64_t backlog_bytes, queued_bytes;
    } limits;  // those of base/limits.h; tests set smaller ones

    // calls that are out
    uint64_t last_call, made_count, replies_dropped;
    map out;  // of gw_future, by call
    trace_sums made;

    // promises
    uint64_t last_promise;
    map promises;  // of gw_future, by id

    // calls that are served
    bool is_held;  // calls that arrive wait until gw_rpc_serve
    uint64_t served_count;
    trace_sums bodies;         // that have run
    uint32_t body_count;       // running for others: bodies, ends of objects
    map served;                // of served_call, by caller and call
    map queues;                // of call_queue, by caller and order
    int64_t one_way_lines_ns;  // when the first of |one_way_lines| about errors was written
    int one_way_lines;
    int64_t
        unflushed_since_ns;  // when a reply was last left to the end of its turn; 0: since flushed
} calls;

// Of one member.
typedef struct call_peer {
    list_node calls;  // futures of calls to it that are out
    uint32_t call_count;
    list_node waiting;        // flow control: threads that have something for it
    list_node waiting_large;  // the same, something that may have bulk

    list_node served;  // its calls that are served here
    uint32_t served_count;
    uint64_t queued_bytes;                  // arguments of those that have not started
    uint32_t wanted_count;                  // consumers that it has named of their results
    list_node deferred, deferred_admitted;  // flow control: its calls that are not started now

    list_node arrivals;         // replies and promised values from it that have not all arrived
    uint64_t last_promise;      // the largest promise id seen from it in a request
    uint32_t unexpected_count;  // promise values of its that no request has mentioned yet,
    uint64_t unexpected_bytes;  // and their sizes
} call_peer;

extern const service call_service;
extern const service_data call_data;

// For the service: makes and frees its state.
gw_status call_state_open(agent *a, const gw_rpc_options *options, void **state, gw_error *error);
void call_state_free(void *state);

static inline calls *calls_of(const agent *a) {
    return agent_state(a, &call_data);
}

static inline call_peer *call_peer_of(const agent *a, int rank) {
    return agent_member_part(a, rank, &call_data);
}

#endif
