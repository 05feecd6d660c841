// Promises: futures that are arguments before they have resolved. docs/protocol/promises.md.
#ifndef CALL_PROMISE_H
#define CALL_PROMISE_H

#include "future/future.h"

// The promise of |future| to one consumer, at the worker that made it.
typedef struct forward {
    list_node link;  // in |forwards| of the future
    gw_future *future;
    uint64_t promise;
    int consumer;
    bool asked;     // of the callee, with a forward; else this worker sends the value
    bool of_owner;  // the value behind a reference: its owner sends it
    task send;
} forward;

forward *forward_open(gw_future *f);  // NULL without memory
void forward_free(forward *w);        // not yet started; NULL is fine
void forward_write_on_loop(forward *w, int consumer, bytes *table);
void forward_start_on_loop(forward *w);  // its request is on its way; takes |w|

// |f| has resolved: sends its value to those to whom nobody else does. What the callee was asked to send waits for its
// reply, which says how many forwards it has honoured (|honoured|).
void promise_keep_on_loop(gw_future *f);

// The consumer's side.
gw_status promise_read_on_loop(agent *a, int from, reader *table, gw_future **out, gw_error *error);
// The request that |f| was promised to will not run: nobody waits for the value any more.
void promise_abandon_on_loop(gw_future *f);
// Takes |m|. PROTOCOL for bytes that mean nothing.
gw_status promise_received_on_loop(agent *a, int from, message *m, gw_error *error);
// Why a reference to a value of |owner|, who is lost, is of no use.
void promise_explain_lost_owner(const member *owner, gw_error *out);
void promises_lost_on_loop(agent *a, int rank);
void promises_close_on_loop(agent *a, const gw_error *why);

#endif
