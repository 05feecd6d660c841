// The ways by which the numbers of a large tensor get to a worker, and what each of them costs.
//
// Threads: any.
#ifndef LEND_WAYS_H
#define LEND_WAYS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum way {
    WAY_LEND,  // the borrower has mapped the memory that they lie in
    WAY_PULL,  // the borrower copies them out of the lender's memory
    WAY_SHM,   // they travel through a ring
    WAY_TCP,   // or a socket
    WAY_COUNT
} way;

// The way that costs least for |size| bytes, of those in |possible|, a bit for each.
way ways_choose(unsigned possible, uint64_t size);

// How messages travel over a transport; of one that the table does not know, as through a socket.
way ways_of_transport(const char *name);

#endif
