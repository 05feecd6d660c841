// The values of a run: this member's input, those of its steps, and the memory of tensors.
#include "collective/run/run.h"

#include "base/value.h"
#include "tensor/pack.h"

#include <string.h>

// ---- This member's input ------------------------------------------------------------------------

// The rows of |own| for member |item|.
static gw_tensor *rows_for(run *r, int item) {
    const gw_tensor *x = r->own;
    int64_t equal = x->sizes[0] / r->group->count, first = equal * item, count = equal;
    if (r->shares) {
        first = 0;
        for (int i = 0; i < item; i++) first += r->shares[i];
        count = r->shares[item];
    }
    int64_t sizes[LIMIT_DIMS];
    memcpy(sizes, x->sizes, (size_t)x->dims * sizeof *sizes);
    sizes[0] = count;
    return scope_own(r->scope, tensor_view(r->scope, x, x->dims, sizes, x->strides,
                                           x->offset + first * x->strides[0]));
}

static gw_tensor *elements_of(run *r, uint64_t first, uint64_t count) {
    int64_t size = (int64_t)count, stride = 1;
    return scope_own(r->scope, tensor_view(r->scope, r->own, 1, &size, &stride,
                                           r->own->offset + (int64_t)first));
}

// Piece |i| of a value that the root sends to all, by rows. A value without rows is its first piece.
static gw_value piece_of_own(run *r, int64_t i) {
    const gw_tensor *x = r->own;
    if (!x || !x->dims || r->signature.content == CONTENT_VALUES) {
        if (i > 0) return gw_none();
        return x ? gw_value_of_tensor(r->own) : r->own_value;
    }
    int64_t sizes[LIMIT_DIMS], first = x->sizes[0] * i / PLAN_PIECES;
    memcpy(sizes, x->sizes, (size_t)x->dims * sizeof *sizes);
    sizes[0] = x->sizes[0] * (i + 1) / PLAN_PIECES - first;
    gw_tensor *piece = scope_own(r->scope, tensor_view(r->scope, x, x->dims, sizes, x->strides,
                                                       x->offset + first * x->strides[0]));
    return piece ? gw_value_of_tensor(piece) : gw_none();
}

gw_value run_own_value(run *r, uint64_t first, uint64_t count, int item) {
    if (r->backend || r->signature.operation == OPERATION_BARRIER) return gw_none();
    if (r->signature.operation == OPERATION_BROADCAST && count)
        return piece_of_own(r, (int64_t)first);
    if (r->items) return item < 0 ? gw_none() : r->items[item];
    if (r->signature.content == CONTENT_VALUES || signature_is_rows(&r->signature))
        return r->own_value;
    gw_tensor *x = signature_is_reduction(&r->signature) ? elements_of(r, first, count)
                   : item >= 0                           ? rows_for(r, item)
                                                         : r->own;
    return x ? gw_value_of_tensor(x) : gw_none();
}

// ---- Values of steps ----------------------------------------------------------------------------

gw_value run_output_value(run *r, const plan_output *o) {
    if (o->step == INPUT_OWN) return run_own_value(r, o->first, o->count, o->item);
    const run_value *v = &r->values[o->step];
    return v->tensor ? gw_value_of_tensor(v->tensor) : v->value;
}

void run_let_go(run *r, int step) {
    if (step == INPUT_OWN || !r->values[step].is_brief) return;
    run_value *v = &r->values[step];
    handle_release(v->tensor);
    incoming_close(v->incoming);
    v->tensor = NULL;
    v->incoming = NULL;
    v->is_brief = false;
}

// ---- Tensors ------------------------------------------------------------------------------------

gw_tensor *run_open_places(run *r, gw_dtype dtype, int dims, const int64_t *sizes) {
    const char *name = operation_name((operation)r->signature.operation);
    gw_tensor *x = tensor_new_for(r->scope, name, GW_CPU, dtype, dims, sizes);
    if (x) block_mark_as(x->storage->block, BLOCK_STAYS);
    return scope_own(r->scope, x);
}

static size_t offset_of(const gw_tensor *t, int64_t first) {
    return tensor_offset(t) + (size_t)first * gw_dtype_size((gw_dtype)t->dtype);
}

const uint8_t *run_numbers_at(const gw_tensor *t, int64_t first) {
    return block_lend(t->storage->block, offset_of(t, first));
}

uint8_t *run_place_at(const gw_tensor *t, int64_t first) {
    return block_writable(t->storage->block, offset_of(t, first));
}

void run_put_numbers(uint8_t *to, const gw_tensor *t) {
    bool lie_there = t->contiguous && t->numel && run_numbers_at(t, 0) == to;
    if (!lie_there) tensor_pack_into(to, t);
}
