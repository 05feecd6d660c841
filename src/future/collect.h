// One future that combines several futures.
#ifndef FUTURE_COLLECT_H
#define FUTURE_COLLECT_H

#include "future/future.h"

typedef enum collect_mode {
    COLLECT_ALL,        // when all are done; fails with the first error in order
    COLLECT_FAIL_FAST,  // fails with the first error that arrives
    COLLECT_FIRST,      // resolves to the result of the first one that is done
} collect_mode;

// A future of the list of results of the |count| futures of |a|, made in |s|; or of the first one.
gw_future *collect_start(gw_scope *s, agent *a, gw_future *const *fs, int count, collect_mode mode);

#endif
