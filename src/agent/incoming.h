// Parcels: arrived messages with the references and promises in them already taken in.
//
// The table of specials is read when the message comes, with the role; values are decoded later, on the thread that
// wants them. What nobody decodes is given back with the parcel all the same (docs/PROTOCOL.md, R5).
#ifndef AGENT_INCOMING_H
#define AGENT_INCOMING_H

#include "future/future.h"
#include "wire/codec.h"

enum { SPECIAL_REFERENCE = 1, SPECIAL_PROMISE, SPECIAL_GRAPH };

typedef struct parcel_special {
    uint8_t type;
    gw_handle
        *handle;  // one count: a gw_rref, the future of a promise, or what graph_read_on_loop made
    struct parcel *parcel;
    continuation resolved;
} parcel_special;

typedef struct parcel {
    message *message;
    uint32_t special_count;
    uint32_t missing;                 // promises that have not resolved
    void (*ready)(struct parcel *p);  // with the role, when the last one has
    void *user;
    task burial;
    parcel_special specials[];
} parcel;

// Takes |m|, also on failure.
gw_status parcel_open_on_loop(agent *a, int from, message *m, uint32_t specials_at, parcel **out,
                              gw_error *error);
void parcel_close(parcel *p);  // without the role
void parcel_close_on_loop(agent *a, parcel *p);
void parcel_abandon_on_loop(parcel *p);  // will not be |ready| any more

// Calls |ready| once all promises have resolved; false if they have.
bool parcel_await_on_loop(parcel *p, void (*ready)(parcel *p), void *user);
// The error of the first promise that came as one, or NULL.
const gw_error *parcel_error(const parcel *p);

// A decoder of the values from |at| on; promises must have resolved.
decoder parcel_decoder(parcel *p, size_t at, gw_scope *s);

#endif
