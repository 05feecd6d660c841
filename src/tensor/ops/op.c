#include "tensor/ops/op.h"

#include "base/mem.h"
#include "base/value.h"
#include "tensor/device.h"
#include "tensor/dtype.h"
#include "tensor/ops/autocast.h"
#include "trace/record.h"

static const tape *tape_of_value(gw_value v) {
    const tape *t = NULL;
    if (v.kind == GW_TENSOR) return v.as.tensor->tape;
    if (v.kind != GW_LIST) return NULL;
    for (int i = 0; i < v.as.list->count && !t; i++) t = tape_of_value(v.as.list->items[i]);
    return t;
}

// The tape of the first argument that needs a gradient, if one shall flow.
static const tape *tape_of(const op_call *c) {
    const tape *t = NULL;
    if (!c->op->grad || !c->scope->grad_enabled) return NULL;
    for (int i = 0; i < c->arg_count && !t; i++) t = tape_of_value(c->args[i]);
    return t;
}

static void record(op_call *c) {
    if (!dtype_is_float((gw_dtype)c->outputs[0]->dtype)) return;
    const tape *t = tape_of(c);
    if (t) t->record(c);
}

static gw_tensor *poison(gw_scope *s, gw_tensor **others) {
    for (int i = 1; others && i < OP_OUTPUTS_MAX; i++) others[i - 1] = tensor_poison_of(s);
    return tensor_poison_of(s);
}

static bool make_from_rows(op_call *c) {
    if (tape_of(c))
        op_fail(c, GW_INVALID,
                "no gradient can flow through a tensor that is sparse by rows; gw_to_dense makes "
                "it dense");
    else
        c->op->rows(c);
    return !c->scope->error;
}

// False with the scope failed if the device has none. Looked for before |infer|, which may read
// numbers.
static bool find_kernel(op_call *c, device_compute **out) {
    *out = c->op->compute;
    if (c->device == GW_CPU || !c->op->compute || c->op->moves) return true;
    *out = device_find_kernel(c->device, c->op);
    if (!*out) op_fail(c, GW_UNSUPPORTED, "no kernel for device %s", device_name(c->device));
    return *out != NULL;
}

static bool make_outputs(op_call *c) {
    if (c->has_rows) return make_from_rows(c);
    device_compute *compute;
    if (!find_kernel(c, &compute)) return false;
    c->op->infer(c);
    if (c->scope->error) return false;
    if (compute) compute(c);
    if (c->scope->error) return false;
    record(c);
    return !c->scope->error;
}

// Runs the row and leaves the outputs, owned by the scope, in |c|. False if there are none.
static bool run(op_call *c, gw_scope *s, const op *o, const gw_value *args, int arg_count) {
    c->outputs = c->few;
    c->output_count = 0;
    if (s->error) return false;
    gw_value filled[OP_ARGS_MAX], cast[OP_ARGS_MAX];
    c->scope = s;
    c->op = o;
    c->args = args;
    c->arg_count = arg_count;
    c->has_rows = false;
    c->device = GW_CPU;
    if (!op_params_check(c, filled)) return false;
    if (autocast_applies(s, o) && !autocast_args(c, cast)) return false;
    if (!make_outputs(c)) {
        for (int i = 0; i < c->output_count; i++) handle_release(c->outputs[i]);
        return false;
    }
    for (int i = 0; i < c->output_count; i++)
        scope_own(s, c->outputs[i]);  // without memory: fails, and gives the output back
    return !s->error;
}

static uint64_t made_bytes(const op_call *c, bool ok) {
    uint64_t sum = 0;
    for (int i = 0; ok && i < c->output_count; i++) sum += tensor_size(c->outputs[i]);
    return sum;
}

// With records of the level "ops". An operator of a scope that has failed does nothing, and is none.
static bool run_recorded(op_call *c, gw_scope *s, const op *o, const gw_value *args,
                         int arg_count) {
    if (!trace_is_on(TRACE_OPS) || s->error) return run(c, s, o, args, arg_count);
    uint64_t id = trace_unique_id();
    uint32_t name = trace_name_of_constant(o->name);
    trace_record(TRACE_OP_BEGUN, -1, id, 0, name);
    bool ok = run(c, s, o, args, arg_count);
    trace_record(TRACE_OP_ENDED, -1, id, trace_op_value(c->device, made_bytes(c, ok)), name);
    return ok;
}

static void free_room(op_call *c) {
    if (c->outputs != c->few) mem_free(c->outputs);
}

gw_tensor *op_run(gw_scope *s, const op *o, const gw_value *args, int arg_count,
                  gw_tensor **others) {
    op_call c;
    gw_tensor *first = NULL;
    scope_enter(s);
    if (run_recorded(&c, s, o, args, arg_count)) {
        first = c.outputs[0];
        for (int i = 1; others && i < c.output_count && i < OP_OUTPUTS_MAX; i++)
            others[i - 1] = c.outputs[i];
    }
    free_room(&c);
    scope_leave(s);
    return first ? first : poison(s, others);
}

// A list of the results: empty if their number depends on the arguments and these are not
// valid.
static gw_list *results(op_call *c, const op *o, bool ok) {
    gw_list *list = gw_list_open(c->scope);
    int count = o->results == OP_LIST ? ok * c->output_count : o->results;
    for (int i = 0; i < count; i++)
        gw_list_add(c->scope, list, ok ? c->outputs[i] : tensor_poison_of(c->scope));
    return list;
}

gw_value op_run_value(gw_scope *s, const op *o, const gw_value *args, int arg_count) {
    if (!o->results) return gw_value_of_tensor(op_run(s, o, args, arg_count, NULL));
    op_call c;
    bool ok = run_recorded(&c, s, o, args, arg_count);
    c.scope = s;
    gw_list *list = results(&c, o, ok);
    free_room(&c);
    return gw_value_of_list(list);
}
