// Who is let in by whom, for tests: a door is a worker that accepts connections, a visitor is anybody
// who connects. Both are in one process and one env.
//
// Ownership: whoever opens a door closes it, and visitors leave. Threads: the test's own, which has the
// loop lock from doors_open_env on.
#ifndef TESTING_DOORS_H
#define TESTING_DOORS_H

#include "net/connection.h"
#include "testing/encrypted.h"

extern env *doors_env;

void doors_open_env(void);
void doors_close_env(void);

// Until |*count| is at least |wanted|.
void doors_until(const int *count, int wanted);

typedef struct door {
    protection self;
    listener *listener;
    char address[ADDRESS_MAX];
    connection *inside[64];
    int accepted, heard, turned_away;
    handshake last;
    gw_error why;  // of who was turned away last
} door;

// The last one that was opened is that of the env. It closes |self|.
void door_open(door *d, protection self);
void door_close(door *d);

typedef struct visitor {
    protection self;
    tls *tls;
    stream *stream;
    int opened, closed;
    gw_error why;
    uint8_t heard[4096];
    size_t heard_size;
    handshake says;  // as soon as it is open
} visitor;

// To |to|, at |address|; NULL: whoever hosts the store. It closes |self|.
void visitor_come(visitor *v, protection self, const char *address, const party *to);
void visitor_come_plain(visitor *v, const char *address);  // without any encryption
void visitor_leave(visitor *v);

// What |from| says to |to| as soon as it is let in.
handshake visitor_hello(const party *from, const party *to);

#endif
