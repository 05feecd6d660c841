// What is said first on a connection. docs/PROTOCOL.md, "Hello", is the specification.
//
// Ownership, threads: plain values.
#ifndef NET_HANDSHAKE_H
#define NET_HANDSHAKE_H

#include <gradwire/status.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HELLO_VERSION = 1,
    HELLO_PREFACE_BYTES = 16,
    HELLO_MAX = 1024,  // preface and body
    HELLO_TEXT_MAX = 512,
};

typedef enum hello_kind {
    HELLO_SESSION = 1,
    HELLO_STORE,
    HELLO_WELCOME,
    HELLO_REFUSAL,
} hello_kind;

typedef enum refusal_reason {
    REFUSED_STALE = 1,
    REFUSED_CROSSED,
    REFUSED_UNKNOWN,
    REFUSED_ANOTHER,
    REFUSED_LOST,
    REFUSED_VERSION,
    REFUSED_NO_STORE,
    REFUSED_COUNT,
} refusal_reason;

typedef struct hello {
    hello_kind kind;
    uint16_t version;
    uint64_t connection;  // session, welcome, refusal
    uint64_t received;    // session, welcome

    // session
    uint32_t from_rank, to_rank;
    uint64_t from_incarnation, to_incarnation;

    // refusal
    refusal_reason reason;
    char text[HELLO_TEXT_MAX];
} hello;

size_t hello_encode(uint8_t out[HELLO_MAX], const hello *h);  // the version is ours

// How many bytes a hello has, as far as |size| of them tell: HELLO_PREFACE_BYTES until the preface is there. PROTOCOL as
// soon as they cannot be a hello, MISMATCH for a preface of another version (*out_version tells which).
gw_status hello_size(const uint8_t *in, size_t size, size_t *out_size, uint16_t *out_version,
                     gw_error *error);

// All |size| bytes that hello_size has asked for.
gw_status hello_decode(const uint8_t *in, size_t size, hello *out, gw_error *error);

#endif
