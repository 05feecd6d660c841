// One end of a stream in a test. The end sends a pattern of bytes, in which each byte follows from its offset in the
// stream. The end checks that the received bytes are that pattern, and that no event follows the end of the stream.
//
// All functions and events with the loop lock.
#ifndef TESTING_STREAM_END_H
#define TESTING_STREAM_END_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/env.h"
#include "net/transport/transport.h"

typedef enum end_moment {
    END_NEVER,
    END_WHEN_OPENED,
    END_WHEN_OFFERED,
    END_WHEN_RECEIVED,
    END_WHEN_WRITABLE
} end_moment;

typedef struct stream_end {
    env *env;
    stream *stream;

    // actions
    end_moment closes;
    bool echoes;  // sends received bytes back
    size_t bite;  // offered for one receipt; 0: all of |buffer|
    size_t to_send;

    // results
    bool opened, closed;  // |closed|: by the event
    bool gone;            // closed by the test
    gw_error why;
    size_t sent, received;
    int writable_count, piece_count;
    int partial_count;  // how often the stream has not taken all
    int64_t last_ns;    // the time of the last bytes

    waiter *waiter;  // woken by whatever happens
    char buffer[64 * 1024];
} stream_end;

// An end without a stream. |stream_end_close| closes the stream that it has been given meanwhile.
stream_end *stream_end_open(env *e);
void stream_end_close(stream_end *x);
void stream_end_reset(stream_end *x);  // as new: its stream has ended

extern const stream_events stream_end_events;
void stream_end_accept(void *end, stream *s);  // of a listener
gw_status stream_end_connect(stream_end *x, const transport *t, const char *address,
                             gw_error *error);
void stream_end_let_go(stream_end *x);

char stream_end_byte(size_t at);                   // of the pattern
void stream_end_send(stream_end *x, size_t size);  // so much more of it

// They fail the test after a thousand seconds of the env.
void stream_end_wait(stream_end *x, bool (*done)(const stream_end *x));
void stream_end_wait_for_bytes(stream_end *x, size_t size);  // |size|: from the beginning
bool stream_end_is_open(const stream_end *x);
bool stream_end_is_closed(const stream_end *x);
bool stream_end_is_gone(const stream_end *x);
bool stream_end_has_sent(const stream_end *x);

void stream_end_let_pass(env *e, int64_t ns);

// A listener, the end that it accepts, and the end that has connected to it.
typedef struct stream_pair {
    env *env;
    const transport *transport;
    listener *listener;  // NULL: closed by the test
    char address[ADDRESS_MAX];
    stream_end *client, *server;
} stream_pair;

stream_pair stream_pair_listen(env *e, const transport *t, const char *address);
void stream_pair_connect(stream_pair *p);  // until both are open
void stream_pair_close(stream_pair *p);

// A pair in an env of its own, of the operating system, that sends some bytes both ways, or as many as it can where
// memory lacks.
void stream_ends_try(const transport *t, const char *address);

#endif
