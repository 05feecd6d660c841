// Devices: the memory of blocks, and the kernels that compute on them.
//
// A device is one table: its memory, copies in and out of it, and its kernels. GW_CPU is the first device. The CPU may
// be unable to read the memory of another device, which only that device's functions and kernels touch. Code outside
// tensor/ reads the numbers of a tensor through tensor/pack.h, which copies them out if needed.
//
// A tensor lies on one device, and all operands of one operator lie on the same device: nothing is moved implicitly,
// except for functions that work on the CPU. Printing, gw_item, checkpoints and messages copy out; a tensor of a
// message lies on the CPU of its receiver, and its gradient goes back to the device of the tensor.
//
// Ownership: a table is static, and registered for the life of the process, before the first tensor
// of the device.
// Threads: any thread, as for blocks.
#ifndef TENSOR_DEVICE_H
#define TENSOR_DEVICE_H

#include "tensor/kernels/update.h"
#include "tensor/tensor.h"

struct op;
struct op_call;

typedef void device_compute(struct op_call *c);

// The kernel of one row of the operator table: as op.compute, on tensors of the device.
typedef struct device_kernel {
    const struct op *op;
    device_compute *compute;
} device_kernel;

// The kernels of one optimizer's rule: as those of update_rule, on arrays of the device.
typedef struct device_update {
    const update_rule *rule;
    update_loop *f32, *f64;
} device_update;

typedef struct device {
    const char *name;  // for messages: "cpu"

    // memory: addresses that only the functions below and kernels follow, aligned to 64
    uint8_t *(*allocate)(size_t size);  // NULL without memory; |size| may be 0
    void (*free)(uint8_t *bytes, size_t size);

    // copies, done when they return
    void (*copy_in)(uint8_t *to, const void *from, size_t size);
    void (*copy_out)(void *to, const uint8_t *from, size_t size);
    void (*copy_within)(uint8_t *to, const uint8_t *from, size_t size);
    void (*fill)(uint8_t *to, const void *number, size_t number_size, size_t count);

    // kernels, up to a row of NULL; may be NULL
    const device_kernel *kernels;
    const device_update *updates;
} device;

gw_device device_register(const device *d);  // the next number; at most LIMIT_DEVICES

const device *device_get(uint8_t number);  // of a registered one
const char *device_name(uint8_t number);

// NULL if the device has none.
device_compute *device_find_kernel(uint8_t number, const struct op *o);
update_loop *device_find_update(uint8_t number, const update_rule *rule, gw_dtype dtype);

#endif
