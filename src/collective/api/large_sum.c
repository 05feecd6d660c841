// Sums of large tensors, in pieces, one collective each: besides the operands and the result they need memory for a
// few pieces, which is reused for the next ones. GRP-25.
#include "collective/api/requests.h"

#include "base/value.h"
#include "collective/backend/backend.h"
#include "tensor/combine.h"
#include "tensor/ops/op.h"

#include <gradwire/autograd.h>
#include <gradwire/ops.h>
#include <string.h>

enum { LARGE_PIECES = 8, AT_ONCE = 2 };

static int64_t piece_bytes = 16 << 20;

void large_sum_set_piece(int64_t bytes) {
    piece_bytes = bytes;
}

typedef struct piece {
    gw_scope *scope;  // NULL: no piece is under way there
    gw_future *future;
    int64_t first, end;
} piece;

typedef struct whole {
    gw_group *group;
    gw_tensor *flat, *out;  // flat, too
    gw_reduce_op op;
    gw_collective_options options;
    uint64_t mark;  // of the whole tensor, for all pieces
    const char *detail;
} whole;

static bool fits_into(const gw_tensor *into, const gw_tensor *x) {
    return !tensor_is_poison(into) && !tensor_is_rows(into) && !tensor_needs_grad(into) &&
           into->dtype == x->dtype && into->dims == x->dims &&
           memcmp(into->sizes, x->sizes, x->dims * sizeof *x->sizes) == 0;
}

// Invalid calls are reported by the path of small tensors.
bool large_sum_is_one(gw_scope *s, const gw_group *g, gw_tensor *x, gw_reduce_op op,
                      const gw_collective_options *o) {
    if (!gw_ok(s) || !g || g == &group_poison || s->agent != g->agent || g->count == 1)
        return false;
    if (!x || tensor_is_poison(x) || tensor_is_rows(x) || g->backend != &backend_session)
        return false;
    if ((unsigned)op >= GW_REDUCE_OP_COUNT ||
        !combine_is_supported((combine_op)op, (gw_dtype)x->dtype))
        return false;
    if (o->factor != 1 || o->sizes || (o->into && !fits_into(o->into, x))) return false;
    if (x->device != GW_CPU) return false;
    return (int64_t)tensor_size(x) > LARGE_PIECES * piece_bytes && !request_is_recorded(s, x);
}

// Each piece names its whole: members whose tensors differ would otherwise match pieces of one size.
static void describe(gw_scope *s, whole *l, const gw_tensor *x) {
    uint64_t hash = hash_u64(2 + x->dims);
    for (int d = 0; d < x->dims; d++) hash = hash_u64(hash + (uint64_t)x->sizes[d]);
    l->mark = (hash & ~(uint64_t)3) | 2;
    l->detail = gw_format(s, "a piece of %s", shape_text(x).text);
}

static void start(gw_scope *s, const whole *l, piece *p, int64_t first) {
    int64_t each = piece_bytes / (int64_t)gw_dtype_size((gw_dtype)l->flat->dtype);
    p->scope = gw_scope_open(s);
    p->first = first;
    p->end = l->flat->numel - first < each ? l->flat->numel : first + each;
    // A copy: lending the slice in place would move the whole tensor to shared memory.
    gw_tensor *own = gw_clone(p->scope, gw_slice(p->scope, l->flat, 0, p->first, p->end, 1));
    p->future = request_joined_async(p->scope, l->group, OPERATION_ALL_REDUCE, own, (int)l->op,
                                     l->mark, l->detail, l->options);
}

static void finish(const whole *l, piece *p) {
    if (!p->scope) return;
    gw_scope *t = p->scope;
    gw_value sum = gw_ok(t) ? request_wait(t, p->future) : gw_none();
    if (gw_ok(t)) gw_copy_(t, gw_slice(t, l->out, 0, p->first, p->end, 1), gw_tensor_of(t, sum));
    gw_scope_close_up(t);
    p->scope = NULL;
}

// In the order in which they were started. The first one alone: members that call another collective with a root may
// be past it, and would match the second one with their next call.
static void sum_all(gw_scope *s, const whole *l) {
    piece under_way[AT_ONCE] = { { 0 } };
    start(s, l, &under_way[0], 0);
    int64_t at = under_way[0].end;
    finish(l, &under_way[0]);
    int next = 0;
    while (gw_ok(s) && at < l->flat->numel) {
        piece *p = &under_way[next];
        start(s, l, p, at);
        if (!gw_ok(p->scope)) break;  // by an earlier missed error
        at = p->end;
        next = (next + 1) % AT_ONCE;
        finish(l, &under_way[next]);  // an abort has notified all members
    }
    for (int i = 0; i < AT_ONCE; i++) finish(l, &under_way[(next + i) % AT_ONCE]);
}

gw_tensor *large_sum(gw_scope *s, gw_group *g, gw_tensor *x, gw_reduce_op op,
                     gw_collective_options options) {
    call_of_several around = scope_path_begin_call(s);
    gw_scope *t = gw_scope_open(s);
    gw_tensor *into = options.into;
    gw_no_grad(t);
    gw_scope_set_timeout(t, group_timeout_ms(g, options.timeout_ms));
    options.into = NULL;
    whole l = { .group = g, .op = op, .options = options, .flat = gw_reshape(t, x, -1) };
    gw_tensor *sum = scope_own(
        t, tensor_new_for(t, "gw_all_reduce", GW_CPU, (gw_dtype)x->dtype, x->dims, x->sizes));
    l.out = sum ? gw_reshape(t, sum, -1) : tensor_poison_of(t);
    describe(t, &l, x);
    sum_all(t, &l);
    if (gw_ok(t)) sum = into ? gw_copy_(t, into, sum) : gw_keep(s, sum);
    gw_scope_close_up(t);
    scope_path_end_call(around);
    return gw_ok(s) ? sum : tensor_poison_of(s);
}
