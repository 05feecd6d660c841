// A session: numbered frames between two incarnations, whichever connection is up.
// docs/protocol/session.md is the specification.
//
// A pure machine: bytes in, bytes out; it does no I/O and reads no clock. Whoever drives it feeds
// it what a connection has received, hands what it has filled its outbox with to the connection,
// and tells it when the connection changes.
//
//     session_queue(&s, m, &error);                          // numbers the frames of |m|
//     while (session_fill(&s)) session_sent(&s, stream_send(stream, session_parts(&s), session_part_count(&s)));
//     session_feed(&s, bytes, count, &error);                // calls |message| for each one that is complete
//     session_detach(&s); ... session_resume(&s, received, &error);   // another connection
//
// Ownership: takes one count of each queued message, also on failure; hands one count of each
// received one to |message|.
// Threads: the loop lock's.
#ifndef SESSION_SESSION_H
#define SESSION_SESSION_H

#include "wire/frame.h"
#include "wire/frame.h"
#include <sys/uio.h>

enum {
    SESSION_ACK_FRAMES = 64,  // owed: then an ack goes out by itself
    SESSION_ACK_BYTES = 1024 * 1024,
    SESSION_ACK_MS = 40,
};

typedef struct session {
    // arguments
    void (*message)(void *user, message *m);
    void *user;

    // sending. Frames 1..acked are forgotten, ..taken were given to the connection, ..filled have
    // been sent at least once over some connection, ..last are queued.
    uint64_t acked, taken, filled, last;
    list_node unacked;  // messages, from the oldest with an unacknowledged frame to the newest
    uint64_t unacked_bytes;
    message *next;         // the one whose frames go out next; NULL: all have
    uint64_t next_number;  // of its next frame, or of the frame that is being put out
    uint64_t next_left;    // bytes of it that no frame has carried yet
    uint32_t piece;        // 0: its head, then its segments
    size_t piece_done;
    size_t frame_left;      // of the body of the frame that is being put out
    struct outbox *outbox;  // NULL without a connection
    bool ack_wanted, ping_wanted, close_wanted;

    // receiving. Frames 1..received have come whole.
    uint64_t received;
    uint64_t owed_frames, owed_bytes;  // received since our last header went out
    uint8_t header[FRAME_HEADER_BYTES];
    size_t header_done;
    frame frame;       // whose body is being received
    size_t body_left;  // 0: a header is
    bool skips_body;   // seen before, or of an unknown type
    assembly assembly;
    assembly_mark mark;  // where it stood before this frame
    bool has_close;      // the peer has left
    bool is_stopped;     // receives nothing any more
} session;

void session_init(session *s, void (*message)(void *user, message *m), void *user);
void session_fini(session *s);

// ---- Sending ------------------------------------------------------------------------------------
// Seals |m| and puts it behind the others. LIMIT, NO_MEMORY, or OVERLOADED beyond
// LIMIT_UNSENT_BYTES.
gw_status session_queue(session *s, message *m, gw_error *error);

// Whether all frames up to |number| have gone out at least once, over whichever connection.
static inline bool session_has_sent(const session *s, uint64_t number) {
    return number <= s->filled;
}

// The message that ends with the frame |number| becomes one of |kind|, unless some of it has gone
// out already: then false.
bool session_relabel(session *s, uint64_t number, uint8_t kind);

// Fills the outbox, unless it still holds something, with as many frames as fit. Returns whether it
// holds something.
bool session_fill(session *s);
const struct iovec *session_parts(const session *s, int *out_count);
void session_sent(session *s, size_t count);  // the connection has taken |count| bytes of the parts

static inline bool session_owes_ack_now(const session *s) {
    return s->ack_wanted || s->owed_frames >= SESSION_ACK_FRAMES ||
           s->owed_bytes >= SESSION_ACK_BYTES;
}

// ---- Receiving ----------------------------------------------------------------------------------
// Where the next bytes should go to save a copy. False: anywhere.
bool session_buffer(session *s, void **into, size_t *size);

// |count| bytes have come, at |data|. DISCONNECTED or NO_MEMORY: another connection may do better;
// any other error: the peer cannot be understood, and never will. Stops early, with OK, when
// |message| has stopped the session.
gw_status session_feed(session *s, const void *data, size_t count, gw_error *error);

// ---- Connections --------------------------------------------------------------------------------
// A new connection is up, and the peer has received the frames up to |peer_received|. PROTOCOL if
// that cannot be, NO_MEMORY.
gw_status session_resume(session *s, uint64_t peer_received, gw_error *error);
void session_detach(session *s);  // the connection is gone

// Ends it: nothing is received or sent any more, and what was queued is given back.
void session_stop(session *s);

#endif
