// Cancelling: a request, which is passed on to whoever works for the one that is cancelled. CALL-8 to CALL-10.
#ifndef CALL_CANCEL_H
#define CALL_CANCEL_H

#include "agent/context.h"
#include "future/future.h"

// Resolves |f| with CANCELLED, unless it has resolved, and tells whoever would have completed it.
void future_cancel_on_loop(gw_future *f);

// The caller is about to give back its count on |f|: cancels it, if then nobody is left who could get its value.
void future_abandon_on_loop(gw_future *f);

// Of a call that is out: tells the callee, or sees to it that the request never arrives.
void call_cancel_on_loop(gw_future *f);

// Cancels what runs in |c|: its wait ends, and so do the calls made in it.
void context_cancel_on_loop(context *c, cancel_reason reason);

// CANCELLED with a sentence, if the call that |s| is part of has been cancelled.
gw_status context_check_cancelled(gw_scope *s, gw_error *error);

#endif
