// Shared by the files of gw_data_parallel: slices of a batch.
#ifndef PARALLEL_SLICES_H
#define PARALLEL_SLICES_H

#include "agent/state/agent.h"
#include "nn/module.h"
#include <gradwire/rpc.h>

typedef struct slice {
    gw_module *module;  // the first one's is the program's; the others have buffers of their own
    gw_scope *scope;    // while it goes forward
    gw_tensor *x, *y;   // counted
    int64_t first, rows;
    gw_error error;
} slice;

// Counted: by the caller of the module, by the running threads, by the node.
typedef struct slices {
    _Atomic uint32_t count;
    agent *agent;       // one count
    gw_module *module;  // one count
    gw_future *future;  // one count: all have gone forward
    int slice_count;
    bool has_copies;
    slice items[];
} slices;

void slices_release(slices *x);

// |y| is the output of the slices, |x| their input: records the backward pass through them.
void slices_record(gw_scope *s, slices *all, gw_tensor *x, gw_tensor *y);

// Puts "slice 2 of 4" in front of |error|.
void slices_name(gw_error *error, int number, int count);

#endif
