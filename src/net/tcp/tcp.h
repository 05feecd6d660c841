// TCP as a transport. tcp.c moves bytes, tcp_connect.c makes streams by connecting and accepting,
// and tcp_state.c defines their states.
//
// Threads: with the loop lock held.
#ifndef NET_TCP_TCP_H
#define NET_TCP_TCP_H

#include "net/transport/address.h"
#include "net/loop/loop.h"
#include "net/transport/transport.h"

extern const transport tcp_transport;

// What is awaited on a stream.
typedef enum tcp_state {
    TCP_CONNECTING,  // our connect
    TCP_ACCEPTED,    // stream_adopt
    TCP_OPEN,        // bytes, either way
    TCP_BREAKING,    // bytes that arrived before a send failed; nothing is sent any more
    TCP_CUT,         // the loop, to report that a test has cut it
    TCP_LINGERING,   // the peer's close, after ours
    TCP_CLOSED,      // nothing: to be freed
    TCP_STATE_COUNT
} tcp_state;

typedef enum tcp_event {
    TCP_CONNECTED,
    TCP_ADOPTED,
    TCP_SEND_FAILED,
    TCP_TEST_CUTS,
    TCP_ENDED,        // by the kernel, or a time is over; |why| is the text
    TCP_CLOSED_HERE,  // by its owner
    TCP_ABANDONED,    // its env closes
} tcp_event;

typedef struct tcp_stream {
    source source;  // must be first: the loop frees it
    stream stream;
    os_env *env;
    tcp_state state;
    int fd;
    uint8_t peer[16];  // of an accepted one, the result of peer_address
    bool has_peer;

    bool wants_writable;  // the last send took less than all
    bool polls_writable;  // and the epoll set has it
    int error;            // of a failed call; reported once everything before it is read
    const char *why;      // ENDED: the text
    list_node lingering;  // in its env's list
    timer timer;          // an end that is due
    int op_count;         // sends and receives, after which a test cuts connections
} tcp_stream;

// ---- tcp_state.c --------------------------------------------------------------------------------
void tcp_apply(tcp_stream *t, tcp_event event);
void tcp_end(tcp_stream *t, const char *why);          // ENDED
void tcp_end_soon(tcp_stream *t, int errno_code);      // the same, in a turn of its own
void tcp_poll_writable(tcp_stream *t, bool writable);  // starts or stops polling for it

// ---- tcp.c --------------------------------------------------------------------------------------
tcp_stream *tcp_stream_new(os_env *o, int fd, tcp_state state);  // owns |fd|; NULL without memory

// ---- tcp_connect.c ------------------------------------------------------------------------------
void tcp_finish_connect(tcp_stream *t);

#endif
