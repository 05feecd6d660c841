// The pool of blocks.
#ifndef TENSOR_POOL_H
#define TENSOR_POOL_H

#include "tensor/tensor.h"

enum { POOL_LARGE_BYTES = 1 << 20 };  // from here on blocks can lie in the arena

block *pool_take(size_t size);              // bytes and capacity are set; NULL without memory
block *pool_take_unpopulated(size_t size);  // the same, not fresh from the arena
void pool_give(block *b);

// Gives all blocks that wait for reuse back to the system; those that other threads keep for themselves
// stay.
void pool_trim(void);

// How long large blocks wait for reuse, at least: 4 s by default. Then a thread that gives back others gives them to
// the system.
void pool_keep_for(int64_t ms);

// Moves a block, which has a pin, into the arena, if it is large and not in it, and if no thread may write
// to it (LEND-16); its address stays. Whether it is in the arena.
bool pool_move_to_arena(block *b);

// Bytes that wait for reuse in the process's lists.
size_t pool_idle_bytes(void);

#endif
