// The callee's side of calls. docs/PROTOCOL.md, "States of a served call".
//
// Ownership: a serving is held by the agent until it has replied and its body has ended. Threads: with the role, but while
// its body runs.
#ifndef CALL_SERVER_H
#define CALL_SERVER_H

#include "agent/context.h"
#include "agent/incoming.h"
#include "future/result.h"
#include "call/server_queue.h"
#include "agent/upward.h"

typedef enum serving_state {
    SERVING_ARGUMENTS,  // waits for promises, and for its target to be made
    SERVING_ROOM,       // waits for room for replies to its caller
    SERVING_ORDER,      // waits for its strand
    SERVING_TURN,       // waits for the turn of its object
    SERVING_PLACE,      // waits for the end of the turn, or for a thread
    SERVING_RUNNING,
    SERVING_RESULT  // waits for the future that the body returned
} serving_state;

// Who else wants the result (docs/PROTOCOL.md, P1).
typedef struct wanted {
    list_node link;
    int consumer;
    uint64_t promise;
} wanted;

typedef struct serving {
    agent *agent;
    int caller;
    request_header header;
    serving_state state;
    bool abandoned;  // the caller is lost: nobody wants a reply
    int64_t deadline_ns;
    list_node sibling;      // in |served| of the caller
    uint64_t queued_bytes;  // counted as the caller's, until it starts
    timer expiry;           // while it has not started
    list_node forwards;     // of wanted
    bool forwards_end;      // no more are honoured

    // what is called: one of these
    const function *function;
    const op *op;
    const class *class;  // of a method
    parcel *parcel;      // the arguments

    // references
    entry *target, *result_entry;
    continuation target_made;
    object *object;
    turn_request turn;
    held_turn held;

    // its place in the queues
    strand *strand;
    list_node strand_link;
    list_node held_link;
    pool_job job;
    task task;

    // running
    bool ran;
    gw_scope *scope;
    context context;
    gw_future *returned;
    bool gave_up;  // waiting for it
    continuation returned_done;
} serving;

// Messages; they take |m|. PROTOCOL for bytes that mean nothing.
gw_status serving_requested_on_loop(agent *a, int from, message *m, gw_error *error);
gw_status serving_forward_on_loop(agent *a, int from, message *m, gw_error *error);
gw_status serving_cancelled_on_loop(agent *a, int from, message *m, gw_error *error);
gw_status serving_withdrawn_on_loop(agent *a, int from, message *m, gw_error *error);

void servings_lost_on_loop(agent *a, int rank);
void servings_close_on_loop(agent *a, const gw_error *why);

// What has not started does not run, what runs is told, what waits for a future does so no longer. |why| is what it would
// have been.
void serving_cancel_on_loop(serving *s, cancel_reason reason, const gw_error *why);

// Between the files of serving.
void serving_admit_on_loop(serving *s);               // its strand lets it go
void serving_queue_on_loop(serving *s);               // its arguments are there
void serving_start_on_loop(serving *s);               // its body is about to run
const void *serving_queue(serving *s);                // where it will wait once admitted
void serving_run(serving *s);                         // its body and what follows, without the role
serving *serving_run_inline(serving *s, bool flush);  // the same; the next of its strand
void serving_refuse_on_loop(serving *s, const gw_error *error);            // it will not run
void serving_refuse_with_on_loop(serving *s, gw_error error, bool trail);  // the same, with names
// Without a serving: nothing is known but who called.
void serving_refuse_unread_on_loop(agent *a, int to, uint64_t call, const gw_error *error);
void serving_log_on_loop(agent *a, const gw_error *error);  // of a one-way call
void serving_await_on_loop(serving *s);          // its arguments, from where it goes on by itself
void serving_stop_awaiting_on_loop(serving *s);  // the future that its body returned
void serving_free_on_loop(serving *s);
void serving_describe(const serving *s, char *out, size_t size);  // "p1: slow"

#endif
