// Outgoing and incoming messages, with the values and attachments in them.
#ifndef AGENT_MESSAGES_MESSAGE_IO_H
#define AGENT_MESSAGES_MESSAGE_IO_H

#include "agent/state/agent.h"
#include "wire/codec.h"

// ---- Outgoing -----------------------------------------------------------------------------------
//
// Values are encoded on the thread that has them, without the loop lock. References are listed and promises made when the
// message is sent, with the loop lock, so that the table of attachments is correct at that moment.
//
// Ownership: lives on its user's stack; attachments are held until outgoing_fini. Threads: one.

typedef struct outgoing_attachment {
    const attachment_class *class;
    gw_handle *handle;  // one count
    void *prepared;     // until it is sent
    size_t written_at;
} outgoing_attachment;

enum { OUTGOING_ATTACHMENTS_INSIDE = 2 };

typedef struct outgoing {
    agent *agent;
    message *message;  // until it is sent
    encoder encoder;
    outgoing_attachment *attachments;
    uint32_t attachment_count, attachment_capacity;
    outgoing_attachment inside[OUTGOING_ATTACHMENTS_INSIDE];
    bool resolves;   // attachments stand for the values behind them
    uint64_t scope;  // in whose calls it is sent
    int graph;       // the attachment of its tracked tensors; -1: none yet
    uint64_t id;     // its, once it is sent to another worker: peers_last_message
} outgoing;

// Always to be followed by outgoing_fini.
gw_status outgoing_init(outgoing *s, agent *a, uint8_t kind, gw_error *error);
// The same message again, which has not been sent yet: numbers of large tensors are shared.
gw_status outgoing_init_again(outgoing *s, const outgoing *from, gw_error *error);
void outgoing_fini(outgoing *s);  // without the loop lock

// From here on tensors that need a gradient are tracked, as sent in calls of the scope of this id.
void outgoing_track(outgoing *s, uint64_t scope);

gw_status outgoing_put(outgoing *s, gw_value v, gw_error *error);
void outgoing_put_error(outgoing *s, const gw_error *e);

// The number of its bytes that will be sent to |to|.
uint64_t outgoing_size_on_loop(const outgoing *s, int to);

// Sends it once. |attachments_field| is the offset of the field in the head that has the offset of the table of
// attachments. On failure nothing has changed but that the outgoing message cannot be sent any more.
gw_status outgoing_send_on_loop(outgoing *s, int to, size_t attachments_field, bool flush,
                                gw_error *error);

// ---- Incoming -----------------------------------------------------------------------------------
//
// The table of attachments is read when the message arrives, with the loop lock; values are decoded later, on the thread
// that uses them. The references in a message that is never decoded are released with it as well (REF-5).

typedef struct incoming_attachment {
    const attachment_class *class;
    gw_handle *handle;  // one count
    struct incoming *incoming;
    continuation resolved;
} incoming_attachment;

typedef struct incoming {
    message *message;
    uint32_t attachment_count;
    uint32_t missing;                   // promises that have not resolved, and segments
    void (*ready)(struct incoming *p);  // with the loop lock, when the last one has
    void (*whole)(struct incoming *p);  // the same for its segments
    void *user;
    task deferred_free;
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
// Calls |whole| once its segments have arrived; false if they have already.
bool incoming_await_segments_on_loop(incoming *p, void (*whole)(incoming *p));
// From here on they are awaited like a promise.
void incoming_count_segments_on_loop(incoming *p);
// The error of the first promise that has resolved to an error, or NULL.
const gw_error *incoming_error(const incoming *p);

// A decoder of the values from |at| on; promises must have resolved, and segments have arrived.
decoder incoming_decoder(incoming *p, size_t at, gw_scope *s);

#endif
