// Channels of a batch, for normalisation: dimension 1 of N C ...
#ifndef TENSOR_KERNELS_CHANNELS_H
#define TENSOR_KERNELS_CHANNELS_H

#include "tensor/dense.h"

// Where channels lie: |outer| times all of them, |inner| numbers each. Short runs are moved
// together, so that a channel is one run.
typedef struct channels {
    gw_dtype type;
    int64_t count, outer, inner;
    int last;  // the dimension that is last
} channels;

channels channels_of(const gw_tensor *x);

// The run of |channel| in part |outer| of an array that dense_open_rows opened with |last|.
const void *channels_run(const channels *ch, const void *x, int64_t outer, int64_t channel);

// Number |i| of an array of ch->type.
double channels_read(const channels *ch, const void *x, int64_t i);
void channels_write(const channels *ch, void *x, int64_t i, double value);

// Used by derivatives: see op_batch_norm_back.c. Not in the table.
extern const op op_batch_norm_back;

#endif
