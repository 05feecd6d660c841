// The inside of tensors: view, storage, block.
#ifndef TENSOR_TENSOR_H
#define TENSOR_TENSOR_H

#include "base/handle.h"
#include "base/memory_kinds.h"
#include "base/scope.h"
#include <gradwire/tensor.h>

#include <assert.h>
#include <string.h>

// Note [Who may write to a block]
//
//   1. No thread writes to a block with a pin, except to one that stays (BLOCK_STAYS): a collective
//      receives one piece of its result while it sends another one. Each byte has one writer then, and
//      no reader until it is written.
//   2. A pointer for writing is returned by block_take, whose caller is alone with the block; by
//      storage_writable, which swaps in a copy of a block with a pin; or by block_writable, which
//      asserts rule 1.
//   3. The pages of a block are exchanged (pool_move_to_arena) only while it has a pin, and never if it
//      stays, or was handed out to the program (BLOCK_HANDED_OUT). So no thread writes to them
//      meanwhile. They are write-protected meanwhile, so that a write against this rule is a fault, and
//      is not lost.

// Counted bytes. A pin is a count of a holder that relies on the values not changing: an
// unsent frame, a tensor saved for backward.
typedef enum block_mark {
    BLOCK_STAYS = 1,       // parts of it are written while others are sent
    BLOCK_HANDED_OUT = 2,  // a pointer of gw_data_for_write
    BLOCK_ORPHANED = 4,    // another process may still read it: not written to, and not used again
    BLOCK_MARKS = 7,       // above them: its memory_kind
} block_mark;

typedef struct block {
    _Atomic uint32_t count;
    _Atomic uint32_t pins;  // <= count
    uint8_t
        *bytes;   // aligned to 64, unless external; the CPU may not follow that of another device
    size_t size;  // usable bytes
    size_t capacity;                // the pool's
    _Atomic uint64_t arena_offset;  // in the arena; 0: elsewhere
    uint8_t class;                  // the pool's
    uint8_t device;                 // see tensor/device.h
    bool
        external : 1;  // the bytes belong to the caller; |deleter| (may be NULL) is called at the end
    bool is_mapped : 1;     // another process may change them at any time (LEND-8); pinned for ever
    _Atomic uint8_t marks;  // of block_mark, and its memory_kind
    uint32_t hash;  // of the handed out bytes, since it was pinned first; in the checked mode
    void (*deleter)(void *context);
    void *context;
} block;

block *block_take(size_t size);  // of the CPU, from the pool, not zeroed; NULL without memory
block *block_take_on(uint8_t device, size_t size);
block *block_of_external(void *bytes, size_t size, void (*deleter)(void *context), void *context);
// The same for bytes that another process lends: they can be read only, and are pinned for ever.
block *block_of_mapped(const uint8_t *bytes, size_t size, void (*deleter)(void *context),
                       void *context);
// Of the CPU, for memory that a peer has announced: its pages do not exist before they are touched.
block *block_take_unpopulated(size_t size);
// A count that is a pin already, or no more one.
void block_add_pin(block *b);
void block_drop_pin(block *b);
block *block_retain(block *b);
// Returns false if the last count has been released.
bool block_try_retain(block *b);
void block_release(block *b);  // NULL is fine
block *block_pin(block *b);    // retains, and makes writers copy first
void block_unpin(block *b);

static inline bool block_has(const block *b, block_mark mark) {
    return atomic_load_explicit(&b->marks, memory_order_relaxed) & mark;
}
static inline void block_mark_as(block *b, block_mark mark) {
    if (!block_has(b, mark)) atomic_fetch_or_explicit(&b->marks, mark, memory_order_relaxed);
}

// What its bytes are counted as: MEMORY_TENSORS of a new one. A block of the program, of another worker or of another
// device has no other kind.
enum { BLOCK_KIND_SHIFT = 3 };
_Static_assert(MEMORY_KINDS << BLOCK_KIND_SHIFT <= 256, "the marks have room for the kind");
static inline memory_kind block_kind(const block *b) {
    return (memory_kind)(atomic_load_explicit(&b->marks, memory_order_relaxed) >> BLOCK_KIND_SHIFT);
}
void block_set_kind(block *b, memory_kind kind);
// The same for one of kind MEMORY_TENSORS alone.
static inline void block_name_kind(block *b, memory_kind kind) {
    if (block_kind(b) == MEMORY_TENSORS) block_set_kind(b, kind);
}
// |b| is about to be replaced by |by|, which has its kind then; other holders keep the old values.
void block_replace_kind(block *b, block *by);

// See Note [Who may write to a block]. A pin that is the only count is the writer's own.
static inline bool block_may_be_written(const block *b) {
    uint32_t pins = atomic_load_explicit(&b->pins, memory_order_acquire);
    return pins == 0 || block_has(b, BLOCK_STAYS) ||
           (pins == 1 && atomic_load_explicit(&b->count, memory_order_acquire) == 1);
}

// Where bytes of a block of the CPU are, to send them from there, or to read them.
static inline const uint8_t *block_lend(const block *b, size_t offset) {
    assert(b->device == GW_CPU);
    return b->bytes + offset;
}

// Where bytes of a block of the CPU are to be received, or computed.
static inline uint8_t *block_writable(block *b, size_t offset) {
    assert(b->device == GW_CPU && block_may_be_written(b));
    return b->bytes + offset;
}

// Bytes of blocks whose values have no other user, whatever their devices are.
void block_copy(block *to, size_t to_offset, const block *from, size_t from_offset, size_t size);
void block_write(block *to, size_t offset, const void *from, size_t size);
void block_read(void *to, const block *from, size_t offset, size_t size);
void block_fill(block *b, gw_dtype dtype, int64_t count, gw_value number);

// Identity and version of the values.
typedef struct storage {
    _Atomic uint32_t count;
    uint32_t version;  // +1 for each write
    bool pins;         // its count on the block is a pin: a saved tensor's, or one that shares it
    block *block;
} storage;

storage *storage_open(block *b);  // takes the caller's count on |b|, also when it fails
storage *storage_retain(storage *st);
void storage_release(storage *st);
void storage_pin(storage *st);  // others have the block, too: makes its count a pin

// The one way to write: bytes of the storage without another user. Swaps in a copy if the
// block is pinned. False without memory.
bool storage_make_writable(storage *st);
// The same without a failure: |*spare|, of the block's size and device, is the copy if one is
// needed, and then NULL. Without a spare it must be writable.
void storage_make_writable_by(storage *st, block **spare);
// The same on the CPU, for kernels: the bytes, NULL without memory.
uint8_t *storage_writable(storage *st);

struct gw_tensor {
    gw_handle handle;
    storage *storage;  // NULL: a tensor of a node that has shape and dtype only, or rows
    int64_t offset;    // in elements
    int64_t numel;
    uint8_t dtype, device, layout, dims;
    bool contiguous;
    bool coalesced;  // of layout GW_ROWS: the indices ascend, each once

    // autograd's, of a tensor that needs a gradient: of an operator's result |node| and |output|,
    // of a leaf |hooks|.
    uint16_t output;          // which output of |node|
    const struct tape *tape;  // NULL: it needs no gradient
    struct node *node;
    struct grad_hooks *hooks;  // of a leaf
    _Atomic uint32_t
        left_in;  // where a pass has left its last gradient (autograd/left.h); 0: nowhere

    // Of layout GW_ROWS, else NULL: counted, contiguous, pinned, storages of their own. Every index
    // is a row.
    gw_tensor *indices, *values;

    int64_t *strides;  // = sizes + dims
    int64_t sizes[];
};

// Note [Poison]
//
// A function that fails, or is called in a failed scope, returns poison: a tensor without elements
// that has the text of its scope's first error. It is never written to. A scope without error
// refuses it with that text, so that a failure is not lost on its way from one scope,
// or one worker, to another. A scope makes its poison at its first use.
extern const handle_class tensor_poison_class;
extern gw_tensor tensor_poison;  // of no scope, and where there is no memory for another

static inline bool tensor_is_poison(const gw_tensor *x) {
    return x && x->handle.class == &tensor_poison_class;
}
gw_tensor *tensor_poison_of(gw_scope *s);  // lives as long as |s|; nothing to be owned
const char *tensor_poison_reason(const gw_tensor *x);

void tensor_check_live(const gw_tensor *x);  // in the checked mode

// Whether |s| has no error and |x| (which may be NULL) is no poison. Fails |s| with the poison's text
// behind |what|, "gw.add".
bool tensor_check(gw_scope *s, const char *what, const gw_tensor *x);

// The same, and that there is one.
bool tensor_is_given(gw_scope *s, const char *what, const gw_tensor *x);

static inline bool tensor_needs_grad(const gw_tensor *x) {
    return x->tape != NULL;
}
static inline bool tensor_is_leaf_with_grad(const gw_tensor *x) {
    return x->tape && !x->node;
}
static inline bool tensor_is_rows(const gw_tensor *x) {
    return x->layout == GW_ROWS;
}
static inline size_t tensor_size(const gw_tensor *x) {
    return (size_t)x->numel * gw_dtype_size((gw_dtype)x->dtype);
}
static inline size_t tensor_offset(const gw_tensor *x) {
    return (size_t)x->offset * gw_dtype_size((gw_dtype)x->dtype);
}
static inline bool tensor_has_sizes(const gw_tensor *x, int dims, const int64_t *sizes) {
    return x->dims == dims && memcmp(x->sizes, sizes, (size_t)dims * sizeof *sizes) == 0;
}
static inline bool tensor_has_shape_of(const gw_tensor *x, const gw_tensor *y) {
    return tensor_has_sizes(x, y->dims, y->sizes);
}
static inline bool tensor_is_like(const gw_tensor *x, const gw_tensor *y) {
    return x->dtype == y->dtype && tensor_has_shape_of(x, y);
}
// The first element, for kernels and code that runs on the CPU only. Others read through
// tensor/pack.h.
static inline const uint8_t *tensor_bytes(const gw_tensor *x) {
    return x->storage->block->bytes + (size_t)x->offset * gw_dtype_size((gw_dtype)x->dtype);
}

// All of these return an unowned tensor with one count (the caller scope_owns it), or NULL with |s|
// failed.
gw_tensor *tensor_new(gw_scope *s, gw_dtype dtype, int dims,
                      const int64_t *sizes);  // contiguous, not zeroed, on the CPU
gw_tensor *tensor_new_on(gw_scope *s, uint8_t device, gw_dtype dtype, int dims,
                         const int64_t *sizes);
gw_tensor *tensor_new_for(gw_scope *s, const char *op, uint8_t device, gw_dtype dtype, int dims,
                          const int64_t *sizes);  // errors name the operator |op|
gw_tensor *tensor_view(gw_scope *s, const gw_tensor *base, int dims, const int64_t *sizes,
                       const int64_t *strides,
                       int64_t offset);  // needs no gradient
gw_tensor *tensor_view_for(gw_scope *s, const char *op, const gw_tensor *base, int dims,
                           const int64_t *sizes, const int64_t *strides, int64_t offset);
gw_tensor *tensor_over(gw_scope *s, gw_dtype dtype, int dims, const int64_t *sizes,
                       block *b);  // takes the count on b
gw_tensor *
tensor_of_rows(gw_scope *s, int64_t row_count, gw_tensor *indices, gw_tensor *values,
               bool coalesced);  // takes the counts on both, whose storages have no other holder

// Contiguous, of the shape, dtype and device of |x|, filled with |number|. Owned by |s|; poison if
// it is failed.
gw_tensor *tensor_full_like(gw_scope *s, const gw_tensor *x, double number);

// A detached tensor over the same values that cannot change: it pins the block. For saving and
// sending.
gw_tensor *tensor_saved(gw_scope *s, const gw_tensor *x);

// A shape as errors print it: "6x5", "5", "scalar". Use: shape_text(x).text
typedef struct shape_words {
    char text[160];
} shape_words;
shape_words shape_text(const gw_tensor *x);
shape_words shape_text_of(int dims, const int64_t *sizes);

#endif
