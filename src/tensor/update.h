// Running the rule of an optimizer on the blocks of one parameter, by the kernel of their device.
#ifndef TENSOR_UPDATE_H
#define TENSOR_UPDATE_H

#include "tensor/kernels/update.h"
#include "tensor/tensor.h"

// Where an array begins.
typedef struct update_array {
    block *block;   // NULL: not used
    size_t offset;  // in bytes
} update_array;

// As struct update, whose arrays these are; all on one device.
typedef struct update_run {
    gw_dtype dtype;  // f32 or f64
    update_array x, grad, new_x;
    update_array state[UPDATE_STATES_MAX], new_state[UPDATE_STATES_MAX];
    int64_t count, step;
    unsigned first;
} update_run;

// Whether there is a kernel of |r| for |x|.
bool update_is_supported(const update_rule *r, const gw_tensor *x);

// There is one.
void update_on_device(const update_rule *r, const void *options, const update_run *u);

static inline update_array update_array_of(const gw_tensor *x) {
    return (update_array){ x->storage->block, tensor_offset(x) };
}

#endif
