#include "tensor/pack.h"

#include "tensor/copy.h"
#include "tensor/device.h"
#include "tensor/ops/op.h"

#include <string.h>

// ---- Between devices ----------------------------------------------------------------------------
// One end of a copy. Strides are in elements.
typedef struct end {
    block *block;
    int64_t offset;
    const int64_t *strides;
} end;

// How many dimensions are outside of the runs that lie in one piece at both ends, and the elements
// of such a run.
static int outer_dims(const gw_tensor *shape, const int64_t *a, const int64_t *b,
                      int64_t *out_run) {
    int dims = shape->dims;
    *out_run = 1;
    for (; dims > 0; dims--) {
        int64_t size = shape->sizes[dims - 1];
        bool continues = a[dims - 1] == *out_run && b[dims - 1] == *out_run;
        if (size != 1 && !continues) break;
        *out_run *= size;
    }
    return dims;
}

static void copy_runs(end to, end from, const gw_tensor *shape) {
    size_t size = gw_dtype_size((gw_dtype)shape->dtype);
    int64_t run, index[GW_DIMS_MAX] = { 0 };
    int outer = outer_dims(shape, to.strides, from.strides, &run);
    if (shape->numel == 0) return;
    for (;;) {
        block_copy(to.block, (size_t)to.offset * size, from.block, (size_t)from.offset * size,
                   (size_t)run * size);
        int d = outer - 1;
        for (; d >= 0; d--) {
            bool wraps = ++index[d] == shape->sizes[d];
            int64_t steps = wraps ? 1 - shape->sizes[d] : 1;
            to.offset += steps * to.strides[d];
            from.offset += steps * from.strides[d];
            if (!wraps) break;
            index[d] = 0;
        }
        if (d < 0) return;
    }
}

static end end_of(const gw_tensor *x) {
    return (end){ x->storage->block, x->offset, x->strides };
}

void tensor_pack_into(uint8_t *out, const gw_tensor *x) {
    if (x->device == GW_CPU) {
        copy_bits(out, x);
        return;
    }
    int64_t strides[GW_DIMS_MAX], stride = 1;
    for (int i = x->dims - 1; i >= 0; stride *= x->sizes[i--]) strides[i] = stride;
    block over = { .bytes = out, .size = tensor_size(x), .device = GW_CPU };
    copy_runs((end){ &over, 0, strides }, end_of(x), x);
}

void tensor_assign(gw_tensor *to, const gw_tensor *from) {
    copy_runs(end_of(to), end_of(from), to);
}

bool tensor_pack(const gw_tensor *x, packed *out) {
    if (x->contiguous && x->device == GW_CPU) {
        *out = (packed){ .bytes = tensor_bytes(x),
                         .holder = block_retain(x->storage->block),
                         .offset = tensor_offset(x) };
        return true;
    }
    block *b = block_take(tensor_size(x));
    if (!b) return false;
    tensor_pack_into(b->bytes, x);
    *out = (packed){ .bytes = b->bytes, .holder = b };
    return true;
}

void packed_release(packed *p) {
    block_release(p->holder);
    *p = (packed){ 0 };
}

// ---- to -----------------------------------------------------------------------------------------
// An operator that no one can call by name: which devices a worker has is its own affair.
static void infer_to(op_call *c) {
    const gw_tensor *x = arg_tensor(c->args, 0);
    int64_t device = arg_int(c->args, 1);
    op_output_of(c,
                 tensor_new_on(c->scope, (uint8_t)device, (gw_dtype)x->dtype, x->dims, x->sizes));
}

static void compute_to(op_call *c) {
    tensor_assign(c->outputs[0], arg_tensor(c->args, 0));
}

static void grad_to(op_grad *g) {
    const gw_tensor *x = g->args[0].as.tensor;
    g->d_inputs[0] = tensor_to_device(g->scope, g->d_outputs[0], (gw_device)x->device);
}

static const op op_to = {
    .name = "to",
    .params = "x:tensor device:int",
    .infer = infer_to,
    .compute = compute_to,
    .moves = true,
    .grad = grad_to,
};

gw_tensor *tensor_to_device(gw_scope *s, gw_tensor *x, gw_device device) {
    if (s->error) return tensor_poison_of(s);
    if (x->device == device) return x;
    return op_run(s, &op_to, (const gw_value[]){ gw_value_of(x), gw_value_of((int)device) }, 2,
                  NULL);
}
