// Blocks and the pool they come from.
//
// See Note [Where blocks come from] for the three sizes.
#include "tensor/tensor.h"

#include "base/mem.h"
#include "tensor/pool.h"

block *block_take(size_t size) {
    if (mem_must_fail(size)) return NULL;
    block *b = pool_take(size);
    if (!b) return NULL;
    mem_count(1);
    atomic_init(&b->count, 1);
    atomic_init(&b->pins, 0);
    b->size = size;
    b->deleter = NULL;
    return b;
}

block *block_of_external(void *bytes, size_t size, void (*deleter)(void *context), void *context) {
    block *b = mem_take(sizeof *b);
    if (!b) return NULL;
    *b = (block){ .bytes = bytes, .size = size, .deleter = deleter, .context = context };
    atomic_init(&b->count, 1);
    b->external = true;
    return b;
}

block *block_retain(block *b) {
    atomic_fetch_add_explicit(&b->count, 1, memory_order_relaxed);
    return b;
}

void block_release(block *b) {
    if (!b) return;
    // Most blocks have one holder, who needs no locked instruction to find that out.
    if (atomic_load_explicit(&b->count, memory_order_acquire) != 1 &&
        atomic_fetch_sub_explicit(&b->count, 1, memory_order_acq_rel) != 1)
        return;
    if (b->external) {
        if (b->deleter) b->deleter(b->context);
        mem_give(b, sizeof *b);
    } else {
        mem_count(-1);
        pool_give(b);
    }
}

block *block_pin(block *b) {
    atomic_fetch_add_explicit(&b->pins, 1, memory_order_relaxed);
    return block_retain(b);
}

void block_unpin(block *b) {
    // Released, so that a writer that sees no pin comes after everything the pin's holder has read.
    atomic_fetch_sub_explicit(&b->pins, 1, memory_order_release);
    block_release(b);
}
