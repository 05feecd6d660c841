// The large blocks of this process by their addresses: so the memory that a program got from the library is recognised when
// the program returns it.
//
// Ownership: the index holds no count; a block is removed before it ends. Threads: any; the lock is a leaf.
#ifndef TENSOR_BLOCK_INDEX_H
#define TENSOR_BLOCK_INDEX_H

#include "tensor/tensor.h"

// Blocks that have not been added for lack of memory are not found.
void block_index_add(block *b);
void block_index_remove(block *b);

// The block that has all |size| bytes at |address|, with one count; NULL if there is none. The caller knows that the block
// does not end meanwhile.
block *block_index_find(const void *address, size_t size);

#endif
