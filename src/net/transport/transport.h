// Transports: how bytes travel from one worker to another.
//
// A transport is one table: it listens, connects, has addresses of one scheme and states its
// properties. A transport makes streams: bytes in order, in both directions, until an end. Shared memory
// (net/shm/shm.h), TCP (net/tcp/tcp.h) and the simulator's network (testing/sim_net.c) are three of them; each works
// with its own kind of env, which is opened with a list of them, the best first.
// src/testing/transport_conformance_test.c specifies what all transports have in common: a new transport is tested by
// being listed there.
//
// Encryption (net/tls/tls.h) is a *filter*: a stream whose class wraps another stream. The filter adopts the wrapped
// stream with events of its own, and passes decrypted bytes to its user. connection_accept and connection_connect put a
// filter around a stream, so that neither transports nor handshakes depend on it.
//
// Ownership: the side that connected, or adopted, a stream closes it. Threads: everything with the loop lock; all
// events are called with it, inside turns of the env, never from inside the functions below.
#ifndef NET_TRANSPORT_TRANSPORT_H
#define NET_TRANSPORT_TRANSPORT_H

#include "base/env.h"
#include "base/limits.h"
#include <gradwire/rpc.h>
#include <sys/uio.h>

enum {
    ADDRESS_MAX =
        LIMIT_ADDRESS_BYTES + 1,  // the text of one: "127.0.0.1:29500", "tcp://127.0.0.1:29500"
    ADDRESSES_MAX =
        LIMIT_ADDRESSES_BYTES + 1,  // of a worker's: "tcp://127.0.0.1:29500,tcp://[::1]:29500"
    TRANSPORTS_MAX = GW_TRANSPORTS_MAX,
};

typedef struct transport transport;
typedef struct stream stream;      // bytes, either side
typedef struct listener listener;  // accepts streams

// The events of a stream. |closed| is the last one, and is called exactly once unless stream_close
// was called first; its status is NOT_FOUND if there was no listener to connect to, else DISCONNECTED.
// After it, as after stream_close, the stream must not be used. Any event may close its own stream
// or others.
typedef struct stream_events {
    void (*opened)(void *user);  // our connect succeeded
    void (*buffer)(void *user, void **into,
                   size_t *size);                // where to put the next bytes, at least one
    void (*received)(void *user, size_t count);  // |count| bytes were put there
    void (*writable)(void *user);                // after stream_send took less than all
    void (*closed)(void *user, const gw_error *why);
} stream_events;

typedef struct stream_class {
    const transport *transport;
    void (*adopt)(stream *s);  // its events are set
    size_t (*send)(stream *s, const struct iovec *parts, int count);
    void (*close)(stream *s);
    // The IPv6 address of the other end, or its IPv4 address as one; false: it has none. May be NULL.
    bool (*peer_address)(const stream *s, uint8_t out[16]);
    bool (*has_hung_up)(const stream *s);  // whether the peer will send no more; NULL: unknown
} stream_class;

// The beginning of every stream.
struct stream {
    const stream_class *class;
    const stream_events *events;
    void *user;
    // What is sent next is patient: the peer needs it only once it waits for it, or has called env_expect. Until
    // then the peer is not woken, except when a thread of this env falls asleep.
    bool is_patient;
};

// The beginning of every listener.
struct listener {
    const transport *transport;
    void (*accepted)(void *user, stream *s);
    void *user;
};

struct transport {
    const char *name;  // "tcp", "sim"
    const char *
        scheme;  // of its addresses, "tcp://...". The functions below take and give them without it
    const char *anywhere;  // the default address to listen on; NULL: none
    bool protects_bytes;   // bytes cannot be changed in transit unnoticed
    bool
        is_private;  // the other end is this user's and on this host, and no one else can read the bytes

    // Whether |address| can be right, as far as its text shows. INVALID.
    gw_status (*check)(const char *address, gw_error *error);

    // The addresses that |address| resolves to, separated by commas: all those of a name. NULL:
    // each address is final. May block on the resolver.
    gw_status (*resolve)(const char *address, char out[ADDRESSES_MAX], gw_error *error);

    // Listens and writes the address to connect to into |out_bound|. An accepted stream has no events
    // until stream_adopt, which |accepted| calls. INVALID, NOT_FOUND, ADDRESS_IN_USE, SYSTEM,
    // NO_MEMORY.
    gw_status (*listen)(env *e, const char *address, void (*accepted)(void *user, stream *s),
                        void *user, listener **out, char out_bound[ADDRESS_MAX], gw_error *error);
    void (*listener_close)(listener *l);

    // Starts to connect; |opened| or |closed| is called in a later turn; nothing can be sent before.
    // Fails at once for an address that cannot be right, or is beyond where the env may connect, and
    // without memory or descriptors. Connects to the first address of a name; may block on the
    // resolver.
    gw_status (*connect)(env *e, const char *address, const stream_events *events, void *user,
                         stream **out, gw_error *error);
};

static inline void stream_adopt(stream *s, const stream_events *events, void *user) {
    s->events = events;
    s->user = user;
    s->class->adopt(s);
}

// Sends as many bytes as the stream takes now and returns how many, from the front; |writable|
// follows if it took less than all. Never blocks.
static inline size_t stream_send(stream *s, const struct iovec *parts, int count) {
    return s->class->send(s, parts, count);
}

// No event follows. Bytes taken before are still sent if the peer reads them.
static inline void stream_close(stream *s) {
    s->class->close(s);
}

static inline void listener_close(listener *l) {
    l->transport->listener_close(l);
}

#endif
