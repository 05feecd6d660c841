// Graphs across workers, as one agent has them: its sends, its receives, and the distributed passes
// over them. docs/protocol/passes.md is the specification.
//
// Ownership: the agent owns the state. Threads: with the loop lock held, unless a comment states otherwise.
#ifndef DISTRIBUTED_AUTOGRAD_GRAPHS_H
#define DISTRIBUTED_AUTOGRAD_GRAPHS_H

#include "autograd/node.h"
#include "agent/state/agent.h"

// A slot of a send of some worker.
typedef struct mark {
    uint32_t rank, slot;
    uint64_t send;
} mark;

_Static_assert(sizeof(mark) == 16, "as on the wire");

// A set of marks. marks_sort sorts it by rank, send and slot, and removes duplicates.
typedef struct marks {
    mark *items;
    uint32_t count, capacity;
} marks;

bool marks_add(marks *m, mark one);  // false without memory, as marks_add_all
bool marks_add_all(marks *m, const mark *items, uint32_t count);
void marks_sort(marks *m);
bool marks_has(const marks *m, mark one);  // |m| is sorted
void marks_fini(marks *m);
void marks_write(const marks *m, bytes *b);
// PROTOCOL if the marks are not sorted, name a worker that does not exist, or are more than |max|.
gw_status marks_read(const agent *a, reader *r, uint32_t max, marks *out, gw_error *error);
// Reads marks; true if one names a worker that is not known here yet. False for
// invalid bytes, which marks_read refuses.
bool marks_name_unknown(const agent *a, reader *r);

typedef struct worker_set {
    uint64_t words[LIMIT_WORKERS / 64];
} worker_set;

static inline bool worker_set_has(const worker_set *w, int rank) {
    return w->words[rank / 64] >> (rank % 64) & 1;
}
static inline void worker_set_add(worker_set *w, int rank) {
    w->words[rank / 64] |= (uint64_t)1 << (rank % 64);
}
static inline void worker_set_remove(worker_set *w, int rank) {
    w->words[rank / 64] &= ~((uint64_t)1 << (rank % 64));
}

// ---- Sends ------------------------------------------------------------------------------

typedef struct sent_slot {
    edge edge;  // counted
    uint8_t dtype, device;
    int dims;
    int64_t *sizes;
    marks upstream;
    bool complete;
} sent_slot;

// The tracked tensors of one message, which may go to several workers. One thread fills it, then
// any thread reads it.
typedef struct sent {
    gw_handle handle;
    agent *agent;  // whose message holds it
    uint64_t scope;
    uint32_t slot_count, slot_capacity, mark_count;
    sent_slot *slots;
} sent;

// A send: one message with tracked tensors to one worker.
typedef struct send {
    uint64_t id;
    int to;
    sent *sent;  // one count
    task deferred_free;
} send;

send *sends_find_on_loop(agent *a, uint64_t id);   // NULL if there is none
void sends_forget_on_loop(agent *a, uint64_t id);  // nothing if there is none
gw_status sends_released_on_loop(agent *a, int from, message *m, gw_error *error);  // takes |m|
void sends_lost_on_loop(agent *a, int rank);
// Forgets the send because worker |with| is lost, and remembers that.
void sends_give_up_on_loop(agent *a, uint64_t id, int with);
// The lost worker that the send was given up with; -1: not known.
int sends_lost_with_on_loop(const agent *a, uint64_t id);
// The error of a pass that reaches a send that does not exist: it names the worker |lost|, or,
// with -1, the possible reasons.
void sends_gone_error(const agent *a, int lost, gw_error *out);
void sends_close(agent *a);  // without the loop lock

// The functions of graph_attachment for outgoing messages.
gw_handle *graph_track(agent *a, uint64_t scope);
gw_status graph_add(gw_handle *graph, gw_tensor *x, uint32_t *out_slot, gw_error *error);
bool graph_write(gw_handle *graph, void *prepared, int to, bytes *table, gw_error *error);
void graph_undo(gw_handle *graph, int to, const uint8_t *written);

// ---- Receives --------------------------------------------------------------------------

typedef struct receive {
    gw_handle handle;  // counted by the incoming message
    node node;         // counted by |handle| and by the tensors made of it
    agent *agent;      // one count
    int from;
    uint64_t send;
    bool settled;    // a pass has settled it, so the sender has deleted the send
    list_node link;  // among |released|
    uint32_t slot_count;
    struct receive_slot {
        mark *upstream;  // in |all|
        uint32_t upstream_count;
        bool complete;
    } * slots;
    marks all;
} receive;

// NULL if |n| is of another kind: only nodes of receives are remote.
static inline receive *receive_of(const node *n) {
    return node_is_remote(n) ? (receive *)((char *)n - offsetof(receive, node)) : NULL;
}

// Walks this worker's graph from |e| (upstream.c): the marks of the receives that it reaches, and
// the marks upstream of those, as far as they are known. Visits up to |nodes_max| nodes. False if there may be
// more marks, or without memory.
bool upstream_find(edge e, uint32_t nodes_max, marks *out);
// The same for all |edges| and without a limit; visits each node once. |open|: those of the marks
// whose own upstream is not complete, and so not in |out|. False without memory.
bool upstream_find_next(const edge *edges, uint32_t count, marks *out, marks *open);

// Releases (releases.c). Nothing here needs |r| any more: its send is released. Without the loop lock.
void receive_end(receive *r);
void receive_free(receive *r);  // without a release
// Releases a send for which this worker has no memory, so that the sender need not keep it.
void receives_release_unread_on_loop(agent *a, int from, uint64_t send);
void receives_flush_on_loop(agent *a);
void receives_flush_soon_on_loop(agent *a);  // at the end of this iteration of the loop
void receives_close_on_loop(agent *a);

// ---- The table ----------------------------------------------------------------------------------

enum { PASSES_FAILED_BITS = 64 };

typedef struct lost_send {
    uint64_t id;
    int with;
} lost_send;

// The passes of one initiator that have ended: all below |settled|. Bit i of |failed|:
// pass settled - 1 - i has failed. As on the wire.
typedef struct passes_ended {
    uint64_t settled, failed;
} passes_ended;

// A report of one worker to another about a pass: done, or abort.
typedef struct pass_report {
    uint8_t kind;  // of pass_kind
    int to, initiator;
    uint64_t number;
    gw_status status;  // of an abort
} pass_report;

enum { PASS_REPORTS_MAX = 64 };

struct graphs {
    agent *agent;
    uint64_t last_send;
    map sends;        // by id
    lost_send *lost;  // the last sends given up with a lost worker, a ring with |lost_count| put in
    uint32_t lost_count, lost_capacity;

    list_node released;  // of receive
    uint32_t released_count;
    timer release_timer;
    task release_task;  // at the end of this iteration of the loop
    bool releases_soon;

    list_node passes;                     // of distributed_pass, by |link|
    list_node ending;                     // of distributed_pass, by |ending|
    uint64_t last_pass;                   // number of the last pass that this worker began
    uint64_t failed[PASSES_FAILED_BITS];  // numbers of those that failed, each at its number modulo
    map others;                           // passes_peer by rank

    // for want of memory
    pass_report deferred[PASS_REPORTS_MAX];
    uint32_t deferred_count;
    list_node closing;      // of pass_visited
    worker_set unreported;  // initiators whose reports did not fit into |deferred|
    timer again;

    uint64_t mark_calls;  // calls of gw.marks that this worker made, for tests
};

typedef struct graphs graphs;

typedef enum pass_kind {
    KIND_GRADIENT = 48,
    KIND_PASS_DONE,
    KIND_PASS_ABORT,
    KIND_SCOPE_CLOSED,
    KIND_SENDS_RELEASED,
    PASS_KIND_LAST = KIND_SENDS_RELEASED
} pass_kind;

// The service of passes on an agent, and the attachment class of graphs in messages.
extern const service pass_service;
extern const service_data pass_data;
extern const attachment_class graph_attachment;

static inline graphs *graphs_of(const agent *a) {
    return agent_state(a, &pass_data);
}

// Whether a gradient message names a worker that is not known here yet. False for invalid
// bytes, which graphs_received_on_loop refuses.
bool gradient_names_unknown(const agent *a, const message *m);
gw_status graphs_received_on_loop(agent *a, int from, message *m, gw_error *error);  // takes |m|

#endif
