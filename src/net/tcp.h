// Between the files of TCP: tcp.c moves bytes, tcp_connect.c makes connections, either way.
#ifndef NET_TCP_H
#define NET_TCP_H

#include "net/address.h"
#include "net/loop.h"

typedef enum conn_state {
    CONN_CONNECTING,
    CONN_ACCEPTED,  // not adopted yet
    CONN_OPEN,
    CONN_LINGERING,  // closed here; reads on until the peer has closed too
    CONN_CLOSED,     // to be freed
} conn_state;

struct conn {
    source source;
    os_env *env;
    list_node link;
    conn_state state;
    int fd;
    char name[ENV_ADDRESS_MAX];  // the peer's, for messages

    const conn_events *events;
    void *user;

    bool wants_writable;  // the last send took less than all
    bool polls_writable;  // and the kernel knows
    int error;            // what a failed call has said; told once everything before it is read
    timer timer;          // an end that is due
    int op_count;         // sends and receipts, where a test cuts connections
    bool is_cut;
    bool is_refused;  // nobody listens there
};

struct listener {
    source source;
    os_env *env;
    list_node link;
    int fd;
    void (*accepted)(void *user, conn *c);
    void *user;
    timer retry;  // after there were no descriptors left
};

conn *conn_new(os_env *o, int fd, conn_state state);  // owns |fd|; NULL without memory
void conn_ready(source *s, uint32_t events);
void conn_fail(conn *c, const char *why);      // tells |closed|
void conn_fail_soon(conn *c, int errno_code);  // the same, in a turn of its own
void conn_defer_free(conn *c);                 // tells nobody
void conn_finish_connect(conn *c);

#endif
