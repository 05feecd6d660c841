// The internals of the store that an agent hosts: the host (store_server.c), its clients (store_clients.c), and the log
// lines about clients that it closes (store_closings.c).
//
// Threads: with the loop lock held.
#ifndef STORE_STORE_SERVER_H
#define STORE_STORE_SERVER_H

#include "store/store_internal.h"

// The limit by which a client is closed.
typedef enum closing {
    CLOSING_NEW_COUNT,
    CLOSING_NEW_TIME,
    CLOSING_STUCK,
    CLOSING_UNSENT,
    CLOSING_REGISTERED_COUNT,
    CLOSING_COUNT
} closing;

// One line for many, so that a process that opens a thousand connections does not fill the log.
typedef struct closings {
    struct {
        int64_t limit;  // as it is here
        int64_t next_line_ns;
        int unreported_count;
    } of[CLOSING_COUNT];
} closings;

void closings_count(closings *c, env *e, closing why);  // one more; writes the line when it is due

typedef struct host {
    store store;
    store_table table;
    store_host_options options;
    list_node clients;  // of type client, the oldest first
    int new_count, registered_count;
    closings closings;  // with the limits
} host;

void clients_init(host *h);
void clients_close_all(host *h);

#endif
