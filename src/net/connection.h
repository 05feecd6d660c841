// A connection, from the handshake to its end. A connection sends and receives handshakes, of any peer; later bytes go
// to its owner.
//
// Ownership: the side that opened a connection, or to which a connection was passed, closes it, possibly inside the
// connection's events; afterwards nothing touches the connection. Threads: with the loop lock held.
#ifndef NET_CONNECTION_H
#define NET_CONNECTION_H

#include "net/handshake.h"
#include "net/tls/protection.h"
#include "net/transport/routes.h"

typedef struct connection connection;

// The buffer between the connection and the receiver of the bytes; shared by many connections,
// since each empties it at once.
enum { STAGING_BYTES = 64 * 1024 };

typedef struct connection_events {
    void (*opened)(void *user);  // our connect succeeded
    // A handshake was received. If |h| is NULL, it is malformed: |bad| is the reason, MISMATCH for
    // another version.
    void (*handshake)(void *user, const handshake *h, const gw_error *bad);
    // After connection_stream:
    bool (*buffer)(void *user, void **into,
                   size_t *size);  // false: into the staging buffer
    void (*received)(void *user, const void *data, size_t count);
    void (*writable)(void *user);
    // Broken, or too slow: NOT_FOUND if there is no listener at the address, TIMEOUT if the handshake did
    // not arrive in time.
    void (*closed)(void *user, const gw_error *why);
} connection_events;

struct connection {
    // arguments
    env *env;
    const connection_events *on;
    void *user;
    uint8_t *staging;
    const transport *transport;

    // state
    stream *stream;  // NULL once it has broken
    bool is_open;
    bool is_encrypted;
    bool is_server;      // it was accepted
    bool streams;        // handshakes are over
    bool has_handshake;  // received one; no more bytes are expected until connection_stream
    timer timer;         // for the handshake
    void *into;          // where the next bytes go
    size_t in_done, in_size;
    size_t out_done, out_size;
    uint8_t in[HANDSHAKE_MAX], out[HANDSHAKE_MAX];
};

// From here on the connections of |e| are encrypted, if |p| has a secret. The caller keeps |p| and
// is the only one to change it. Before connection_unprotect all of them are closed.
gw_status connection_protect(env *e, protection *p, gw_error *error);
void connection_unprotect(env *e, protection *p);  // if it does protect them

// MISMATCH if |p| has a certificate that does not name its own worker; connection_protect checks this too.
gw_status connection_check_own(const protection *p, gw_error *error);

// Connects to |server|, which is checked where connections are encrypted; NULL: the host of the store.
// Fails at once only for an address that cannot be right, or without memory or descriptors.
gw_status connection_connect(env *e, const route *r, const party *server, uint8_t *staging,
                             const connection_events *on, void *user, connection **out,
                             gw_error *error);
connection *connection_accept(env *e, stream *s, uint8_t *staging, const connection_events *on,
                              void *user);  // closes |s| without memory
void connection_close(connection *l);       // NULL is fine

// Whether the peer may be |name|: it has shown no certificate of another worker.
bool connection_may_be(const connection *l, const char *name);

void connection_set_deadline(connection *l, int64_t due_ns);  // of the handshake
void connection_send_handshake(connection *l, const handshake *h);
void connection_stream(connection *l, const connection_events *on,
                       void *user);  // no more handshakes; a new owner

// FRAME-3: the connection, or its transport, detects bytes that were damaged in transit.
bool connection_protects(const connection *l);

// As stream_send; takes nothing while a handshake is being sent, and |writable| follows.
size_t connection_send(connection *l, const struct iovec *parts, int count);
void connection_be_patient(connection *l, bool is_patient);  // about what is sent next

#endif
