// A distributed pass: a backward pass over the graphs of several workers, as its initiator or one
// participant sees it. docs/protocol/passes.md is the specification.
//
// Ownership: the agent's list holds a participant's part until it is dropped; the initiator's part
// lives as long as gw_backward. Threads: the first group of fields never changes; the second group changes with the
// loop lock held; the third group belongs to the thread that runs the pass on this worker (in gw_backward, or in the
// task or job of a participant).
#ifndef DISTRIBUTED_AUTOGRAD_DISTRIBUTED_PASS_H
#define DISTRIBUTED_AUTOGRAD_DISTRIBUTED_PASS_H

#include "autograd/pass.h"
#include "distributed/autograd/graphs.h"
#include "agent/bodies/context.h"
#include "wire/codec.h"

typedef enum distributed_pass_state {
    DISTRIBUTED_PASS_MARKING,   // awaits the marks
    DISTRIBUTED_PASS_RUNNING,   // awaits a gradient for each marked slot
    DISTRIBUTED_PASS_REDUCING,  // awaits the late answers on this worker: of nodes and gates
    DISTRIBUTED_PASS_COMPLETE,  // this part is done; awaits whether the whole pass succeeds
    DISTRIBUTED_PASS_SETTLED,   // the whole pass has succeeded
    DISTRIBUTED_PASS_DROPPED    // aborted, or its scope is closed
} distributed_pass_state;

typedef enum distributed_pass_event {
    DISTRIBUTED_PASS_MARKED,     // the marks have arrived
    DISTRIBUTED_PASS_REDUCES,    // all gradients of others have arrived, but not all late answers
    DISTRIBUTED_PASS_DONE,       // this worker has run its part
    DISTRIBUTED_PASS_SUCCEEDED,  // the initiator reports that the pass is over and has not failed
    DISTRIBUTED_PASS_RELAYED,    // another participant reports so
    DISTRIBUTED_PASS_FAILED,  // the part failed here, or the initiator reports that the pass failed
    DISTRIBUTED_PASS_FOLDED,  // an older pass of the scope has taken over the gradients
    DISTRIBUTED_PASS_CLOSED,  // the initiator has closed the scope
    DISTRIBUTED_PASS_LOST     // the initiator is lost
} distributed_pass_event;

// A gradient message that was received, or one that is to be sent.
typedef struct distributed_pass_mail {
    list_node link;
    message *message;
    int peer;
    size_t values_at;  // of a received one: where its gradients begin
    uint64_t send;
} distributed_pass_mail;

// A marked slot of a send of this worker: another worker sends the gradient for it.
typedef struct distributed_pass_input {
    mark mark;
    sent *sent;  // one count
    int from;    // the receiver of the send, which sends the gradient
    part part;
    bool arrived;
} distributed_pass_input;

typedef struct distributed_pass {
    agent *agent;
    int initiator;
    int by;  // the worker whose message opened it; -1: this worker, or one that is lost
    uint64_t number, scope;
    bool retains, fast, leafless, not_synchronised;

    list_node link, ending;
    distributed_pass_state state;
    marks marks;
    bool partial;  // |marks| has only the slots of this worker
    bool runs;     // a thread runs it, or a task or job that will is queued
    bool settled;  // it was SETTLED: its graph is given up, also if it is DROPPED by now
    bool unsure;   // other workers may have settled it: only its sends are given up
    bool ends;     // it is SETTLED or DROPPED, and distributed_pass_end has not run
    list_node inbox;
    uint32_t awaited;      // gradients that may arrive: one for each marked slot of this worker
    uint32_t received;     // gradients that were put into |inbox|
    passes_ended relayed;  // the initiator's passes that are over, in this one's messages
    worker_set undone;     // the initiator's: participants that have not sent done
    int undone_count;
    gw_error error;   // its status is not GW_OK once the pass has failed; a participant's: why
    waiter *waiting;  // the initiator's thread
    bool answered;    // a late answer has arrived that no thread has taken
    task task;
    pool_job job;

    gw_scope *root;          // a participant's
    pass own, *pass;         // |pass|: the initiator's begins as the one of gw_backward
    uint32_t counted_marks;  // a participant's: marks that count against |by| while it is not over
    bool folded, planned, is_large;  // large: its work belongs on the pool
    distributed_pass_input *inputs;  // in the order of |marks|
    uint32_t input_count, missing;
    list_node outbox;
    worker_set marks_sent_to;  // workers to which it has sent the marks
    gw_tensor_grad *grads;     // once complete; one count on each gradient and each leaf
    int grad_count;
    int grad_replaces;       // those from here on replace earlier passes' gradients
    uint32_t grads_changes;  // as |grads|, with the loop lock held once the part is complete
} distributed_pass;

enum {
    DISTRIBUTED_PASS_RETAINS = 1,
    DISTRIBUTED_PASS_FAST = 2,
    DISTRIBUTED_PASS_LEAFLESS = 4,
    DISTRIBUTED_PASS_MARKS = 8,
    DISTRIBUTED_PASS_NOT_SYNCHRONISED = 16,
    DISTRIBUTED_PASS_FLAGS = 31
};

// ---- Running, without the loop lock (run.c). False: the pass and its scope have failed. ---------

// Runs a pass that leads to other workers: node_class.run_distributed of a receive.
void distributed_pass_run_from(pass *p, gw_tensor *const *roots, const part *parts, int count);
bool distributed_pass_plan(distributed_pass *x, gw_scope *s, gw_backward_options options);
bool distributed_pass_fail_memory(gw_scope *s);  // returns false
// Takes the messages in |arrived| and runs the nodes that have all their gradients.
bool distributed_pass_run(distributed_pass *x, list_node *arrived);
// Fills |grads| once all gradients have arrived.
bool distributed_pass_finish(distributed_pass *x);
// The flags of its gradient messages.
uint8_t distributed_pass_flags(const distributed_pass *x);
// Frees the saved values of the graph, and its sends, once the pass is settled.
void distributed_pass_give_up_graph(distributed_pass *x);
void distributed_pass_fini(distributed_pass *x);

// The initiator's mark phase (marking.c): finds all marks of |p|, and requests from other workers those
// that this one does not have.
bool distributed_pass_find_marks(distributed_pass *x, const pass *p);

// Queues the gradients of a receive's node for the sender of its send, in the scope of the pass.
void distributed_pass_send_gradients(gw_scope *work, receive *to, gw_tensor **gradients);
// Queues a message to |to| that has the marks and no gradient.
bool distributed_pass_send_marks(distributed_pass *x, int to);
void distributed_pass_mail_free(list_node *mails);

// How a pass that stays in one process waits for late answers (waiting.c).
extern const late_waiting distributed_late_waiting;
int64_t distributed_late_until_ns(const agent *a, gw_scope *s);

// The workers that the passes of a scope have visited, which are notified when it closes.
typedef struct pass_visited {
    list_node link;
    agent *agent;  // one count
    uint64_t scope;
    worker_set workers;
} pass_visited;

void pass_visited_close(pass_visited *v);  // takes it

// ---- With the loop lock (passes.c) --------------------------------------------------------------

distributed_pass *distributed_pass_open(agent *a, int initiator, uint64_t number, uint64_t scope);
void distributed_pass_note_failed_on_loop(const distributed_pass *x);  // the initiator's
passes_ended passes_ended_on_loop(const agent *a, int initiator);
void distributed_pass_unlist_on_loop(distributed_pass *x);

// run.c: takes |mails| in their order, up to one that cannot be sent: then false with |error| set.
bool distributed_pass_send_outbox_on_loop(distributed_pass *x, list_node *mails, gw_error *error);
// deferred.c.
void distributed_pass_abort_on_loop(const distributed_pass *x, int to, const gw_error *why);
// states.c: nothing else changes the state of a participant's part.
void distributed_pass_apply_on_loop(distributed_pass *x, distributed_pass_event event);
void distributed_pass_fail_on_loop(distributed_pass *x, const gw_error *why);  // the initiator's
// participant.c: late answers of |x| go to the thread, task or job that runs it.
void distributed_pass_expect_answers(distributed_pass *x);

#endif
