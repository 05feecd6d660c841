// A session: numbered frames between two incarnations, over one connection after another.
// docs/protocol/session.md is the specification.
//
// A pure machine: bytes in, bytes out; it does no I/O and reads no clock. The caller of a session passes it the
// received bytes of a connection, sends the contents of its outbox over the connection, and notifies it when the
// connection changes.
//
//     session_queue(&s, m, &error);
//     while (session_fill(&s)) session_sent(&s, stream_send(stream, session_parts(&s), session_part_count(&s)));
//     session_feed(&s, bytes, count, &error);                // calls |message| for each one that is announced
//     session_detach(&s); ... session_resume(&s, received, &error);   // another connection
//
// A message with bulk is passed to |message| when its stream has arrived, and is |incomplete| then; when its bulk has
// arrived, its |completed| is called, whether or not the message has other references.
//
// Ownership: takes one count of each queued message, also on failure; passes one count of each
// received one to |message|, and keeps one while it is incomplete.
// Threads: with the loop lock held.
#ifndef SESSION_SESSION_H
#define SESSION_SESSION_H

#include "base/map.h"
#include "session/sent_frames.h"
#include "wire/frame.h"
#include <sys/uio.h>

enum {
    SESSION_ACK_FRAMES = 64,  // owed: then an ack is sent by itself
    SESSION_ACK_BYTES = 1024 * 1024,
    SESSION_ACK_MS = 40,
};

typedef struct session {
    // arguments
    void (*message)(void *user, message *m);
    void *user;
    bool checks_bodies;  // the connection does not protect them; set before session_resume

    // sending. Frames 1..acked are acknowledged, ..taken were given to the connection, ..filled are
    // in the outbox or were. |sent| has those that are not forgotten.
    uint64_t acked, taken, filled;
    list_node unacked;  // messages not wholly acknowledged, in the order of their ids
    uint64_t unacked_bytes, unacked_bulk_bytes;
    uint64_t last_id;
    map unbegun;  // of |unacked| those after |begun_id|, by id, from a withdrawal on; else empty
    uint64_t begun_id,
        streamed_id;      // the last message of which some, and all but bulk, has been sent
    list_node bulks;      // of |unacked| those whose stream has been sent, and have bulk
    uint32_t bulk_count;  // of |bulks|
    uint32_t bulk_turn;   // bulk frames sent
    int bulk_burst;       // as many of them fill the outbox
    bool was_cut_short;   // the connection took less than all the last time
    uint64_t stream_run;  // bytes of data since the last of them
    uint64_t *unsent;     // once it has stopped: ids up to |streamed_id| of messages that were not
    uint32_t unsent_count;  // sent completely
    struct outbox *outbox;  // NULL without a connection
    bool is_starved;        // there was no memory for another frame in |sent|
    bool ack_wanted, ping_wanted, close_wanted;
    bool close_is_out;  // in the outbox, at least: nothing follows it on this connection

    // the frame that is being put into the outbox
    message *putting;  // NULL: none
    bool puts_bulk;
    size_t frame_left;  // of its body
    bool is_urgent;     // something in the outbox does not belong to a patient message

    // the next data frame
    message *next;  // its message; NULL: none
    message_cursor next_at;

    // receiving. Frames 1..received have arrived whole.
    uint64_t received;
    uint64_t owed_frames, owed_bytes;  // received since our last header went out
    uint8_t header[FRAME_HEADER_BYTES];
    size_t header_done;
    frame frame;           // whose body is being received
    bool in_frame;         // its header has arrived, and it is not a duplicate
    size_t body_left;      // 0: a header is
    uint32_t body_check;   // of the part of the body that has arrived
    gw_error *body_error;  // an error in it, unless it was damaged; kept
    bool skips_body;       // a duplicate, of an unknown type, of unwanted bulk, or wrong
    assembly assembly;     // of the message whose stream is being received
    uint64_t began;        // the number of its first frame
    list_node bulks_in;    // of incoming_bulk, in the order in which they were announced
    uint32_t bulk_in_count;
    uint64_t bulk_in_bytes;
    struct incoming_bulk *bulk_in;  // whose frame is being received; NULL: none
    assembly_mark mark;             // the position of it, or of |assembly|, before this frame
    bool has_close;                 // the peer has left
    bool is_stopped;                // receives nothing any more

    sent_frames sent;
} session;

void session_init(session *s, void (*message)(void *user, message *m), void *user);
void session_fini(session *s);

// ---- Sending ------------------------------------------------------------------------------------
// Seals |m| and queues it; its id is |last_id| then. LIMIT, NO_MEMORY, or OVERLOADED
// beyond LIMIT_UNSENT_BYTES.
gw_status session_queue(session *s, message *m, gw_error *error);

// Whether all of the message |id| has been sent at least once, over any connection.
bool session_has_sent(const session *s, uint64_t id);

// The message |id| becomes one of |kind|, and travels without segments, unless some of it has been sent
// already: then false.
bool session_withdraw(session *s, uint64_t id, uint8_t kind);

// Bytes of bulk, queued or unacknowledged, of all messages but the oldest that has some.
uint64_t session_later_bulk_bytes(const session *s);

// Fills the outbox, unless it still holds something, with as many frames as fit, a few of them bulk.
// Returns whether it holds something.
bool session_fill(session *s);
bool session_has_unsent_close(const session *s);  // requested, and not all of it taken yet
const struct iovec *session_parts(const session *s, int *out_count);
void session_sent(session *s, size_t count);  // the connection has taken |count| bytes of the parts

static inline bool session_owes_ack_now(const session *s) {
    return s->ack_wanted || s->owed_frames >= SESSION_ACK_FRAMES ||
           s->owed_bytes >= SESSION_ACK_BYTES;
}

// Whether some frames can be put only after an acknowledgement.
static inline bool session_awaits_acks(const session *s) {
    return s->next || s->is_starved;
}

// ---- Receiving ----------------------------------------------------------------------------------
// Where to receive the next bytes to save a copy. False: anywhere.
bool session_buffer(session *s, void **into, size_t *size);

// |count| bytes were received, at |data|. DISCONNECTED or NO_MEMORY: another connection is needed;
// any other error: the peer breaks the protocol. Returns before the end, with OK, when
// |message| has stopped the session.
gw_status session_feed(session *s, const void *data, size_t count, gw_error *error);

// ---- Connections --------------------------------------------------------------------------------
// A new connection is up, and the peer has received the frames up to |peer_received|. PROTOCOL if
// that is impossible, NO_MEMORY.
gw_status session_resume(session *s, uint64_t peer_received, gw_error *error);
void session_detach(session *s);  // the connection is closed

// Ends the session: nothing is received or sent any more, and queued messages are released.
void session_stop(session *s);

#endif
