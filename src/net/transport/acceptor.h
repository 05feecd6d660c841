// A listening socket of any family: accepts connections, and survives a lack of descriptors.
//
// Ownership: of its socket; closed by listener_close. Threads: with the loop lock held.
#ifndef NET_TRANSPORT_ACCEPTOR_H
#define NET_TRANSPORT_ACCEPTOR_H

#include "net/transport/address.h"
#include "net/loop/loop.h"
#include "net/transport/transport.h"

typedef struct acceptor acceptor;

struct acceptor {
    source source;  // must be first: the loop frees it
    listener listener;
    os_env *env;
    int fd;
    timer retry;                                             // after there were no descriptors left
    void (*take)(acceptor *a, int fd, const address *peer);  // a connection was accepted; owns |fd|
};

// Listens on |fd|, which is bound; |text| is its address, for messages. Takes |fd|, also on failure.
gw_status acceptor_open(os_env *o, int fd, const char *text,
                        void (*take)(acceptor *a, int fd, const address *peer), listener as,
                        listener **out, gw_error *error);
void acceptor_close(listener *l);

#endif
