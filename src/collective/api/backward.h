// Collectives through backward: the node that a call that waits records if its input needs a gradient.
//
// Ownership: the node has counts on its group and its input's maker. Threads: the scope's.
#ifndef COLLECTIVE_API_BACKWARD_H
#define COLLECTIVE_API_BACKWARD_H

#include "collective/api/requests.h"

// Makes |out|, the result of the collective, the output of such a node. May fail |s|.
void backward_record(gw_scope *s, const record_request *r, gw_tensor *out);
// Of an |out| that the program does not get: the node contributes zeros, or, if it |has_failed|, fails the passes of
// other members.
void backward_record_unused(gw_scope *s, const record_request *r, const gw_tensor *out,
                            bool has_failed);

// Other members have entered the backward of |key|, a key that is used once. If this member has freed that node
// unvisited, it contributes zeros.
void backward_awaited_on_loop(gw_group *g, uint64_t key);
void backward_forget_unvisited(gw_group *g);  // of a group that is freed

#endif
