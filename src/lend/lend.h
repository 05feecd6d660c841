// The service of lending: the numbers of large tensors stay where they are, and peers of this host
// are told the place. docs/protocol/lending.md is the specification.
//
// GW_LEND=0 in the environment, or GW_TRANSPORT=tcp, turns it off.
#ifndef LEND_LEND_H
#define LEND_LEND_H

#include "agent/service.h"

extern const service lend_service;

// What becomes of tensors for the worker of a rank: "lends", or why not; for people. Borrowed.
const char *lend_describe_on_loop(const agent *a, int rank);

typedef struct lend_counts {
    uint64_t lent, borrowed;  // leases given and taken so far
    uint64_t came_home;       // of those lent, named by the borrower in a message of its own
    uint64_t lent_now, borrowed_now;
} lend_counts;

lend_counts lend_count_on_loop(const agent *a);

#endif
