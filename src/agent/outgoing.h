// Shipments: messages on their way out, with the references and promises in them.
//
// Values are encoded on the thread that has them, without the role. References are listed and promises made when the
// message is sent, with the role, so that what the table of specials says is true at that moment.
//
// Ownership: lives on its user's stack; specials are held until shipment_fini. Threads: one.
#ifndef AGENT_OUTGOING_H
#define AGENT_OUTGOING_H

#include "agent/incoming.h"

struct forward;

typedef struct shipped {
    uint8_t type;  // SPECIAL_...
    gw_handle *handle;
    struct forward *forward;  // of a promise, until it is sent
    size_t written_at;
} shipped;

enum { SHIPMENT_SPECIALS_KEPT = 2 };

typedef struct shipment {
    agent *agent;
    message *message;  // until it is sent
    encoder encoder;
    shipped *specials;
    uint32_t special_count, special_capacity;
    shipped kept[SHIPMENT_SPECIALS_KEPT];
    bool resolves;   // references stand for their values
    uint64_t scope;  // in whose calls it is sent
    int graph;       // the special of its tracked tensors; -1: none yet
    uint64_t frame;  // its last, once it is sent to another worker
} shipment;

// Always to be followed by shipment_fini.
gw_status shipment_init(shipment *s, agent *a, message_kind kind, gw_error *error);
// The same message again, which has not been sent yet: numbers of large tensors are shared.
gw_status shipment_init_again(shipment *s, const shipment *from, gw_error *error);
void shipment_fini(shipment *s);  // without the role

// From here on tensors that need a gradient are tracked, as sent in calls of the scope of this id.
void shipment_track(shipment *s, uint64_t scope);

gw_status shipment_put(shipment *s, gw_value v, gw_error *error);
void shipment_put_error(shipment *s, const gw_error *e);

// Sends it once. |specials_field| is where the head says where its table of specials is. On failure nothing has changed but
// that the shipment cannot be sent any more.
gw_status shipment_send_on_loop(shipment *s, int to, size_t specials_field, bool flush,
                                gw_error *error);

#endif
