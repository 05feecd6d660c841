// The replicas of a model: that they are of one kind, that they begin with the same numbers, and
// that they still have them.
#include "base/map.h"
#include "base/mem.h"
#include "parallel/ddp/ddp.h"
#include "tensor/ops/op.h"
#include "tensor/tensor.h"
#include <gradwire/ops.h>

#include <string.h>

enum { KEY_BROADCAST = 2, KEY_COMPARE = 3, KEY_SUM = 4 };

// ---- Collecting ---------------------------------------------------------------------------------

typedef struct collecting {
    gw_scope *scope;
    gw_ddp *ddp;
    gw_tensor **tensors;
    const char **names;
    bool *is_rows;  // NULL for buffers
    int count;
    bool rows;  // of the module that is visited
    module_tensors kind;
} collecting;

static bool is_ignored(const gw_ddp *d, const char *name) {
    for (int i = 0; i < d->options.ignore_count; i++)
        if (!strcmp(d->options.ignore[i], name)) return true;
    return false;
}

static bool add(void *context, const module_path *at, gw_tensor *x) {
    collecting *c = context;
    const char *name = module_path_text(c->scope, at);
    if (!gw_ok(c->scope)) return false;
    if (is_ignored(c->ddp, name)) return true;
    if (c->kind == MODULE_PARAMETERS && !tensor_is_leaf_with_grad(x)) return true;
    for (int i = 0; i < c->count; i++)
        if (c->tensors[i] == x) return true;
    c->tensors[c->count] = x;
    c->names[c->count] = name;
    if (c->is_rows) c->is_rows[c->count] = c->rows && x->dims > 0;
    c->count++;
    return true;
}

// Collects the tensors that a module has itself, so that those of sparse embeddings are known.
static bool add_module(void *context, const module_path *at, gw_module *m) {
    collecting *c = context;
    const module_parts *parts = c->kind == MODULE_PARAMETERS ? &m->parameters : &m->buffers;
    c->rows = embedding_is_sparse(m);
    for (int i = 0; i < parts->count; i++) {
        module_path here = { .outer = at, .name = parts->items[i].name };
        if (!add(c, &here, parts->items[i].is.parameter)) return false;
    }
    return true;
}

static bool count_one(void *context, const module_path *at, gw_tensor *x) {
    (void)at, (void)x;
    ++*(int *)context;
    return true;
}

static collecting collect(gw_ddp *d, module_tensors kind) {
    gw_scope *own = d->own;
    int max = 0;
    module_each_tensor(d->model, kind, NULL, count_one, &max);
    collecting c = { .scope = own, .ddp = d, .kind = kind };
    c.tensors = gw_alloc(own, ((size_t)max + 1) * sizeof *c.tensors);
    c.names = gw_alloc(own, ((size_t)max + 1) * sizeof *c.names);
    if (kind == MODULE_PARAMETERS) c.is_rows = gw_alloc(own, (size_t)max + 1);
    if (gw_ok(own)) module_each(d->model, NULL, add_module, &c);
    for (int i = 0; gw_ok(own) && i < c.count; i++) scope_own(own, handle_retain(c.tensors[i]));
    return c;
}

bool replicas_collect(gw_scope *s, gw_ddp *d) {
    collecting p = collect(d, MODULE_PARAMETERS), b = collect(d, MODULE_BUFFERS);
    if (!gw_ok(d->own)) return scope_fail_with(s, scope_error(d->own));
    d->gate.leaves = p.tensors;
    d->gate.leaf_count = p.count;
    d->names = p.names;
    d->is_rows = p.is_rows;
    d->buffers = b.tensors;
    d->buffer_names = b.names;
    d->buffer_count = b.count;
    if (!p.count)
        scope_fail(s, GW_INVALID, "gw_ddp_open: no parameter of the model needs a gradient");
    for (int i = 0; gw_ok(s) && i < p.count; i++)
        if (gate_of(p.tensors[i], &(int){ 0 }))
            scope_fail(s, GW_DUPLICATE,
                       "gw_ddp_open: \"%s\" is a parameter of a model that has been opened by "
                       "gw_ddp_open already",
                       p.names[i]);
    return gw_ok(s);
}

static int tensor_count(const gw_ddp *d) {
    return d->gate.leaf_count + d->buffer_count;
}
static gw_tensor *tensor_at(const gw_ddp *d, int i) {
    int count = d->gate.leaf_count;
    return i < count ? d->gate.leaves[i] : d->buffers[i - count];
}
static const char *name_at(const gw_ddp *d, int i) {
    int count = d->gate.leaf_count;
    return i < count ? d->names[i] : d->buffer_names[i - count];
}

static const char *member_name(gw_scope *s, const gw_ddp *d, int rank) {
    return gw_group_worker(s, d->group, rank).name;
}

// ---- Comparing models ---------------------------------------------------------------------------

gw_list *replicas_describe(gw_scope *s, const gw_ddp *d) {
    gw_list *all = gw_list_open(s);
    for (int i = 0; i < tensor_count(d); i++) {
        const gw_tensor *x = tensor_at(d, i);
        const char *line = gw_format(s, "\"%s\" %s %s", name_at(d, i),
                                     gw_dtype_name((gw_dtype)x->dtype), shape_text(x).text);
        gw_list_add_with(s, all, gw_value_of_string(line));
    }
    return all;
}

static const char *line_of(gw_scope *s, const gw_list *lines, int i) {
    return i < gw_list_count(lines) ? gw_string_of(s, gw_list_get(s, lines, i)) : "none";
}

// Fails |s| with the first line in which member |rank| differs from the first member.
static void compare_with_first(gw_scope *s, const gw_ddp *d, const gw_list *all, int rank) {
    gw_list *first = gw_list_of(s, gw_list_get(s, all, 0));
    gw_list *other = gw_list_of(s, gw_list_get(s, all, rank));
    int count = gw_ok(s) ? gw_list_count(first) : 0;
    if (gw_ok(s) && gw_list_count(other) > count) count = gw_list_count(other);
    for (int i = 0; gw_ok(s) && i < count; i++) {
        const char *a = line_of(s, first, i), *b = line_of(s, other, i);
        if (strcmp(a, b) != 0)
            scope_fail(s, GW_MISMATCH, "gw_ddp_open: the models differ: parameter %d: %s %s, %s %s",
                       i, member_name(s, d, 0), a, member_name(s, d, rank), b);
    }
}

bool replicas_compare_models(gw_scope *s, const gw_ddp *d, const gw_list *descriptions) {
    for (int rank = 1; gw_ok(s) && rank < d->stats.world_size; rank++)
        compare_with_first(s, d, descriptions, rank);
    return gw_ok(s);
}

// ---- Broadcasting -------------------------------------------------------------------------------

static bool has_dtype(const gw_ddp *d, gw_dtype dtype, int first, int end) {
    while (first < end && tensor_at(d, first)->dtype != dtype) first++;
    return first < end;
}

// All tensors of one dtype travel in one. |numbers[i - first]|: the values of tensor |i|.
static void receive_dtype(gw_scope *s, gw_ddp *d, gw_dtype dtype, int first, int end, int root,
                          gw_tensor **numbers) {
    gw_tensor **parts = gw_alloc(s, ((size_t)(end - first) + 1) * sizeof *parts);
    int count = 0;
    for (int i = first; gw_ok(s) && i < end; i++) {
        gw_tensor *x = tensor_at(d, i);
        if (x->dtype == dtype) parts[count++] = gw_reshape_with(s, x, (gw_shape){ 1, &x->numel });
    }
    gw_tensor *flat = gw_ok(s) ? gw_cat(s, parts, count, 0) : tensor_poison_of(s);
    gw_collective_options options = ddp_options_of(d);
    options.key = KEY_BROADCAST;
    gw_tensor *given = gw_broadcast_with(s, d->group, flat, root, options);
    int64_t at = 0;
    for (int i = first; gw_ok(s) && i < end; i++) {
        const gw_tensor *x = tensor_at(d, i);
        if (x->dtype != dtype) continue;
        numbers[i - first] = gw_reshape_with(s, gw_slice(s, given, 0, at, at + x->numel, 1),
                                             (gw_shape){ x->dims, x->sizes });
        at += x->numel;
    }
}

gw_tensor **replicas_receive(gw_scope *s, gw_ddp *d, int first, int end, int root) {
    if (d->stats.world_size == 1) return NULL;
    gw_tensor **numbers = gw_alloc(s, ((size_t)(end - first) + 1) * sizeof *numbers);
    bool is_entered = false;  // a scope that has failed enters the first broadcast, as failed
    for (gw_dtype dtype = 0; (gw_ok(s) || !is_entered) && dtype <= GW_BOOL8; dtype++) {
        if (!has_dtype(d, dtype, first, end)) continue;
        receive_dtype(s, d, dtype, first, end, root, numbers);
        is_entered = true;
    }
    return gw_ok(s) && d->stats.rank != root ? numbers : NULL;
}

void replicas_put(gw_scope *s, gw_ddp *d, int first, int end, gw_tensor **numbers) {
    for (int i = first; numbers && gw_ok(s) && i < end; i++)
        gw_copy_(s, tensor_at(d, i), numbers[i - first]);
}

void replicas_broadcast(gw_scope *s, gw_ddp *d, bool parameters, bool buffers, int root) {
    int first = parameters ? 0 : d->gate.leaf_count;
    int end = buffers ? tensor_count(d) : d->gate.leaf_count;
    gw_scope *t = scope_open_unrecorded(s);
    replicas_put(t, d, first, end, replicas_receive(t, d, first, end, root));
    gw_scope_close_up(t);
}

// ---- Comparing numbers --------------------------------------------------------------------------

static int64_t hash_of(gw_scope *s, gw_tensor *x) {
    gw_tensor *plain = gw_contiguous(s, gw_detach(s, x));
    const void *bytes = gw_data(plain);
    return gw_ok(s) && bytes ? (int64_t)hash_bytes(bytes, tensor_size(plain)) : 0;
}

static void compare_hashes(gw_scope *s, const gw_ddp *d, const int64_t *all, int64_t count) {
    for (int64_t i = 0; gw_ok(s) && i < count; i++)
        for (int rank = 1; gw_ok(s) && rank < d->stats.world_size; rank++)
            if (all[rank * count + i] != all[i])
                scope_fail(s, GW_MISMATCH,
                           "the replicas differ: \"%s\" is not the same on %s and %s",
                           name_at(d, (int)i), member_name(s, d, 0), member_name(s, d, rank));
}

void replicas_compare_numbers(gw_scope *s, gw_ddp *d) {
    bool left = d->options.buffers == GW_BUFFERS_LEFT;
    int64_t count = left ? d->gate.leaf_count : tensor_count(d), sizes[] = { 1, count };
    gw_scope *t = scope_open_unrecorded(s);
    int64_t *own = gw_alloc(t, (size_t)count * sizeof *own);
    for (int i = 0; own && i < count; i++) own[i] = hash_of(t, tensor_at(d, i));
    gw_tensor *mine = own ? gw_from_with(t, GW_I64, own, (gw_shape){ 2, sizes }) : NULL;
    gw_collective_options options = ddp_options_of(d);
    options.key = KEY_COMPARE;
    gw_tensor *all = gw_all_gather_with(t, d->group, mine, options);
    if (gw_ok(t)) compare_hashes(t, d, gw_data(all), count);
    gw_scope_close_up(t);
}

// ---- Sums over all members ----------------------------------------------------------------------

void replicas_sum(gate *g, gw_scope *s, double *numbers, int count) {
    gw_ddp *d = ddp_of(g);
    gw_scope *t = scope_open_unrecorded(s);
    gw_tensor *mine = gw_from(t, numbers, count);
    gw_collective_options options = ddp_options_of(d);
    options.key = KEY_SUM;
    gw_tensor *all = gw_all_reduce_with(t, d->group, mine, GW_SUM, options);
    if (gw_ok(t)) memcpy(numbers, gw_data(all), (size_t)count * sizeof *numbers);
    gw_scope_close_up(t);
}
