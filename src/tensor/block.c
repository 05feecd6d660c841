// Blocks, and their pool.
//
// See Note [The pool of blocks] for the three sizes.
#include "tensor/tensor.h"

#include "base/check.h"
#include "base/env.h"
#include "base/map.h"
#include "base/mem.h"
#include "tensor/block_index.h"
#include "tensor/device.h"
#include "tensor/dtype.h"
#include "tensor/pool.h"

static block *take(size_t size, block *(*from)(size_t size)) {
    if (mem_must_fail(size)) return NULL;
    block *b = from(size);
    if (!b) return NULL;
    mem_count(1);
    atomic_init(&b->count, 1);
    atomic_init(&b->pins, 0);
    b->size = size;
    atomic_init(&b->marks, 0);
    b->deleter = NULL;
    memory_move(MEMORY_IDLE, MEMORY_TENSORS, b->capacity);
    if (size >= POOL_LARGE_BYTES) block_index_add(b);
    return b;
}

block *block_take(size_t size) {
    return take(size, pool_take);
}

block *block_take_unpopulated(size_t size) {
    return take(size, pool_take_unpopulated);
}

// A block whose bytes are elsewhere, where the CPU may not write.
static block *take_elsewhere(uint8_t device, size_t size) {
    if (mem_must_fail(size)) return NULL;
    block *b = mem_take(sizeof *b);
    if (!b) return NULL;
    *b = (block){ .bytes = device_get(device)->allocate(size), .size = size, .device = device };
    if (!b->bytes) {
        mem_give(b, sizeof *b);
        return NULL;
    }
    atomic_init(&b->count, 1);
    return b;
}

block *block_take_on(uint8_t device, size_t size) {
    return device == GW_CPU ? block_take(size) : take_elsewhere(device, size);
}

// The bytes belong to the caller, whose function is called at the end.
typedef struct external_block {
    block block;
    task end;
} external_block;

block *block_of_external(void *bytes, size_t size, void (*deleter)(void *context), void *context) {
    external_block *x = mem_take(sizeof *x);
    if (!x) return NULL;
    *x = (external_block){
        .block = { .bytes = bytes, .size = size, .deleter = deleter, .context = context }
    };
    atomic_init(&x->block.count, 1);
    x->block.external = true;
    memory_add(MEMORY_EXTERNAL, (int64_t)size);
    return &x->block;
}

block *block_of_mapped(const uint8_t *bytes, size_t size, void (*deleter)(void *context),
                       void *context) {
    block *b = block_of_external((void *)(uintptr_t)bytes, size, deleter, context);
    if (!b) return NULL;
    b->is_mapped = true;
    memory_move(MEMORY_EXTERNAL, MEMORY_MAPPED, size);
    atomic_init(&b->pins, 1);
    if (size >= POOL_LARGE_BYTES) block_index_add(b);
    return b;
}

static void end_external(task *t) {
    external_block *x = list_entry(t, external_block, end);
    if (x->block.deleter) x->block.deleter(x->block.context);
    mem_give(x, sizeof *x);
}

// The function may do anything, and take any lock: a turn that is under way is over first.
static void release_external(block *b) {
    external_block *x = (external_block *)b;
    memory_add(b->is_mapped ? MEMORY_MAPPED : MEMORY_EXTERNAL, -(int64_t)b->size);
    x->end.run = end_external;
    if (b->deleter && env_held_here) {
        env_defer(env_held_here, &x->end);
    } else {
        end_external(&x->end);
    }
}

block *block_retain(block *b) {
    atomic_fetch_add_explicit(&b->count, 1, memory_order_relaxed);
    return b;
}

bool block_try_retain(block *b) {
    uint32_t held = atomic_load_explicit(&b->count, memory_order_relaxed);
    while (held && !atomic_compare_exchange_weak_explicit(
                       &b->count, &held, held + 1, memory_order_acquire, memory_order_relaxed))
        continue;
    return held;
}

// Most blocks have one holder, which needs no locked instruction to find that out. A block of the index may be retained
// meanwhile.
static bool is_last_release(block *b, bool is_indexed) {
    if (!is_indexed && atomic_load_explicit(&b->count, memory_order_acquire) == 1) return true;
    return atomic_fetch_sub_explicit(&b->count, 1, memory_order_acq_rel) == 1;
}

void block_release(block *b) {
    if (!b) return;
    bool is_own = !b->external && b->device == GW_CPU;
    bool is_indexed = b->size >= POOL_LARGE_BYTES && (is_own || b->is_mapped);
    if (!is_last_release(b, is_indexed)) return;
    if (is_indexed) block_index_remove(b);
    if (b->external) {
        release_external(b);
    } else if (b->device != GW_CPU) {
        device_get(b->device)->free(b->bytes, b->size);
        mem_give(b, sizeof *b);
    } else {
        mem_count(-1);
        memory_move(block_kind(b), MEMORY_IDLE, b->capacity);
        pool_give(b);
    }
}

// See Note [What the checked mode sees].
static bool is_checked(const block *b) {
    return check_enabled && block_has(b, BLOCK_HANDED_OUT) && b->device == GW_CPU;
}

void block_add_pin(block *b) {
    uint32_t before = atomic_fetch_add_explicit(&b->pins, 1, memory_order_relaxed);
    if (before == 0 && is_checked(b)) b->hash = (uint32_t)hash_bytes(b->bytes, b->size);
}

void block_drop_pin(block *b) {
    if (is_checked(b) && b->hash != (uint32_t)hash_bytes(b->bytes, b->size))
        check_die("the program has written through a pointer of gw_data_for_write after the next "
                  "operation, while a backward pass or a message needed the old values");
    // Released, so that a writer that sees no pin follows all reads of the pin's holder.
    uint32_t before = atomic_fetch_sub_explicit(&b->pins, 1, memory_order_release);
    if (before == 1 && block_kind(b) == MEMORY_SAVED) block_set_kind(b, MEMORY_TENSORS);
}

block *block_pin(block *b) {
    block_add_pin(b);
    return block_retain(b);
}

void block_unpin(block *b) {
    block_drop_pin(b);
    block_release(b);
}

// ---- Kinds of memory ----------------------------------------------------------------------------

void block_set_kind(block *b, memory_kind kind) {
    if (b->external || b->device != GW_CPU) return;
    uint8_t before = atomic_load_explicit(&b->marks, memory_order_relaxed), after;
    do {
        after = (uint8_t)((before & BLOCK_MARKS) | kind << BLOCK_KIND_SHIFT);
    } while (!atomic_compare_exchange_weak_explicit(&b->marks, &before, after, memory_order_relaxed,
                                                    memory_order_relaxed));
    memory_move((memory_kind)(before >> BLOCK_KIND_SHIFT), kind, b->capacity);
}

void block_replace_kind(block *b, block *by) {
    block_set_kind(by, block_kind(b));
    if (atomic_load_explicit(&b->count, memory_order_relaxed) > 1) block_set_kind(b, MEMORY_KEPT);
}

// ---- Bytes --------------------------------------------------------------------------------------
// Between two devices without a copy function for each other.
static void copy_between(block *to, size_t to_offset, const block *from, size_t from_offset,
                         size_t size) {
    uint8_t some[4096];
    for (size_t done = 0; done < size; done += sizeof some) {
        size_t piece = size - done < sizeof some ? size - done : sizeof some;
        block_read(some, from, from_offset + done, piece);
        block_write(to, to_offset + done, some, piece);
    }
}

void block_copy(block *to, size_t to_offset, const block *from, size_t from_offset, size_t size) {
    assert(block_may_be_written(to));
    if (from->device == to->device) {
        const device *d = device_get(to->device);
        if (size) d->copy_within(to->bytes + to_offset, from->bytes + from_offset, size);
    } else if (from->device == GW_CPU) {
        block_write(to, to_offset, from->bytes + from_offset, size);
    } else if (to->device == GW_CPU) {
        block_read(to->bytes + to_offset, from, from_offset, size);
    } else {
        copy_between(to, to_offset, from, from_offset, size);
    }
}

void block_write(block *to, size_t offset, const void *from, size_t size) {
    assert(block_may_be_written(to));
    if (size) device_get(to->device)->copy_in(to->bytes + offset, from, size);
}

void block_read(void *to, const block *from, size_t offset, size_t size) {
    if (size) device_get(from->device)->copy_out(to, from->bytes + offset, size);
}

void block_fill(block *b, gw_dtype dtype, int64_t count, gw_value number) {
    _Alignas(8) uint8_t one[8];
    assert(block_may_be_written(b));
    dtype_write_value(dtype, one, number);
    device_get(b->device)->fill(b->bytes, one, gw_dtype_size(dtype), (size_t)count);
}
