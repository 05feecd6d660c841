// Nodes of recorded operators.
//
// One piece of memory holds the node, its arguments, its edges, and the shapes of tensors whose
// values the derivative does not read; so recording costs one allocation, and two more for each
// saved tensor.
#include "autograd/node.h"

#include "base/mem.h"
#include "base/value.h"
#include "tensor/dtype.h"

#include <string.h>

typedef struct op_node {
    node base;
    const op *op;
    size_t size;  // of the whole piece
    int arg_count;
    gw_value *args;       // tensors: see keep_tensor
    gw_tensor **outputs;  // saved, or a shape in this piece, or NULL
} op_node;

static bool saves_arg(const op *o, int i) {
    return o->saves & OP_SAVE_ARG(i);
}
static bool saves_output(const op *o, int i) {
    return i < OP_OUTPUTS_MAX && o->saves & OP_SAVE_OUT(i);
}

// ---- The size of the piece ----------------------------------------------------------------------
static size_t aligned(size_t size) {
    return (size + 7) & ~(size_t)7;
}

static size_t size_of_shape(const gw_tensor *x) {
    return sizeof(gw_tensor) + 2 * (size_t)x->dims * sizeof(int64_t);
}

static size_t size_of_value(const op *o, int i, gw_value v) {
    if (v.kind == GW_TENSOR)
        return saves_arg(o, i) || tensor_is_leaf_with_grad(v.as.tensor)
                   ? 0
                   : size_of_shape(v.as.tensor);
    if (v.kind == GW_BYTES || v.kind == GW_STRING) return aligned(v.size + 1);
    if (v.kind != GW_LIST) return 0;
    size_t size = sizeof(gw_list) + (size_t)v.as.list->count * sizeof(gw_value);
    for (int k = 0; k < v.as.list->count; k++) size += size_of_value(o, i, v.as.list->items[k]);
    return size;
}

static uint32_t count_inputs(gw_value v) {
    if (v.kind != GW_LIST) return v.kind == GW_TENSOR;
    uint32_t count = 0;
    for (int k = 0; k < v.as.list->count; k++) count += v.as.list->items[k].kind == GW_TENSOR;
    return count;
}

// ---- Filling it ---------------------------------------------------------------------------------
typedef struct filler {
    op_node *node;
    gw_scope *scope;
    uint8_t *free;  // the rest of the piece
} filler;

static void *carve(filler *f, size_t size) {
    void *p = f->free;
    f->free += aligned(size);
    return p;
}

// A tensor without values and without a count: it is freed with the node.
static gw_tensor *keep_shape(filler *f, const gw_tensor *x) {
    gw_tensor *shape = carve(f, size_of_shape(x));
    memset(shape, 0, sizeof *shape);
    atomic_init(&shape->handle.count, HANDLE_IMMORTAL);
    shape->handle.class = x->handle.class;
    shape->numel = x->numel;
    shape->dtype = x->dtype;
    shape->device = x->device;
    shape->layout = x->layout;
    shape->dims = x->dims;
    shape->contiguous = true;
    shape->strides = shape->sizes + x->dims;
    int64_t stride = 1;
    for (int d = x->dims - 1; d >= 0; d--) {
        shape->sizes[d] = x->sizes[d];
        shape->strides[d] = stride;
        stride *= x->sizes[d];
    }
    return shape;
}

// Values that cannot change.
static gw_tensor *save(filler *f, gw_tensor *x) {
    gw_tensor *saved = tensor_saved(f->scope, x);
    if (saved && saved->storage) block_name_kind(saved->storage->block, MEMORY_SAVED);
    return saved;
}

// The node's copy of |x| for the derivative: values that cannot change, if it reads them; else
// the leaf itself, which the edge holds anyway; else a shape. NULL without memory.
static gw_tensor *keep_tensor(filler *f, int i, gw_tensor *x) {
    if (saves_arg(f->node->op, i)) return save(f, x);
    return tensor_is_leaf_with_grad(x) ? x : keep_shape(f, x);
}

static bool add_input(filler *f, int i, gw_tensor *x, gw_value *out) {
    node *n = &f->node->base;
    gw_tensor *kept = keep_tensor(f, i, x);
    if (!kept) return false;
    *out = (gw_value){ .kind = GW_TENSOR, .as.tensor = kept };
    n->edges[n->edge_count++] = edge_retain(edge_to(x));
    return true;
}

static bool keep_value(filler *f, int i, gw_value v, gw_value *out);

static bool keep_list(filler *f, int i, const gw_list *list, gw_value *out) {
    gw_list *kept = carve(f, sizeof *kept);
    memset(kept, 0, sizeof *kept);
    atomic_init(&kept->handle.count, HANDLE_IMMORTAL);
    kept->handle.class = list->handle.class;
    kept->items = carve(f, (size_t)list->count * sizeof(gw_value));
    *out = (gw_value){ .kind = GW_LIST, .as.list = kept };
    for (; kept->count < list->count; kept->count++)
        if (!keep_value(f, i, list->items[kept->count], &kept->items[kept->count])) return false;
    return true;
}

static bool keep_value(filler *f, int i, gw_value v, gw_value *out) {
    if (v.kind == GW_TENSOR) return add_input(f, i, v.as.tensor, out);
    if (v.kind == GW_LIST) return keep_list(f, i, v.as.list, out);
    if (v.kind == GW_BYTES || v.kind == GW_STRING) {
        char *copy = carve(f, v.size + 1);
        if (v.size) memcpy(copy, v.as.bytes, v.size);
        copy[v.size] = '\0';
        v.as.bytes = copy;
    }
    *out = v;
    return true;
}

static bool keep_output(filler *f, int i, gw_tensor *x) {
    op_node *n = f->node;
    // A single output has the shape of its gradient, and no pass runs the node without that
    // gradient.
    if (saves_output(n->op, i))
        n->outputs[i] = save(f, x);
    else if (n->base.output_count > 1)
        n->outputs[i] = keep_shape(f, x);
    else
        return true;
    return n->outputs[i] != NULL;
}

// ---- The node as a pass sees it -----------------------------------------------------------------
static const char *op_name(const node *n) {
    return ((const op_node *)n)->op->name;
}

static bool fits(node_run *r, uint32_t k, const gw_tensor *x) {
    const gw_tensor *d = r->d_inputs[k];
    if (!d || !gw_ok(r->scope)) return true;
    return tensor_is_like(d, x);
}

// Fails if a derivative has given another shape than its input's.
static void check_shapes(op_node *n, node_run *r) {
    uint32_t k = 0;
    bool ok = true;
    for (int i = 0; i < n->arg_count; i++) {
        gw_value v = n->args[i];
        if (v.kind == GW_TENSOR) ok &= fits(r, k++, v.as.tensor);
        for (int j = 0; v.kind == GW_LIST && j < v.as.list->count; j++)
            if (v.as.list->items[j].kind == GW_TENSOR)
                ok &= fits(r, k++, v.as.list->items[j].as.tensor);
        if (!ok) {
            scope_fail(r->scope, GW_INVALID,
                       "the derivative of argument %d has another shape or dtype than the argument",
                       i);
            return;
        }
    }
}

static void run_op(node *base, node_run *r) {
    op_node *n = (op_node *)base;
    gw_tensor *only = n->outputs[0] ? n->outputs[0] : r->d_outputs[0];
    op_grad g = {
        .scope = r->scope,
        .op = n->op,
        .args = n->args,
        .arg_count = n->arg_count,
        .outputs = base->output_count == 1 ? &only : n->outputs,
        .d_outputs = r->d_outputs,
        .output_count = base->output_count,
        .d_inputs = r->d_inputs,
        .wanted = r->wanted,
        .input_count = (int)base->edge_count,
    };
    n->op->grad(&g);
    check_shapes(n, r);
}

static bool forget_value(gw_value *v) {
    bool had = false;
    if (v->kind == GW_TENSOR) {
        handle_release(v->as.tensor);
        had = true;
    }
    for (int k = 0; v->kind == GW_LIST && k < v->as.list->count; k++)
        had |= forget_value(&v->as.list->items[k]);
    *v = (gw_value){ .kind = GW_NONE };
    return had;
}

static bool forget_op(node *base) {
    op_node *n = (op_node *)base;
    bool had = false;
    for (int i = 0; i < n->arg_count; i++)
        if (saves_arg(n->op, i)) had |= forget_value(&n->args[i]);
    for (int i = 0; i < base->output_count; i++) {
        if (!saves_output(n->op, i) || !n->outputs[i]) continue;
        handle_release(n->outputs[i]);
        n->outputs[i] = NULL;
        had = true;
    }
    return had;
}

static void destroy_op(node *base) {
    mem_give(base, ((op_node *)base)->size);
}

static const node_class op_class = {
    .name = op_name, .run = run_op, .forget = forget_op, .destroy = destroy_op
};

// ---- Recording ----------------------------------------------------------------------------------
static op_node *take_node(const op_call *c) {
    size_t args_size = (size_t)c->arg_count * sizeof(gw_value);
    size_t outputs_size = (size_t)c->output_count * sizeof(gw_tensor *);
    size_t size = sizeof(op_node) + args_size + outputs_size;
    uint32_t edges = 0;
    for (int i = 0; i < c->arg_count; i++) {
        size += size_of_value(c->op, i, c->args[i]);
        edges += count_inputs(c->args[i]);
    }
    for (int i = 0; i < c->output_count && c->output_count > 1; i++)
        size += size_of_shape(c->outputs[i]);
    size += edges * sizeof(edge);

    op_node *n = mem_take(size);
    if (!n) return NULL;
    n->base = (node){ .class = &op_class, .output_count = (uint16_t)c->output_count };
    atomic_init(&n->base.count, 1);
    n->op = c->op;
    n->size = size;
    n->arg_count = 0;
    n->args = (gw_value *)(void *)(n + 1);
    n->outputs = (gw_tensor **)(void *)((uint8_t *)n->args + args_size);
    n->base.edges = (edge *)(void *)((uint8_t *)n->outputs + outputs_size);
    memset(n->outputs, 0, outputs_size);
    return n;
}

static bool fill_node(op_node *n, const op_call *c) {
    filler f = { n, c->scope, (uint8_t *)n->base.edges };
    for (int i = 0; i < c->arg_count; i++) f.free += count_inputs(c->args[i]) * sizeof(edge);
    while (n->arg_count < c->arg_count) {
        int i = n->arg_count++;
        n->args[i] = gw_none();
        if (!keep_value(&f, i, c->args[i], &n->args[i])) return false;
    }
    for (int i = 0; i < c->output_count; i++)
        if (!keep_output(&f, i, c->outputs[i])) return false;
    return true;
}

static void record(op_call *c) {
    if (!c->op->grad || !c->scope->grad_enabled || !gw_ok(c->scope)) return;
    op_node *n = take_node(c);
    if (!n) {
        scope_fail(c->scope, GW_NO_MEMORY, "gw.%s: no memory to record it for backward",
                   c->op->name);
        return;
    }
    if (fill_node(n, c)) {
        for (int i = 0; i < c->output_count; i++) {
            if (!dtype_is_float((gw_dtype)c->outputs[i]->dtype)) continue;
            node_make(&n->base, (uint16_t)i, c->outputs[i]);
        }
    }
    node_release(&n->base);
}

const tape autograd_tape = { .record = record, .forget = node_forget };
