#include "autograd/index.h"

#include "base/map.h"
#include "base/mem.h"

#include <string.h>

void index_init(pointer_index *ix) {
    ix->cells = ix->small;
    ix->mask = INDEX_SMALL - 1;
    ix->count = 0;
    memset(ix->small, 0, sizeof ix->small);
}

void index_fini(pointer_index *ix) {
    if (ix->cells != ix->small) mem_free(ix->cells);
}

// The cell of |key|, or the free one where it would go.
static index_cell *cell_of(index_cell *cells, uint32_t mask, const void *key) {
    uint32_t i = (uint32_t)hash_u64((uintptr_t)key) & mask;
    while (cells[i].key && cells[i].key != key) i = (i + 1) & mask;
    return &cells[i];
}

uint32_t index_find(const pointer_index *ix, const void *key) {
    const index_cell *c = cell_of(ix->cells, ix->mask, key);
    return c->key ? c->number : INDEX_NONE;
}

bool index_reserve(pointer_index *ix, uint32_t more) {
    uint64_t wanted = (uint64_t)ix->count + more, cell_count = (uint64_t)ix->mask + 1;
    if (wanted * 2 <= cell_count) return true;
    while (wanted * 2 > cell_count) cell_count *= 2;
    if (cell_count > UINT32_MAX) return false;
    index_cell *cells = mem_calloc(cell_count * sizeof *cells);
    if (!cells) return false;
    uint32_t mask = (uint32_t)(cell_count - 1);
    for (uint32_t i = 0; i <= ix->mask; i++)
        if (ix->cells[i].key) *cell_of(cells, mask, ix->cells[i].key) = ix->cells[i];
    if (ix->cells != ix->small) mem_free(ix->cells);
    ix->cells = cells;
    ix->mask = mask;
    return true;
}

void index_put(pointer_index *ix, const void *key, uint32_t number) {
    index_cell *c = cell_of(ix->cells, ix->mask, key);
    ix->count += !c->key;
    *c = (index_cell){ key, number };
}
