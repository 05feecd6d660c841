#include "tensor/tensor.h"

#include "base/mem.h"

storage *storage_open(block *b) {
    storage *st = mem_take(sizeof *st);
    if (!st) {
        block_release(b);
        return NULL;
    }
    atomic_init(&st->count, 1);
    st->version = 0;
    st->pins = false;
    st->block = b;
    return st;
}

storage *storage_retain(storage *st) {
    atomic_fetch_add_explicit(&st->count, 1, memory_order_relaxed);
    return st;
}

void storage_release(storage *st) {
    if (!st) return;
    if (atomic_load_explicit(&st->count, memory_order_acquire) != 1 &&
        atomic_fetch_sub_explicit(&st->count, 1, memory_order_acq_rel) != 1)
        return;
    if (st->pins) {
        block_unpin(st->block);
    } else {
        block_release(st->block);
    }
    mem_give(st, sizeof *st);
}

void storage_pin(storage *st) {
    if (!st->pins) block_add_pin(st->block);
    st->pins = true;
}

// By other holders: the pin of a storage that is alone with its block keeps no thread from writing. Memory that another
// process may still read is not written any more (LEND-10).
static bool is_pinned(const storage *st) {
    uint32_t pins = atomic_load_explicit(&st->block->pins, memory_order_acquire), own = st->pins;
    if (pins > own) return true;
    if (own && atomic_load_explicit(&st->block->count, memory_order_acquire) > 1) return true;
    return block_has(st->block, BLOCK_ORPHANED);  // marked before the pin of its lease was dropped
}

// For a copy of it, which takes the count on |copy|.
static void move_to(storage *st, block *copy) {
    block_copy(copy, 0, st->block, 0, st->block->size);
    block_replace_kind(st->block, copy);
    if (st->pins) {
        block_unpin(st->block);
    } else {
        block_release(st->block);
    }
    st->pins = false;
    st->block = copy;
}

bool storage_make_writable(storage *st) {
    if (is_pinned(st)) {
        block *copy = block_take_on(st->block->device, st->block->size);
        if (!copy) return false;
        move_to(st, copy);
    }
    st->version++;
    return true;
}

uint8_t *storage_writable(storage *st) {
    return storage_make_writable(st) ? st->block->bytes : NULL;
}

void storage_make_writable_by(storage *st, block **spare) {
    if (*spare && is_pinned(st)) {
        move_to(st, *spare);
        *spare = NULL;
    }
    st->version++;
}
