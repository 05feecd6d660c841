// The service of zero-copy sharing: large tensors stay in the sender's memory, and peers of this host
// receive their offset. docs/protocol/lending.md is the specification.
//
// GW_LEND=0 in the environment, or GW_TRANSPORT=tcp, disables it; with GW_LEND=pull no memory is mapped, and
// peers read all large tensors.
#ifndef LEND_LEND_H
#define LEND_LEND_H

#include "agent/state/service.h"

extern const service lend_service;

enum { LEND_DESCRIPTION_BYTES = 384 };

// How large tensors reach the worker of a rank, and why not in a better way; for people.
// Returns |out|.
const char *lend_describe_on_loop(const agent *a, int rank, char out[LEND_DESCRIPTION_BYTES]);

typedef struct lend_counts {
    uint64_t lent, held;    // leases given and received so far
    uint64_t own_returned;  // of those lent, sent back by the receiver in a message of its own
    uint64_t read;          // of those received, by a remote read
    uint64_t lent_now, held_now;
} lend_counts;

lend_counts lend_count_on_loop(const agent *a);

#endif
