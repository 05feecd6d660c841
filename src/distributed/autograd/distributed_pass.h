// A backward pass across workers, at its initiator or at one participant. docs/PROTOCOL.md, "Passes".
//
// Ownership: the agent's list has it until it is dropped; the initiator's lives as long as gw_backward. Threads: the first
// group is never changed, the second changes with the role, the third belongs to whoever runs the pass here: the thread in
// gw_backward, or the task or job of a participant, of which there is one at a time.
#ifndef DISTRIBUTED_AUTOGRAD_DISTRIBUTED_PASS_H
#define DISTRIBUTED_AUTOGRAD_DISTRIBUTED_PASS_H

#include "autograd/pass.h"
#include "distributed/autograd/graphs.h"
#include "agent/context.h"
#include "wire/codec.h"

typedef enum across_state {
    ACROSS_MARKING,   // its marks have not come
    ACROSS_RUNNING,   // gradients of its marks have not come
    ACROSS_COMPLETE,  // its part is done; whether the whole is, is not known here
    ACROSS_SETTLED,   // it is
    ACROSS_DROPPED    // aborted, or its scope is closed
} across_state;

typedef enum across_event {
    ACROSS_MARKED,     // its marks have come
    ACROSS_DONE,       // its part has been run
    ACROSS_SUCCEEDED,  // the initiator says that it is over, and not that it has failed
    ACROSS_HEARD,      // another says so
    ACROSS_FAILED,     // here, or the initiator says so
    ACROSS_FOLDED,     // its gradients are in the sum of its scope
    ACROSS_CLOSED,     // its scope
    ACROSS_LOST        // its initiator
} across_event;

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
typedef struct across_mail {
    list_node link;
    message *message;
    int peer;
    size_t values_at;  // of one that came: where its gradients begin
    uint64_t send;
} across_mail;

// A slot of a send of this worker, whose gradient comes from outside.
typedef struct across_input {
    mark mark;
    sent *sent;  // one count
    int from;    // whom it was sent to
    part part;
    bool came;
} across_input;

typedef struct across {
    agent *agent;
    int initiator;
    int by;  // who told of it first; -1: this worker, or who is gone
    uint64_t number, scope;
    bool retains, fast, leafless;

    list_node link, ending;
    across_state state;
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
    across_input *inputs;            // in the order of |marks|
    uint32_t input_count, missing;
    list_node outbox;
    worker_set told;        // whom it has sent the marks
    gw_tensor_grad *grads;  // once complete; leaves counted, too
    int grad_count;
    uint32_t grads_changes;  // with the role, as |grads| once it is complete
} across;

enum { ACROSS_RETAINS = 1, ACROSS_FAST = 2, ACROSS_LEAFLESS = 4, ACROSS_MARKS = 8 };

// ---- Running, without the role (run.c). False: the pass has failed, and its scope with it. ----

bool across_plan(across *x, gw_scope *s, gw_backward_options options);
bool across_fail_memory(gw_scope *s);            // false
bool across_run(across *x, list_node *arrived);  // takes what has come
bool across_finish(across *x);                   // all has come: |grads|
void across_give_up_graph(across *x);  // once settled: what the graph had saved, and sends
void across_fini(across *x);

// Of the initiator (marking.c): what |p| reaches on other workers, and here, asked where it is not known.
bool across_find_marks(across *x, const pass *p);

// A gradient that a receive's node hands on, in the scope of a pass's work.
void across_send_gradients(gw_scope *work, receive *to, gw_tensor **gradients);
bool across_tell_marks(across *x, int to);  // and no gradient: puts it into the outbox
void across_mail_free(list_node *mails);

// ---- With the role (passes.c, messages.c) ----

across *across_open(agent *a, int initiator, uint64_t number, uint64_t scope);
void across_note_failed_on_loop(const across *x);  // the initiator's
passes_ended passes_ended_on_loop(const agent *a, int initiator);
void across_send_outbox_on_loop(across *x, list_node *mails);
void across_abort_on_loop(const across *x, int to, const gw_error *why);
void across_fail_on_loop(across *x, const gw_error *why);  // the initiator's
void across_apply_on_loop(across *x,
                          across_event event);  // states.c; nothing else changes its state
void across_scope_closed_on_loop(agent *a, int to, uint64_t scope);
void across_unlist_on_loop(across *x);

#endif
