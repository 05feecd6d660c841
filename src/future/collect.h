// One future for several.
#ifndef FUTURE_COLLECT_H
#define FUTURE_COLLECT_H

#include "future/future.h"

// A future of the list of results of the |count| futures of |a|, made in |s|. It fails with the
// first error that comes, or, when all are done, with the first one in order.
gw_future *collect_start(gw_scope *s, agent *a, gw_future *const *fs, int count, bool fails_fast);

#endif
