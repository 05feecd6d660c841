// One module over several threads: each computes a slice of the batch.
#include "parallel/thread_team.h"
#include "parallel/module_replica.h"
#include "parallel/slices.h"

#include "agent/bodies/context.h"
#include "base/mem.h"
#include "future/future.h"
#include "tensor/tensor.h"

#include <gradwire/amp.h>
#include <gradwire/ops.h>
#include <gradwire/parallel.h>

#include <stdio.h>

enum { THREADS_MAX = 256 };

// ---- Slices -------------------------------------------------------------------------------------

void slices_release(slices *x) {
    if (atomic_fetch_sub_explicit(&x->count, 1, memory_order_acq_rel) != 1) return;
    for (int i = 0; i < x->slice_count; i++) {
        slice *at = &x->items[i];
        if (i && x->has_copies) module_replica_close(at->module);
        handle_release(at->x);
        handle_release(at->y);
    }
    handle_release(x->future);
    handle_release(x->module);
    agent_release(x->agent);
    mem_free(x);
}

// As torch.chunk: equal numbers of rows, but for the last.
static slices *slices_open(gw_scope *s, agent *a, gw_module *m, const gw_tensor *x, int threads) {
    int64_t rows = (x->sizes[0] + threads - 1) / threads;
    int count = rows ? (int)((x->sizes[0] + rows - 1) / rows) : 0;
    slices *all = mem_calloc(sizeof *all + (size_t)count * sizeof *all->items);
    if (!all) {
        scope_fail(s, GW_NO_MEMORY, "gw_data_parallel: no memory for slices");
        return NULL;
    }
    atomic_init(&all->count, 1);
    all->agent = agent_retain(a);
    all->module = handle_retain(m);
    all->slice_count = count;
    all->has_copies = (m->training && module_has_buffers(m)) || module_has_hooks(m);
    for (int i = 0; i < count; i++) {
        int64_t first = i * rows, left = x->sizes[0] - first;
        all->items[i] = (slice){ .first = first, .rows = left < rows ? left : rows };
        if (!i || !all->has_copies) all->items[i].module = m;
    }
    return all;
}

// Copies are made before any slice begins.
static bool copy_module(gw_scope *s, slices *all) {
    for (int i = 1; all->has_copies && i < all->slice_count; i++)
        if (!(all->items[i].module = module_replica_open(s, all->module))) return false;
    return gw_ok(s);
}

static bool cut(gw_scope *s, slice *at, gw_tensor *x, bool wants_grad) {
    gw_tensor *part = gw_slice(s, gw_detach(s, x), 0, at->first, at->first + at->rows, 1);
    if (wants_grad) part = gw_requires_grad(s, part);
    if (gw_ok(s)) at->x = handle_retain(part);
    return gw_ok(s);
}

// ---- Forward ------------------------------------------------------------------------------------

// The scope of a slice: it computes as |s| does, with random numbers of its own.
static gw_scope *open_scope(gw_scope *s, agent *a) {
    gw_scope *t = agent_scope_open(a, scope_call_key(s), 0, context_deadline_ns(s));
    if (!s->grad_enabled) gw_no_grad(t);
    if (gw_autocast_dtype(s) != GW_F32) gw_autocast(t, gw_autocast_dtype(s));
    return t;
}

static void go_forward(void *context, int i) {
    slice *at = &((slices *)context)->items[i];
    gw_tensor *y = gw_module_call(at->scope, at->module, at->x);
    if (gw_ok(at->scope) && !y->dims)
        scope_fail(at->scope, GW_INVALID,
                   "gw_data_parallel: the module returned a scalar, which has no rows");
    if (gw_ok(at->scope)) at->y = handle_retain(y);
    at->error = gw_scope_close(at->scope);
    at->scope = NULL;
}

static void all_are_forward(void *context) {
    slices *x = context;
    gw_scope *t = agent_scope_open(x->agent, 0, 0, ENV_NEVER);
    gw_future_set_with(t, x->future, gw_none());
    scope_close_unread(t);
    slices_release(x);
}

void slices_name(gw_error *error, int number, int count) {
    char which[48];
    snprintf(which, sizeof which, "slice %d of %d", number + 1, count);
    error_prefix(error, which);
}

static void fail_with_slice(gw_scope *s, const slices *x) {
    for (int i = 0; gw_ok(s) && i < x->slice_count; i++) {
        if (!x->items[i].error.status) continue;
        gw_error error = x->items[i].error;
        slices_name(&error, i, x->slice_count);
        scope_fail_with(s, &error);
    }
}

// This thread takes the first slice, others the rest.
static bool run_slices(gw_scope *s, slices *x) {
    gw_future *f = gw_future_open(s);
    if (!gw_ok(s)) return false;
    x->future = handle_retain(f);
    for (int i = 0; i < x->slice_count; i++) x->items[i].scope = open_scope(s, x->agent);
    atomic_fetch_add_explicit(&x->count, 1, memory_order_relaxed);
    if (!thread_team_start(x->agent, 1, x->slice_count, go_forward, all_are_forward, x)) {
        slices_release(x);
        for (int i = 1; i < x->slice_count; i++) go_forward(x, i);
        go_forward(x, 0);
    } else {
        go_forward(x, 0);
        gw_wait(s, f);
    }
    if (gw_ok(s)) fail_with_slice(s, x);
    return gw_ok(s);
}

// ---- The module ---------------------------------------------------------------------------------

static gw_tensor *gather(gw_scope *s, const slices *x) {
    gw_scope *t = scope_open_unrecorded(s);
    gw_tensor **ys = gw_alloc(t, (size_t)x->slice_count * sizeof *ys);
    for (int i = 0; ys && i < x->slice_count; i++) ys[i] = x->items[i].y;
    gw_tensor *y = ys ? gw_keep(s, gw_cat(t, ys, x->slice_count, 0)) : NULL;
    gw_scope_close_up(t);
    return gw_ok(s) ? y : tensor_poison_of(s);
}

static bool any_needs_grad(const slices *x) {
    for (int i = 0; i < x->slice_count; i++)
        if (tensor_needs_grad(x->items[i].y)) return true;
    return false;
}

static gw_tensor *call_slices(gw_scope *s, slices *all, gw_tensor *x) {
    bool wants_grad = s->grad_enabled && tensor_needs_grad(x);
    for (int i = 0; i < all->slice_count; i++)
        if (!cut(s, &all->items[i], x, wants_grad)) return tensor_poison_of(s);
    if (!copy_module(s, all) || !run_slices(s, all)) return tensor_poison_of(s);
    gw_tensor *y = gather(s, all);
    if (gw_ok(s) && any_needs_grad(all)) slices_record(s, all, x, y);
    return gw_ok(s) ? y : tensor_poison_of(s);
}

static gw_tensor *forward(gw_scope *s, gw_module *m, gw_tensor *x) {
    gw_module *inner = gw_module_child(s, m, "module");
    agent *a = agent_of(s);
    gw_error error;
    if (gw_ok(s) && context_check_wait(s, &error)) scope_fail_with(s, &error);
    if (gw_ok(s) && !x->dims)
        scope_fail(s, GW_INVALID,
                   "gw_data_parallel: the input is a scalar, which has no rows to divide");
    if (!gw_ok(s)) return tensor_poison_of(s);
    slices *all = slices_open(s, a, inner, x, (int)m->number);
    if (!all) return tensor_poison_of(s);
    gw_tensor *y = all->slice_count > 1 ? call_slices(s, all, x) : gw_module_call(s, inner, x);
    slices_release(all);
    return y;
}

gw_module *gw_data_parallel(gw_scope *s, gw_module *module, int threads) {
    if (!module_is_usable(s, "gw_data_parallel", module)) return &module_poison;
    if (threads < 1 || threads > THREADS_MAX) {
        scope_fail(s, GW_INVALID, "gw_data_parallel: threads is %d, but must be 1 to %d", threads,
                   THREADS_MAX);
        return &module_poison;
    }
    if (!agent_of(s)) return &module_poison;
    gw_module *m = module_new(s, "data_parallel", forward);
    if (!gw_ok(s)) return &module_poison;
    m->number = threads;
    m->training = module->training;
    gw_module_register_module(s, m, "module", module);
    return gw_ok(s) ? m : &module_poison;
}
