// Collectives through backward: the node that a collective records, whose derivative is a collective of the same
// group. Its key follows from the forward's number, so that the passes of members may reach their collectives in
// different orders.
#include "collective/api/backward.h"

#include "autograd/late.h"
#include "autograd/node.h"
#include "base/mem.h"
#include "base/value.h"
#include "future/future.h"

#include <gradwire/ops.h>
#include <string.h>

// Of a scattered tensor, whose gradient another member sends.
typedef struct item_shape {
    uint8_t dtype, dims;
    int64_t sizes[LIMIT_DIMS];
} item_shape;

typedef struct collective_node {
    node base;
    gw_group *group;  // one count
    run_place place;
    uint32_t times;  // how often it has run
    list_node link;  // among those of the group that were freed unvisited
    uint64_t key;    // in that table
    task answers;
    uint8_t operation, op;
    int root;
    double factor;
    // Of the output, and of the rows that each member has contributed or received.
    uint8_t dtype, dims;
    int64_t sizes[LIMIT_DIMS];
    bool input_is_scalar;
    item_shape *items;  // for each member; of scatter, at the root
    int64_t rows[];     // for each member; of gather and exchange. Edges and items follow
} collective_node;

static const char *name_of(const node *n) {
    return operation_name((operation)((const collective_node *)n)->operation);
}

static bool forget(node *n) {
    (void)n;
    return false;  // it has saved nothing
}

static bool keep_unvisited(collective_node *n);

static void free_node(collective_node *n) {
    handle_release(n->group);
    mem_free(n);
}

// ---- The derivative -----------------------------------------------------------------------------

static uint64_t key_of(const collective_node *n) {
    return backward_key(n->place, n->times);
}

// Origins, in error texts.
static const char *const origins[OPERATION_COUNT] = {
    [OPERATION_ALL_REDUCE] = "backward of all_reduce",
    [OPERATION_BROADCAST] = "backward of broadcast",
    [OPERATION_REDUCE] = "backward of reduce",
    [OPERATION_ALL_GATHER] = "backward of all_gather",
    [OPERATION_REDUCE_SCATTER] = "backward of reduce_scatter",
    [OPERATION_GATHER] = "backward of gather",
    [OPERATION_SCATTER] = "backward of scatter",
    [OPERATION_ALL_TO_ALL] = "backward of all_to_all",
};

static gw_collective_options options_of(collective_node *n) {
    gw_collective_options o =
        GW_OPTIONS(gw_collective_options, .key = key_of(n), .origin = origins[n->operation]);
    n->times++;
    return o;
}

static gw_tensor *given(gw_scope *s, const collective_node *n, gw_tensor *d) {
    return d ? gw_contiguous(s, d)
             : gw_zeros_with(s, (gw_dtype)n->dtype, (gw_shape){ n->dims, n->sizes });
}

static gw_future *scatter_rows(gw_scope *s, collective_node *n, gw_tensor *d,
                               gw_collective_options o) {
    gw_list *list = NULL;
    if (n->group->self == n->root) {
        list = gw_list_open(s);
        int64_t at = 0;
        for (int i = 0; i < n->group->count; i++) {
            gw_list_add(s, list, gw_slice(s, d, 0, at, at + n->rows[i], 1));
            at += n->rows[i];
        }
    }
    return request_scatter(s, n->group, "gw_scatter_from", CONTENT_TENSORS, list, n->root, o, NULL);
}

static gw_future *begin_backward(gw_scope *s, collective_node *n, gw_tensor *d) {
    gw_collective_options o = options_of(n);
    gw_group *g = n->group;
    gw_reduce_op op = (gw_reduce_op)n->op;
    switch ((operation)n->operation) {
    case OPERATION_ALL_REDUCE:
        o.factor = n->factor;
        return request_reduce(s, g, "gw_all_reduce", OPERATION_ALL_REDUCE, d, op, -1, o, NULL);
    case OPERATION_BROADCAST:
        return request_reduce(s, g, "gw_reduce", OPERATION_REDUCE, d, GW_SUM, n->root, o, NULL);
    case OPERATION_REDUCE:
        return request_broadcast(s, g, "gw_broadcast", g->self == n->root ? d : NULL, n->root, o,
                                 NULL);
    case OPERATION_ALL_GATHER:
        o.sizes = n->rows;
        return request_reduce(s, g, "gw_reduce_scatter", OPERATION_REDUCE_SCATTER, d, GW_SUM, -1, o,
                              NULL);
    case OPERATION_REDUCE_SCATTER:
        return request_gather(s, g, "gw_all_gather", OPERATION_ALL_GATHER, d, -1, o, NULL);
    case OPERATION_GATHER: return scatter_rows(s, n, d, o);
    case OPERATION_SCATTER:
        return request_values(s, g, "gw_gather_value_to", OPERATION_GATHER, gw_value_of_tensor(d),
                              n->root, o, false);
    case OPERATION_ALL_TO_ALL: o.sizes = n->rows; return request_exchange(s, g, d, o, NULL);
    default: scope_fail(s, GW_UNSUPPORTED, "%s has no derivative", name_of(&n->base));
    }
    return &future_poison;
}

static gw_future *begin(gw_scope *s, collective_node *n, gw_tensor *d) {
    s->has_own_keys = true;
    gw_future *f = begin_backward(s, n, d);
    s->has_own_keys = false;
    return f;
}

// Multiplies by the other factor of the sum: the gather of sums does not apply it.
static gw_tensor *finish(gw_scope *s, const collective_node *n, gw_tensor *d) {
    if (n->operation == OPERATION_BROADCAST && n->group->self != n->root)
        return gw_zeros_with(s, (gw_dtype)n->dtype, (gw_shape){ n->dims, n->sizes });
    bool scaled = n->operation == OPERATION_REDUCE || n->operation == OPERATION_REDUCE_SCATTER;
    double factor = n->op == GW_AVG ? n->factor / n->group->count : n->factor;
    if (scaled && factor != 1) d = gw_mul(s, d, factor);
    return n->input_is_scalar ? gw_reshape(s, d) : d;
}

// A member without a part of its own sends none: no gradient.
static gw_tensor *gradient_of_item(gw_scope *s, const collective_node *n, const gw_list *received,
                                   int i) {
    gw_value v = gw_list_get(s, received, i);
    if (n->base.edges[i].kind == EDGE_NONE || v.kind == GW_NONE) return NULL;
    gw_tensor *d = gw_tensor_of(s, v);
    const item_shape *x = &n->items[i];
    bool fits = gw_ok(s) && !tensor_is_rows(d) && d->dtype == x->dtype && d->dims == x->dims &&
                memcmp(d->sizes, x->sizes, x->dims * sizeof *x->sizes) == 0;
    if (!fits)
        scope_fail(s, GW_PROTOCOL,
                   "the gradient that %s has sent has another shape or dtype than the item",
                   group_member_name(n->group, i));
    return d;
}

// For each edge; NULL for an edge without gradient, or with |s| failed.
static gw_tensor **gradients_of_items(gw_scope *s, const collective_node *n, gw_value v) {
    const gw_list *received = gw_list_of(s, v);
    if (!n->base.edge_count) return NULL;
    gw_tensor **all = gw_alloc(s, n->base.edge_count * sizeof *all);
    for (int i = 0; all && i < (int)n->base.edge_count; i++)
        all[i] = gw_ok(s) ? gradient_of_item(s, n, received, i) : NULL;
    return all;
}

typedef struct answer {
    late *late;
    collective_node *node;  // one count
} answer;

static void answer_with(gw_scope *s, gw_future *f, void *context) {
    answer *a = context;
    gw_value v = gw_future_value(s, f);
    gw_tensor *d = NULL, **all = &d;
    if (a->node->operation == OPERATION_SCATTER)
        all = gradients_of_items(s, a->node, v);
    else
        d = gw_tensor_of(s, v);
    if (gw_ok(s) && d) d = finish(s, a->node, d);
    if (gw_ok(s)) {
        late_answer(a->late, all);
    } else {
        late_fail(a->late, s->error);
        gw_scope_clear(s);
    }
    node_release(&a->node->base);
    mem_free(a);
}

static void start(node *base, node_run *r, late *l) {
    collective_node *n = (collective_node *)base;
    gw_scope *s = r->scope;
    answer *a = mem_alloc(sizeof *a);
    gw_future *f = a ? begin(s, n, given(s, n, r->d_outputs[0])) : NULL;
    if (!f || f == &future_poison || !gw_ok(s)) {
        gw_error error;
        error_set(&error, GW_NO_MEMORY, "no memory for a derivative");
        late_fail(l, s->error ? s->error : &error);
        mem_free(a);
        return;
    }
    *a = (answer){ l, n };
    node_retain(base);
    gw_on_done(s, f, answer_with, a);
    if (gw_ok(s)) return;
    late_fail(l, s->error);
    node_release(base);
    mem_free(a);
}

// ---- Nodes freed unvisited ----------------------------------------------------------------------
// No pass of this member will reach such a node. When passes of other members do, it contributes zeros; if it was
// planned by a pass that has failed before, it ends the collective for them.

static void answered(gw_scope *s, gw_future *f, void *context) {
    (void)s, (void)f;
    free_node(context);
}

static void answer_zeros(task *t) {
    collective_node *n = list_entry(t, collective_node, answers);
    gw_scope *s = agent_scope_open(n->group->agent, 0, 0, ENV_NEVER);
    s->grad_enabled = false;
    gw_future *f = begin(s, n, given(s, n, NULL));
    if (gw_ok(s))
        gw_on_done(s, f, answered, n);
    else
        free_node(n);  // the group is broken, or this worker leaves: the other members are notified
    scope_close_unread(s);
}

static void take_out(gw_group *g, collective_node *n) {
    map_take(&g->unvisited, n->key);
    list_remove(&n->link);
}

void backward_awaited_on_loop(gw_group *g, uint64_t key) {
    collective_node *n = map_find(&g->unvisited, key);
    gw_error error;
    if (!n) return;
    if (n->base.planned) {
        error_set(&error, GW_REMOTE,
                  "a backward pass of %s has failed before it reached this collective",
                  group_member_name(g, g->self));
        group_report_on_loop(g, key, 1, &error);
        return;
    }
    take_out(g, n);
    n->group = handle_retain(g);
    n->answers.run = answer_zeros;
    env_defer(g->agent->env, &n->answers);
}

void backward_forget_unvisited(gw_group *g) {
    for (list_node *l; (l = list_take(&g->unvisited_nodes));)
        mem_free(list_entry(l, collective_node, link));
    map_fini(&g->unvisited);
}

static bool is_awaited(const gw_group *g, uint64_t key) {
    list_each(l, &g->unexpected) if (list_entry(l, unexpected_message, link)->header.key ==
                                     key) return true;
    return false;
}

// The group owns the node from here on, without a count on the group.
static bool keep_on_loop(gw_group *g, collective_node *n, collective_node **out_oldest) {
    if (g->broken.status || g->agent->phase == AGENT_LEFT || g->count == 1) return false;
    n->key = key_of(n);
    if (!map_put(&g->unvisited, n->key, n)) return false;
    list_append(&g->unvisited_nodes, &n->link);
    if (g->unvisited.count > LIMIT_GROUP_UNVISITED) {
        *out_oldest = list_entry(g->unvisited_nodes.next, collective_node, link);
        take_out(g, *out_oldest);
    }
    if (is_awaited(g, n->key)) backward_awaited_on_loop(g, n->key);
    return true;
}

static bool keep_unvisited(collective_node *n) {
    gw_group *g = n->group;
    collective_node *oldest = NULL;
    if (agent_is_closed(g->agent)) return false;
    env_enter(g->agent->env);
    bool keeps = keep_on_loop(g, n, &oldest);
    env_leave(g->agent->env);
    mem_free(oldest);
    if (keeps) handle_release(g);
    return keeps;
}

static void destroy(node *base) {
    collective_node *n = (collective_node *)base;
    if (n->times || !keep_unvisited(n)) free_node(n);
}

static const node_class collective_node_class = {
    .name = name_of, .start = start, .forget = forget, .destroy = destroy
};

// ---- Recording ----------------------------------------------------------------------------------

static void add_edge(collective_node *n, gw_tensor *x) {
    n->base.edges[n->base.edge_count++] = edge_retain(edge_to(x));
}

static void add_items(collective_node *n, const gw_value *items) {
    n->items = (item_shape *)(n->base.edges + n->group->count);
    for (int i = 0; i < n->group->count; i++) {
        const gw_tensor *x = items[i].as.tensor;
        n->items[i].dtype = x->dtype;
        n->items[i].dims = x->dims;
        memcpy(n->items[i].sizes, x->sizes, x->dims * sizeof *x->sizes);
        add_edge(n, items[i].as.tensor);
    }
}

// With one count; NULL with |s| failed.
static collective_node *open_node(gw_scope *s, const record_request *r, const gw_tensor *out) {
    const gw_tensor *in = r->in;
    if (!request_has_gradient(r->operation, r->op)) {
        scope_fail(s, GW_UNSUPPORTED,
                   "%s: only GW_SUM and GW_AVG have gradients: gw_detach the input",
                   operation_name(r->operation));
        return NULL;
    }
    size_t count = (size_t)r->group->count, rows = count * sizeof(int64_t);
    size_t edges = r->items ? count * (sizeof(edge) + sizeof(item_shape)) : sizeof(edge);
    collective_node *n = mem_calloc(sizeof *n + rows + edges);
    if (!n) {
        scope_fail(s, GW_NO_MEMORY, "no memory for a gradient");
        return NULL;
    }
    n->base.class = &collective_node_class;
    atomic_init(&n->base.count, 1);
    n->base.output_count = 1;
    n->base.edges = (edge *)(n->rows + count);
    n->group = handle_retain(r->group);
    if (r->in) add_edge(n, r->in);
    if (r->items) add_items(n, r->items);
    n->place = r->place;
    n->operation = (uint8_t)r->operation;
    n->op = (uint8_t)r->op;
    n->root = r->root;
    n->factor = r->factor;
    n->dtype = out->dtype;
    n->dims = out->dims;
    memcpy(n->sizes, out->sizes, out->dims * sizeof *out->sizes);
    n->input_is_scalar = in && in->dims == 0 && out->dims == 1;
    if (r->rows) memcpy(n->rows, r->rows, rows);
    return n;
}

void backward_record(gw_scope *s, const record_request *r, gw_tensor *out) {
    collective_node *n = open_node(s, r, out);
    if (!n) return;
    node_make(&n->base, 0, out);
    node_release(&n->base);
}

void backward_record_unused(gw_scope *s, const record_request *r, const gw_tensor *out,
                            bool has_failed) {
    collective_node *n = open_node(s, r, out);
    if (!n) return;
    n->base.planned = has_failed;
    node_release(&n->base);
}
