// The handles of a scope, in the order in which it has received them.
//
// Most are released together, when the scope closes; some are dropped earlier. The last handles are searched linearly,
// all others through an index, which is made when it is first needed: dropping the oldest of n handles does not take n
// steps.
#ifndef BASE_SCOPE_HANDLES_H
#define BASE_SCOPE_HANDLES_H

#include "base/handle.h"

typedef struct scope_handles {
    gw_handle **items;  // NULL: dropped
    uint32_t count, capacity;
    uint32_t holes;
    struct handle_index *index;  // NULL until first needed
} scope_handles;

// Takes the caller's count on |h|. False without memory; then the count is still the caller's.
bool handles_add(scope_handles *a, gw_handle *h);
// Removes the last count on |h|, which becomes the caller's. False if there is none.
bool handles_take(scope_handles *a, gw_handle *h);
// Releases all but the first |count|, the last one first.
void handles_release_from(scope_handles *a, uint32_t count);
void handles_fini(scope_handles *a);

#endif
