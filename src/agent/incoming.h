// Incoming messages: arrived messages with the references and promises in them already taken in.
//
// The table of attachments is read when the message comes, with the loop lock; values are decoded later, on the thread that
// wants them. What nobody decodes is given back with the incoming message all the same (REF-5).
#ifndef AGENT_INCOMING_H
#define AGENT_INCOMING_H

#include "agent/agent.h"
#include "wire/codec.h"

typedef struct incoming_attachment {
    const attachment_class *class;
    gw_handle *handle;  // one count
    struct incoming *incoming;
    continuation resolved;
} incoming_attachment;

typedef struct incoming {
    message *message;
    uint32_t attachment_count;
    uint32_t missing;                   // promises that have not resolved
    void (*ready)(struct incoming *p);  // with the loop lock, when the last one has
    void *user;
    task burial;
    incoming_attachment attachments[];
} incoming;

// Takes |m|, also on failure.
gw_status incoming_open_on_loop(agent *a, int from, message *m, uint32_t attachments_at,
                                incoming **out, gw_error *error);
void incoming_close(incoming *p);  // without the loop lock
void incoming_close_on_loop(agent *a, incoming *p);
void incoming_abandon_on_loop(incoming *p);  // will not be |ready| any more

// Calls |ready| once all promises have resolved; false if they have.
bool incoming_await_on_loop(incoming *p, void (*ready)(incoming *p), void *user);
// The error of the first promise that came as one, or NULL.
const gw_error *incoming_error(const incoming *p);

// A decoder of the values from |at| on; promises must have resolved.
decoder incoming_decoder(incoming *p, size_t at, gw_scope *s);

#endif
