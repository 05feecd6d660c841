// A line: one connection, from the hello to its end. It reads and says hellos, whoever is behind them; what comes after
// goes to its owner.
//
// Ownership: whoever opened a line, or got it handed over, closes it; also inside its events, after which the line is
// not touched any more. Threads: the loop role's.
#ifndef NET_CONNECTION_H
#define NET_CONNECTION_H

#include "base/env.h"
#include "net/handshake.h"

typedef struct line line;

// Where bytes lie between the connection and whoever they are for; shared by many lines, since each empties it at once.
enum { STAGING_BYTES = 64 * 1024 };

typedef struct line_events {
    void (*opened)(void *user);  // our connect succeeded
    // A hello has come; or, |h| is NULL, what cannot be one: |bad| says why, MISMATCH for one of another version.
    void (*heard)(void *user, const hello *h, const gw_error *bad);
    // After line_stream:
    bool (*buffer)(void *user, void **into,
                   size_t *size);  // false: no wish where the next bytes go
    void (*received)(void *user, const void *data, size_t count);
    void (*writable)(void *user);
    // Broken, or late: NOT_FOUND if nobody listens at the address, TIMEOUT if the hello did not come in time.
    void (*closed)(void *user, const gw_error *why);
} line_events;

struct line {
    // arguments
    env *env;
    const line_events *on;
    void *user;
    uint8_t *staging;

    // state
    conn *conn;  // NULL once it has broken
    bool is_open;
    bool streams;    // hellos are over
    bool has_heard;  // a hello, and now nothing is expected until line_stream
    timer timer;     // for the hello
    void *into;      // where the next bytes go
    size_t in_done, in_size;
    size_t out_done, out_size;
    uint8_t in[HELLO_MAX], out[HELLO_MAX];
};

// Fails at once only for an address that cannot be right, or without memory or descriptors.
gw_status line_connect(env *e, const char *address, uint8_t *staging, const line_events *on,
                       void *user, line **out, gw_error *error);
line *line_accept(env *e, conn *c, uint8_t *staging, const line_events *on,
                  void *user);  // closes |c| without memory
void line_close(line *l);       // NULL is fine

void line_set_deadline(line *l, int64_t due_ns);  // of the hello
void line_say(line *l, const hello *h);
void line_stream(line *l, const line_events *on, void *user);  // no more hellos; a new owner

// As conn_send; takes nothing while a hello is on its way out, and |writable| follows.
size_t line_send(line *l, const struct iovec *parts, int count);

#endif
