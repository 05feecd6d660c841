// Outgoing messages: messages on their way out, with the references and promises in them.
//
// Values are encoded on the thread that has them, without the loop lock. References are listed and promises made when the
// message is sent, with the loop lock, so that what the table of attachments says is true at that moment.
//
// Ownership: lives on its user's stack; attachments are held until outgoing_fini. Threads: one.
#ifndef AGENT_OUTGOING_H
#define AGENT_OUTGOING_H

#include "agent/incoming.h"

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
    uint64_t frame;  // its last, once it is sent to another worker
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

// Sends it once. |attachments_field| is where the head says where its table of attachments is. On failure nothing has
// changed but that the outgoing message cannot be sent any more.
gw_status outgoing_send_on_loop(outgoing *s, int to, size_t attachments_field, bool flush,
                                gw_error *error);

#endif
