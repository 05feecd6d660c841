// Admission of connections, for tests: a door is a worker that accepts connections, a visitor is any
// process that connects. Both are in one process and one env.
//
// Ownership: the caller closes its doors, and calls visitor_leave. Threads: the test's own, which has the
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
    int accepted, admitted, refused;
    handshake last;
    gw_error why;  // of the last visitor that was refused
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
    uint8_t received[4096];
    size_t received_size;
    handshake hello;  // sent as soon as it is open
} visitor;

// To |to|, at |address|; NULL: to the host of the store. It closes |self|.
void visitor_connect(visitor *v, protection self, const char *address, const party *to);
void visitor_connect_plain(visitor *v, const char *address);  // without any encryption
void visitor_leave(visitor *v);

// The hello that |from| sends to |to| as soon as it is admitted.
handshake visitor_hello(const party *from, const party *to);

#endif
