// The way back through the slices of a batch: a node that answers when all of them have.
#include "parallel/thread_team.h"
#include "parallel/slices.h"

#include "autograd/late.h"
#include "autograd/node.h"
#include "base/mem.h"
#include "tensor/tensor.h"

#include <gradwire/autograd.h>
#include <gradwire/ops.h>

// ---- Backward -----------------------------------------------------------------------------------

typedef struct slices_node {
    node base;
    slices *slices;      // one count; NULL once it is spent
    gw_tensor **inputs;  // by edge: the parameter, or NULL for the input of the module
} slices_node;

static const char *name_of(const node *n) {
    (void)n;
    return "data_parallel";
}

static bool forget(node *base) {
    slices_node *n = (slices_node *)base;
    bool had = n->slices != NULL;
    if (had) slices_release(n->slices);
    n->slices = NULL;
    return had;
}

static void destroy(node *base) {
    forget(base);
    mem_free(((slices_node *)base)->inputs);
    mem_free(base->edges);
    mem_free(base);
}

// One backward pass over all slices.
typedef struct way_back {
    slices_node *node;  // one count
    slices *slices;     // one count
    late *late;
    gw_tensor *dy;   // one count
    gw_error error;  // with the loop lock: that of the first slice that has one
    int failed;
    gw_tensor *grads[];  // by slice, then by edge; counted
} way_back;

static void note_error(way_back *w, int i, gw_error error) {
    env_enter(w->slices->agent->env);
    if (!w->error.status || i < w->failed) {
        w->error = error;
        w->failed = i;
    }
    env_leave(w->slices->agent->env);
}

static gw_tensor *input_of(const way_back *w, int i, uint32_t k) {
    return w->node->inputs[k] ? w->node->inputs[k] : w->slices->items[i].x;
}

static void go_back(void *context, int i) {
    way_back *w = context;
    const slice *at = &w->slices->items[i];
    uint32_t edges = w->node->base.edge_count;
    if (!tensor_needs_grad(at->y)) return;
    gw_scope *t = agent_scope_open(w->slices->agent, 0, 0, ENV_NEVER);
    gw_tensor **inputs = gw_alloc(t, edges * sizeof *inputs);
    for (uint32_t k = 0; inputs && k < edges; k++) inputs[k] = input_of(w, i, k);
    gw_tensor *dy = gw_slice(t, w->dy, 0, at->first, at->first + at->rows, 1);
    gw_backward(t, at->y, .gradient = dy, .retain_graph = true, .inputs = inputs,
                .input_count = (int)edges);
    for (uint32_t k = 0; gw_ok(t) && k < edges; k++)
        w->grads[(uint32_t)i * edges + k] = handle_retain(gw_grad_find(t, inputs[k]));
    gw_error error = gw_scope_close(t);
    if (error.status) note_error(w, i, error);
}

// The gradients that the slices leave for a parameter, in their order.
static gw_tensor *add_up(gw_scope *s, const way_back *w, uint32_t k) {
    gw_tensor *sum = NULL;
    for (int i = 0; i < w->slices->slice_count; i++) {
        gw_tensor *g = w->grads[(uint32_t)i * w->node->base.edge_count + k];
        if (g) sum = sum ? gw_add(s, sum, g) : g;
    }
    return sum;
}

// Of the batch: that of each slice, behind each other.
static gw_tensor *join(gw_scope *s, const way_back *w, uint32_t k) {
    int count = w->slices->slice_count;
    gw_tensor **parts = gw_alloc(s, (size_t)count * sizeof *parts);
    for (int i = 0; parts && i < count; i++) {
        gw_tensor *g = w->grads[(uint32_t)i * w->node->base.edge_count + k];
        parts[i] = g ? g : gw_zeros_like(s, w->slices->items[i].x);
    }
    return parts ? gw_cat(s, parts, count, 0) : NULL;
}

static void answer(way_back *w) {
    gw_scope *t = agent_scope_open(w->slices->agent, 0, 0, ENV_NEVER);
    uint32_t edges = w->node->base.edge_count;
    gw_tensor **sums = gw_alloc(t, edges * sizeof *sums);
    gw_no_grad(t);
    if (w->error.status) {
        slices_name(&w->error, w->failed, w->slices->slice_count);
        scope_fail_with(t, &w->error);
    }
    for (uint32_t k = 0; gw_ok(t) && k < edges; k++)
        sums[k] = w->node->inputs[k] ? add_up(t, w, k) : join(t, w, k);
    if (gw_ok(t))
        late_answer(w->late, sums);
    else
        late_fail(w->late, scope_error(t));
    gw_scope_clear(t);
    scope_close_unread(t);
}

static void all_are_back(void *context) {
    way_back *w = context;
    answer(w);
    uint32_t count = (uint32_t)w->slices->slice_count * w->node->base.edge_count;
    for (uint32_t i = 0; i < count; i++) handle_release(w->grads[i]);
    handle_release(w->dy);
    slices_release(w->slices);
    node_release(&w->node->base);
    mem_free(w);
}

static way_back *open_way_back(slices_node *n, gw_tensor *dy, late *l) {
    size_t count = (size_t)n->slices->slice_count * n->base.edge_count;
    way_back *w = mem_calloc(sizeof *w + count * sizeof *w->grads);
    if (!w) return NULL;
    node_retain(&n->base);
    atomic_fetch_add_explicit(&n->slices->count, 1, memory_order_relaxed);
    w->node = n;
    w->slices = n->slices;
    w->late = l;
    w->dy = handle_retain(dy);
    return w;
}

static void start(node *base, node_run *r, late *l) {
    slices_node *n = (slices_node *)base;
    gw_tensor *dy = r->d_outputs[0];
    if (!dy) {
        late_answer(l, r->d_inputs);
        return;
    }
    way_back *w = open_way_back(n, dy, l);
    if (w &&
        thread_team_start(n->slices->agent, 0, n->slices->slice_count, go_back, all_are_back, w))
        return;
    if (w) {
        for (int i = 0; i < n->slices->slice_count; i++) go_back(w, i);
        all_are_back(w);
        return;
    }
    gw_error error;
    error_set(&error, GW_NO_MEMORY, "no memory for a backward pass of slices");
    late_fail(l, &error);
}

static const node_class slices_node_class = {
    .name = name_of, .start = start, .forget = forget, .destroy = destroy, .takes_rows = false
};

// ---- Recording ----------------------------------------------------------------------------------

typedef struct wanted {
    gw_tensor **tensors;  // NULL: only counted
    uint32_t count;
} wanted;

static bool add_wanted(void *context, const module_path *at, gw_tensor *x) {
    wanted *all = context;
    (void)at;
    if (!tensor_is_leaf_with_grad(x)) return true;
    for (uint32_t i = 0; all->tensors && i < all->count; i++)
        if (all->tensors[i] == x) return true;
    if (all->tensors) all->tensors[all->count] = x;
    all->count++;
    return true;
}

// |y| is the output of the slices, |x| their input; an edge leads to that, if it needs a
// gradient, and to each parameter.
void slices_record(gw_scope *s, slices *all, gw_tensor *x, gw_tensor *y) {
    wanted most = { 0 };
    module_each_tensor(all->module, MODULE_PARAMETERS, NULL, add_wanted, &most);
    slices_node *n = mem_calloc(sizeof *n);
    wanted w = { .tensors = mem_calloc((most.count + 1) * sizeof *w.tensors) };
    edge *edges = mem_calloc((most.count + 1) * sizeof *edges);
    if (!n || !w.tensors || !edges) {
        scope_fail(s, GW_NO_MEMORY, "gw_data_parallel: no memory for gradients");
        mem_free(n);
        mem_free(w.tensors);
        mem_free(edges);
        return;
    }
    if (tensor_needs_grad(x)) w.count = 1;
    module_each_tensor(all->module, MODULE_PARAMETERS, NULL, add_wanted, &w);
    for (uint32_t k = 0; k < w.count; k++)
        edges[k] = edge_retain(edge_to(w.tensors[k] ? w.tensors[k] : x));
    atomic_init(&n->base.count, 1);
    n->base.class = &slices_node_class;
    n->base.output_count = 1;
    n->base.edge_count = w.count;
    n->base.edges = edges;
    n->inputs = w.tensors;
    n->slices = all;
    atomic_fetch_add_explicit(&all->count, 1, memory_order_relaxed);
    node_make(&n->base, 0, y);
    node_release(&n->base);
}
