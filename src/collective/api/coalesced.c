// Coalesced collectives: several tensors in one call. Tensors of one dtype are sent together, and those of all dtypes
// as bytes where nothing is computed with them.
//
// With a root, a member may succeed before the root compares all lists, and calls the next collective. So no member
// enters a second collective of a call before all lists are compared: else members would count differently from then
// on. So calls that do not wait enter one collective.
#include "collective/api/requests.h"

#include "base/value.h"
#include "collective/run/run.h"
#include "tensor/combine.h"
#include "tensor/ops/op.h"

#include <gradwire/autograd.h>
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
    return scope_fail(s, GW_INVALID, "%s: %lld rows cannot be divided equally among %d members",
                      m->what, x->dims ? (long long)x->sizes[0] : 1, n);
}

static bool check(gw_scope *s, const coalesced *m) {
    if (m->count < 0 || (m->count && !m->xs))
        scope_fail(s, GW_INVALID, "%s: %d tensors were given%s", m->what, m->count,
                   m->xs ? "" : ", but the list is NULL");
    else if (m->options.sizes || m->options.into)
        scope_fail(s, GW_INVALID, "%s: %s cannot be used for several tensors", m->what,
                   m->options.into ? ".into" : ".sizes");
    run_request r = request_of(m->operation, CONTENT_TENSOR, -1, m->options);
    if (gw_ok(s)) request_check_options(s, m->what, &r);
    for (int i = 0; gw_ok(s) && i < m->count; i++)
        if (request_check_tensor(s, m->what, m->xs[i])) check_rows(s, m, m->xs[i]);
    return gw_ok(s);
}

// Of the whole list, whatever the dtype of a part: members whose lists differ have a mismatch in their first part, and
// none of them enters a second one that others have not. The last two bits are 2, so that it differs from every hash of
// sizes.
static uint64_t hash_list(const coalesced *m) {
    uint64_t hash = hash_u64((uint64_t)m->count);
    for (int i = 0; i < m->count; i++) {
        const gw_tensor *x = m->xs[i];
        hash = hash_u64(hash + (uint64_t)x->dtype);
        hash = hash_u64(hash + x->dims);
        for (int d = 0; d < x->dims; d++) hash = hash_u64(hash + (uint64_t)x->sizes[d]);
    }
    return (hash & ~(uint64_t)3) | 2;
}

enum { DETAIL_ENOUGH = 120 };

static bool has_one_dtype(const coalesced *m) {
    for (int i = 1; i < m->count; i++)
        if (m->xs[i]->dtype != m->xs[0]->dtype) return false;
    return true;
}

static void put_tensor(text_builder *out, const gw_tensor *x, bool with_dtype) {
    if (with_dtype) text_put(out, "%s ", gw_dtype_name((gw_dtype)x->dtype));
    text_put(out, "%s", shape_text(x).text);
}

// "tensors 2x3, 4", or of several dtypes "tensors f32 2x3, i64 4"; of many tensors the first ones, the last one, and
// their count.
static const char *put_list(char *out, const coalesced *m) {
    text_builder t = { out, 0, SIGNATURE_DETAIL_MAX };
    bool with_dtypes = !has_one_dtype(m);
    int listed = 0;
    for (; listed < m->count && t.at < DETAIL_ENOUGH; listed++) {
        text_put(&t, "%s", listed ? ", " : "tensors ");
        put_tensor(&t, m->xs[listed], with_dtypes);
    }
    if (listed < m->count) {
        text_put(&t, ", ..., ");
        put_tensor(&t, m->xs[m->count - 1], with_dtypes);
        text_put(&t, ": %d tensors", m->count);
    }
    if (!m->count) text_put(&t, "no tensors");
    return out;
}

// ---- Joining and splitting ----------------------------------------------------------------------

static bool is_reduction(const coalesced *m) {
    return m->operation == OPERATION_ALL_REDUCE || m->operation == OPERATION_REDUCE_SCATTER;
}

static bool has_gradient(const gw_scope *s, const coalesced *m) {
    bool has = false;
    for (int i = 0; i < m->count && !has; i++) has = request_is_recorded(s, m->xs[i]);
    return has;
}

static bool travels_as_bytes(const gw_scope *s, const coalesced *m) {
    return !is_reduction(m) && !has_one_dtype(m) && !has_gradient(s, m);
}

static bool has_root(const coalesced *m) {
    return m->operation == OPERATION_BROADCAST || m->operation == OPERATION_GATHER;
}

// The elements of |x| that go to member |part| of |parts|.
static gw_tensor *part_of(gw_scope *s, gw_tensor *x, int part, int parts) {
    if (parts == 1) return gw_reshape(s, x, -1);
    int64_t rows = x->sizes[0] / parts;
    return gw_reshape(s, gw_slice(s, x, 0, part * rows, (part + 1) * rows, 1), -1);
}

// A call without tensors is one collective, too, of this dtype: others may have given some.
static int dtype_of_none(const coalesced *m) {
    for (int dtype = 0; is_reduction(m) && dtype < GW_DTYPE_COUNT; dtype++)
        if (combine_is_supported((combine_op)m->argument, (gw_dtype)dtype)) return dtype;
    return GW_F32;
}

static bool has_dtype(const coalesced *m, int dtype) {
    bool has = !m->count && dtype == dtype_of_none(m);
    for (int i = 0; i < m->count && !has; i++) has = m->xs[i]->dtype == dtype;
    return has;
}

// All tensors of |dtype| concatenated, grouped by member; NULL if there is none.
static gw_tensor *join(gw_scope *s, const coalesced *m, int dtype) {
    if (!m->count) return has_dtype(m, dtype) ? gw_zeros(s, (gw_dtype)dtype, 0) : NULL;
    int parts = m->operation == OPERATION_REDUCE_SCATTER ? m->group->count : 1, found = 0;
    gw_tensor **flat = gw_alloc(s, ((size_t)m->count * (size_t)parts + 1) * sizeof *flat);
    for (int part = 0; flat && part < parts; part++)
        for (int i = 0; i < m->count; i++)
            if (m->xs[i]->dtype == dtype) flat[found++] = part_of(s, m->xs[i], part, parts);
    return flat && found ? gw_cat(s, flat, found, 0) : NULL;
}

static gw_tensor *join_bytes(gw_scope *s, const coalesced *m) {
    gw_scope *t = gw_scope_open(s);
    gw_no_grad(t);
    gw_tensor *joined[GW_DTYPE_COUNT];
    int64_t size = 0;
    for (int dtype = 0; dtype < GW_DTYPE_COUNT; dtype++) {
        joined[dtype] = join(t, m, dtype);
        if (joined[dtype] && gw_ok(t)) size += (int64_t)tensor_size(joined[dtype]);
    }
    gw_tensor *out = gw_ok(t) ? scope_own(s, tensor_new(t, GW_U8, 1, &size)) : NULL;
    uint8_t *at = out && size ? run_place_at(out, 0) : NULL;
    for (int dtype = 0; at && dtype < GW_DTYPE_COUNT; dtype++) {
        if (!joined[dtype] || !tensor_size(joined[dtype])) continue;
        memcpy(at, gw_data(joined[dtype]), tensor_size(joined[dtype]));
        at += tensor_size(joined[dtype]);
    }
    gw_scope_close_up(t);
    return out ? out : tensor_poison_of(s);
}

// The layout of the tensors: the result is split by it after they may have been freed.
typedef struct piece {
    int32_t dtype, dims;
    int64_t sizes[LIMIT_DIMS], numel;
} piece;

typedef struct layout {
    int32_t operation, members, count;
    int32_t is_elsewhere;  // only the root has elements, and this member is not the root
    int32_t as_bytes;
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
    l->as_bytes = travels_as_bytes(s, m);
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

static int64_t total_size(const layout *l) {
    int64_t size = 0;
    for (int dtype = 0; dtype < GW_DTYPE_COUNT; dtype++)
        size += length_of(l, dtype) * (int64_t)gw_dtype_size((gw_dtype)dtype);
    return size;
}

// The bytes from |at| on of each member, as elements of |dtype|.
static gw_tensor *of_bytes(gw_scope *s, const layout *l, gw_tensor *bytes, int dtype, int64_t at) {
    int64_t count = l->operation == OPERATION_BROADCAST ? 1 : l->is_elsewhere ? 0 : l->members;
    int64_t length = length_of(l, dtype), numel = count * length, each = total_size(l);
    size_t size = (size_t)length * gw_dtype_size((gw_dtype)dtype);
    gw_tensor *out = scope_own(s, tensor_new(s, (gw_dtype)dtype, 1, &numel));
    const uint8_t *from = gw_data(bytes);
    uint8_t *to = out && numel ? run_place_at(out, 0) : NULL;
    for (int64_t i = 0; to && i < count; i++)
        memcpy(to + (size_t)i * size, from + i * each + at, size);
    return out ? out : tensor_poison_of(s);
}

static void take_all(gw_scope *s, const layout *l, gw_tensor *bytes, gw_tensor **out) {
    int64_t at = 0;
    gw_tensor *flat = gw_contiguous(s, bytes);
    for (int dtype = 0; dtype < GW_DTYPE_COUNT && gw_ok(s); dtype++) {
        bool has = false;
        for (int i = 0; i < l->count && !has; i++) has = l->pieces[i].dtype == dtype;
        if (has) take_apart(s, l, of_bytes(s, l, flat, dtype, at), dtype, out);
        at += length_of(l, dtype) * (int64_t)gw_dtype_size((gw_dtype)dtype);
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

static gw_tensor *run_part(gw_scope *s, const coalesced *m, gw_tensor *joined) {
    char detail[SIGNATURE_DETAIL_MAX];
    return wait_for_joined(s, m->group, m->operation, joined, m->argument, hash_list(m),
                           put_list(detail, m), m->options);
}

// After a failure this member enters no further part: the others have the error in the same one.
static void run_parts(gw_scope *s, const coalesced *m, const layout *l, gw_tensor **out) {
    char detail[SIGNATURE_DETAIL_MAX];
    if (l->as_bytes) {
        gw_tensor *all = run_part(s, m, join_bytes(s, m));
        if (gw_ok(s)) take_all(s, l, all, out);
        return;
    }
    if (has_root(m) && m->count && !has_one_dtype(m))
        request_compare(s, m->group, m->what, hash_list(m), put_list(detail, m), m->options);
    for (int dtype = 0; gw_ok(s) && dtype < GW_DTYPE_COUNT; dtype++) {
        if (!has_dtype(m, dtype)) continue;
        gw_tensor *joined = run_part(s, m, join(s, m, dtype));
        if (gw_ok(s)) take_apart(s, l, joined, dtype, out);
    }
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
    if (!gw_ok(t)) request_refuse(t, m->group, m->options.key);
    if (l && out) run_parts(t, m, l, out);
    for (int i = 0; i < m->count && gw_ok(t); i++) gw_list_add(s, list, out[i]);
    gw_scope_close_up(t);
    return list;
}

static gw_list *run_coalesced(gw_scope *s, const coalesced *m) {
    call_of_several around = scope_path_begin_call(s);
    gw_list *list = run_each(s, m);
    scope_path_end_call(around);
    return list;
}

// ---- Calls that do not wait ---------------------------------------------------------------------
// The future of the layout, as bytes, is joined with that of the collective.

static gw_value list_of_pieces(gw_scope *s, gw_value v, void *context) {
    (void)context;
    const gw_list *both = gw_list_of(s, v);
    const layout *l = gw_data(gw_tensor_of(s, gw_list_get(s, both, 0)));
    gw_list *list = gw_list_open(s);
    gw_tensor **out = gw_ok(s) ? gw_alloc(s, ((size_t)l->count + 1) * sizeof *out) : NULL;
    gw_tensor *joined = out ? gw_tensor_of(s, gw_list_get(s, both, 1)) : NULL;
    if (joined && l->as_bytes) take_all(s, l, joined, out);
    if (joined && !l->as_bytes && l->count) take_apart(s, l, joined, l->pieces[0].dtype, out);
    for (int i = 0; joined && i < l->count && gw_ok(s); i++) gw_list_add(s, list, out[i]);
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

static gw_future *start_joined(gw_scope *s, const coalesced *m) {
    gw_scope *t = gw_scope_open(s);
    char detail[SIGNATURE_DETAIL_MAX];
    int dtype = m->count ? m->xs[0]->dtype : dtype_of_none(m);
    gw_tensor *joined = travels_as_bytes(s, m) ? join_bytes(t, m) : join(t, m, dtype);
    gw_future *f = request_joined_async(s, m->group, m->operation, joined, m->argument,
                                        hash_list(m), put_list(detail, m), m->options);
    gw_scope_close_up(t);
    return f;
}

static bool check_async(gw_scope *s, const coalesced *m) {
    if (!check(s, m)) return false;
    for (int i = 0; gw_ok(s) && i < m->count; i++) request_check_no_gradient(s, m->what, m->xs[i]);
    if (gw_ok(s) && is_reduction(m) && !has_one_dtype(m))
        scope_fail(s, GW_UNSUPPORTED,
                   "%s_async: the tensors have several dtypes: call it once for each dtype",
                   m->what);
    return gw_ok(s);
}

static gw_future *start_each(gw_scope *s, const coalesced *m) {
    if (!request_is_usable(s, m->group, m->what, m->options.key)) return &future_poison;
    gw_future *both[] = { check_async(s, m) ? future_of_layout(s, m) : NULL, NULL };
    if (!gw_ok(s)) return request_refuse(s, m->group, m->options.key);
    both[1] = start_joined(s, m);
    if (s->error) return &future_poison;
    gw_future *joined = gw_collect_all(s, both, 2);
    gw_future *out = gw_then(s, joined, list_of_pieces, NULL);
    for (int i = 0; i < 2; i++) gw_drop(s, both[i]);  // cancelled with |out|
    gw_drop(s, joined);
    return out;
}

static gw_future *start_coalesced(gw_scope *s, const coalesced *m) {
    call_of_several around = scope_path_begin_call(s);
    gw_future *f = start_each(s, m);
    scope_path_end_call(around);
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
