// Graphs across workers, of one agent: what it has sent and received that needs a gradient, and the passes over that.
// docs/protocol/passes.md is the specification.
//
// Ownership: the agent's. Threads: with the loop lock, but where something says otherwise.
#ifndef DISTRIBUTED_AUTOGRAD_GRAPHS_H
#define DISTRIBUTED_AUTOGRAD_GRAPHS_H

#include "autograd/node.h"
#include "agent/agent.h"

// A slot of a send of some worker.
typedef struct mark {
    uint32_t rank, slot;
    uint64_t send;
} mark;

_Static_assert(sizeof(mark) == 16, "as on the wire");

// Sorted by rank, send, slot, none twice, once marks_sort has been called.
typedef struct marks {
    mark *items;
    uint32_t count, capacity;
} marks;

bool marks_add(marks *m, mark one);  // false without memory; so are the others
bool marks_add_all(marks *m, const mark *items, uint32_t count);
void marks_sort(marks *m);
bool marks_has(const marks *m, mark one);  // sorted
void marks_fini(marks *m);
void marks_write(const marks *m, bytes *b);
// PROTOCOL if they are not sorted, name workers that are not there, or are more than |max|.
gw_status marks_read(const agent *a, reader *r, uint32_t max, marks *out, gw_error *error);
// Reads them, too. Bytes that mean nothing name nobody.
bool marks_name_unknown(const agent *a, reader *r);

// ---- What was sent ----

typedef struct sent_slot {
    edge edge;  // counted
    uint8_t dtype;
    int dims;
    int64_t *sizes;
    marks reach;
    bool complete;
} sent_slot;

// The tracked tensors of one message, whoever receives it. Filled by one thread, then read by any.
typedef struct sent {
    gw_handle handle;
    agent *agent;  // whose message holds it
    uint64_t scope;
    uint32_t slot_count, slot_capacity, mark_count;
    sent_slot *slots;
} sent;

// One message with them to one worker.
typedef struct send {
    uint64_t id;
    int to;
    sent *sent;  // one count
    task burial;
} send;

send *sends_find_on_loop(agent *a, uint64_t id);   // NULL if there is none
void sends_forget_on_loop(agent *a, uint64_t id);  // nothing if there is none
gw_status sends_released_on_loop(agent *a, int from, message *m, gw_error *error);  // takes |m|
void sends_lost_on_loop(agent *a, int rank);
void sends_give_up_on_loop(agent *a, uint64_t id, int with);  // because that worker is lost
int sends_lost_with_on_loop(const agent *a, uint64_t id);     // who that was; -1: not known
// Why it is not there: because of the worker |lost|, or, with -1, as can be said without knowing.
void sends_gone_error(const agent *a, int lost, gw_error *out);
void sends_close(agent *a);  // without the loop lock

// ---- What was received ----

typedef struct receive {
    gw_handle handle;  // the arrived message's count
    node node;         // counted by that, and by what was made of it
    agent *agent;      // one count
    int from;
    uint64_t send;
    bool settled;    // the sender has let go of it
    list_node link;  // among |released|
    uint32_t slot_count;
    struct receive_slot {
        mark *reach;  // in |all|
        uint32_t reach_count;
        bool complete;
    } * slots;
    marks all;
} receive;

// The graph in a message, as an attachment.
gw_status graph_read_on_loop(agent *a, int from, reader *table, gw_handle **out, gw_error *error);
bool graph_names_unknown(const agent *a, reader *table);
gw_status graph_link(gw_handle *received, uint32_t slot, gw_tensor *x, gw_error *error);

receive *receive_of(const node *n);  // NULL if |n| is of another kind

// What lies upstream of |e|, of the slots that other workers have sent: their marks and all that is known to lie behind
// them. Looks at up to |nodes_max| nodes. False if there may be more; without memory, too.
bool reach_find(edge e, uint32_t nodes_max, marks *out);
// The same of all |edges|, however many nodes there are, each looked at once; in |open| those of them whose reach is not
// complete, and not among them. False without memory.
bool reach_find_next(const edge *edges, uint32_t count, marks *out, marks *open);

void receives_flush_on_loop(agent *a);
void receives_flush_soon_on_loop(agent *a);  // at the end of this turn
void receives_close_on_loop(agent *a);

// ---- The table ----

enum { PASSES_FAILED_BITS = 64 };

typedef struct lost_send {
    uint64_t id;
    int with;
} lost_send;

// Of the passes of one initiator: all below |settled| have ended, and bit i says of the pass settled - 1 - i that it has
// failed. As on the wire.
typedef struct passes_ended {
    uint64_t settled, failed;
} passes_ended;

struct graphs {
    agent *agent;
    uint64_t last_send;
    map sends;        // by id
    lost_send *lost;  // the last ones that were given up with a worker, by |lost_count| modulo that
    uint32_t lost_count, lost_capacity;

    list_node released;  // of receive
    uint32_t released_count;
    timer release_timer;
    task release_task;  // at the end of this turn
    bool releases_soon;

    list_node passes;                     // of across, by |link|
    list_node ending;                     // of across, by |ending|
    uint64_t last_pass;                   // begun here
    uint64_t failed[PASSES_FAILED_BITS];  // of these, at their number modulo that
    map others;                           // what is known of other initiators, by rank
    uint64_t mark_calls;                  // asked of others, for tests
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

// Passes on an agent, and graphs as attachments of messages.
extern const service pass_service;
extern const attachment_class graph_attachment;

static inline graphs *graphs_of(const agent *a) {
    return agent_state(a, &pass_service);
}

// Whether a gradient names a worker that this one has not heard of. Bytes that mean nothing name nobody.
bool gradient_names_unknown(const agent *a, const message *m);
gw_status graphs_received_on_loop(agent *a, int from, message *m, gw_error *error);  // takes |m|

#endif
