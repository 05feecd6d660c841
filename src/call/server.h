// The callee's side of calls. docs/protocol/calls.md.
//
// Ownership: a served call is held by the agent until it has replied and its body has ended. Threads: with the loop lock, but while
// its body runs.
#ifndef CALL_SERVER_H
#define CALL_SERVER_H

#include "agent/context.h"
#include "agent/incoming.h"
#include "future/result.h"
#include "call/server_queue.h"
#include "call/calls.h"

typedef enum served_call_state {
    SERVING_ARGUMENTS,  // waits for promises, and for its target to be made
    SERVING_ROOM,       // waits for room for replies to its caller
    SERVING_ORDER,      // waits for its call queue
    SERVING_TURN,       // waits for the turn of its object
    SERVING_PLACE,      // waits for the end of the turn, or for a thread
    SERVING_RUNNING,
    SERVING_RESULT  // waits for the future that the body returned
} served_call_state;

// Who else wants the result (PROM-1).
typedef struct wanted {
    list_node link;
    int consumer;
    uint64_t promise;
} wanted;

typedef struct served_call {
    agent *agent;
    int caller;
    request_header header;
    served_call_state state;
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
    incoming *incoming;  // the arguments

    // references
    entry *target, *result_entry;
    continuation target_made;
    object *object;
    turn_request turn;
    held_turn held;

    // its place in the queues
    call_queue *queue;
    list_node queue_link;
    list_node deferred_link;
    pool_job job;
    task task;

    // running
    bool ran;
    gw_scope *scope;
    context context;
    gw_future *returned;
    bool gave_up;  // waiting for it
    continuation returned_done;
} served_call;

// Messages; they take |m|. PROTOCOL for bytes that mean nothing.
gw_status served_call_requested_on_loop(agent *a, int from, message *m, gw_error *error);
gw_status served_call_forward_on_loop(agent *a, int from, message *m, gw_error *error);
gw_status served_call_cancelled_on_loop(agent *a, int from, message *m, gw_error *error);
gw_status served_call_withdrawn_on_loop(agent *a, int from, message *m, gw_error *error);

void served_calls_lost_on_loop(agent *a, int rank);
void served_calls_close_on_loop(agent *a, const gw_error *why);

// What has not started does not run, what runs is told, what waits for a future does so no longer. |why| is what it would
// have been.
void served_call_cancel_on_loop(served_call *s, cancel_reason reason, const gw_error *why);

// Between the files of serving.
void served_call_admit_on_loop(served_call *s);  // its call queue lets it go
void served_call_queue_on_loop(served_call *s);  // its arguments are there
void served_call_start_on_loop(served_call *s);  // its body is about to run
const void *served_call_queue(served_call *s);   // where it will wait once admitted
void served_call_run(served_call *s);            // its body and what follows, without the loop lock
served_call *served_call_run_inline(served_call *s,
                                    bool flush);  // the same; the next of its call queue
void served_call_refuse_on_loop(served_call *s, const gw_error *error);  // it will not run
void served_call_refuse_with_on_loop(served_call *s, gw_error error,
                                     bool trail);  // the same, with names
// Without a serving: nothing is known but who called.
void served_call_refuse_unread_on_loop(agent *a, int to, uint64_t call, const gw_error *error);
void served_call_log_on_loop(agent *a, const gw_error *error);  // of a one-way call
void served_call_await_on_loop(served_call *s);  // its arguments, from where it goes on by itself
void served_call_stop_awaiting_on_loop(served_call *s);  // the future that its body returned
void served_call_free_on_loop(served_call *s);
void served_call_describe(const served_call *s, char *out, size_t size);  // "p1: slow"

#endif
