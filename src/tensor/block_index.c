#include "tensor/block_index.h"

#include "base/mem.h"
#include "base/process_lock.h"

// In the order of their addresses. Blocks that another process lends may overlap.
PROCESS_LOCK(lock, PROCESS_LOCK_LEAF, NULL);
static block **blocks;
static size_t count, capacity;

// Memory of the process, as the pool's.
static bool make_room(void) {
    if (count < capacity) return true;
    size_t more = capacity ? 2 * capacity : 64;
    block **grown = mem_reserve(sizeof(void *), more * sizeof *grown);
    if (!grown) return false;
    if (count) memcpy(grown, blocks, count * sizeof *grown);
    mem_unreserve(blocks);
    blocks = grown;
    capacity = more;
    return true;
}

// The number of blocks that begin at |address| or before it.
static size_t count_until(const uint8_t *address) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)blocks[middle]->bytes <= (uintptr_t)address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void block_index_add(block *b) {
    process_lock_take(&lock);
    if (make_room()) {
        size_t at = count_until(b->bytes);
        memmove(&blocks[at + 1], &blocks[at], (count - at) * sizeof *blocks);
        blocks[at] = b;
        count++;
    }
    process_lock_release(&lock);
}

void block_index_remove(block *b) {
    process_lock_take(&lock);
    size_t at = count_until(b->bytes);
    while (at && blocks[at - 1] != b && blocks[at - 1]->bytes == b->bytes) at--;
    if (at && blocks[at - 1] == b) {
        memmove(&blocks[at - 1], &blocks[at], (count - at) * sizeof *blocks);
        count--;
    }
    process_lock_release(&lock);
}

block *block_index_find(const void *address, size_t size) {
    block *found = NULL;
    process_lock_take(&lock);
    size_t at = count_until(address);
    const uint8_t *begin = at ? blocks[at - 1]->bytes : NULL;
    size_t offset = (size_t)((uintptr_t)address - (uintptr_t)begin);
    // Of several blocks over one memory the newest is last.
    for (; !found && at && blocks[at - 1]->bytes == begin; at--) {
        block *b = blocks[at - 1];
        if (offset <= b->size && size <= b->size - offset && block_try_retain(b)) found = b;
    }
    process_lock_release(&lock);
    return found;
}
