// A connection: one connection, from the handshake to its end. It reads and says handshakes,
// whoever is behind them; what comes after goes to its owner.
//
// Ownership: whoever opened a connection, or got it handed over, closes it; also inside its events,
// after which the connection is not touched any more. Threads: the loop lock's.
#ifndef NET_CONNECTION_H
#define NET_CONNECTION_H

#include "net/handshake.h"
#include "net/tls/protection.h"
#include "net/transport/routes.h"

typedef struct connection connection;

// Where bytes lie between the connection and whoever they are for; shared by many connections,
// since each empties it at once.
enum { STAGING_BYTES = 64 * 1024 };

typedef struct connection_events {
    void (*opened)(void *user);  // our connect succeeded
    // A handshake has come; or, |h| is NULL, what cannot be one: |bad| says why, MISMATCH for one
    // of another version.
    void (*heard)(void *user, const handshake *h, const gw_error *bad);
    // After connection_stream:
    bool (*buffer)(void *user, void **into,
                   size_t *size);  // false: no wish where the next bytes go
    void (*received)(void *user, const void *data, size_t count);
    void (*writable)(void *user);
    // Broken, or late: NOT_FOUND if nobody listens at the address, TIMEOUT if the handshake did not
    // come in time.
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
    bool is_server;  // it was accepted
    bool streams;    // handshakes are over
    bool has_heard;  // a handshake, and now nothing is expected until connection_stream
    timer timer;     // for the handshake
    void *into;      // where the next bytes go
    size_t in_done, in_size;
    size_t out_done, out_size;
    uint8_t in[HANDSHAKE_MAX], out[HANDSHAKE_MAX];
};

// From here on the connections of |e| are encrypted, if |p| has a secret; |p| stays the caller's and
// is changed by it alone. Before connection_unprotect all of them are closed.
gw_status connection_protect(env *e, protection *p, gw_error *error);
void connection_unprotect(env *e, protection *p);  // if it does protect them

// MISMATCH if |p| has a certificate that does not name its own worker; connection_protect looks, too.
gw_status connection_check_own(const protection *p, gw_error *error);

// To |server|, which counts where connections are encrypted; NULL: whoever hosts the store.
// Fails at once only for an address that cannot be right, or without memory or descriptors.
gw_status connection_connect(env *e, const route *r, const party *server, uint8_t *staging,
                             const connection_events *on, void *user, connection **out,
                             gw_error *error);
connection *connection_accept(env *e, stream *s, uint8_t *staging, const connection_events *on,
                              void *user);  // closes |s| without memory
void connection_close(connection *l);       // NULL is fine

// Whether whoever has connected may be |name|: no certificate that it has shown was of another one.
bool connection_may_be(const connection *l, const char *name);

void connection_set_deadline(connection *l, int64_t due_ns);  // of the handshake
void connection_say(connection *l, const handshake *h);
void connection_stream(connection *l, const connection_events *on,
                       void *user);  // no more handshakes; a new owner

// FRAME-3: bytes that were damaged on their way are noticed by it, or by what it goes through.
bool connection_protects(const connection *l);

// As stream_send; takes nothing while a handshake is on its way out, and |writable| follows.
size_t connection_send(connection *l, const struct iovec *parts, int count);
void connection_be_patient(connection *l, bool is_patient);  // about what is sent next

#endif
