// A backward pass across workers, at its initiator or at one participant. docs/protocol/passes.md.
//
// Ownership: the agent's list has it until it is dropped; the initiator's lives as long as gw_backward. Threads: the first
// group is never changed, the second changes with the loop lock, the third belongs to whoever runs the pass here: the thread in
// gw_backward, or the task or job of a participant, of which there is one at a time.
#ifndef DISTRIBUTED_AUTOGRAD_DISTRIBUTED_PASS_H
#define DISTRIBUTED_AUTOGRAD_DISTRIBUTED_PASS_H

#include "autograd/pass.h"
#include "distributed/autograd/graphs.h"
#include "agent/context.h"
#include "wire/codec.h"

typedef enum distributed_pass_state {
    DISTRIBUTED_PASS_MARKING,   // its marks have not come
    DISTRIBUTED_PASS_RUNNING,   // gradients of its marks have not come
    DISTRIBUTED_PASS_COMPLETE,  // its part is done; whether the whole is, is not known here
    DISTRIBUTED_PASS_SETTLED,   // it is
    DISTRIBUTED_PASS_DROPPED    // aborted, or its scope is closed
} distributed_pass_state;

typedef enum distributed_pass_event {
    DISTRIBUTED_PASS_MARKED,     // its marks have come
    DISTRIBUTED_PASS_DONE,       // its part has been run
    DISTRIBUTED_PASS_SUCCEEDED,  // the initiator says that it is over, and not that it has failed
    DISTRIBUTED_PASS_HEARD,      // another says so
    DISTRIBUTED_PASS_FAILED,     // here, or the initiator says so
    DISTRIBUTED_PASS_FOLDED,     // its gradients are in the sum of its scope
    DISTRIBUTED_PASS_CLOSED,     // its scope
    DISTRIBUTED_PASS_LOST        // its initiator
} distributed_pass_event;

typedef struct worker_set {
    uint64_t words[LIMIT_WORKERS / 64];
} worker_set;

static inline bool worker_set_has(const worker_set *w, int rank) {
    return w->words[rank / 64] >> (rank % 64) & 1;
}
static inline void worker_set_add(worker_set *w, int rank) {
    w->words[rank / 64] |= (uint64_t)1 << (rank % 64);
}

// A gradient message that came, or one that will go.
typedef struct distributed_pass_mail {
    list_node link;
    message *message;
    int peer;
    size_t values_at;  // of one that came: where its gradients begin
    uint64_t send;
} distributed_pass_mail;

// A slot of a send of this worker, whose gradient comes from outside.
typedef struct distributed_pass_input {
    mark mark;
    sent *sent;  // one count
    int from;    // whom it was sent to
    part part;
    bool came;
} distributed_pass_input;

typedef struct distributed_pass {
    agent *agent;
    int initiator;
    int by;  // who told of it first; -1: this worker, or who is gone
    uint64_t number, scope;
    bool retains, fast, leafless;

    list_node link, ending;
    distributed_pass_state state;
    marks marks;
    bool partial;  // |marks| are this worker's only
    bool runs;     // it is being run, or will be
    bool settled;  // it has been: gives up its graph, also if it is dropped since
    bool unsure;   // whether it has been settled elsewhere: gives up only its sends
    bool ends;     // dropped or settled, which is still to be carried out
    list_node inbox;
    uint32_t awaited,
        kept;  // gradients: at most, one for each marked slot of this worker; and that were put in |inbox|
    passes_ended heard;  // of the initiator's passes, with this one's messages
    worker_set undone;   // the initiator's: who has not said done
    int undone_count;
    gw_error error;   // the initiator's: its status is not GW_OK once the pass has failed
    waiter *waiting;  // the initiator's thread
    task task;
    pool_job job;

    gw_scope *root;                  // a participant's
    pass own, *pass;                 // of the initiator at first the one of gw_backward
    uint32_t counted_marks;          // of a participant, while it is not over
    bool folded, planned, is_large;  // large: its work belongs on the pool
    distributed_pass_input *inputs;  // in the order of |marks|
    uint32_t input_count, missing;
    list_node outbox;
    worker_set told;        // whom it has sent the marks
    gw_tensor_grad *grads;  // once complete; leaves counted, too
    int grad_count;
    uint32_t grads_changes;  // with the loop lock, as |grads| once it is complete
} distributed_pass;

enum {
    DISTRIBUTED_PASS_RETAINS = 1,
    DISTRIBUTED_PASS_FAST = 2,
    DISTRIBUTED_PASS_LEAFLESS = 4,
    DISTRIBUTED_PASS_MARKS = 8
};

// ---- Running, without the loop lock (run.c). False: the pass has failed, and its scope with it. ----

// What runs a pass that leads to other workers: see node_class.
void distributed_pass_run_from(pass *p, gw_tensor *const *roots, const part *parts, int count);
bool distributed_pass_plan(distributed_pass *x, gw_scope *s, gw_backward_options options);
bool distributed_pass_fail_memory(gw_scope *s);                      // false
bool distributed_pass_run(distributed_pass *x, list_node *arrived);  // takes what has come
bool distributed_pass_finish(distributed_pass *x);                   // all has come: |grads|
void distributed_pass_give_up_graph(
    distributed_pass *x);  // once settled: what the graph had saved, and sends
void distributed_pass_fini(distributed_pass *x);

// Of the initiator (marking.c): what |p| reaches on other workers, and here, asked where it is not known.
bool distributed_pass_find_marks(distributed_pass *x, const pass *p);

// A gradient that a receive's node hands on, in the scope of a pass's work.
void distributed_pass_send_gradients(gw_scope *work, receive *to, gw_tensor **gradients);
bool distributed_pass_tell_marks(distributed_pass *x,
                                 int to);  // and no gradient: puts it into the outbox
void distributed_pass_mail_free(list_node *mails);

// ---- With the loop lock (passes.c, messages.c) ----

distributed_pass *distributed_pass_open(agent *a, int initiator, uint64_t number, uint64_t scope);
void distributed_pass_note_failed_on_loop(const distributed_pass *x);  // the initiator's
passes_ended passes_ended_on_loop(const agent *a, int initiator);
void distributed_pass_send_outbox_on_loop(distributed_pass *x, list_node *mails);
void distributed_pass_abort_on_loop(const distributed_pass *x, int to, const gw_error *why);
void distributed_pass_fail_on_loop(distributed_pass *x, const gw_error *why);  // the initiator's
void distributed_pass_apply_on_loop(
    distributed_pass *x,
    distributed_pass_event event);  // states.c; nothing else changes its state
void distributed_pass_scope_closed_on_loop(agent *a, int to, uint64_t scope);
void distributed_pass_unlist_on_loop(distributed_pass *x);

#endif
