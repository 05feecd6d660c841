// Between sim_stream.c, which moves bytes, and sim_net.c, which makes connections.
#ifndef TESTING_SIM_NET_H
#define TESTING_SIM_NET_H

#include "testing/sim_parts.h"

typedef enum stream_state {
    STREAM_CONNECTING,
    STREAM_ACCEPTED,  // not adopted yet
    STREAM_OPEN,
    STREAM_CLOSED,
} stream_state;

struct conn {
    sim_env_ *env;
    list_node link;
    stream_state state;
    uint64_t id;
    char name[ENV_ADDRESS_MAX];  // where it leads, for messages
    const conn_events *events;
    void *user;
    conn *peer;  // NULL when it has closed, or before there is one

    // what the peer has sent, a ring
    char *bytes;
    size_t capacity, start, size;
    const char *end;  // why this stream ends after those bytes; NULL while it does not
    bool is_cut;      // what is sent from here on is lost

    sim_event arrival;   // of the above
    sim_event room;      // the peer has made some, or had some left
    bool wants_room;     // the last send took less than all
    sim_event approach;  // of a connection to its listener
};

struct listener {
    sim_env_ *env;
    list_node link;
    char name[ENV_ADDRESS_MAX];
    void (*accepted)(void *user, conn *c);
    void *user;
};

extern const char sim_refused[];  // the end of a stream that found nobody listening

conn *sim_new_conn(sim_env_ *x, stream_state state, void (*approach)(sim_event *ev));
void sim_arrive_later(conn *c);
void sim_end_after_bytes(conn *c, const char *why);

#endif
