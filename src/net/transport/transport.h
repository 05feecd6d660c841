// Transports: how bytes get from one worker to another.
//
// A transport is one table: it listens, connects, knows its addresses by their scheme and says what
// it can do. What it makes are streams: bytes in order, in both directions, until an end. Shared memory (net/shm/shm.h), TCP
// (net/tcp/tcp.h) and the simulator's network (testing/sim_net.c) are three of them; each works with its
// own kind of env, which is opened with a list of them, the best first.
// src/testing/transport_conformance_test.c says what all have in common: a new one is tested by
// being listed there.
//
// Encryption (net/tls/tls.h) is a *filter*: a stream whose class wraps another stream. It adopts that one
// with events of its own and tells its user of what it has decrypted. connection_accept and
// connection_connect put it around a stream, so that neither transports nor handshakes know of it.
//
// Ownership: whoever connected, or adopted, closes. Threads: everything with the loop lock; all
// events come with it, inside turns of the env, never from inside the functions below.
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

// What happens on a stream. |closed| is the last event, and comes exactly once unless stream_close
// came first; its status is NOT_FOUND if our connect found nobody listening, else DISCONNECTED.
// After it, as after stream_close, the stream must not be used. Any event may close its own stream
// or others.
typedef struct stream_events {
    void (*opened)(void *user);                             // our connect succeeded
    void (*buffer)(void *user, void **into, size_t *size);  // where the next bytes go, at least one
    void (*received)(void *user, size_t count);             // |count| bytes went there
    void (*writable)(void *user);                           // after stream_send took less than all
    void (*closed)(void *user, const gw_error *why);
} stream_events;

typedef struct stream_class {
    const transport *transport;
    void (*adopt)(stream *s);  // its events are set
    size_t (*send)(stream *s, const struct iovec *parts, int count);
    void (*close)(stream *s);
    // The IPv6 address of the other end, or its IPv4 address as one; false: it has none. May be NULL.
    bool (*peer_address)(const stream *s, uint8_t out[16]);
    bool (*has_hung_up)(
        const stream *s);  // whether the peer will send no more; NULL: it cannot be told
} stream_class;

// The beginning of every stream.
struct stream {
    const stream_class *class;
    const stream_events *events;
    void *user;
    // What is sent next is patient: the peer needs it once it waits for it, or env_expect says so, and not before. Until
    // then it need not be woken, but for a thread of this env that falls asleep over it.
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
    const char *anywhere;  // where to listen if nobody has chosen; NULL: not at all
    bool protects_bytes;   // nothing on the way can change them unnoticed
    bool is_private;       // the other end is this user's and on this host, and nobody reads along

    // Whether |address| can be right, as far as its text tells. INVALID.
    gw_status (*check)(const char *address, gw_error *error);

    // The addresses that |address| stands for, with commas between them: all those of a name. NULL:
    // each stands for itself. May take the time that looking up a name takes.
    gw_status (*resolve)(const char *address, char out[ADDRESSES_MAX], gw_error *error);

    // Listens and writes what others connect to into |out_bound|. An accepted stream has no events
    // until stream_adopt, which |accepted| calls. INVALID, NOT_FOUND, ADDRESS_IN_USE, SYSTEM,
    // NO_MEMORY.
    gw_status (*listen)(env *e, const char *address, void (*accepted)(void *user, stream *s),
                        void *user, listener **out, char out_bound[ADDRESS_MAX], gw_error *error);
    void (*listener_close)(listener *l);

    // Starts to connect; |opened| or |closed| tells, in a later turn; nothing can be sent before.
    // Fails at once for an address that cannot be right, or is beyond where the env may go, and
    // without memory or descriptors. Of a name the first address; may take the time that looking it
    // up takes.
    gw_status (*connect)(env *e, const char *address, const stream_events *events, void *user,
                         stream **out, gw_error *error);
};

static inline void stream_adopt(stream *s, const stream_events *events, void *user) {
    s->events = events;
    s->user = user;
    s->class->adopt(s);
}

// Hands over as many bytes as the stream takes now and returns how many, from the front; |writable|
// follows if it took less than all. Never waits.
static inline size_t stream_send(stream *s, const struct iovec *parts, int count) {
    return s->class->send(s, parts, count);
}

// No event comes after this. Bytes taken before are still sent if the peer reads them.
static inline void stream_close(stream *s) {
    s->class->close(s);
}

static inline void listener_close(listener *l) {
    l->transport->listener_close(l);
}

#endif
