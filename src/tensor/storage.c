#include "tensor/tensor.h"

#include "base/mem.h"

#include <string.h>

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

uint8_t *storage_writable(storage *st) {
    if (atomic_load_explicit(&st->block->pins, memory_order_acquire) > 0) {
        block *copy = block_take(st->block->size);
        if (!copy) return NULL;
        memcpy(copy->bytes, st->block->bytes, st->block->size);
        if (st->pins) {
            block_unpin(st->block);
        } else {
            block_release(st->block);
        }
        st->pins = false;
        st->block = copy;
    }
    st->version++;
    return st->block->bytes;
}
