// A step in two phases: prepare, then commit or abort.
#include "autograd/grads.h"
#include "optim/row_update.h"
#include "optim/remote_part.h"
#include "tensor/device.h"

// Whether |x| is all of its storage; memory that the user lent must see the new values itself.
static bool is_whole(const gw_tensor *x) {
    const block *b = x->storage->block;
    return !b->external && !x->offset && tensor_size(x) == b->size;
}

// Whether another block can replace the old one, because no tensor needs the rest of it.
static bool is_replaceable(const gw_tensor *x) {
    return is_whole(x) || (atomic_load_explicit(&x->storage->count, memory_order_acquire) == 1 &&
                           !x->storage->block->external);
}

// Whether only the one holder of |b| can see its values.
static bool is_own(const block *b) {
    return atomic_load_explicit(&b->count, memory_order_acquire) == 1;
}

// ---- Preparing ----------------------------------------------------------------------------------
static void discard(parameter *p) {
    p->is_early = false;
    handle_release(p->grad);
    p->grad = NULL;
    row_update_discard(p);
    block_release(p->new_x);
    p->new_x = NULL;
    block_release(p->spare);
    p->spare = NULL;
    for (int k = 0; k < OPTIM_STATES_MAX; k++) {
        block_release(p->new_state[k]);
        p->new_state[k] = NULL;
    }
}

void optimizer_discard(gw_optimizer *o, int i) {
    discard(&o->parameters[i]);
}

void optimizer_abort(gw_optimizer *o) {
    for (int i = 0; i < o->parameter_count; i++) discard(&o->parameters[i]);
}

static block *take_like(const gw_tensor *x) {
    return block_take_on(x->device, tensor_size(x));
}

static bool take_state(const gw_optimizer *o, parameter *p, int k, bool is_apart) {
    if (!is_apart && p->state[k] && is_own(p->state[k])) return true;
    block *b = p->new_state[k] = take_like(p->x);
    if (b) block_set_kind(b, MEMORY_OPTIMIZERS);
    double first = o->rule->start ? o->rule->start(&o->groups[p->group], k) : 0;
    if (b && !p->state[k]) block_fill(b, (gw_dtype)p->x->dtype, p->x->numel, gw_value_of(first));
    return b != NULL;
}

// For rows: makes state |k| writable, with its values as they are.
bool state_begin(const gw_optimizer *o, parameter *p, int k) {
    if (!take_state(o, p, k, false)) return false;
    if (p->state[k] && p->new_state[k])
        block_copy(p->new_state[k], 0, p->state[k], 0, tensor_size(p->x));
    return true;
}

// Takes all memory that the step of |p| needs.
static bool take_blocks(const gw_optimizer *o, parameter *p, bool is_apart) {
    bool ok = true;
    if (!is_replaceable(p->x)) ok = storage_make_writable(p->x->storage);
    if (ok && (is_apart || (is_replaceable(p->x) && !is_own(p->x->storage->block))))
        ok = (p->new_x = take_like(p->x)) != NULL;
    unsigned used = rule_states(o->rule, &o->groups[p->group]);
    for (int k = 0; k < OPTIM_STATES_MAX && ok; k++)
        if (used >> k & 1) ok = take_state(o, p, k, is_apart);
    return ok;
}

// A block may be pinned between prepare and commit; then the commit needs a spare one. Of
// parameters that share a storage, the first has the spare.
static bool take_spare(gw_optimizer *o, parameter *p) {
    const storage *st = p->x->storage;
    if (!p->rows && is_whole(p->x)) return true;
    uint32_t own = (uint32_t)(p - o->parameters), first = index_find(&o->indices, st);
    if (first < own && o->parameters[first].spare && o->parameters[first].x->storage == st)
        return true;
    p->spare = block_take_on(p->x->device, st->block->size);
    if (p->spare && index_reserve(&o->indices, 1)) index_put(&o->indices, st, own);
    return p->spare != NULL;
}

static bool check_device(gw_scope *s, const gw_optimizer *o, const parameter *p,
                         const gw_tensor *grad) {
    uint8_t device = p->x->device;
    if (grad->device != device)
        scope_fail(s, GW_INVALID,
                   "step of gw_%s: parameter %d is on device %s, and its gradient on %s",
                   o->rule->name, p->number, device_name(device), device_name(grad->device));
    else if (!update_is_supported(o->rule->update, p->x))
        scope_fail(s, GW_UNSUPPORTED, "step of gw_%s: no kernel for device %s", o->rule->name,
                   device_name(device));
    return gw_ok(s);
}

static bool reserve(gw_scope *s, gw_optimizer *o, int i, gw_tensor *grad, bool is_apart) {
    parameter *p = &o->parameters[i];
    bool dense;
    if (!row_update_check(s, o, p, grad, &dense) || !check_device(s, o, p, grad)) return false;
    p->grad = handle_retain(dense ? gw_to_dense(s, grad) : grad);
    if (!gw_ok(s) || (!dense && !row_update_reserve(s, o, p))) return false;
    if ((!dense || take_blocks(o, p, is_apart)) && (!is_apart || take_spare(o, p))) return true;
    return scope_fail(
        s, GW_NO_MEMORY,
        "step of gw_%s: no memory for new values of parameter %d; no parameter has changed",
        o->rule->name, p->number);
}

static void compute(const gw_optimizer *o, parameter *p) {
    if (p->rows) {
        row_update_compute(o, p);
        return;
    }
    const optimizer_group *g = &o->groups[p->group];
    update_run u = {
        .dtype = (gw_dtype)p->x->dtype,
        .x = update_array_of(p->x),
        .grad = update_array_of(p->grad),
        .new_x = p->new_x ? (update_array){ p->new_x, 0 } : update_array_of(p->x),
        .count = p->x->numel,
        .step = p->step_count + 1,
    };
    unsigned used = rule_states(o->rule, g);
    for (int k = 0; k < OPTIM_STATES_MAX; k++) {
        if (!(used >> k & 1)) continue;
        u.state[k].block = p->state[k] ? p->state[k] : p->new_state[k];
        u.new_state[k].block = p->new_state[k] ? p->new_state[k] : p->state[k];
        if (!p->state[k]) u.first |= 1u << k;
    }
    update_on_device(o->rule->update, &g->options, &u);
}

static bool reserve_all(gw_scope *s, gw_optimizer *o, bool is_apart) {
    if (!gw_ok(s)) return false;
    for (int i = 0; i < o->parameter_count; i++) {
        const parameter *p = &o->parameters[i];
        gw_tensor *grad = p->elsewhere || p->is_early ? NULL : grads_find(s, p->x);
        if (!grad || reserve(s, o, i, grad, is_apart)) continue;
        optimizer_abort(o);
        return false;
    }
    return true;
}

bool optimizer_reserve(gw_scope *s, gw_optimizer *o) {
    return reserve_all(s, o, true);
}

void optimizer_compute(gw_optimizer *o) {
    for (int i = 0; i < o->parameter_count; i++) {
        parameter *p = &o->parameters[i];
        if (p->grad && !p->is_early) compute(o, p);
    }
}

bool optimizer_prepare_early(gw_scope *s, gw_optimizer *o, int i, gw_tensor *grad) {
    optimizer_discard(o, i);
    if (!reserve(s, o, i, grad, true)) {
        optimizer_discard(o, i);
        return false;
    }
    compute(o, &o->parameters[i]);
    o->parameters[i].is_early = true;
    return true;
}

bool optimizer_prepare(gw_scope *s, gw_optimizer *o) {
    if (!optimizer_reserve(s, o)) return false;
    optimizer_compute(o);
    return true;
}

bool optimizer_reserve_values(gw_scope *s, gw_optimizer *o, int i) {
    parameter *p = &o->parameters[i];
    bool ok = is_replaceable(p->x) || storage_make_writable(p->x->storage);
    ok = ok && (p->new_x = take_like(p->x)) && take_spare(o, p);
    if (!ok)
        scope_fail(
            s, GW_NO_MEMORY,
            "step of gw_%s: no memory for new values of parameter %d; no parameter has changed",
            o->rule->name, p->number);
    return ok;
}

bool optimizer_reserve_rows(gw_scope *s, gw_optimizer *o, int i, gw_tensor *indices) {
    parameter *p = &o->parameters[i];
    if (!row_update_await(s, o, p, indices)) return false;
    if (!take_spare(o, p))
        scope_fail(
            s, GW_NO_MEMORY,
            "step of gw_%s: no memory for new rows of parameter %d; no parameter has changed",
            o->rule->name, p->number);
    return gw_ok(s);
}

void optimizer_stage(gw_optimizer *o, int i, int64_t first, const gw_tensor *values, int64_t at,
                     int64_t count) {
    parameter *p = &o->parameters[i];
    size_t size = gw_dtype_size((gw_dtype)p->x->dtype);
    block *to = p->rows ? row_update_block(p) : p->new_x;
    block_copy(to, (size_t)first * size, values->storage->block,
               tensor_offset(values) + (size_t)at * size, (size_t)count * size);
}

// ---- Committing ---------------------------------------------------------------------------------
static void put_in_place(parameter *p) {
    gw_tensor *x = p->x;
    storage *st = x->storage;
    if (!p->new_x) {
        st->version++;
    } else if (is_replaceable(x)) {
        st->version++;
        block_replace_kind(st->block, p->new_x);
        block_release(st->block);
        st->block = p->new_x;
        x->offset = 0;
    } else {
        storage_make_writable_by(st, &p->spare);
        block_copy(st->block, tensor_offset(x), p->new_x, 0, tensor_size(x));
        block_release(p->new_x);
    }
    p->new_x = NULL;
}

static void release_spare(parameter *p) {
    block_release(p->spare);
    p->spare = NULL;
}

static void commit(parameter *p) {
    if (!p->rows) put_in_place(p);
    for (int k = 0; k < OPTIM_STATES_MAX; k++) {
        if (!p->new_state[k]) continue;
        if (p->state[k]) block_replace_kind(p->state[k], p->new_state[k]);
        block_release(p->state[k]);
        p->state[k] = p->new_state[k];
        p->new_state[k] = NULL;
    }
    if (p->rows) row_update_commit(p);
    release_spare(p);
    handle_release(p->grad);
    p->grad = NULL;
    p->is_early = false;
    p->step_count++;
}

void optimizer_commit(gw_optimizer *o) {
    for (int i = 0; i < o->parameter_count; i++) {
        parameter *p = &o->parameters[i];
        if (p->grad) {
            commit(p);
        } else if (p->new_x) {
            put_in_place(p);
            release_spare(p);
        }
    }
    o->step_count++;
}

bool optimizer_step(gw_scope *s, gw_optimizer *o) {
    // Computing in place changes values, so all memory is taken first.
    if (!reserve_all(s, o, false)) return false;
    optimizer_compute(o);
    optimizer_commit(o);
    return true;
}
