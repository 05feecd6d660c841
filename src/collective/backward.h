// Collectives through backward: what one that waits leaves behind if its input needs a gradient.
//
// Ownership: the node has counts on its group and its input's maker. Threads: the scope's.
#ifndef COLLECTIVE_BACKWARD_H
#define COLLECTIVE_BACKWARD_H

#include "collective/run.h"

typedef struct backward_record_request {
    gw_group *group;
    operation operation;
    gw_tensor *in;
    const gw_value *items;  // of scattering, at the root: a tensor for each member, instead of |in|
    run_place place;
    gw_reduce_op op;
    int root;
    double factor;
    const int64_t *rows;  // of each member in the output (gathering), or for it in the input's
                          // exchange: where each came from; NULL
} backward_record_request;

// Whether there is a derivative of |o|, of a reduction by |op|.
bool backward_is_known(operation o, int op);
// Whether a collective of |x| in |s| leaves a node.
bool backward_is_recorded(const gw_scope *s, const gw_tensor *x);
// Makes |out|, which the collective has given, the output of one. May fail |s|.
void backward_record(gw_scope *s, const backward_record_request *r, gw_tensor *out);
// Of an |out| that this member gives to nobody: it brings zeros, or, if it |has_failed|, fails the others' passes.
void backward_record_unused(gw_scope *s, const backward_record_request *r, const gw_tensor *out,
                            bool has_failed);

// Of the first backward of what is, or would have been, done there.
uint64_t backward_key(run_place forward);

// Others have entered the backward of |key|, a key of one collective, which this member may have freed
// unvisited: then it brings zeros.
void backward_awaited_on_loop(gw_group *g, uint64_t key);
void backward_forget_unvisited(gw_group *g);  // of a group that is freed

#endif
