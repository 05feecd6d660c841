// TCP as a transport. Between its files: tcp.c moves bytes, tcp_connect.c makes streams, either
// way, and tcp_state.c says when which of their states follows.
//
// Threads: the loop lock's.
#ifndef NET_TCP_TCP_H
#define NET_TCP_TCP_H

#include "net/transport/address.h"
#include "net/loop/loop.h"
#include "net/transport/transport.h"

extern const transport tcp_transport;

// What is awaited on a stream.
typedef enum tcp_state {
    TCP_CONNECTING,  // our connect
    TCP_ACCEPTED,    // somebody to adopt it
    TCP_OPEN,        // bytes, either way
    TCP_BREAKING,    // what came before a send failed; nothing leaves any more
    TCP_CUT,         // the loop, to tell that a test has cut it
    TCP_LINGERING,   // the peer's close, after ours
    TCP_CLOSED,      // nothing: to be freed
    TCP_STATE_COUNT
} tcp_state;

typedef enum tcp_event {
    TCP_CONNECTED,
    TCP_ADOPTED,
    TCP_SEND_FAILED,
    TCP_TEST_CUTS,
    TCP_ENDED,        // the kernel says so, or a time is over; |why| has the words
    TCP_CLOSED_HERE,  // by its owner
    TCP_ABANDONED,    // its env closes
    TCP_EVENT_COUNT
} tcp_event;

typedef struct tcp_stream {
    source source;  // must be first: the loop frees it
    stream stream;
    os_env *env;
    tcp_state state;
    int fd;
    uint8_t peer[16];  // of one that was accepted, as peer_address has it
    bool has_peer;

    bool wants_writable;  // the last send took less than all
    bool polls_writable;  // and the kernel knows
    int error;            // what a failed call has said; told once everything before it is read
    const char *why;      // ENDED: in words
    list_node lingering;  // in its env's list
    timer timer;          // an end that is due
    int op_count;         // sends and receipts, where a test cuts connections
} tcp_stream;

// ---- tcp_state.c --------------------------------------------------------------------------------
void tcp_apply(tcp_stream *t, tcp_event event);
void tcp_end(tcp_stream *t, const char *why);          // ENDED
void tcp_end_soon(tcp_stream *t, int errno_code);      // the same, in a turn of its own
void tcp_poll_writable(tcp_stream *t, bool writable);  // has the kernel tell of it, or no more

// ---- tcp.c --------------------------------------------------------------------------------------
tcp_stream *tcp_stream_new(os_env *o, int fd, tcp_state state);  // owns |fd|; NULL without memory

// ---- tcp_connect.c ------------------------------------------------------------------------------
void tcp_finish_connect(tcp_stream *t);

#endif
