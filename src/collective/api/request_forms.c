// The forms of collectives: the checks of each operation, and the request of its run.
#include "collective/api/requests.h"

#include "base/value.h"
#include "tensor/combine.h"

#include <string.h>

// ---- Checks -------------------------------------------------------------------------------------

static bool check_op(gw_scope *s, const char *what, gw_reduce_op op, const gw_tensor *x,
                     double factor) {
    gw_dtype dtype = (gw_dtype)x->dtype;
    if ((unsigned)op >= GW_REDUCE_OP_COUNT)
        scope_fail(s, GW_INVALID, "%s: %d is not a gw_reduce_op", what, (int)op);
    else if (!combine_is_supported((combine_op)op, dtype))
        scope_fail(s, GW_INVALID, "%s: %s cannot be combined by %s", what, gw_dtype_name(dtype),
                   reduce_op_name(op));
    else
        request_check_factor(s, what, op, dtype, factor);
    return gw_ok(s);
}

// Rows for each member: |sizes|, or equal ones.
static bool check_rows(gw_scope *s, const char *what, const gw_group *g, const gw_tensor *x,
                       const int64_t *sizes) {
    if (!x->dims) return scope_fail(s, GW_INVALID, "%s: a scalar has no rows", what);
    if (!sizes) {
        if (x->sizes[0] % g->count == 0) return true;
        return scope_fail(s, GW_INVALID,
                          "%s: %lld rows cannot be divided equally among %d members: set .sizes",
                          what, (long long)x->sizes[0], g->count);
    }
    int64_t left = x->sizes[0];
    for (int i = 0; i < g->count; i++) {
        if (sizes[i] < 0 || sizes[i] > left) left = -1;
        if (left < 0) break;
        left -= sizes[i];
    }
    if (left)
        scope_fail(s, GW_INVALID, "%s: .sizes do not sum up to the %lld rows of the tensor", what,
                   (long long)x->sizes[0]);
    return gw_ok(s);
}

// One item for each member, from the root alone.
static bool check_items(gw_scope *s, const char *what, const gw_group *g, const gw_list *list,
                        int root) {
    if (!request_check_root(s, what, g, root) || g->self != root) return gw_ok(s);
    if (!list || gw_list_count(list) != g->count)
        scope_fail(s, GW_INVALID, "%s: the list has %d items, but the group has %d members", what,
                   list ? gw_list_count(list) : 0, g->count);
    return gw_ok(s);
}

// ---- Requests -----------------------------------------------------------------------------------

static void contribute(run_request *r, gw_tensor *x) {
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

// ---- Sums ---------------------------------------------------------------------------------------

static bool is_given_rows(const gw_tensor *x) {
    return x && !tensor_is_poison(x) && tensor_is_rows(x);
}

enum { DETAIL_ENOUGH = 120 };

// "sizes 1+2+1"; of many sizes the first ones, the last one, and their sum.
static void put_sizes(char *out, const int64_t *sizes, int count) {
    text_builder t = { out, 0, SIGNATURE_DETAIL_MAX };
    int listed = 0;
    for (; listed < count && t.at < DETAIL_ENOUGH; listed++)
        text_put(&t, "%s%lld", listed ? "+" : "sizes ", (long long)sizes[listed]);
    uint64_t sum = 0;
    for (int i = 0; i < count; i++) sum += (uint64_t)sizes[i];
    if (listed < count)
        text_put(&t, "+...+%lld: %d sizes, %llu together", (long long)sizes[count - 1], count,
                 (unsigned long long)sum);
}

gw_future *request_reduce(gw_scope *s, gw_group *g, const char *what, operation o, gw_tensor *x,
                          gw_reduce_op op, int root, gw_collective_options options,
                          recording *rec) {
    if (!request_is_usable(s, g, what, options.key)) return &future_poison;
    if (o == OPERATION_ALL_REDUCE && is_given_rows(x))
        return request_rows(s, g, what, CONTENT_ROWS_SUMMED, x, op, options, rec);
    if (!request_check_tensor(s, what, x) || !check_op(s, what, op, x, options.factor) ||
        (o == OPERATION_REDUCE && !request_check_root(s, what, g, root)) ||
        (o == OPERATION_REDUCE_SCATTER && !check_rows(s, what, g, x, options.sizes)))
        return request_refuse(s, g, options.key);
    run_request r = request_of(o, CONTENT_TENSOR, o == OPERATION_REDUCE ? root : -1, options);
    contribute(&r, x);
    reduce_by(&r, op);
    char detail[SIGNATURE_DETAIL_MAX];
    if (o == OPERATION_REDUCE_SCATTER && options.sizes) {
        put_sizes(detail, options.sizes, g->count);
        r.detail = detail;
        r.shares = options.sizes;
        r.signature.shares =
            hash_bytes(options.sizes, (size_t)g->count * sizeof *options.sizes) | 1;
    }
    return request_start(s, g, what, r, rec);
}

// ---- Copies -------------------------------------------------------------------------------------

gw_future *request_broadcast(gw_scope *s, gw_group *g, const char *what, gw_tensor *x, int root,
                             gw_collective_options options, recording *rec) {
    if (!request_is_usable(s, g, what, options.key)) return &future_poison;
    if (!request_check_root(s, what, g, root) ||
        ((x || g->self == root) && !request_check_tensor(s, what, x)))
        return request_refuse(s, g, options.key);
    run_request r = request_of(OPERATION_BROADCAST, CONTENT_TENSOR, root, options);
    if (x) contribute(&r, x);
    return request_start(s, g, what, r, rec);
}

gw_future *request_gather(gw_scope *s, gw_group *g, const char *what, operation o, gw_tensor *x,
                          int root, gw_collective_options options, recording *rec) {
    if (!request_is_usable(s, g, what, options.key)) return &future_poison;
    if (o == OPERATION_ALL_GATHER && is_given_rows(x))
        return request_rows(s, g, what, CONTENT_ROWS, x, GW_SUM, options, rec);
    if (!request_check_tensor(s, what, x) ||
        (o == OPERATION_GATHER && !request_check_root(s, what, g, root)))
        return request_refuse(s, g, options.key);
    run_request r = request_of(o, CONTENT_TENSOR, root, options);
    contribute(&r, x);
    return request_start(s, g, what, r, rec);
}

gw_future *request_exchange(gw_scope *s, gw_group *g, gw_tensor *x, gw_collective_options options,
                            recording *rec) {
    const char *what = "gw_all_to_all";
    if (!request_is_usable(s, g, what, options.key)) return &future_poison;
    if (!request_check_tensor(s, what, x) || !check_rows(s, what, g, x, options.sizes))
        return request_refuse(s, g, options.key);
    run_request r = request_of(OPERATION_ALL_TO_ALL, CONTENT_TENSOR, -1, options);
    contribute(&r, x);
    r.shares = options.sizes;
    return request_start(s, g, what, r, rec);
}

gw_future *request_scatter(gw_scope *s, gw_group *g, const char *what, content c,
                           const gw_list *list, int root, gw_collective_options options,
                           recording *rec) {
    if (!request_is_usable(s, g, what, options.key)) return &future_poison;
    if (!check_items(s, what, g, list, root)) return request_refuse(s, g, options.key);
    run_request r = request_of(OPERATION_SCATTER, c, root, options);
    if (g->self == root) r.items = list->items;
    for (int i = 0; r.items && c == CONTENT_TENSORS && i < g->count; i++)
        if (!request_check_tensor(s, what, gw_tensor_of(s, r.items[i])))
            return request_refuse(s, g, options.key);
    return request_start(s, g, what, r, rec);
}

// ---- Values -------------------------------------------------------------------------------------

gw_future *request_values(gw_scope *s, gw_group *g, const char *what, operation o, gw_value x,
                          int root, gw_collective_options options, bool waits) {
    if (!request_is_usable(s, g, what, options.key)) return &future_poison;
    if (o != OPERATION_ALL_GATHER && !request_check_root(s, what, g, root))
        return request_refuse(s, g, options.key);
    run_request r = request_of(o, CONTENT_VALUES, o == OPERATION_ALL_GATHER ? -1 : root, options);
    r.own_value = x;
    r.as_list = o != OPERATION_BROADCAST;
    r.is_awaited = waits;
    return request_start(s, g, what, r, NULL);
}

// ---- Several tensors in one ---------------------------------------------------------------------

gw_future *request_joined(gw_scope *s, gw_group *g, operation o, gw_tensor *x, int argument,
                          gw_collective_options options, recording *rec) {
    gw_reduce_op op = (gw_reduce_op)argument;
    switch (o) {
    case OPERATION_ALL_REDUCE:
        return request_reduce(s, g, "gw_all_reduce_coalesced", o, x, op, -1, options, rec);
    case OPERATION_REDUCE_SCATTER:
        return request_reduce(s, g, "gw_reduce_scatter_coalesced", o, x, op, -1, options, rec);
    case OPERATION_ALL_GATHER:
        return request_gather(s, g, "gw_all_gather_coalesced", o, x, -1, options, rec);
    case OPERATION_GATHER:
        return request_gather(s, g, "gw_gather_to_coalesced", o, x, argument, options, rec);
    default: return request_broadcast(s, g, "gw_broadcast_coalesced", x, argument, options, rec);
    }
}

gw_future *request_joined_async(gw_scope *s, gw_group *g, operation o, gw_tensor *x, int argument,
                                uint64_t shapes, const char *detail,
                                gw_collective_options options) {
    recording rec = { .shapes = shapes, .detail = detail, .continues = true };
    return request_joined(s, g, o, x, argument, options, &rec);
}
