// The arguments that a layer is made of when a class makes it: fixed ones, then a map of options.
#ifndef DISTRIBUTED_NN_LAYER_OPTIONS_H
#define DISTRIBUTED_NN_LAYER_OPTIONS_H

#include "base/args.h"
#include <gradwire/nn.h>

// Fails |s| unless there are |index| arguments, and at most a map behind them whose keys are among
// |names|, "bias dtype".
void layer_check_options(gw_scope *s, const gw_args *a, int index, const char *names);
void layer_check_count(gw_scope *s, const gw_args *a, int count);  // no options

// Writes the option |name| of the map at |index|, if the map has it.
void layer_bool(gw_scope *s, const gw_args *a, int index, const char *name, bool *out);
void layer_int(gw_scope *s, const gw_args *a, int index, const char *name, int64_t *out);
// An int of C: what does not fit is no number of layers and no dimension.
int layer_small(gw_scope *s, const gw_args *a, const char *name, int64_t value);
void layer_float(gw_scope *s, const gw_args *a, int index, const char *name, double *out);
const char *layer_string(gw_scope *s, const gw_args *a, int index, const char *name);  // NULL
gw_dtype layer_dtype(gw_scope *s, const gw_args *a, int index);  // "f64"; f32 if not said
// A number, which counts for both, or a list of one or two.
void layer_pair(gw_scope *s, const gw_args *a, int index, const char *name, int64_t out[2]);

#endif
