// Pairs of records of two hosts of which one was certainly made before the other, whatever the clocks say:
//
//     a call is made -> its body begins; the body ends -> the call ends without an error
//     a member enters a collective that needs the inputs of all -> another one ends it without an error
//     a backward pass begins -> a part of it on another worker begins
//
// Only records with unique ids count: workers of one job and attempt.
#ifndef GRADWIRE_ORDER_H
#define GRADWIRE_ORDER_H

#include "observe/image.h"

typedef struct order_pair {
    int before_image, after_image;
    int64_t before_ns, after_ns;  // each on the clock of its own host
    uint8_t kind;  // TRACE_CALL_MADE, TRACE_BODY_ENDED, TRACE_COLLECTIVE_ENTERED, TRACE_PASS_BEGUN
    uint64_t id;
} order_pair;

// |hosts|: the host of each image. Calls |visit| for pairs of two hosts; of a collective, for the last entry and the first end
// of each host. Returns false without memory.
bool order_visit(const image *images, int count, const int *hosts,
                 void (*visit)(void *user, const order_pair *p), void *user);

#endif
