// Every limit of the library. Reaching a limit is a clear error, and never lets memory grow.
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

#include <gradwire/status.h>
#include <stdint.h>

enum {
    LIMIT_NAME_BYTES = GW_NAME_MAX,  // workers, functions, methods, store keys' parts
    LIMIT_ORIGIN_BYTES = 63,         // "train.c:12", the origin of a reference
    LIMIT_SITES = 4096,              // that one agent remembers
    LIMIT_DIMS = 32,                 // of one tensor
    LIMIT_DEVICES = 8,               // of one process, the CPU among them
    LIMIT_ARGS = 1024,               // of one call
    LIMIT_NESTING = 32,              // lists and maps inside each other
    LIMIT_DEPTH = 64,                // calls made by calls made by calls
    LIMIT_WORKERS = 4096,            // of one job
    LIMIT_ADDRESS_BYTES = 127,       // "tcp://127.0.0.1:29500"
    LIMIT_ADDRESSES = 8,             // of one worker that another one tries
    LIMIT_ADDRESSES_BYTES = 511,     // of one worker, with commas between them
    LIMIT_HANDSHAKE_BYTES = 4096,    // before a peer is authenticated
    LIMIT_HANDSHAKE_MS = 5000,
    LIMIT_CAPABILITIES = 16,         // in one handshake
    LIMIT_CAPABILITY_BYTES = 127,    // of the name of one, and of its value
    LIMIT_CAPABILITIES_BYTES = 512,  // of all
    LIMIT_HANDSHAKE_COUNT = 64,      // connections before their handshake
    LIMIT_FRAME_BYTES = 256 * 1024,  // body of one frame
    LIMIT_SEGMENTS = 16 * 1024,      // of one message
    LIMIT_BULKS = 1024,              // messages of one direction that are announced and incomplete
    LIMIT_VALUES = 1024 * 1024,      // of one message, elements of lists and maps counted
    LIMIT_CONNECT_MS = 30000,        // until the first connection to a peer
    LIMIT_RECONNECT_MS = 7000,       // without a frame, after a connection broke
    LIMIT_CALLS_PER_PEER = 65536,    // in flight
    LIMIT_SLOTS = 4096,              // tensors that need a gradient in one message
    LIMIT_MARKS = 256,               // in one message: its upstream sends
    LIMIT_UPSTREAM_NODES = 4096,     // that are visited to find them, for each tensor
    LIMIT_PASS_MARKS = 1 << 20,      // of one backward pass
    LIMIT_MARKS_PER_PEER = 1 << 22,  // of all that one worker has sent and that are not finished
    LIMIT_PASSES_PER_PEER = 16384,   // of one peer that a worker keeps
    LIMIT_SENDS = 1 << 22,  // messages with tensors that need a gradient that one agent keeps
    LIMIT_SENDS_PER_PEER = 1 << 20,  // of these, to one worker
    LIMIT_SENDS_LOST = 65536,        // of these, those that are kept after their receiver was lost
    LIMIT_UNEXPECTED_GRADIENTS = 65536,  // of one sender, before the marks of their passes
    LIMIT_FETCHES_PER_PEER =
        65536,  // values behind references that one worker waits for, or has sent on
    LIMIT_UNEXPECTED_PROMISES = 65536,  // promised values of one sender, before their requests
    LIMIT_WANTED_PER_PEER = 65536,      // consumers of results that one caller has named
    LIMIT_FORKS_PER_PEER = 1000000,     // references that one worker holds to values of another
    LIMIT_COLLECTIVE_GROUPS = 4096,     // different sets of workers in RPC collectives of one agent
    LIMIT_GROUPS = 4096,                // that are open on one agent
    LIMIT_GROUPS_PENDING = 256,         // that one agent leads and has not opened
    LIMIT_GROUP_KEYS = 65536,           // of collectives of one group
    LIMIT_GROUP_COLLECTIVES =
        1024,                  // of one member in one group, those that wait to enter included
    LIMIT_FINAL_ABORTS = 256,  // of final keys of one group that are remembered
    LIMIT_GROUP_UNVISITED =
        4096,                  // derivatives of one group that are remembered as freed unvisited
    LIMIT_JOIN_REQUESTS = 64,  // of one worker, for different groups
    LIMIT_THREADS = 1024,      // of one agent's pool, waiting ones included
    LIMIT_STORE_KEY_BYTES = 255,
    LIMIT_STORE_VALUE_BYTES = 64 * 1024,
    LIMIT_STORE_BYTES = 64 * 1024 * 1024,       // keys and values of one store
    LIMIT_STORE_WAITS = 128,                    // of one client that are not answered
    LIMIT_STORE_CLIENT_BYTES = 16 * 1024,       // keys and values that one client sets
    LIMIT_STORE_UNSENT_BYTES = 256 * 1024,      // replies that one client does not read
    LIMIT_STORE_NEW_CLIENTS = 256,              // that are not registered
    LIMIT_STORE_CLIENT_MS = 5000,               // to register; to end a record, or to read replies
    LIMIT_OPERATOR_BYTES_INLINE = 1 << 20,      // an operator with more input runs on the pool
    LIMIT_LENT_BYTES_MIN = 64 * 1024,           // of one tensor, below which sending is as fast
    LIMIT_LEASES_PER_PEER = 65536,              // tensors that one worker has lent to another
    LIMIT_LOADER_THREADS = 256,                 // of one data loader
    LIMIT_LOADER_BATCHES = 4096,                // that one reads ahead
    LIMIT_CHECKPOINT_HEADER_BYTES = 100000000,  // names and texts of one file, as in other readers
};

#define LIMIT_TENSOR_BYTES ((uint64_t)4 << 30)
#define LIMIT_MESSAGE_BYTES ((uint64_t)8 << 30)
#define LIMIT_UNEXPECTED_PROMISE_BYTES                                                             \
    ((uint64_t)1 << 30)  // of one sender, kept until their requests arrive
#define LIMIT_UNEXPECTED_GRADIENT_BYTES                                                            \
    ((uint64_t)1 << 30)  // of one sender, kept until the marks arrive
#define LIMIT_UNEXPECTED_COLLECTIVE_BYTES                                                          \
    ((uint64_t)1 << 30)  // of one sender, kept until this worker enters too
// Requests queued for a worker, and replies to it while more of its calls arrive: beyond, callers
// and calls wait.
#define LIMIT_BACKLOG_BYTES ((uint64_t)64 << 20)
#define LIMIT_QUEUED_BYTES                                                                         \
    ((uint64_t)1 << 30)  // arguments of calls of one worker that have not started
#define LIMIT_UNSENT_BYTES ((uint64_t)16 << 30)  // per peer, queued or unacknowledged
#define LIMIT_LENT_BYTES_PER_PEER                                                                  \
    ((uint64_t)64 << 30)                       // of one worker that another one may map or read
#define LIMIT_ARENA_BYTES ((uint64_t)1 << 40)  // of a peer, which are mapped

_Static_assert(LIMIT_SEGMENTS <= LIMIT_LEASES_PER_PEER, "a message's tensors can be lent");
_Static_assert(LIMIT_HANDSHAKE_BYTES <= LIMIT_FRAME_BYTES, "a hello is a frame");
_Static_assert(LIMIT_TENSOR_BYTES <= LIMIT_MESSAGE_BYTES, "a tensor fits a message");
_Static_assert(LIMIT_MESSAGE_BYTES <= LIMIT_UNSENT_BYTES, "a message fits the queue");

#endif
