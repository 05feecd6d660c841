// The caller's side of calls.
#ifndef CALL_CALL_H
#define CALL_CALL_H

#include "agent/messages/message_io.h"
#include "call/calls.h"

// A call from its request being written to its being sent; on its caller's stack.
typedef struct call {
    agent *agent;
    gw_future *future;  // one count; NULL: one-way
    outgoing outgoing;
    request_fixed fixed;
    const gw_rref *through;  // a method of its object
    const char *origin;      // of gw_remote
    const char *called_at;   // in the program, "train.c:12"; or NULL
    context *context;        // of the call that it is made for; NULL: none
    gw_scope *scope;
    const char *function;
    int to;
    int64_t deadline_ns, length_ms;
    // Writes the number and the deadline into the head of a message that is no request; NULL: of a
    // request.
    void (*amend)(bytes *head, uint64_t call, uint64_t time_left_ns);
    gw_error error;  // why it cannot be sent; its status is GW_OK if it can
} call;

// Writes the request. Always to be followed by call_fini. Without the loop lock.
void call_init(call *c, gw_scope *s, gw_call_options options, gw_target to, const char *function,
               int count, const gw_value *args, bool wants_reply);
void call_init_fetch(call *c, gw_scope *s, int owner);  // the caller writes the message
void call_fini(call *c);                                // without the loop lock
// It cannot be sent: |status| stands unless the error has one, and the outcome is *not delivered*.
void call_set_error(call *c, gw_status status);

// The same call to another worker: copies the encoded arguments of |from|, which has not been sent yet.
void call_init_again(call *c, gw_scope *s, const call *from, gw_target to);

// Flow control: waits until it may be queued. Before anything that is to be drawn in the order of
// sending.
void call_await_flow_on_loop(call *c);
// Of a call that does not wait for its reply: if the function of gw_scope_set_interrupt has ended that wait, the scope
// fails, too.
void call_report_interrupt(const call *c);

// Sends it; on failure c->error is set, with its trace and outcome.
gw_status call_send_on_loop(call *c);

// Sends it from outside the loop lock; if that fails, so does its future.
void call_start(call *c);
gw_value call_sync(call *c, gw_scope *s);  // and waits

// The length until |deadline_ns| in the text of an error; 0 without a deadline.
int64_t call_length_ms(const agent *a, int64_t deadline_ns);

// The time that a call with |options| has from now on, -1: without end.
int64_t call_time_left_ns(gw_scope *s, gw_call_options options);

void call_expire_on_loop(gw_future *f);  // its deadline has passed
// The thread of |s| waits no longer: the deadline has passed, or the program has interrupted the wait.
void call_end_wait_on_loop(gw_future *f, gw_scope *s);
// Takes |m|. PROTOCOL for bytes that mean nothing.
gw_status call_replied_on_loop(agent *a, int from, message *m, gw_error *error);
bool call_cancel_on_loop(
    gw_future *f);  // notifies the callee, or ensures that the request never arrives; true
bool call_end_on_loop(gw_future *f, gw_error error);  // the same, with another reason
// call_await.c: the reply to |f| needs the program of the callee; |by_all|: or a function that any worker calls there.
void call_needs_program(gw_scope *s, gw_future *f, bool by_all);
void call_close_await_on_loop(gw_future *f);
void calls_lost_on_loop(agent *a, int rank);
void calls_close_on_loop(agent *a, const gw_error *why);

// As sources of futures: of a call; of a fetch of a call.
extern const future_source call_source;

#endif
