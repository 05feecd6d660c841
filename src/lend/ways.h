// The ways in which the bytes of a large tensor reach a worker, and the cost of each.
//
// Threads: any.
#ifndef LEND_WAYS_H
#define LEND_WAYS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum way {
    WAY_MAP,   // the receiver has mapped the lender's memory
    WAY_READ,  // the receiver copies them out of the lender's memory
    WAY_SHM,   // they travel through a ring
    WAY_TCP,   // or a socket
    WAY_COUNT
} way;

// The way with the least cost for |size| bytes, of those in |possible|, a bit for each.
way ways_choose(unsigned possible, uint64_t size);

// The way of messages over a transport; an unknown one counts as a socket.
way ways_of_transport(const char *name);

#endif
