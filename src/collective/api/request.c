// Checks and starts: shared by all functions of gradwire/collective.h.
#include "collective/api/requests.h"

#include "collective/run/backend_run.h"

#include "base/args.h"
#include "base/mutation.h"
#include "base/value.h"
#include "tensor/dtype.h"
#include "tensor/ops/op.h"

#include <gradwire/ops.h>
#include <math.h>

#define GRACE_NS INT64_C(1000000000)

// ---- Checks -------------------------------------------------------------------------------------

// Other keys are reserved: an abort of a final key is final (GRP-21), and members open groups by one key.
static bool check_key(gw_scope *s, const char *what, uint64_t key) {
    if (key < GROUP_KEY_OPENING || s->has_own_keys) return true;
    if (gw_ok(s))
        scope_fail(s, GW_INVALID, "%s: the key is %llu, but keys must be below 2^62 - 1", what,
                   (unsigned long long)key);
    return false;
}

bool request_is_usable(gw_scope *s, gw_group *g, const char *what, uint64_t key) {
    group_check_live(g);
    awaits_note_root(s);
    if (!check_key(s, what, key)) return false;
    if (!g || g == &group_poison)
        return scope_fail(s, GW_INVALID, "%s: %s", what,
                          g ? "the group could not be opened" : "the group is NULL");
    if (s->error) {
        run_enter_failed(s, s, g, key);
        return false;
    }
    if (is_process_fork(g->agent->mark))
        scope_fail(s, GW_WRONG_STATE,
                   "the group belongs to the parent of this process, which was forked");
    else if (s->agent != g->agent)
        scope_fail(s, GW_INVALID, "%s: the group belongs to another agent than the scope", what);
    return gw_ok(s);
}

gw_future *request_refuse(gw_scope *s, gw_group *g, uint64_t key) {
    if (!has_mutation(MUTATION_REFUSED_ALONE)) run_enter_failed(s, s, g, key);
    return &future_poison;
}

bool request_check_tensor(gw_scope *s, const char *what, gw_tensor *x) {
    if (!tensor_is_given(s, what, x)) return false;
    if (tensor_is_rows(x))
        scope_fail(s, GW_INVALID,
                   "%s: the tensor is sparse by rows, which this collective does not support",
                   what);
    else if (x->device != GW_CPU)
        scope_fail(s, GW_UNSUPPORTED, "%s: the tensor is not on the CPU", what);
    return gw_ok(s);
}

bool request_check_root(gw_scope *s, const char *what, const gw_group *g, int root) {
    if (root >= 0 && root < g->count) return true;
    return scope_fail(s, GW_INVALID, "%s: rank %d is out of range for group \"%s\" of %d members",
                      what, root, g->name, g->count);
}

// Integers are multiplied by whole factors, which doubles represent exactly up to 2^53.
static bool is_whole(double factor) {
    return factor == nearbyint(factor) && fabs(factor) <= 0x1p53;
}

bool request_check_factor(gw_scope *s, const char *what, gw_reduce_op op, gw_dtype dtype,
                          double factor) {
    if (isnan(factor))
        scope_fail(s, GW_INVALID, "%s: .factor is not a number", what);
    else if (isinf(factor))
        scope_fail(s, GW_INVALID, "%s: .factor is infinite", what);
    else if (factor != 1 && op != GW_SUM && op != GW_AVG)
        scope_fail(s, GW_INVALID, "%s: .factor can be used with GW_SUM and GW_AVG, not with %s",
                   what, reduce_op_name(op));
    else if (!dtype_is_float(dtype) && !is_whole(factor))
        scope_fail(s, GW_INVALID, "%s: .factor is %.17g, but must be a whole number for %s", what,
                   factor, gw_dtype_name(dtype));
    return gw_ok(s);
}

// Options of an operation besides .key, .timeout_ms and .origin, which all take.
enum { TAKES_FACTOR = 1, TAKES_SIZES = 2, TAKES_INTO = 4 };

static const uint8_t options_taken[CONTENT_COUNT][OPERATION_COUNT] = {
    [CONTENT_TENSOR] = { [OPERATION_ALL_REDUCE] = TAKES_FACTOR | TAKES_INTO,
                         [OPERATION_REDUCE] = TAKES_FACTOR | TAKES_INTO,
                         [OPERATION_BROADCAST] = TAKES_INTO,
                         [OPERATION_ALL_GATHER] = TAKES_INTO,
                         [OPERATION_GATHER] = TAKES_INTO,
                         [OPERATION_REDUCE_SCATTER] = TAKES_FACTOR | TAKES_SIZES | TAKES_INTO,
                         [OPERATION_ALL_TO_ALL] = TAKES_SIZES | TAKES_INTO },
    [CONTENT_TENSORS] = { [OPERATION_SCATTER] = TAKES_INTO },
    [CONTENT_ROWS_SUMMED] = { [OPERATION_ALL_GATHER] = TAKES_FACTOR },
};

bool request_check_options(gw_scope *s, const char *what, const run_request *r) {
    const gw_collective_options *o = &r->options;
    int taken = options_taken[r->signature.content][r->signature.operation];
    if (o->timeout_ms < GW_GROUP_TIMEOUT)
        scope_fail(s, GW_INVALID, "%s: the timeout is %lld ms, but must not be negative", what,
                   (long long)o->timeout_ms);
    else if (o->factor != 1 && !(taken & TAKES_FACTOR))
        scope_fail(s, GW_INVALID, "%s: .factor can be used with GW_SUM and GW_AVG only", what);
    else if (o->sizes && !(taken & TAKES_SIZES))
        scope_fail(s, GW_INVALID,
                   "%s: .sizes can be used with gw_reduce_scatter and gw_all_to_all only", what);
    else if (o->into && !(taken & TAKES_INTO))
        scope_fail(s, GW_INVALID,
                   "%s: .into can be used only with a blocking function that returns one tensor",
                   what);
    return gw_ok(s);
}

// ---- .into --------------------------------------------------------------------------------------

static bool has_result(const gw_group *g, const collective_signature *x) {
    bool at_root = x->operation == OPERATION_REDUCE || x->operation == OPERATION_GATHER;
    return !at_root || x->root == g->self;
}

static bool lies_on_itself(const gw_tensor *x) {
    for (int i = 0; i < x->dims; i++)
        if (x->strides[i] == 0 && x->sizes[i] > 1) return true;
    return false;
}

static bool is_writable(gw_scope *s, const char *what, gw_tensor *into) {
    if (!tensor_is_given(s, what, into)) return false;
    if (tensor_is_rows(into))
        scope_fail(s, GW_INVALID, "%s: .into is sparse by rows", what);
    else if (s->grad_enabled && tensor_needs_grad(into))
        scope_fail(
            s, GW_INVALID,
            "%s: the tensor .into needs a gradient: call gw_no_grad first, which allows the write",
            what);
    else if (lies_on_itself(into))
        scope_fail(s, GW_INVALID, "%s: elements of the tensor .into share memory", what);
    return gw_ok(s);
}

// As far as this member's own input determines. |own_rows|: the rows of the result; -1: there may be more.
static bool shape_may_fit(const gw_tensor *into, const gw_tensor *x, int64_t own_rows) {
    int dims = own_rows < 0 && !x->dims ? 1 : x->dims;
    if (into->dtype != x->dtype || into->dims != dims) return false;
    if (x->dims && own_rows >= 0 && into->sizes[0] != own_rows) return false;
    for (int i = 1; i < x->dims; i++)
        if (into->sizes[i] != x->sizes[i]) return false;
    return true;
}

static int64_t rows_of_result(const gw_group *g, const run_request *r) {
    const gw_tensor *x = r->own;
    switch ((operation)r->signature.operation) {
    case OPERATION_ALL_GATHER:
    case OPERATION_GATHER:
    case OPERATION_ALL_TO_ALL: return -1;
    case OPERATION_REDUCE_SCATTER: return r->shares ? r->shares[g->self] : x->sizes[0] / g->count;
    default: return x->dims ? x->sizes[0] : 0;
    }
}

bool request_check_into(gw_scope *s, const char *what, const gw_group *g, const run_request *x) {
    gw_tensor *into = x->options.into;
    if (!is_writable(s, what, into)) return false;
    if (x->own && has_result(g, &x->signature) &&
        !shape_may_fit(into, x->own, rows_of_result(g, x)))
        scope_fail(s, GW_INVALID, "%s: the result of %s %s does not fit into %s %s", what,
                   gw_dtype_name((gw_dtype)x->own->dtype), shape_text(x->own).text,
                   gw_dtype_name((gw_dtype)into->dtype), shape_text(into).text);
    return gw_ok(s);
}

// ---- Requests -----------------------------------------------------------------------------------

run_request request_of(operation o, content c, int root, gw_collective_options options) {
    return (run_request){ .signature = { .operation = (uint8_t)o,
                                         .content = (uint8_t)c,
                                         .dims = SIGNATURE_OPEN,
                                         .root = root,
                                         .factor = 1 },
                          .options = options };
}

static void choose_plan(run_request *r, const gw_group *g) {
    if (g->backend->open && backend_takes(g, r)) {
        r->signature.plan = (uint8_t)backend_plan(g, r);
        return;
    }
    uint64_t bytes = r->elements && r->own ? tensor_size(r->own) : 0;
    r->signature.plan =
        plan_pack(plan_choose((operation)r->signature.operation, g->count, bytes, g->place));
}

bool request_gives_rows(operation o) {
    return o == OPERATION_ALL_GATHER || o == OPERATION_GATHER || o == OPERATION_ALL_TO_ALL;
}

static bool is_sum(int op) {
    return op == GW_SUM || op == GW_AVG;
}

bool request_has_gradient(operation o, int op) {
    bool reduces =
        o == OPERATION_ALL_REDUCE || o == OPERATION_REDUCE || o == OPERATION_REDUCE_SCATTER;
    return !reduces || is_sum(op);
}

bool request_is_recorded(const gw_scope *s, const gw_tensor *x) {
    return gw_ok(s) && s->grad_enabled && x && tensor_needs_grad(x);
}

bool request_check_no_gradient(gw_scope *s, const char *what, const gw_tensor *x) {
    if (!request_is_recorded(s, x)) return true;
    return scope_fail(
        s, GW_INVALID,
        "%s_async: the tensor needs a gradient, which an asynchronous call does not record: "
        "gw_detach it",
        what);
}

// Of scatter: the root's input states whether a gradient flows back.
static bool prepare_items(gw_scope *s, gw_group *g, const char *what, run_request *r,
                          recording *rec) {
    bool needs = false;
    for (int i = 0; r->items && i < g->count; i++)
        needs = needs || request_is_recorded(s, r->items[i].as.tensor);
    if (needs && !rec)
        scope_fail(s, GW_INVALID,
                   "%s_async: the tensor needs a gradient, which an asynchronous call does not "
                   "record: gw_detach it",
                   what);
    else if (needs && r->options.into)
        scope_fail(s, GW_INVALID,
                   "%s: .into cannot be used if the input needs a gradient: gw_detach the input",
                   what);
    if (!rec || s->error) return gw_ok(s);
    rec->request = (record_request){
        .group = g, .operation = OPERATION_SCATTER, .root = r->signature.root, .factor = 1
    };
    r->out_place = &rec->request.place;
    r->takes_gradient = true;
    if (!needs) return true;
    rec->request.items = r->items;
    gw_list *marked = gw_list_open(s);
    for (int i = 0; i < g->count; i++) {
        gw_list *both = gw_list_open(s);
        gw_list_add_with(s, both, r->items[i]);
        gw_list_add(s, both, (bool)true);
        gw_list_add_with(s, marked, gw_value_of_list(both));
    }
    r->items = marked->items;
    return gw_ok(s);
}

static bool scatters_tensors(const run_request *r) {
    return r->signature.operation == OPERATION_SCATTER && r->signature.content == CONTENT_TENSORS;
}

// The pass of a member that records a node would wait for the others' in vain.
static gradient_need need_of(const gw_scope *s, const run_request *r) {
    const collective_signature *x = &r->signature;
    if (x->content != CONTENT_TENSOR || !request_has_gradient((operation)x->operation, x->op))
        return GRADIENT_UNSTATED;
    return request_is_recorded(s, r->own) ? GRADIENT_NEEDED : GRADIENT_NONE;
}

static bool prepare_recording(gw_scope *s, gw_group *g, const char *what, run_request *r,
                              recording *rec) {
    if (scatters_tensors(r)) return prepare_items(s, g, what, r, rec);
    r->signature.gradient = (uint8_t)need_of(s, r);
    if (!request_is_recorded(s, r->own)) return true;
    if (!rec || rec->continues) return request_check_no_gradient(s, what, r->own);
    if (r->options.into)
        return scope_fail(
            s, GW_INVALID,
            "%s: .into cannot be used if the input needs a gradient: gw_detach the input", what);
    operation o = (operation)r->signature.operation;
    rec->is_on = true;
    rec->request = (record_request){ .group = g,
                                     .operation = o,
                                     .in = r->own,
                                     .op = (gw_reduce_op)r->signature.op,
                                     .root = r->signature.root,
                                     .factor = r->signature.factor };
    r->out_place = &rec->request.place;
    r->with_rows = request_gives_rows(o);
    return true;
}

static bool prepare_into(gw_scope *s, const gw_group *g, const char *what, const run_request *r,
                         recording *rec) {
    if (!r->options.into) return true;
    if (!rec || rec->shapes)
        return scope_fail(
            s, GW_INVALID,
            "%s: .into can be used only with a blocking function that returns one tensor", what);
    if (!request_check_into(s, what, g, r)) return false;
    if (has_result(g, &r->signature)) rec->into = r->options.into;
    return true;
}

gw_future *request_start(gw_scope *s, gw_group *g, const char *what, run_request r,
                         recording *rec) {
    if (!request_check_options(s, what, &r) || !prepare_recording(s, g, what, &r, rec) ||
        !prepare_into(s, g, what, &r, rec))
        return request_refuse(s, g, r.options.key);
    if (rec && rec->shapes) {
        r.signature.shares = rec->shapes;
        r.detail = rec->detail;
    }
    r.is_awaited = r.is_awaited || (rec && !rec->continues);
    choose_plan(&r, g);
    return run_start(s, g, &r);
}

gw_value request_wait(gw_scope *s, gw_future *f) {
    if (f == &future_poison) return gw_none();
    gw_error error;
    int64_t deadline_ns = context_deadline_ns(s);
    if (deadline_ns < ENV_NEVER - GRACE_NS) deadline_ns += GRACE_NS;
    env_enter(f->agent->env);
    bool done = future_wait_on_loop(f, s, deadline_ns);
    if (!done) future_cancel_on_loop(f);
    env_leave(f->agent->env);
    gw_value v = gw_none();
    if (done)
        v = future_give(f, s);
    else if (context_check_cancelled(s, &error))
        scope_fail_with(s, &error);
    else
        scope_fail(s, GW_TIMEOUT, "%s: the scope's deadline has passed before the result arrived",
                   f->function);
    if (!done) run_reported(f);
    gw_drop(s, f);
    return v;
}

bool request_may_wait(gw_scope *s, gw_group *g, const char *what, uint64_t key) {
    gw_error error;
    if (s->error || !context_check_wait(s, &error)) return true;
    error_prefix(&error, what);
    bool is_usable = request_is_usable(s, g, what, key);
    scope_fail_with(s, &error);
    if (is_usable) request_refuse(s, g, key);
    return false;
}
