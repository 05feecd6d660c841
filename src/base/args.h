// The arguments of a registered function.
#ifndef BASE_ARGS_H
#define BASE_ARGS_H

#include <gradwire/args.h>

struct gw_args {
    const char *label;  // of the function, "counter.add"
    int count;
    const gw_value *values;
    gw_worker caller;
};

// The argument |index|; fails if it is not a |kind|.
gw_value arg_of(gw_scope *s, const gw_args *a, int index, gw_kind kind);

#endif
