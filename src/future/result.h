// Results: what a future has resolved to, or a reference names. Set once, read by any number of scopes.
//
// A result is a value of this worker, an error, or an arrived message that each reader decodes into its own scope.
// Ownership: counted. Threads: immutable; counted on any thread, see result_release_on_loop.
#ifndef FUTURE_RESULT_H
#define FUTURE_RESULT_H

#include "agent/incoming.h"

typedef struct result result;

struct result {
    _Atomic uint32_t count;
    bool pins;           // the message's blocks: readers' tensors are views of them
    gw_error *error;     // set: an error
    incoming *incoming;  // set: decoded at |value_at|
    size_t value_at;
    gw_value value;  // owned
    task burial;
};

// A copy of |v|. NULL without memory.
result *result_of_value(gw_value v);
// Never NULL: without memory it is the error that there is none.
result *result_of_error(const gw_error *error);
// Takes |p|. |pins| if it may be read more than once. NULL without memory, then |p| is still the caller's.
result *result_of_incoming(incoming *p, size_t value_at, bool pins);

result *result_retain(result *r);
void result_release(result *r);  // without the loop lock: may run destructors of what it holds
void result_release_on_loop(agent *a, result *r);

// The value, made in |s|; fails |s| with the error.
gw_value result_give(result *r, gw_scope *s);

// The error, or NULL.
static inline const gw_error *result_error(const result *r) {
    return r->error;
}

#endif
