// Coalesced collectives: several tensors in one call. Tensors of one dtype are sent together.
#include "collective/api/requests.h"

#include "base/value.h"
#include "tensor/ops/op.h"

#include <gradwire/ops.h>
#include <string.h>

typedef struct coalesced {
    const char *what;
    gw_group *group;
    operation operation;
    gw_tensor *const *xs;
    int count;
    int argument;  // an operation to reduce by, or a root
    gw_collective_options options;
} coalesced;

// ---- Checks -------------------------------------------------------------------------------------

static bool check_rows(gw_scope *s, const coalesced *m, const gw_tensor *x) {
    int n = m->group->count;
    if (m->operation != OPERATION_REDUCE_SCATTER || (x->dims && x->sizes[0] % n == 0)) return true;
    scope_fail(s, GW_INVALID, "%s: %lld rows for %d members", m->what,
               x->dims ? (long long)x->sizes[0] : 1, n);
    return false;
}

static bool check(gw_scope *s, const coalesced *m) {
    if (m->count < 0 || (m->count && !m->xs))
        scope_fail(s, GW_INVALID, "%s: %d tensors%s", m->what, m->count, m->xs ? "" : " at NULL");
    else if (m->options.sizes || m->options.into)
        scope_fail(s, GW_INVALID, "%s: no %s for several tensors", m->what,
                   m->options.into ? ".into" : ".sizes");
    run_request r = request_of(m->operation, CONTENT_TENSOR, -1, m->options);
    if (gw_ok(s)) request_check_options(s, m->what, &r);
    for (int i = 0; gw_ok(s) && i < m->count; i++)
        if (request_check_tensor(s, m->what, m->xs[i])) check_rows(s, m, m->xs[i]);
    return gw_ok(s);
}

// The last two bits are 2, so that it differs from every hash of sizes.
static uint64_t hash_shapes(const coalesced *m, int dtype) {
    uint64_t hash = 2;
    for (int i = 0; i < m->count; i++) {
        const gw_tensor *x = m->xs[i];
        if (x->dtype != dtype) continue;
        hash = hash_u64(hash + x->dims);
        for (int d = 0; d < x->dims; d++) hash = hash_u64(hash + (uint64_t)x->sizes[d]);
    }
    return (hash & ~(uint64_t)1) | 2;
}

enum { DETAIL_ENOUGH = 120 };

// "tensors 2x3, 4", of |dtype|; of many tensors the first ones, the last one, and their count.
static const char *put_shapes(char *out, const coalesced *m, int dtype) {
    text_builder t = { out, 0, SIGNATURE_DETAIL_MAX };
    int listed = 0, found = 0;
    const gw_tensor *last = NULL;
    for (int i = 0; i < m->count; i++) {
        const gw_tensor *x = m->xs[i];
        if (x->dtype != dtype) continue;
        last = x;
        found++;
        if (t.at >= DETAIL_ENOUGH) continue;
        text_put(&t, "%s%s", listed++ ? ", " : "tensors ", shape_text(x).text);
    }
    if (listed < found) text_put(&t, ", ..., %s: %d tensors", shape_text(last).text, found);
    return out;
}

// ---- Joining and splitting ----------------------------------------------------------------------

// The elements of |x| that go to member |part| of |parts|.
static gw_tensor *part_of(gw_scope *s, gw_tensor *x, int part, int parts) {
    if (parts == 1) return gw_reshape(s, x, -1);
    int64_t rows = x->sizes[0] / parts;
    return gw_reshape(s, gw_slice(s, x, 0, part * rows, (part + 1) * rows, 1), -1);
}

static bool has_dtype(const coalesced *m, int dtype) {
    bool has = false;
    for (int i = 0; i < m->count && !has; i++) has = m->xs[i]->dtype == dtype;
    return has;
}

// All tensors of |dtype| concatenated, grouped by member; NULL if there is none.
static gw_tensor *join(gw_scope *s, const coalesced *m, int dtype) {
    int parts = m->operation == OPERATION_REDUCE_SCATTER ? m->group->count : 1, found = 0;
    gw_tensor **flat = gw_alloc(s, ((size_t)m->count * (size_t)parts + 1) * sizeof *flat);
    for (int part = 0; flat && part < parts; part++)
        for (int i = 0; i < m->count; i++)
            if (m->xs[i]->dtype == dtype) flat[found++] = part_of(s, m->xs[i], part, parts);
    return flat && found ? gw_cat(s, flat, found, 0) : NULL;
}

// The layout of the tensors: the result is split by it after they may have been freed.
typedef struct piece {
    int32_t dtype, dims;
    int64_t sizes[LIMIT_DIMS], numel;
} piece;

typedef struct layout {
    int32_t operation, members, count;
    int32_t is_elsewhere;  // only the root has elements, and this member is not the root
    piece pieces[];
} layout;

static size_t layout_size(int count) {
    return sizeof(layout) + (size_t)count * sizeof(piece);
}

static layout *make_layout(gw_scope *s, const coalesced *m) {
    layout *l = gw_alloc(s, layout_size(m->count));
    if (!l) return NULL;
    memset(l, 0, layout_size(m->count));
    l->operation = (int32_t)m->operation;
    l->members = m->group->count;
    l->count = m->count;
    l->is_elsewhere = m->operation == OPERATION_GATHER && m->argument != m->group->self;
    for (int i = 0; i < m->count; i++) {
        const gw_tensor *x = m->xs[i];
        l->pieces[i] = (piece){ .dtype = x->dtype, .dims = x->dims, .numel = x->numel };
        memcpy(l->pieces[i].sizes, x->sizes, (size_t)x->dims * sizeof *x->sizes);
    }
    return l;
}

// Of the shape of |x|, with |rows| rows.
static gw_tensor *shaped(gw_scope *s, gw_tensor *flat, const piece *x, int64_t rows) {
    int64_t sizes[LIMIT_DIMS] = { 0 };
    int dims = x->dims ? x->dims : 1;
    for (int d = 1; d < x->dims; d++) sizes[d] = x->sizes[d];
    sizes[0] = rows;
    return gw_reshape_with(s, flat, (gw_shape){ dims, sizes });
}

static int64_t row_count(const piece *x) {
    return x->dims ? x->sizes[0] : 1;
}

// The result for |x|, whose elements start at |at| in each |length| elements of |joined|.
static gw_tensor *take(gw_scope *s, const layout *l, gw_tensor *joined, const piece *x, int64_t at,
                       int64_t length) {
    int n = l->members;
    if (l->operation == OPERATION_REDUCE_SCATTER)
        return shaped(s, gw_slice(s, joined, 0, at / n, (at + x->numel) / n, 1), x,
                      row_count(x) / n);
    if (l->operation != OPERATION_ALL_GATHER && l->operation != OPERATION_GATHER)
        return gw_reshape_with(s, gw_slice(s, joined, 0, at, at + x->numel, 1),
                               (gw_shape){ x->dims, x->sizes });
    gw_tensor **all = gw_alloc(s, (size_t)n * sizeof *all);
    for (int i = 0; all && i < n; i++)
        all[i] = gw_slice(s, joined, 0, i * length + at, i * length + at + x->numel, 1);
    return all ? shaped(s, gw_cat(s, all, n, 0), x, n * row_count(x)) : tensor_poison_of(s);
}

static int64_t length_of(const layout *l, int dtype) {
    int64_t length = 0;
    for (int i = 0; i < l->count; i++)
        if (l->pieces[i].dtype == dtype) length += l->pieces[i].numel;
    return length;
}

static void take_apart(gw_scope *s, const layout *l, gw_tensor *joined, int dtype,
                       gw_tensor **out) {
    int64_t at = 0, length = length_of(l, dtype);
    for (int i = 0; i < l->count && gw_ok(s); i++) {
        const piece *x = &l->pieces[i];
        if (x->dtype != dtype) continue;
        out[i] = l->is_elsewhere ? joined : take(s, l, joined, x, at, length);
        at += x->numel;
    }
}

// ---- Calls that wait ----------------------------------------------------------------------------

static gw_tensor *wait_for_joined(gw_scope *s, gw_group *g, operation o, gw_tensor *x, int argument,
                                  uint64_t shapes, const char *detail,
                                  gw_collective_options options) {
    recording rec = { .shapes = shapes, .detail = detail };
    if (!request_may_wait(s, g, operation_name(o), options.key)) return tensor_poison_of(s);
    return request_take(s, operation_name(o), request_joined(s, g, o, x, argument, options, &rec),
                        &rec);
}

static gw_list *run_each(gw_scope *s, const coalesced *m) {
    gw_list *list = gw_list_open(s);
    if (!request_may_wait(s, m->group, m->what, m->options.key) ||
        !request_is_usable(s, m->group, m->what, m->options.key))
        return list;
    if (!check(s, m)) {
        request_refuse(s, m->group, m->options.key);
        return list;
    }
    gw_scope *t = gw_scope_open(s);
    const layout *l = make_layout(t, m);
    gw_tensor **out = gw_alloc(t, ((size_t)m->count + 1) * sizeof *out);
    if (!gw_ok(t) && m->count) request_refuse(t, m->group, m->options.key);
    char detail[SIGNATURE_DETAIL_MAX];
    for (int dtype = 0; l && out && dtype < GW_DTYPE_COUNT; dtype++) {
        if (!has_dtype(m, dtype)) continue;
        gw_tensor *joined = join(t, m, dtype);  // tensors of a failed scope are entered as failed
        joined = wait_for_joined(t, m->group, m->operation, joined, m->argument,
                                 hash_shapes(m, dtype), put_shapes(detail, m, dtype), m->options);
        if (gw_ok(t)) take_apart(t, l, joined, dtype, out);
    }
    for (int i = 0; i < m->count && gw_ok(t); i++) gw_list_add(s, list, out[i]);
    gw_scope_close_up(t);
    return list;
}

static gw_list *run_coalesced(gw_scope *s, const coalesced *m) {
    scope_path_begin_call(s);
    gw_list *list = run_each(s, m);
    scope_path_end_call(s);
    return list;
}

// ---- Calls that do not wait ---------------------------------------------------------------------
// The future of the layout, as bytes, is joined with those of the dtypes.

static gw_value list_of_pieces(gw_scope *s, gw_value v, void *context) {
    (void)context;
    const gw_list *parts = gw_list_of(s, v);
    const layout *l = gw_data(gw_tensor_of(s, gw_list_get(s, parts, 0)));
    gw_list *list = gw_list_open(s);
    gw_tensor **out = gw_ok(s) ? gw_alloc(s, ((size_t)l->count + 1) * sizeof *out) : NULL;
    for (int dtype = 0, next = 1; out && dtype < GW_DTYPE_COUNT; dtype++) {
        bool has = false;
        for (int i = 0; i < l->count && !has; i++) has = l->pieces[i].dtype == dtype;
        if (has) take_apart(s, l, gw_tensor_of(s, gw_list_get(s, parts, next++)), dtype, out);
    }
    for (int i = 0; out && i < l->count && gw_ok(s); i++) gw_list_add(s, list, out[i]);
    return gw_value_of_list(list);
}

static gw_future *future_of_layout(gw_scope *s, const coalesced *m) {
    gw_scope *t = gw_scope_open(s);
    const layout *l = make_layout(t, m);
    gw_future *f = gw_future_open(s);
    if (l) gw_future_set(t, f, gw_from(t, (const uint8_t *)l, (int64_t)layout_size(m->count)));
    gw_scope_close_up(t);
    return f;
}

static gw_future *start_of_dtype(gw_scope *s, const coalesced *m, int dtype) {
    gw_scope *t = gw_scope_open(s);
    gw_future *f = NULL;
    char detail[SIGNATURE_DETAIL_MAX];
    gw_tensor *joined = join(t, m, dtype);
    if (joined || !gw_ok(t))
        f = request_joined_async(s, m->group, m->operation, joined, m->argument,
                                 hash_shapes(m, dtype), put_shapes(detail, m, dtype), m->options);
    gw_scope_close_up(t);
    return f;
}

static gw_future *start_each(gw_scope *s, const coalesced *m) {
    if (!request_is_usable(s, m->group, m->what, m->options.key)) return &future_poison;
    check(s, m);
    for (int i = 0; gw_ok(s) && i < m->count; i++) request_check_no_gradient(s, m->what, m->xs[i]);
    gw_future *all[GW_DTYPE_COUNT + 1] = { gw_ok(s) ? future_of_layout(s, m) : NULL };
    if (!gw_ok(s)) return request_refuse(s, m->group, m->options.key);
    int count = 1;
    for (int dtype = 0; dtype < GW_DTYPE_COUNT && gw_ok(s); dtype++) {
        gw_future *f = start_of_dtype(s, m, dtype);
        if (f) all[count++] = f;
    }
    if (s->error) return &future_poison;
    gw_future *joined = gw_collect_all(s, all, count);
    gw_future *out = gw_then(s, joined, list_of_pieces, NULL);
    for (int i = 0; i < count; i++) gw_drop(s, all[i]);  // cancelled with |out|
    gw_drop(s, joined);
    return out;
}

static gw_future *start_coalesced(gw_scope *s, const coalesced *m) {
    scope_path_begin_call(s);
    gw_future *f = start_each(s, m);
    scope_path_end_call(s);
    return f;
}

// ---- Functions ----------------------------------------------------------------------------------

gw_list *gw_all_reduce_coalesced_with(gw_scope *s, gw_group *g, gw_tensor *const *xs, int count,
                                      gw_reduce_op op, gw_collective_options options) {
    return run_coalesced(s, &(coalesced){ "gw_all_reduce_coalesced", g, OPERATION_ALL_REDUCE, xs,
                                          count, (int)op, options });
}

gw_future *gw_all_reduce_coalesced_async_with(gw_scope *s, gw_group *g, gw_tensor *const *xs,
                                              int count, gw_reduce_op op,
                                              gw_collective_options options) {
    return start_coalesced(s, &(coalesced){ "gw_all_reduce_coalesced", g, OPERATION_ALL_REDUCE, xs,
                                            count, (int)op, options });
}

gw_list *gw_broadcast_coalesced_with(gw_scope *s, gw_group *g, gw_tensor *const *xs, int count,
                                     int root, gw_collective_options options) {
    return run_coalesced(s, &(coalesced){ "gw_broadcast_coalesced", g, OPERATION_BROADCAST, xs,
                                          count, root, options });
}

gw_future *gw_broadcast_coalesced_async_with(gw_scope *s, gw_group *g, gw_tensor *const *xs,
                                             int count, int root, gw_collective_options options) {
    return start_coalesced(s, &(coalesced){ "gw_broadcast_coalesced", g, OPERATION_BROADCAST, xs,
                                            count, root, options });
}

gw_list *gw_all_gather_coalesced_with(gw_scope *s, gw_group *g, gw_tensor *const *xs, int count,
                                      gw_collective_options options) {
    return run_coalesced(s, &(coalesced){ "gw_all_gather_coalesced", g, OPERATION_ALL_GATHER, xs,
                                          count, 0, options });
}

gw_future *gw_all_gather_coalesced_async_with(gw_scope *s, gw_group *g, gw_tensor *const *xs,
                                              int count, gw_collective_options options) {
    return start_coalesced(s, &(coalesced){ "gw_all_gather_coalesced", g, OPERATION_ALL_GATHER, xs,
                                            count, 0, options });
}

gw_list *gw_gather_to_coalesced_with(gw_scope *s, gw_group *g, gw_tensor *const *xs, int count,
                                     int root, gw_collective_options options) {
    return run_coalesced(
        s, &(coalesced){ "gw_gather_to_coalesced", g, OPERATION_GATHER, xs, count, root, options });
}

gw_future *gw_gather_to_coalesced_async_with(gw_scope *s, gw_group *g, gw_tensor *const *xs,
                                             int count, int root, gw_collective_options options) {
    return start_coalesced(
        s, &(coalesced){ "gw_gather_to_coalesced", g, OPERATION_GATHER, xs, count, root, options });
}

gw_list *gw_reduce_scatter_coalesced_with(gw_scope *s, gw_group *g, gw_tensor *const *xs, int count,
                                          gw_reduce_op op, gw_collective_options options) {
    return run_coalesced(s, &(coalesced){ "gw_reduce_scatter_coalesced", g,
                                          OPERATION_REDUCE_SCATTER, xs, count, (int)op, options });
}

gw_future *gw_reduce_scatter_coalesced_async_with(gw_scope *s, gw_group *g, gw_tensor *const *xs,
                                                  int count, gw_reduce_op op,
                                                  gw_collective_options options) {
    return start_coalesced(s,
                           &(coalesced){ "gw_reduce_scatter_coalesced", g, OPERATION_REDUCE_SCATTER,
                                         xs, count, (int)op, options });
}
