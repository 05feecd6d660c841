// The service of lending: the numbers of large tensors stay where they are, and peers of this host
// are told the place. docs/protocol/lending.md is the specification.
//
// GW_LEND=0 in the environment, or GW_TRANSPORT=tcp, turns it off; GW_LEND=pull maps no memory, and
// peers read all that is large.
#ifndef LEND_LEND_H
#define LEND_LEND_H

#include "agent/service.h"

extern const service lend_service;

enum { LEND_DESCRIPTION_BYTES = 384 };

// What becomes of large tensors for the worker of a rank, and why not something better; for people.
// Returns |out|.
const char *lend_describe_on_loop(const agent *a, int rank, char out[LEND_DESCRIPTION_BYTES]);

typedef struct lend_counts {
    uint64_t lent, borrowed;  // leases given and taken so far
    uint64_t came_home;       // of those lent, named by the borrower in a message of its own
    uint64_t pulled;          // of those borrowed, read
    uint64_t lent_now, borrowed_now;
} lend_counts;

lend_counts lend_count_on_loop(const agent *a);

#endif
