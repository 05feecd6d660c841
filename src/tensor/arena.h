// The arena: memory of this process that other processes can map. While the arena is in use, the pool takes large
// blocks from it, and src/lend reports their offsets to peers.
//
// The arena is one memfd, as large as it can ever become and sparse, sealed against growing and shrinking, so that no
// access to it is ever beyond its end. Pages are populated when they are taken, so that a lack of memory is an error at
// that time, and never a signal later. The first page of the arena is a header, for processes that map the arena
// (LEND-3).
//
// Ownership: one for the process, made at its first use; kept. A child made by fork has a
// private copy that nothing is taken from. Threads: any.
#ifndef TENSOR_ARENA_H
#define TENSOR_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARENA_MAGIC "GWARENA1"

enum {
    ARENA_HEADER_BYTES = 4096,
    ARENA_OWNERS_MAX = ARENA_HEADER_BYTES / 8 - 1,
    ARENA_UNIT_BYTES = 2 << 20,  // extents are multiples, and aligned to it
};

typedef struct arena_header {
    char magic[8];
    _Atomic uint64_t owners[ARENA_OWNERS_MAX];  // incarnations of agents of this process; 0: none
} arena_header;

// Where it is, for an offer. False if there can be none.
bool arena_find(int *out_descriptor, uint64_t *out_size);

// Notes in the header that the agent of this incarnation lends from it, or no more. False if too
// many do.
bool arena_admit(uint64_t incarnation);
void arena_dismiss(uint64_t incarnation);

// The arena gets a user, or loses one: counted. While it is in use, new large blocks
// are taken from it.
void arena_use(int change);
bool arena_is_used(void);

// An extent of |size| bytes, a multiple of ARENA_UNIT_BYTES, populated. Its offset, never 0; 0
// without memory.
uint64_t arena_take(size_t size);
void arena_give(uint64_t offset, size_t size);
uint8_t *arena_at(uint64_t offset);

// Moves |size| bytes at |bytes|, a mapping of whole units, into the arena: afterwards the same
// address shows the extent that it returns; 0 without memory, and then nothing has changed. No
// thread writes to them meanwhile (LEND-16): one that does gets SIGSEGV, or EFAULT from a system call.
uint64_t arena_move(uint8_t *bytes, size_t size);
void arena_unmove(uint8_t *bytes, size_t size);  // unmaps them; the extent stays

size_t arena_taken_bytes(void);  // tests

#endif
