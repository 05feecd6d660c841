// The two ends of a connection, as the client sends them in the handshake of TLS: encrypted with the job's key, and
// included in the derivation of the connection's key, which only the two ends have. docs/protocol/encryption.md is the
// specification.
//
// Ownership, threads: plain values.
#ifndef NET_TLS_TLS_IDENTITY_H
#define NET_TLS_TLS_IDENTITY_H

#include "net/tls/protection.h"

enum {
    TLS_PSK_BYTES = 32,
    TLS_SALT_BYTES = SECRET_SALT_BYTES,
    TLS_PARTIES_MAX = 512,
    TLS_IDENTITY_MAX = TLS_PARTIES_MAX + SECRET_SEAL_BYTES,
};

typedef enum tls_purpose {
    TLS_SESSION = 1,
    TLS_STORE,  // to the host of the store: the server is not known
} tls_purpose;

typedef struct tls_parties {
    tls_purpose purpose;
    char job[JOB_ID_MAX];
    party client, server;
} tls_parties;

typedef struct tls_identity {
    uint8_t bytes[TLS_IDENTITY_MAX];
    size_t size;
} tls_identity;

// The parties as bytes of an identity; and the inverse, false if malformed.
size_t tls_parties_encode(const tls_parties *p, uint8_t out[TLS_PARTIES_MAX]);
bool tls_parties_decode(const uint8_t *in, size_t size, tls_parties *out);

// The key of one connection.
bool tls_derive_psk(const secret_key *key, const uint8_t salt[TLS_SALT_BYTES],
                    const tls_parties *parties, uint8_t out[TLS_PSK_BYTES]);

// Each call makes a new identity, and its key. False without memory or randomness.
bool tls_identity_seal(const secret_key *key, const tls_parties *parties, tls_identity *out,
                       uint8_t out_psk[TLS_PSK_BYTES]);

// The identity that a client has sent. MISMATCH: sealed with none of our keys.
gw_status tls_identity_open(const secret *s, const uint8_t *in, size_t size, tls_parties *out,
                            uint8_t out_psk[TLS_PSK_BYTES], gw_error *error);

// Whether |parties| is a connection to |self| by another worker of its job. MISMATCH.
gw_status tls_parties_check(const tls_parties *parties, const protection *self, gw_error *error);

#endif
