// The functions of gradwire/collective.h: what they check, and what a run is asked for.
#include "collective/backward.h"

#include "base/args.h"
#include "base/value.h"
#include "tensor/combine.h"

#include <math.h>
#include <string.h>

#define GRACE_NS INT64_C(1000000000)

// ---- Checks -------------------------------------------------------------------------------------

static bool is_usable(gw_scope *s, gw_group *g, const char *what, uint64_t key) {
    if (!g || g == &group_poison) {
        scope_fail(s, GW_INVALID, "%s: %s", what,
                   g ? "a group that could not be opened" : "the group is NULL");
        return false;
    }
    if (s->error) {
        run_enter_failed(s, g, key);
        return false;
    }
    if (is_process_fork(g->agent->mark))
        scope_fail(s, GW_WRONG_STATE, "this process was forked from the one that has the group");
    else if (s->agent != g->agent)
        scope_fail(s, GW_INVALID, "%s: the group is of another agent than the scope", what);
    return gw_ok(s);
}

static bool check_tensor(gw_scope *s, const char *what, gw_tensor *x) {
    if (!tensor_is_given(s, what, x)) return false;
    if (tensor_is_rows(x))
        scope_fail(s, GW_INVALID, "%s: a tensor that is sparse by rows", what);
    else if (x->device != GW_CPU)
        scope_fail(s, GW_UNSUPPORTED, "%s: a tensor of another device than the CPU", what);
    return gw_ok(s);
}

static bool check_root(gw_scope *s, const char *what, const gw_group *g, int root) {
    if (root >= 0 && root < g->count) return true;
    scope_fail(s, GW_INVALID, "%s: rank %d of group \"%s\", which has %d", what, root, g->name,
               g->count);
    return false;
}

static bool check_op(gw_scope *s, const char *what, gw_reduce_op op, const gw_tensor *x,
                     double factor) {
    gw_dtype dtype = (gw_dtype)x->dtype;
    if ((unsigned)op >= GW_REDUCE_OP_COUNT)
        scope_fail(s, GW_INVALID, "%s: %d is no operation to reduce by", what, (int)op);
    else if (!combine_is_known((combine_op)op, dtype))
        scope_fail(s, GW_INVALID, "%s: numbers of %s are not combined by %s", what,
                   gw_dtype_name(dtype), reduce_op_name(op));
    else if (!isfinite(factor))
        scope_fail(s, GW_INVALID, "%s: a factor of %g", what, factor);
    else if (factor != 1 && op != GW_SUM && op != GW_AVG)
        scope_fail(s, GW_INVALID, "%s: a factor is for sums and means", what);
    return gw_ok(s);
}

static bool check_options(gw_scope *s, const char *what, gw_collective_options o) {
    if (o.timeout_ms < GW_GROUP_TIMEOUT)
        scope_fail(s, GW_INVALID, "%s: a timeout of %lld ms", what, (long long)o.timeout_ms);
    return gw_ok(s);
}

// Rows for each member: |sizes|, or equal ones.
static bool check_rows(gw_scope *s, const char *what, const gw_group *g, const gw_tensor *x,
                       const int64_t *sizes) {
    if (!x->dims) {
        scope_fail(s, GW_INVALID, "%s: a scalar has no rows", what);
        return false;
    }
    if (!sizes) {
        if (x->sizes[0] % g->count == 0) return true;
        scope_fail(s, GW_INVALID, "%s: %lld rows for %d members: give sizes", what,
                   (long long)x->sizes[0], g->count);
        return false;
    }
    int64_t left = x->sizes[0];
    for (int i = 0; i < g->count; i++) {
        if (sizes[i] < 0 || sizes[i] > left) left = -1;
        if (left < 0) break;
        left -= sizes[i];
    }
    if (left)
        scope_fail(s, GW_INVALID, "%s: the sizes do not sum up to %lld rows", what,
                   (long long)x->sizes[0]);
    return gw_ok(s);
}

// ---- Requests -----------------------------------------------------------------------------------

static run_request request_of(operation o, content c, int root, gw_collective_options options) {
    return (run_request){ .signature = { .operation = (uint8_t)o,
                                         .content = (uint8_t)c,
                                         .dims = SIGNATURE_OPEN,
                                         .root = root,
                                         .factor = 1 },
                          .options = options };
}

static void bring(run_request *r, gw_tensor *x) {
    r->own = x;
    r->signature.dtype = x->dtype;
    r->signature.dims = x->dims;
    memcpy(r->signature.sizes, x->sizes, (size_t)x->dims * sizeof x->sizes[0]);
}

static void reduce_by(run_request *r, gw_reduce_op op) {
    r->signature.op = (uint8_t)op;
    r->signature.factor = r->options.factor;
    r->elements = (uint64_t)r->own->numel;
}

static void choose_plan(run_request *r, const gw_group *g) {
    uint64_t bytes = r->elements && r->own ? tensor_size(r->own) : 0;
    r->signature.plan = (uint8_t)plan_choose((operation)r->signature.operation, g->count, bytes);
}

// What a form that waits needs to record its gradient; NULL for one that does not wait.
typedef struct recording {
    bool is_on;
    backward_record_request request;
} recording;

static bool gives_rows(operation o) {
    return o == OPERATION_ALL_GATHER || o == OPERATION_GATHER || o == OPERATION_ALL_TO_ALL;
}

static bool prepare_recording(gw_scope *s, gw_group *g, const char *what, run_request *r,
                              recording *rec) {
    if (!backward_is_recorded(s, r->own)) return true;
    if (!rec) {
        scope_fail(s, GW_INVALID, "%s_async: a tensor that needs a gradient: detach it", what);
        return false;
    }
    operation o = (operation)r->signature.operation;
    rec->is_on = true;
    rec->request = (backward_record_request){ .group = g,
                                              .operation = o,
                                              .in = r->own,
                                              .op = (gw_reduce_op)r->signature.op,
                                              .root = r->signature.root,
                                              .factor = r->signature.factor };
    r->out_place = &rec->request.place;
    r->with_rows = gives_rows(o);
    return true;
}

static gw_future *start(gw_scope *s, gw_group *g, const char *what, run_request r, recording *rec) {
    if (!check_options(s, what, r.options) || !prepare_recording(s, g, what, &r, rec))
        return &future_poison;
    choose_plan(&r, g);
    return run_start(s, g, &r);
}

// Waits somewhat longer than the run's deadline: its error then says who did not come.
static gw_value wait_for(gw_scope *s, gw_future *f) {
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
        scope_fail(s, GW_TIMEOUT, "%s: nothing was heard within the scope's deadline", f->function);
    if (!done) run_told(f);
    return v;
}

static bool may_wait(gw_scope *s, const char *what) {
    gw_error error;
    if (s->error || !context_check_wait(s, &error)) return true;
    error_prefix(&error, what);
    scope_fail_with(s, &error);
    return false;
}

static gw_tensor *tensor_from(gw_scope *s, gw_future *f, recording *rec) {
    gw_value v = wait_for(s, f);
    if (s->error || !rec->is_on) return gw_tensor_of(s, v);
    bool with_rows = gives_rows(rec->request.operation);
    const gw_list *both = with_rows ? gw_list_of(s, v) : NULL;
    gw_tensor *out = gw_tensor_of(s, both ? gw_list_get(s, both, 0) : v);
    if (both) rec->request.rows = gw_data(gw_tensor_of(s, gw_list_get(s, both, 1)));
    if (gw_ok(s)) backward_record(s, &rec->request, out);
    return s->error ? tensor_poison_of(s) : out;
}

// The form that waits, of each: |...| starts it with |rec|.
#define WAIT_FOR_TENSOR(what, ...)                                                                 \
    recording rec = { 0 };                                                                         \
    return may_wait(s, what) ? tensor_from(s, __VA_ARGS__, &rec) : tensor_poison_of(s)

// ---- Sums ---------------------------------------------------------------------------------------

static gw_future *reduce(gw_scope *s, gw_group *g, const char *what, operation o, gw_tensor *x,
                         gw_reduce_op op, int root, gw_collective_options options, recording *rec) {
    if (!is_usable(s, g, what, options.key) || !check_tensor(s, what, x) ||
        !check_op(s, what, op, x, options.factor) ||
        (o == OPERATION_REDUCE && !check_root(s, what, g, root)) ||
        (o == OPERATION_REDUCE_SCATTER && !check_rows(s, what, g, x, options.sizes)))
        return &future_poison;
    run_request r = request_of(o, CONTENT_TENSOR, o == OPERATION_REDUCE ? root : -1, options);
    bring(&r, x);
    reduce_by(&r, op);
    if (o == OPERATION_REDUCE_SCATTER && options.sizes) {
        r.shares = options.sizes;
        r.signature.shares =
            hash_bytes(options.sizes, (size_t)g->count * sizeof *options.sizes) | 1;
    }
    return start(s, g, what, r, rec);
}

gw_future *gw_all_reduce_async_with(gw_scope *s, gw_group *g, gw_tensor *x, gw_reduce_op op,
                                    gw_collective_options options) {
    return reduce(s, g, "gw_all_reduce", OPERATION_ALL_REDUCE, x, op, -1, options, NULL);
}

gw_tensor *gw_all_reduce_with(gw_scope *s, gw_group *g, gw_tensor *x, gw_reduce_op op,
                              gw_collective_options options) {
    WAIT_FOR_TENSOR("gw_all_reduce",
                    reduce(s, g, "gw_all_reduce", OPERATION_ALL_REDUCE, x, op, -1, options, &rec));
}

gw_future *gw_reduce_async_with(gw_scope *s, gw_group *g, gw_tensor *x, gw_reduce_op op, int root,
                                gw_collective_options options) {
    return reduce(s, g, "gw_reduce", OPERATION_REDUCE, x, op, root, options, NULL);
}

gw_tensor *gw_reduce_with(gw_scope *s, gw_group *g, gw_tensor *x, gw_reduce_op op, int root,
                          gw_collective_options options) {
    WAIT_FOR_TENSOR("gw_reduce",
                    reduce(s, g, "gw_reduce", OPERATION_REDUCE, x, op, root, options, &rec));
}

gw_future *gw_reduce_scatter_async_with(gw_scope *s, gw_group *g, gw_tensor *x, gw_reduce_op op,
                                        gw_collective_options options) {
    return reduce(s, g, "gw_reduce_scatter", OPERATION_REDUCE_SCATTER, x, op, -1, options, NULL);
}

gw_tensor *gw_reduce_scatter_with(gw_scope *s, gw_group *g, gw_tensor *x, gw_reduce_op op,
                                  gw_collective_options options) {
    WAIT_FOR_TENSOR("gw_reduce_scatter", reduce(s, g, "gw_reduce_scatter", OPERATION_REDUCE_SCATTER,
                                                x, op, -1, options, &rec));
}

// ---- Copies -------------------------------------------------------------------------------------

static gw_future *broadcast(gw_scope *s, gw_group *g, gw_tensor *x, int root,
                            gw_collective_options options, recording *rec) {
    const char *what = "gw_broadcast";
    if (!is_usable(s, g, what, options.key) || !check_root(s, what, g, root) ||
        ((x || g->self == root) && !check_tensor(s, what, x)))
        return &future_poison;
    run_request r = request_of(OPERATION_BROADCAST, CONTENT_TENSOR, root, options);
    if (x) bring(&r, x);
    return start(s, g, what, r, rec);
}

gw_future *gw_broadcast_async_with(gw_scope *s, gw_group *g, gw_tensor *x, int root,
                                   gw_collective_options options) {
    return broadcast(s, g, x, root, options, NULL);
}

gw_tensor *gw_broadcast_with(gw_scope *s, gw_group *g, gw_tensor *x, int root,
                             gw_collective_options options) {
    WAIT_FOR_TENSOR("gw_broadcast", broadcast(s, g, x, root, options, &rec));
}

static gw_future *gather(gw_scope *s, gw_group *g, const char *what, operation o, gw_tensor *x,
                         int root, gw_collective_options options, recording *rec) {
    if (!is_usable(s, g, what, options.key) || !check_tensor(s, what, x) ||
        (o == OPERATION_GATHER && !check_root(s, what, g, root)))
        return &future_poison;
    run_request r = request_of(o, CONTENT_TENSOR, root, options);
    bring(&r, x);
    return start(s, g, what, r, rec);
}

gw_future *gw_all_gather_async_with(gw_scope *s, gw_group *g, gw_tensor *x,
                                    gw_collective_options options) {
    return gather(s, g, "gw_all_gather", OPERATION_ALL_GATHER, x, -1, options, NULL);
}

gw_tensor *gw_all_gather_with(gw_scope *s, gw_group *g, gw_tensor *x,
                              gw_collective_options options) {
    WAIT_FOR_TENSOR("gw_all_gather",
                    gather(s, g, "gw_all_gather", OPERATION_ALL_GATHER, x, -1, options, &rec));
}

gw_future *gw_gather_to_async_with(gw_scope *s, gw_group *g, gw_tensor *x, int root,
                                   gw_collective_options options) {
    return gather(s, g, "gw_gather_to", OPERATION_GATHER, x, root, options, NULL);
}

gw_tensor *gw_gather_to_with(gw_scope *s, gw_group *g, gw_tensor *x, int root,
                             gw_collective_options options) {
    WAIT_FOR_TENSOR("gw_gather_to",
                    gather(s, g, "gw_gather_to", OPERATION_GATHER, x, root, options, &rec));
}

static gw_future *exchange(gw_scope *s, gw_group *g, gw_tensor *x, gw_collective_options options,
                           recording *rec) {
    const char *what = "gw_all_to_all";
    if (!is_usable(s, g, what, options.key) || !check_tensor(s, what, x) ||
        !check_rows(s, what, g, x, options.sizes))
        return &future_poison;
    run_request r = request_of(OPERATION_ALL_TO_ALL, CONTENT_TENSOR, -1, options);
    bring(&r, x);
    r.shares = options.sizes;
    return start(s, g, what, r, rec);
}

gw_future *gw_all_to_all_async_with(gw_scope *s, gw_group *g, gw_tensor *x,
                                    gw_collective_options options) {
    return exchange(s, g, x, options, NULL);
}

gw_tensor *gw_all_to_all_with(gw_scope *s, gw_group *g, gw_tensor *x,
                              gw_collective_options options) {
    WAIT_FOR_TENSOR("gw_all_to_all", exchange(s, g, x, options, &rec));
}

// ---- Lists --------------------------------------------------------------------------------------

gw_future *gw_all_gather_list_async_with(gw_scope *s, gw_group *g, gw_tensor *x,
                                         gw_collective_options options) {
    const char *what = "gw_all_gather_list";
    if (!is_usable(s, g, what, options.key) || !check_tensor(s, what, x)) return &future_poison;
    run_request r = request_of(OPERATION_ALL_GATHER, CONTENT_TENSORS, -1, options);
    r.own = x;
    r.as_list = true;
    return start(s, g, what, r, NULL);
}

gw_list *gw_all_gather_list_with(gw_scope *s, gw_group *g, gw_tensor *x,
                                 gw_collective_options options) {
    if (!may_wait(s, "gw_all_gather_list")) return gw_list_open(s);
    return gw_list_of(s, wait_for(s, gw_all_gather_list_async_with(s, g, x, options)));
}

// One item for each member, from the root alone.
static bool check_items(gw_scope *s, const char *what, const gw_group *g, const gw_list *list,
                        int root) {
    if (!check_root(s, what, g, root) || g->self != root) return gw_ok(s);
    if (!list || gw_list_count(list) != g->count)
        scope_fail(s, GW_INVALID, "%s: %d items for %d members", what,
                   list ? gw_list_count(list) : 0, g->count);
    return gw_ok(s);
}

static gw_future *scatter(gw_scope *s, gw_group *g, const char *what, content c,
                          const gw_list *list, int root, gw_collective_options options) {
    if (!is_usable(s, g, what, options.key) || !check_items(s, what, g, list, root))
        return &future_poison;
    run_request r = request_of(OPERATION_SCATTER, c, root, options);
    if (g->self == root) r.items = list->items;
    for (int i = 0; r.items && c == CONTENT_TENSORS && i < g->count; i++)
        if (!check_tensor(s, what, gw_tensor_of(s, r.items[i]))) return &future_poison;
    return start(s, g, what, r, NULL);
}

gw_future *gw_scatter_from_async_with(gw_scope *s, gw_group *g, const gw_list *list, int root,
                                      gw_collective_options options) {
    return scatter(s, g, "gw_scatter_from", CONTENT_TENSORS, list, root, options);
}

gw_tensor *gw_scatter_from_with(gw_scope *s, gw_group *g, const gw_list *list, int root,
                                gw_collective_options options) {
    if (!may_wait(s, "gw_scatter_from")) return tensor_poison_of(s);
    gw_value v = wait_for(s, gw_scatter_from_async_with(s, g, list, root, options));
    return s->error ? tensor_poison_of(s) : gw_tensor_of(s, v);
}

// ---- Barriers -----------------------------------------------------------------------------------

gw_future *gw_barrier_async_with(gw_scope *s, gw_group *g, gw_collective_options options) {
    if (!is_usable(s, g, "gw_barrier", options.key)) return &future_poison;
    return start(s, g, "gw_barrier", request_of(OPERATION_BARRIER, CONTENT_VALUES, -1, options),
                 NULL);
}

void gw_barrier_with(gw_scope *s, gw_group *g, gw_collective_options options) {
    if (may_wait(s, "gw_barrier")) wait_for(s, gw_barrier_async_with(s, g, options));
}

// ---- Values -------------------------------------------------------------------------------------

static gw_value collect_values(gw_scope *s, gw_group *g, const char *what, operation o, gw_value x,
                               int root, gw_collective_options options) {
    if (!may_wait(s, what) || !is_usable(s, g, what, options.key) ||
        (o != OPERATION_ALL_GATHER && !check_root(s, what, g, root)))
        return gw_none();
    run_request r = request_of(o, CONTENT_VALUES, o == OPERATION_ALL_GATHER ? -1 : root, options);
    r.own_value = x;
    r.as_list = o != OPERATION_BROADCAST;
    return wait_for(s, start(s, g, what, r, NULL));
}

gw_list *gw_all_gather_value_with(gw_scope *s, gw_group *g, gw_value x,
                                  gw_collective_options options) {
    gw_value v = collect_values(s, g, "gw_all_gather_value", OPERATION_ALL_GATHER, x, -1, options);
    return s->error ? gw_list_open(s) : gw_list_of(s, v);
}

gw_list *gw_gather_value_to_with(gw_scope *s, gw_group *g, gw_value x, int root,
                                 gw_collective_options options) {
    gw_value v = collect_values(s, g, "gw_gather_value_to", OPERATION_GATHER, x, root, options);
    return s->error ? gw_list_open(s) : gw_list_of(s, v);
}

gw_value gw_broadcast_value_with(gw_scope *s, gw_group *g, gw_value x, int root,
                                 gw_collective_options options) {
    return collect_values(s, g, "gw_broadcast_value", OPERATION_BROADCAST, x, root, options);
}

gw_value gw_scatter_value_from_with(gw_scope *s, gw_group *g, const gw_list *list, int root,
                                    gw_collective_options options) {
    const char *what = "gw_scatter_value_from";
    if (!may_wait(s, what)) return gw_none();
    return wait_for(s, scatter(s, g, what, CONTENT_VALUES, list, root, options));
}
