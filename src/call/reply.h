// What resolves something elsewhere: replies and promise values, which differ in their kind alone.
#ifndef CALL_REPLY_H
#define CALL_REPLY_H

#include "future/result.h"
#include "agent/outgoing.h"
#include "call/protocol.h"

// What tensors of a value are tracked as: sent in calls of this scope.
enum { SCOPE_NOT_TRACKED = 0 };
#define SCOPE_NOT_KNOWN UINT64_MAX

// Begins a message of |kind| with |v|, or with |error| if that is not NULL; if |v| cannot be sent, that is the error of
// |function|, which returned it. Without the loop lock. Fails only without memory.
gw_status reply_fill(outgoing *s, agent *a, uint8_t kind, uint64_t id, uint64_t scope,
                     const char *function, gw_value v, const gw_error *error);

// Sends what reply_fill has filled, or that there was no memory for it.
void reply_send_on_loop(outgoing *s, agent *a, int to, uint8_t kind, uint64_t id, bool filled,
                        bool flush);

// Sends what |r| is. Without the loop lock.
void reply_result(agent *a, int to, uint8_t kind, uint64_t id, result *r);

// Resolves with what came, once the promises in it have; takes |m|. |pins| as for result_of_incoming.
typedef void reply_resolve(void *user, result *r);  // takes |r|
void reply_resolve_on_loop(agent *a, int from, message *m, const reply_fixed *fixed,
                           size_t value_at, bool pins, reply_resolve *resolve, void *user);

// Nobody wants it: gives back the references in it. Takes |m|.
void reply_drop_on_loop(agent *a, int from, message *m, uint32_t attachments_at);

#endif
