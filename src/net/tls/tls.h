// Encryption: a stream that wraps another stream, of any transport, and speaks TLS 1.3 with the key of its job over it.
// docs/protocol/encryption.md is the specification.
//
// To its user the wrapping stream is a stream like any other: |opened|, or the first bytes, are reported when the other
// end has proved that it has the key and is the expected worker. tls.c has what all streams of a worker share,
// tls_stream.c the streams and tls_state.c their states.
//
// Ownership: the same as for all streams; tls_close ends the streams that are left. Threads: with the loop lock held.
#ifndef NET_TLS_TLS_H
#define NET_TLS_TLS_H

#include "net/transport/routes.h"
#include "net/tls/tls_identity.h"
#include "net/transport/transport.h"

typedef struct tls tls;

typedef struct tls_options {
    env *env;
    const protection *protection;  // which has a secret, and lives as long
    const char *plain_hello;       // the first bytes of a peer that does not encrypt
    const void *plain_answer;      // the reply to it; copied
    size_t plain_answer_size;
    uint64_t rekey_bytes;  // sent with one key; 0: as many as in TLS-10
} tls_options;

gw_status tls_open(tls_options options, tls **out, gw_error *error);
void tls_close(tls *t);  // NULL is fine

// As the transport's connect. |server|: the expected peer; NULL: the host of the store.
gw_status tls_connect(tls *t, const route *r, const party *server, const stream_events *events,
                      void *user, stream **out, gw_error *error);

// Whether a peer at |address| may begin a handshake now or later; false: too many wait there
// already (TLS-17).
bool tls_admits(tls *t, const uint8_t address[16]);

// Puts one around an accepted stream; NULL without memory, and |inner| is closed.
stream *tls_accept(tls *t, stream *inner);

// The two ends of |s|, made here; those of an accepted stream are known with its first bytes.
const tls_parties *tls_parties_of(const stream *s);

#endif
