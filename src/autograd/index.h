// A map from pointers to numbers: which entry of the caller's array belongs to a node or leaf. The map is filled and
// then freed; a key that is put again, with INDEX_NONE, is not found any more.
#ifndef AUTOGRAD_INDEX_H
#define AUTOGRAD_INDEX_H

#include <stdbool.h>
#include <stdint.h>

enum { INDEX_NONE = UINT32_MAX, INDEX_SMALL = 16 };

typedef struct index_cell {
    const void *key;  // NULL: free
    uint32_t number;
} index_cell;

typedef struct pointer_index {
    index_cell *cells;
    uint32_t mask;  // count of cells - 1
    uint32_t count;
    index_cell small[INDEX_SMALL];  // the first cells: small graphs allocate nothing
} pointer_index;

void index_init(pointer_index *ix);
void index_fini(pointer_index *ix);

// The number of |key|, or INDEX_NONE.
uint32_t index_find(const pointer_index *ix, const void *key);

// Reserves memory for |more| keys, so that index_put cannot fail. False without memory.
bool index_reserve(pointer_index *ix, uint32_t more);
// Replaces the number of |key|, if it has one.
void index_put(pointer_index *ix, const void *key, uint32_t number);

#endif
