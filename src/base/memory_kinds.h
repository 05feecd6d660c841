// How many bytes this process has for what: counters by kind, which are changed where memory is taken and given back.
//
// Each thread changes counters of its own, without a locked instruction; a reader adds them up. So a sum that is read while
// other threads work may be of slightly different moments.
//
// Threads: any.
#ifndef BASE_MEMORY_KINDS_H
#define BASE_MEMORY_KINDS_H

#include <stdint.h>

// A byte has one kind.
typedef enum memory_kind {
    // Blocks of tensors (tensor/tensor.h). Their sum is what the pool has of the system.
    MEMORY_TENSORS,     // of none of the next kinds
    MEMORY_PARAMETERS,  // of leaves that need a gradient
    MEMORY_SAVED,       // of results and inputs that an operation has saved for backward
    MEMORY_GRADIENTS,   // that passes have left in a scope
    MEMORY_OPTIMIZERS,  // states of optimizers
    MEMORY_KEPT,  // old values, which a checkpoint, a message or a graph has while there are new ones
    MEMORY_IDLE,  // they wait for reuse
    // Memory that the program or another worker has given, which tensors use.
    MEMORY_EXTERNAL,
    MEMORY_MAPPED,
    // Mapped, of which the system has pages that were used.
    MEMORY_RINGS,    // to workers of this host
    MEMORY_RECORDS,  // trace/layout.h
    MEMORY_KINDS
} memory_kind;

extern const char *const memory_kind_names[MEMORY_KINDS];  // "tensors"

void memory_add(memory_kind kind, int64_t bytes);
void memory_move(memory_kind from, memory_kind to, uint64_t bytes);

// The bytes of each kind.
void memory_read(uint64_t out[MEMORY_KINDS]);

#endif
