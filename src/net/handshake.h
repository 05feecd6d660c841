// The first messages on a connection. docs/protocol/connection.md is the specification.
//
// Ownership, threads: plain values.
#ifndef NET_HANDSHAKE_H
#define NET_HANDSHAKE_H

#include <gradwire/status.h>
#include <stddef.h>

#define HANDSHAKE_MAGIC "GRADWIRE"  // the first bytes, in all versions

enum {
    HANDSHAKE_VERSION = 1,
    HANDSHAKE_PREFACE_BYTES = 16,
    HANDSHAKE_MAX = 1024,  // preface and body
    HANDSHAKE_TEXT_MAX = 512,
};

typedef enum handshake_kind {
    HANDSHAKE_SESSION = 1,
    HANDSHAKE_STORE,
    HANDSHAKE_WELCOME,
    HANDSHAKE_REFUSAL,
} handshake_kind;

typedef enum refusal_reason {
    REFUSED_STALE = 1,
    REFUSED_CROSSED,
    REFUSED_UNKNOWN,
    REFUSED_ANOTHER,
    REFUSED_LOST,
    REFUSED_VERSION,
    REFUSED_NO_STORE,
    REFUSED_PLAIN,
    REFUSED_COUNT,
} refusal_reason;

typedef struct handshake {
    handshake_kind kind;
    uint16_t version;
    uint64_t connection_number;  // session, welcome, refusal
    uint64_t received;           // session, welcome

    // session
    uint32_t from_rank, to_rank;
    uint64_t from_incarnation, to_incarnation;

    // refusal
    refusal_reason reason;
    char text[HANDSHAKE_TEXT_MAX];
} handshake;

size_t handshake_encode(uint8_t out[HANDSHAKE_MAX], const handshake *h);  // the version is ours

// The size of a handshake, as far as |size| bytes determine it: HANDSHAKE_PREFACE_BYTES until the
// preface is complete. PROTOCOL as soon as they cannot be a handshake, MISMATCH for a preface of
// another version, *out_version.
gw_status handshake_size(const uint8_t *in, size_t size, size_t *out_size, uint16_t *out_version,
                         gw_error *error);

// |size| is the result of handshake_size.
gw_status handshake_decode(const uint8_t *in, size_t size, handshake *out, gw_error *error);

#endif
