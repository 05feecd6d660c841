// A step: staged, then committed.
#include "autograd/grads.h"
#include "optim/optimizer.h"

#include <string.h>

static size_t size_of(const gw_tensor *x) {
    return (size_t)x->numel * gw_dtype_size((gw_dtype)x->dtype);
}

// Whether |x| is all there is to its storage, so that another block can take the place of the old
// one. Views of it, and memory that the user lent, must see the new values where the old ones were.
static bool is_replaceable(const gw_tensor *x) {
    return atomic_load_explicit(&x->storage->count, memory_order_acquire) == 1 &&
           !x->storage->block->external;
}

// ---- Staging ------------------------------------------------------------------------------------
static void discard(parameter *p) {
    block_release(p->new_x);
    p->new_x = NULL;
    for (int k = 0; k < OPTIM_STATES_MAX; k++) {
        block_release(p->new_state[k]);
        p->new_state[k] = NULL;
    }
}

static bool take_blocks(parameter *p, int state_count) {
    size_t size = size_of(p->x);
    p->new_x = block_take(size);
    bool ok = p->new_x != NULL;
    for (int k = 0; k < state_count && ok; k++) {
        p->new_state[k] = block_take(size);
        ok = p->new_state[k] != NULL;
        if (ok && !p->state[k]) memset(p->new_state[k]->bytes, 0, size);
    }
    // What cannot be replaced is written at the commit, which must not need memory then.
    return ok && (is_replaceable(p->x) || storage_writable(p->x->storage));
}

static void compute(const gw_optimizer *o, parameter *p, const gw_tensor *grad, int state_count) {
    update u = {
        .x = tensor_bytes(p->x),
        .grad = tensor_bytes(grad),
        .new_x = p->new_x->bytes,
        .count = p->x->numel,
        .step = p->step_count + 1,
    };
    for (int k = 0; k < state_count; k++) {
        u.new_state[k] = p->new_state[k]->bytes;
        u.state[k] = p->state[k] ? p->state[k]->bytes : u.new_state[k];
    }
    if (p->x->dtype == GW_F32)
        o->rule->run_f32(o, &u);
    else
        o->rule->run_f64(o, &u);
}

bool optimizer_stage(gw_scope *s, gw_optimizer *o) {
    if (!gw_ok(s)) return false;
    int state_count = o->rule->state_count(o);
    for (int i = 0; i < o->parameter_count; i++) {
        parameter *p = &o->parameters[i];
        const gw_tensor *grad = grads_find(s, p->x);
        if (!grad) continue;
        if (!take_blocks(p, state_count)) {
            optimizer_discard(o);
            scope_fail(s, GW_NO_MEMORY,
                       "step of gw_%s: no memory for new values of parameter %d; none has changed",
                       o->rule->name, i);
            return false;
        }
        compute(o, p, grad, state_count);
    }
    return true;
}

void optimizer_discard(gw_optimizer *o) {
    for (int i = 0; i < o->parameter_count; i++) discard(&o->parameters[i]);
}

// ---- Committing ---------------------------------------------------------------------------------
static void put_in_place(gw_tensor *x, block *values) {
    storage *st = x->storage;
    if (is_replaceable(x)) {
        block_release(st->block);
        st->block = values;
        st->version++;
        x->offset = 0;
        return;
    }
    memcpy(st->block->bytes + (size_t)x->offset * gw_dtype_size((gw_dtype)x->dtype), values->bytes,
           size_of(x));
    block_release(values);
}

static void commit(parameter *p) {
    put_in_place(p->x, p->new_x);
    p->new_x = NULL;
    for (int k = 0; k < OPTIM_STATES_MAX; k++) {
        if (!p->new_state[k]) continue;
        block_release(p->state[k]);
        p->state[k] = p->new_state[k];
        p->new_state[k] = NULL;
    }
    p->step_count++;
}

void optimizer_commit(gw_optimizer *o) {
    for (int i = 0; i < o->parameter_count; i++)
        if (o->parameters[i].new_x) commit(&o->parameters[i]);
    o->step_count++;
}

void gw_optimizer_step(gw_scope *s, gw_optimizer *o) {
    if (o != &optimizer_poison && optimizer_stage(s, o)) optimizer_commit(o);
}

// ---- Looking ------------------------------------------------------------------------------------
void gw_optimizer_set_lr(gw_scope *s, gw_optimizer *o, double lr) {
    if (!gw_ok(s) || o == &optimizer_poison) return;
    if (lr >= 0)
        o->lr = lr;
    else
        scope_fail(s, GW_INVALID, "gw_optimizer_set_lr: %g is no learning rate", lr);
}

double gw_optimizer_lr(const gw_optimizer *o) {
    return o->lr;
}
int64_t gw_optimizer_steps(const gw_optimizer *o) {
    return o->step_count;
}
