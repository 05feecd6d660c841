// Collectives composed of the operations of a backend. Unless it may add in any order, sums are computed here: slice
// j of each member goes to member j, which adds them in the order of tensor/combine.h, so that the bits equal those
// of the sessions' plans, and sends the sum back. Shapes that members do not have are sent first.
#include "collective/run/backend_run.h"

#include "agent/bodies/context.h"
#include "base/mem.h"
#include "base/value.h"
#include "collective/plan/plan_build.h"

#include <gradwire/ops.h>
#include <string.h>

// ---- Selection ----------------------------------------------------------------------------------

static bool adds(const backend *b, const collective_signature *x) {
    bool is_float =
        x->dtype == GW_F32 || x->dtype == GW_F64 || x->dtype == GW_F16 || x->dtype == GW_BF16;
    bool hands_on_nan = is_float && (x->op == GW_MIN || x->op == GW_MAX);
    combine_op op = x->op == GW_AVG ? COMBINE_SUM : (combine_op)x->op;  // the mean is divided here
    return x->operation == OPERATION_ALL_REDUCE && backend_has(b, OPERATION_ALL_REDUCE) &&
           b->ops & 1u << op && b->dtypes & 1u << x->dtype && !hands_on_nan;
}

static bool moves(const backend *b, operation o) {
    switch (o) {
    case OPERATION_ALL_REDUCE:
        return backend_has(b, OPERATION_ALL_TO_ALL) && backend_has(b, OPERATION_ALL_GATHER);
    case OPERATION_REDUCE:
        return backend_has(b, OPERATION_ALL_TO_ALL) && backend_has(b, OPERATION_GATHER);
    case OPERATION_REDUCE_SCATTER:
    case OPERATION_ALL_TO_ALL: return backend_has(b, OPERATION_ALL_TO_ALL);
    case OPERATION_GATHER:
        return backend_has(b, OPERATION_GATHER) && backend_has(b, OPERATION_ALL_GATHER);
    case OPERATION_BROADCAST:
    case OPERATION_ALL_GATHER: return backend_has(b, o);
    default: return false;
    }
}

// A factor, and the division of a mean, would be rounded separately from the sum.
static bool may_add(const gw_group *g, const collective_signature *s) {
    bool keeps_bits = g->backend->guarantees & BACKEND_BITS && s->op != GW_AVG && s->factor == 1;
    return (g->any_order || keeps_bits) && adds(g->backend, s);
}

// Bytes that each member contributes to a call. The slices of all members go to the one that adds them.
static uint64_t bytes_of_sum(const gw_group *g, const run_request *x) {
    uint64_t bytes = tensor_size(x->own), most = bytes;
    for (int i = 0; x->shares && i < g->count; i++) {
        uint64_t rows = (uint64_t)x->shares[i] * (uint64_t)g->count, own;
        uint64_t row = bytes / (uint64_t)(x->own->sizes[0] ? x->own->sizes[0] : 1);
        if (__builtin_mul_overflow(rows, row, &own)) return UINT64_MAX;
        if (own > most) most = own;
    }
    return most;
}

bool backend_takes(const gw_group *g, const run_request *x) {
    const backend *b = g->backend;
    const collective_signature *s = &x->signature;
    if (b == &backend_session || g->count == 1 || s->content != CONTENT_TENSOR) return false;
    if (!(b->devices & 1u << GW_CPU)) return false;  // all tensors of collectives are on the CPU
    if (signature_is_reduction(s) && bytes_of_sum(g, x) > b->bytes_max) return false;
    if (x->options.key && !(b->guarantees & BACKEND_KEYS)) return false;
    return may_add(g, s) || moves(b, (operation)s->operation);
}

plan_kind backend_plan(const gw_group *g, const run_request *x) {
    return may_add(g, &x->signature) ? PLAN_BACKEND_ADDS : PLAN_BACKEND;
}

// ---- Memory -------------------------------------------------------------------------------------

bool backend_run_open(run *r) {
    size_t n = (size_t)r->group->count;
    struct backend_run *b = mem_calloc(sizeof *b + 4 * n * sizeof b->arrays[0]);
    if (!b) return false;
    b->run = r;
    b->channel = -1;
    b->sizes_from = b->arrays;
    b->sizes_to = b->arrays + n;
    b->rows = b->arrays + 2 * n;
    b->own_rows = b->arrays + 3 * n;
    r->backend = b;
    return true;
}

static gw_tensor *open_numbers(run *r, uint64_t count) {
    int64_t size = (int64_t)count;
    return run_open_places(r, (gw_dtype)r->signature.dtype, 1, &size);
}

// Of the shape of this member's input, with |rows| rows.
static gw_tensor *open_rows(run *r, uint64_t rows) {
    const gw_tensor *x = r->own;
    int64_t sizes[LIMIT_DIMS] = { 0 };
    if (x->dims) memcpy(sizes, x->sizes, (size_t)x->dims * sizeof *sizes);
    sizes[0] = (int64_t)rows;
    return run_open_places(r, (gw_dtype)x->dtype, x->dims ? x->dims : 1, sizes);
}

static uint64_t row_bytes(const gw_tensor *x) {
    uint64_t bytes = gw_dtype_size((gw_dtype)x->dtype);
    for (int i = 1; i < x->dims; i++) bytes *= (uint64_t)x->sizes[i];
    return bytes;
}

static uint64_t row_count(const gw_tensor *x) {
    return x->dims ? (uint64_t)x->sizes[0] : 1;
}

// ---- Calls --------------------------------------------------------------------------------------

static void all_to_all(struct backend_run *b, const void *from, void *to) {
    b->call = (backend_call){ .operation = OPERATION_ALL_TO_ALL,
                              .from = from,
                              .to = to,
                              .sizes_from = b->sizes_from,
                              .sizes_to = b->sizes_to };
}

static void gather(struct backend_run *b, operation o, const void *from, uint64_t size, void *to) {
    int root = b->run->signature.root;
    b->call = (backend_call){ .operation = o,
                              .root = root < 0 ? 0 : root,
                              .from = from,
                              .to = to,
                              .size = size,
                              .sizes_to = b->sizes_to };
}

static void broadcast(struct backend_run *b, void *bytes, uint64_t size) {
    b->call = (backend_call){ .operation = OPERATION_BROADCAST,
                              .root = b->run->signature.root,
                              .from = bytes,
                              .to = bytes,
                              .size = size };
}

// ---- Sums ---------------------------------------------------------------------------------------

// Elements of the tensor that member |j| adds.
static uint64_t share_of(const run *r, int j) {
    if (r->signature.operation == OPERATION_REDUCE_SCATTER) {
        uint64_t rows = r->shares ? (uint64_t)r->shares[j] : row_count(r->own) / r->group->count;
        return rows * row_bytes(r->own) / gw_dtype_size((gw_dtype)r->own->dtype);
    }
    plan_request whole = { .member_count = r->group->count,
                           .elements = (uint64_t)r->own->numel,
                           .element_bytes = gw_dtype_size((gw_dtype)r->own->dtype) };
    return plan_slice(&whole, j).count;
}

static void send_slices(run *r) {
    struct backend_run *b = r->backend;
    int n = r->group->count;
    uint64_t own = share_of(r, r->group->self), size = gw_dtype_size((gw_dtype)r->own->dtype);
    b->pieces = open_numbers(r, own * (uint64_t)n);
    if (!b->pieces) return;
    for (int i = 0; i < n; i++) {
        b->sizes_from[i] = share_of(r, i) * size;
        b->sizes_to[i] = own * size;
    }
    all_to_all(b, run_numbers_at(r->own, 0), run_place_at(b->pieces, 0));
}

static void combine_into(run *r, gw_tensor *out, const void *const *from, int count, combine_op op,
                         double factor) {
    combine(&(combine_request){ .op = op,
                                .dtype = (gw_dtype)r->signature.dtype,
                                .count = count,
                                .from = from,
                                .out = run_place_at(out, 0),
                                .numbers = (uint64_t)out->numel,
                                .factor = factor,
                                .divisor = r->group->count });
}

static void add_slices(run *r, gw_tensor *out) {
    struct backend_run *b = r->backend;
    const void **from = gw_alloc(r->scope, (size_t)r->group->count * sizeof *from);
    if (!from || !out) return;
    for (int i = 0; i < r->group->count; i++)
        from[i] = run_numbers_at(b->pieces, 0) + (size_t)i * tensor_size(out);
    combine_into(r, out, from, r->group->count, (combine_op)r->signature.op, r->signature.factor);
}

static void gather_sums(run *r, operation o) {
    struct backend_run *b = r->backend;
    bool has = o == OPERATION_ALL_GATHER || r->signature.root == r->group->self;
    int64_t none = 0;
    b->sums = open_numbers(r, share_of(r, r->group->self));
    add_slices(r, b->sums);
    if (!gw_ok(r->scope)) return;
    b->result = has || !r->own->numel
                    ? run_open_places(r, (gw_dtype)r->own->dtype, r->own->dims, r->own->sizes)
                    : run_open_places(r, (gw_dtype)r->own->dtype, 1, &none);
    if (!b->result) return;
    for (int i = 0; i < r->group->count; i++)
        b->sizes_to[i] = share_of(r, i) * gw_dtype_size((gw_dtype)r->own->dtype);
    gather(b, o, run_numbers_at(b->sums, 0), tensor_size(b->sums), run_place_at(b->result, 0));
}

// False: it is done.
static bool reduce(run *r, operation gathers) {
    switch (r->backend->phase) {
    case 0: send_slices(r); return true;
    case 1: gather_sums(r, gathers); return true;
    default: return false;
    }
}

static bool reduce_scatter(run *r) {
    struct backend_run *b = r->backend;
    if (b->phase == 0) {
        send_slices(r);
        return true;
    }
    uint64_t equal = row_count(r->own) / (uint64_t)r->group->count;
    b->result = open_rows(r, r->shares ? (uint64_t)r->shares[r->group->self] : equal);
    add_slices(r, b->result);
    return false;
}

static bool reduce_there(run *r) {
    struct backend_run *b = r->backend;
    gw_tensor *x = r->own;
    const void *from = run_numbers_at(x, 0), *sum;
    if (b->phase == 0) {
        b->result = run_open_places(r, (gw_dtype)x->dtype, x->dims, x->sizes);
        b->pieces = r->signature.factor == 1 ? x : open_numbers(r, (uint64_t)x->numel);
        if (!b->result || !b->pieces) return true;
        if (b->pieces != x) combine_into(r, b->pieces, &from, 1, COMBINE_SUM, r->signature.factor);
        bool divides = r->signature.op == GW_AVG;
        b->call = (backend_call){ .operation = OPERATION_ALL_REDUCE,
                                  .op = divides ? COMBINE_SUM : (combine_op)r->signature.op,
                                  .dtype = (gw_dtype)x->dtype,
                                  .from = run_numbers_at(b->pieces, 0),
                                  .to = run_place_at(b->result, 0),
                                  .size = tensor_size(x) };
        return true;
    }
    sum = run_numbers_at(b->result, 0);
    if (r->signature.op == GW_AVG) combine_into(r, b->result, &sum, 1, COMBINE_AVG, 1);
    return false;
}

// ---- Copies -------------------------------------------------------------------------------------

static void put_head(struct backend_run *b, const gw_tensor *x) {
    b->head[0] = x->dtype;
    b->head[1] = x->dims;
    for (int i = 0; i < x->dims; i++) b->head[2 + i] = (uint64_t)x->sizes[i];
}

static gw_tensor *open_from_head(run *r) {
    const struct backend_run *b = r->backend;
    int64_t sizes[LIMIT_DIMS];
    bool valid = b->head[0] < GW_DTYPE_COUNT && b->head[1] <= LIMIT_DIMS;
    for (uint64_t i = 0; valid && i < b->head[1]; i++)
        valid = (sizes[i] = (int64_t)b->head[2 + i]) >= 0;
    if (valid) return run_open_places(r, (gw_dtype)b->head[0], (int)b->head[1], sizes);
    scope_fail(r->scope, GW_PROTOCOL, "malformed broadcast: the received shape is invalid");
    return NULL;
}

// False: there is none.
static bool broadcast_piece(run *r, uint64_t at) {
    struct backend_run *b = r->backend;
    uint64_t size = tensor_size(b->result), max = r->group->backend->bytes_max;
    if (at && at >= size) return false;
    broadcast(b, run_place_at(b->result, 0) + at, size - at < max ? size - at : max);
    return true;
}

static bool broadcast_from_root(run *r) {
    struct backend_run *b = r->backend;
    bool is_root = r->signature.root == r->group->self;
    switch (b->phase) {
    case 0:
        if (is_root) put_head(b, r->own);
        broadcast(b, b->head, sizeof b->head);
        return true;
    case 1:
        b->result = is_root ? gw_clone(r->scope, r->own) : open_from_head(r);
        if (gw_ok(r->scope)) broadcast_piece(r, 0);
        return true;
    default: return broadcast_piece(r, (uint64_t)(b->phase - 1) * r->group->backend->bytes_max);
    }
}

// The rows of all members, from |b->rows|; |*out_bytes| receives the bytes that this member gets from each.
static bool open_result(run *r, bool has) {
    struct backend_run *b = r->backend;
    uint64_t row = row_bytes(r->own), total = 0;
    for (int i = 0; i < r->group->count; i++) {
        uint64_t bytes;
        if (__builtin_mul_overflow(b->rows[i], row, &bytes) ||
            __builtin_add_overflow(total, b->rows[i], &total) || total > INT64_MAX)
            return scope_fail(r->scope, GW_PROTOCOL,
                              "the number of rows is too large for an int64_t");
        b->sizes_to[i] = bytes;
    }
    b->result = open_rows(r, has ? total : 0);
    if (!has) memset(b->rows, 0, (size_t)r->group->count * sizeof *b->rows);
    return b->result;
}

// A call that is too large is split into pieces, each of one member: all members have the sizes of all.
static bool fits_one_call(const run *r) {
    uint64_t total = 0;
    for (int i = 0; i < r->group->count; i++)
        if (__builtin_add_overflow(total, r->backend->member_bytes[i], &total)) return false;
    return total <= r->group->backend->bytes_max;
}

// The next piece. False: there is none.
static bool gather_piece(run *r, operation o) {
    struct backend_run *b = r->backend;
    uint64_t max = r->group->backend->bytes_max, index = (uint64_t)(b->phase - 1), to = 0;
    int self = r->group->self, from = 0;
    for (; from < r->group->count; to += b->member_bytes[from++]) {
        uint64_t own = b->member_bytes[from], pieces = own / max + (own % max > 0);
        if (index < pieces) break;
        index -= pieces;
    }
    if (from == r->group->count) return false;
    uint64_t at = index * max, left = b->member_bytes[from] - at, size = left < max ? left : max;
    bool has = tensor_size(b->result) > 0;
    memset(b->sizes_to, 0, (size_t)r->group->count * sizeof *b->sizes_to);
    b->sizes_to[from] = size;
    gather(b, o, run_numbers_at(r->own, 0) + (from == self ? at : 0), from == self ? size : 0,
           run_place_at(b->result, 0) + (has ? to + at : 0));
    return true;
}

static bool gather_rows(run *r, operation o) {
    struct backend_run *b = r->backend;
    bool has = o == OPERATION_ALL_GATHER || r->signature.root == r->group->self;
    switch (b->phase) {
    case 0:
        b->own_rows[0] = row_count(r->own);
        for (int i = 0; i < r->group->count; i++) b->sizes_to[i] = sizeof *b->rows;
        gather(b, OPERATION_ALL_GATHER, b->own_rows, sizeof *b->own_rows, b->rows);
        return true;
    case 1:
        if (!open_result(r, has)) return true;
        b->member_bytes = b->own_rows;  // which have been sent
        memcpy(b->member_bytes, b->sizes_to, (size_t)r->group->count * sizeof *b->sizes_to);
        b->in_pieces = !fits_one_call(r);
        if (b->in_pieces) return gather_piece(r, o);
        gather(b, o, run_numbers_at(r->own, 0), tensor_size(r->own), run_place_at(b->result, 0));
        return true;
    default: return b->in_pieces && gather_piece(r, o);
    }
}

static bool exchange_rows(run *r) {
    struct backend_run *b = r->backend;
    int n = r->group->count;
    switch (b->phase) {
    case 0:
        for (int i = 0; i < n; i++) {
            b->own_rows[i] = r->shares ? (uint64_t)r->shares[i] : row_count(r->own) / (uint64_t)n;
            b->sizes_from[i] = b->sizes_to[i] = sizeof *b->rows;
        }
        all_to_all(b, b->own_rows, b->rows);
        return true;
    case 1:
        if (!open_result(r, true)) return true;
        for (int i = 0; i < n; i++) b->sizes_from[i] = b->own_rows[i] * row_bytes(r->own);
        all_to_all(b, run_numbers_at(r->own, 0), run_place_at(b->result, 0));
        return true;
    default: return false;
    }
}

// Makes the next call, or fails the scope. False: there is none, and the result is complete.
static bool make_call(run *r) {
    if (r->signature.plan == PLAN_BACKEND_ADDS) return reduce_there(r);
    switch ((operation)r->signature.operation) {
    case OPERATION_ALL_REDUCE: return reduce(r, OPERATION_ALL_GATHER);
    case OPERATION_REDUCE: return reduce(r, OPERATION_GATHER);
    case OPERATION_REDUCE_SCATTER: return reduce_scatter(r);
    case OPERATION_BROADCAST: return broadcast_from_root(r);
    case OPERATION_ALL_TO_ALL: return exchange_rows(r);
    default: return gather_rows(r, (operation)r->signature.operation);
    }
}

// ---- Continuation -------------------------------------------------------------------------------

bool backend_run_continue(run *r) {
    struct backend_run *b = r->backend;
    if (b->is_under_way) return false;
    if (b->error.status) {
        scope_fail_with(r->scope, &b->error);
        return true;
    }
    bool more = make_call(r);
    if (!gw_ok(r->scope)) return true;  // the caller breaks the group
    if (more)
        backend_start_call(r);
    else
        backend_end_turn(r);
    return !more;
}

// With the rows of each member, if the run was called so.
gw_value backend_run_result(run *r) {
    gw_scope *s = r->scope;
    const struct backend_run *b = r->backend;
    if (!r->with_rows) return gw_value_of_tensor(b->result);
    int64_t *rows = gw_alloc(s, (size_t)r->group->count * sizeof *rows);
    for (int i = 0; rows && i < r->group->count; i++) rows[i] = (int64_t)b->rows[i];
    gw_list *list = gw_list_open(s);
    gw_list_add(s, list, b->result);
    if (rows) gw_list_add(s, list, gw_from(s, rows, r->group->count));
    return gw_value_of_list(list);
}
