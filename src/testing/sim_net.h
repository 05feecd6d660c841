// Shared by sim_stream.c, which moves bytes, and sim_net.c, which makes connections.
#ifndef TESTING_SIM_NET_H
#define TESTING_SIM_NET_H

#include "net/transport/transport.h"
#include "testing/sim_parts.h"

typedef enum stream_state {
    STREAM_CONNECTING,
    STREAM_ACCEPTED,  // not adopted yet
    STREAM_OPEN,
    STREAM_CLOSED,
} stream_state;

// Finds frames in received bytes, behind the hello, and loses or repeats some.
typedef struct sim_filter {
    bool is_session;  // set once the hello has arrived: frames follow it
    bool is_raw;      // bytes without frames, or without recognisable ones
    bool has_handshake;
    bool is_frame;      // the bytes that pass, not a handshake
    size_t pass, skip;  // bytes that are delivered, or dropped, until the next frame
    char *copy;         // of a frame that will be repeated
    size_t copy_size, copy_at;
    bool copies;  // the bytes that pass are being copied
} sim_filter;

typedef struct sim_listener {
    listener base;
    sim_env_ *env;
    list_node link;
    char name[ADDRESS_MAX];
} sim_listener;

typedef struct sim_stream sim_stream;
typedef struct sim_rings sim_rings;

struct sim_stream {
    stream base;
    sim_env_ *env;
    list_node link;
    stream_state state;
    uint64_t id;
    int remote_node;         // -1: none yet
    sim_listener *accepter;  // to be accepted by
    char name[ADDRESS_MAX];  // where it leads, for messages
    sim_stream *peer;        // NULL when it has closed, or before there is one

    // the bytes of the peer, a ring
    char *bytes;
    size_t capacity, start, size;
    const char *end;  // why this stream ends after those bytes; NULL while it does not
    bool is_cut;      // bytes sent from here on are lost
    sim_filter filter;
    sim_rings *rings;  // instead, if there are any

    // by partitions, until they are healed
    bool holds_arrival, holds_room, holds_approach;

    sim_event arrival;   // of the above
    sim_event room;      // the peer has made some, or had some left
    bool wants_room;     // the last send took less than all
    sim_event approach;  // of a connection to its listener
    sim_event break_up;  // a frame has been lost: the network notices in the end
};

extern const stream_class sim_stream_class, sim_rings_class;
extern const char sim_refused[];  // the end of a stream that found no listener

sim_stream *sim_new_conn(sim_env_ *x, stream_state state, void (*approach)(sim_event *ev));
void sim_arrive_later(sim_stream *c);
void sim_room_later(sim_stream *c);
void sim_end_after_bytes(sim_stream *c, const char *why);
void sim_close_stream(sim_stream *c);
void sim_cut(sim_stream *c);
void sim_lose_from_some_byte(sim_stream *c, const char *why);
bool sim_note_name(sim *s, const char *text, int node);  // false without memory

// ---- sim_filter.c -------------------------------------------------------------------------------
// How many of the received bytes, at most |most|, can be given to the receiver now, after
// lost ones have been removed; |*out| points to them. 0: more bytes are needed to
// decide. sim_filter_given after that many have been.
size_t sim_filter_inspect(sim_stream *c, size_t most, const char **out);
void sim_filter_given(sim_stream *c, size_t size);
bool sim_filter_is_in_frame(const sim_stream *c);  // the last inspected bytes are of one
size_t sim_filter_left(const sim_stream *c);       // of a repeated frame that has begun
void sim_filter_fini(sim_stream *c);

#endif
