// The callee's side of calls. docs/protocol/calls.md.
//
// Ownership: a served call is held by the agent until it has replied and its body has ended.
// Threads: with the loop lock, but while its body runs.
#ifndef CALL_SERVER_H
#define CALL_SERVER_H

#include "agent/bodies/context.h"
#include "agent/messages/message_io.h"
#include "future/future.h"
#include "call/server_queue.h"
#include "call/calls.h"

// The awaited event.
typedef enum served_call_state {
    SERVED_ARGUMENTS,  // promises, and its target to be made
    SERVED_DEFERRED,   // flow control: replies to its caller to be acknowledged
    SERVED_ORDER,      // its call queue
    SERVED_TURN,       // the turn of its object
    SERVED_SCHEDULED,  // the end of the iteration, or a thread
    SERVED_RUNNING,    // its body
    SERVED_RESULT,     // the future that the body returned
    SERVED_ENDED       // nothing: it has been replied to, or needs no reply
} served_call_state;

typedef enum served_call_event {
    SERVED_READY,      // all its arguments have arrived, or it may be tried again
    SERVED_BLOCKED,    // too many bytes of replies to its caller are queued
    SERVED_ADMITTED,   // by its call queue
    SERVED_TO_OBJECT,  // the same for a method
    SERVED_GRANTED,    // the turn
    SERVED_STARTED,    // it has its thread
    SERVED_RETURNED,   // a future
    SERVED_REPLIED,    // the result is set
    SERVED_REFUSED     // it will not run
} served_call_event;

// Other consumers of the result (PROM-1).
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
    bool abandoned;  // the caller is lost: there is no reply
    int64_t deadline_ns;
    list_node sibling;      // in |served| of the caller
    uint64_t queued_bytes;  // counted as the caller's, until it starts
    timer expiry;           // while it has not started
    list_node forwards;     // of wanted
    bool forwards_end;      // no more are honoured

    // the called function: one of these
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

    // its position in the queues
    call_queue *queue;
    bool admitted;  // by it
    list_node queue_link;
    list_node deferred_link;
    pool_job job;
    task task;

    int64_t seen_ns;  // when observe_on_loop first saw it in its state; 0: not yet

    // running
    _Atomic int tid;  // of its thread
    bool ran, has_failed;
    int64_t took_ns;  // its body
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

// A call that has not started does not run, a running one is notified, one that waits for a future does so no longer.
// |why| is the error of its reply.
void served_call_cancel_on_loop(served_call *s, cancel_reason reason, const gw_error *why);

// Less is queued for |rank|: starts calls of it that wait for that.
void served_calls_resume_on_loop(agent *a, int rank);

// Starts the calls that have waited since the agent was opened with .serve_later.
void served_calls_begin_on_loop(agent *a);

// ---- Between the files of the server ------------------------------------------------------------

// server_queue.c: nothing else changes its state. Afterwards the call may be gone.
void served_call_apply_on_loop(served_call *s, served_call_event event);

// Actions of the table.
void served_call_enter_queue_on_loop(
    served_call *s);  // finds its method, and its position in order
void served_call_take_turn_on_loop(served_call *s);
void served_call_schedule_on_loop(served_call *s);
void served_call_start_on_loop(served_call *s);

void served_call_admit_on_loop(served_call *s);            // its call queue lets it go
bool served_call_may_start_on_loop(const served_call *s);  // flow control, and gw_rpc_serve
const void *served_call_queue(served_call *s);             // where it will wait once admitted
void served_call_run(served_call *s);  // its body and the rest, without the loop lock
served_call *served_call_run_inline(served_call *s,
                                    bool flush);  // the same; the next of its call queue
void served_call_refuse_on_loop(served_call *s, const gw_error *error);  // it will not run
void served_call_refuse_with_on_loop(served_call *s, gw_error error,
                                     bool trail);  // the same, with names
// Without a served call: only the caller is known.
void served_call_refuse_unread_on_loop(agent *a, int to, uint64_t call, const gw_error *error);
void served_call_log_on_loop(agent *a, const gw_error *error);  // of a one-way call
void served_call_await_on_loop(served_call *s);  // its arguments; it continues by itself then
void served_call_stop_awaiting_on_loop(served_call *s);  // the future that its body returned
void served_call_free_on_loop(served_call *s);           // it has ended

#endif
