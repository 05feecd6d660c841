// The table of one worker: what its threads and calls wait for and run, and counts, at one moment.
//
// A worker encodes it about once a second while it has any activity, and publishes it in the memory of region.h. Tools
// decode it, also of a worker that is stopped or has been killed.
//
// Threads: any.
#ifndef TRACE_TABLE_H
#define TRACE_TABLE_H

#include "base/bytes.h"
#include "base/memory_kinds.h"
#include "trace/sums.h"

enum {
    TRACE_TEXT_MAX = 96,
    TRACE_RANKS_MAX = 16,        // of workers that one activity waits for; more are counted
    TRACE_ACTIVITIES_MAX = 128,  // of a table; more are counted
    TRACE_PEERS_MAX = 16,        // other workers with counts of their own
};

typedef enum trace_phase_of_worker {
    TRACE_JOINING,
    TRACE_SERVING,
    TRACE_LEAVING,  // it has called gw_rpc_shutdown or gw_rpc_leave
    TRACE_LEFT,
    TRACE_IS_FENCED,
    TRACE_WORKER_PHASES
} trace_phase_of_worker;

// What the worker has done since it opened. Each only grows.
typedef enum trace_counter {
    TRACE_CALLS_MADE,    // that have ended
    TRACE_CALLS_SERVED,  // the same
    TRACE_COLLECTIVES,   // the same
    TRACE_MESSAGES_SENT,
    TRACE_MESSAGES_RECEIVED,
    TRACE_BYTES_SENT,
    TRACE_BYTES_RECEIVED,
    TRACE_COUNTERS
} trace_counter;

// What it has exchanged with one other worker: gw_peer_stats.
typedef enum trace_peer_counter {
    TRACE_PEER_CALLS_MADE,
    TRACE_PEER_CALLS_SERVED,
    TRACE_PEER_MESSAGES_SENT,
    TRACE_PEER_MESSAGES_RECEIVED,
    TRACE_PEER_BYTES_SENT,
    TRACE_PEER_BYTES_RECEIVED,
    TRACE_PEER_SHARED_SENT,
    TRACE_PEER_SHARED_RECEIVED,
    TRACE_PEER_RECONNECTS,
    TRACE_PEER_QUEUED,      // not a count: bytes now
    TRACE_PEER_QUEUED_MAX,  // and the most so far
    TRACE_PEER_LENT,        // not a count: bytes now
    TRACE_PEER_WAITED_US,
    TRACE_PEER_COUNTERS
} trace_peer_counter;

typedef struct trace_peer {
    int rank;     // -1: of several other workers, whose counts are added up
    int workers;  // 1, or their count
    uint64_t counters[TRACE_PEER_COUNTERS];
    char transport[16];  // "": no connection, or several
} trace_peer;

// Those with the most bytes first, and behind TRACE_PEERS_MAX the sum of all others.
typedef struct trace_peers {
    int count;
    trace_peer of[TRACE_PEERS_MAX + 1];
} trace_peers;

typedef enum trace_activity_kind {
    TRACE_RUNS,         // a body, which computes unless it waits in another activity
    TRACE_QUEUED,       // a call that is to run here; |what|: the function, |in|: what it waits for
    TRACE_WAITS_REPLY,  // of call |number| of |what| at the one worker in |ranks|
    TRACE_WAITS_COLLECTIVE,  // collective |number| of group |in|: its operation is |what|
    TRACE_WAITS_PASS,        // other workers' parts of a backward pass
    TRACE_WAITS_TURN,        // of an object of this worker
    TRACE_WAITS_SHUTDOWN,    // other workers to call gw_rpc_shutdown
    TRACE_WAITS_OTHER,       // |what|
    TRACE_ACTIVITY_KINDS
} trace_activity_kind;

// What a TRACE_QUEUED call waits for.
typedef enum trace_queued {
    TRACE_QUEUED_NOT,        // it is another activity
    TRACE_QUEUED_THREAD,     // a worker thread
    TRACE_QUEUED_ARGUMENTS,  // its arguments, or its object to be made
    TRACE_QUEUED_FLOW,       // its caller to receive replies
    TRACE_QUEUED_ORDER,      // earlier calls of its caller to start
    TRACE_QUEUED_TURN,       // the turn of its object
    TRACE_QUEUED_FUTURE,     // the future that it has returned
    TRACE_QUEUED_SERVE,      // the program to call gw_rpc_serve
    TRACE_QUEUED_COUNT
} trace_queued;

// Of a body, caller and call are its own; of a wait, those of the body that waits. |in| of TRACE_RUNS is "": tools write there
// where the thread sleeps in the kernel.
typedef struct trace_activity {
    trace_activity_kind kind;
    trace_queued queued;
    int64_t since_ns;  // by the clock of |now_ns|; as exact as the interval between two tables
    int tid;           // of the thread that runs or waits; 0: none
    int caller;        // its rank; -1: the program
    uint64_t call;
    uint64_t number;
    char what[TRACE_TEXT_MAX], in[TRACE_TEXT_MAX];
    char site[TRACE_TEXT_MAX];  // in the program, "train.c:12"; "": not known
    int rank_count;             // of workers that it waits for, also of those beyond |ranks|
    int ranks[TRACE_RANKS_MAX];
} trace_activity;

typedef struct trace_table {
    int64_t now_ns;  // of CLOCK_MONOTONIC, when it was made
    trace_phase_of_worker phase;
    uint64_t counters[TRACE_COUNTERS];
    uint64_t memory[MEMORY_KINDS];  // of the process
    trace_peers peers;
    trace_sums sums[TRACE_SUM_KINDS];
    int left_out;  // activities for which there was no room
    int activity_count;
    trace_activity activities[TRACE_ACTIVITIES_MAX];
} trace_table;

// What a table has besides activities. NULL: zeros, or none.
typedef struct trace_table_counts {
    const uint64_t *counters;  // TRACE_COUNTERS
    const uint64_t *memory;    // MEMORY_KINDS
    const trace_peers *peers;
    const trace_sums *sums[TRACE_SUM_KINDS];
} trace_table_counts;

// Writes a table to |out|, which is empty: its beginning, each activity, its end. Without memory |out| fails.
void trace_table_begin(bytes *out, int64_t now_ns, trace_phase_of_worker phase);
void trace_table_add(bytes *out, const trace_activity *a);
void trace_table_end(bytes *out, const trace_table_counts *counts);

// False if the bytes are no table.
bool trace_table_read(const void *data, size_t size, trace_table *out);

// One without any count is left out.
void trace_peers_add(trace_peers *to, const trace_peer *x);
// The bytes that both have sent, also of shared tensors.
uint64_t trace_peer_bytes(const trace_peer *x);

void trace_activity_add_rank(trace_activity *a, int rank);

// "call 14 of slow", "all_reduce 7 of group \"world\"", "a turn".
void trace_activity_text(const trace_activity *a, char *out, size_t size);

#endif
