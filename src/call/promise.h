// Promises: futures that are arguments before they have resolved. docs/protocol/promises.md.
#ifndef CALL_PROMISE_H
#define CALL_PROMISE_H

#include "agent/messages/message_io.h"
#include "call/calls.h"

// The promise of |future| to one consumer, at the worker that made it.
typedef struct forward {
    list_node link;  // in |forwards| of the future
    gw_future *future;
    uint64_t promise;
    int consumer;
    bool requested;  // from the callee, with a forward; else this worker sends the value
    bool of_owner;   // the value behind a reference: its owner sends it
    task send;
} forward;

// Promises as attachments of messages.
extern const attachment_class promise_attachment;

// Takes |m|. PROTOCOL for bytes that mean nothing.
gw_status promise_received_on_loop(agent *a, int from, message *m, gw_error *error);
// The error of a reference to a value of |owner|, which is lost.
void promise_explain_lost_owner(const member *owner, gw_error *out);
void promises_lost_on_loop(agent *a, int rank);
void promises_close_on_loop(agent *a, const gw_error *why);

#endif
