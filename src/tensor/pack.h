// The numbers of a tensor outside of kernels: for messages, files and texts.
//
// To be read, the numbers are packed: one after the other in the CPU's memory, the last dimension varying first. A
// tensor whose numbers are stored in this way is read in place; any other tensor, and a tensor on another device, is
// copied. Writing assigns the numbers of another tensor.
#ifndef TENSOR_PACK_H
#define TENSOR_PACK_H

#include "tensor/tensor.h"

// Numbers to read until they are released. Without a copy, the block is held, not its values: the
// reader reads before the next write, or pins |holder|.
typedef struct packed {
    const uint8_t *bytes;
    block *holder;  // counted; of the CPU
    size_t offset;  // of |bytes| in it
} packed;

// |x| is dense. False without memory.
bool tensor_pack(const gw_tensor *x, packed *out);
void packed_release(packed *p);

// To |out|, of tensor_size(x) bytes. Needs no memory.
void tensor_pack_into(uint8_t *out, const gw_tensor *x);

// Copies the numbers of |from| to |to|, which has no other holder: dense, of one shape and dtype,
// apart from each other.
// Needs no memory, whatever the devices.
void tensor_assign(gw_tensor *to, const gw_tensor *from);

// |x| itself if it is on |device|, else a copy there: torch.Tensor.to. Gradients flow back to the
// device of |x|. Owned by |s|; poison if it is failed.
gw_tensor *tensor_to_device(gw_scope *s, gw_tensor *x, gw_device device);

#endif
