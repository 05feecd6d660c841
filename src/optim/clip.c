// Clipping by the norm of all gradients together (Pascanu et al. 2012).
#include "autograd/gate.h"
#include "autograd/grads.h"
#include "autograd/left.h"
#include "autograd/sum.h"
#include "base/mem.h"
#include "base/value.h"
#include "optim/remote_part.h"
#include "tensor/kernels/gradients.h"
#include <gradwire/ops.h>

#include <math.h>

static gw_tensor *gradient_of(gw_scope *s, const gw_list *params, int i) {
    gw_value v = gw_list_get(s, params, i);
    return v.kind == GW_TENSOR ? grads_find(s, gate_kept_of(v.as.tensor)) : NULL;
}

// The numbers of a gradient. One that is sparse by rows has each row once, so the others are 0.
static gw_tensor *numbers_of(gw_tensor *g) {
    return tensor_is_rows(g) ? g->values : g;
}

static double squares_of(gw_scope *s, const gw_list *params, int i) {
    gw_tensor *g = gradient_of(s, params, i), *x = g ? numbers_of(g) : NULL;
    double squares = 0;
    if (x && !tensor_squares(x, &squares))
        scope_fail(s, GW_NO_MEMORY, "gw_clip_grad_norm: no memory");
    return squares;
}

double clip_squares(gw_scope *s, const gw_list *params) {
    double sum = 0;
    for (int i = 0; i < gw_list_count(params); i++) sum += squares_of(s, params, i);
    return sum;
}

// ---- Gradients that other workers keep ----------------------------------------------------------

// The gate that gives gradients away, of parameter |i|; NULL without.
static gate *giver_of(const gw_list *params, int i, int *out_leaf) {
    gw_value v = params->items[i];  // also in a scope that has failed
    gate *g = v.kind == GW_TENSOR ? gate_of(v.as.tensor, out_leaf) : NULL;
    return g && g->gives_away ? g : NULL;
}

// |squares|, by parameter, become those of the workers that keep the gradients of |g|. If one worker keeps them,
// the others contribute 0, so that their bits stay.
static void exchange(gw_scope *s, const gw_list *params, gate *g, double *squares) {
    double *by_leaf = mem_calloc((size_t)g->leaf_count * sizeof *by_leaf);
    int leaf;
    if (!by_leaf) scope_fail(s, GW_NO_MEMORY, "gw_clip_grad_norm: no memory");
    for (int i = 0; by_leaf && squares && i < gw_list_count(params); i++)
        if (giver_of(params, i, &leaf) == g && !g->gives_away[leaf]) by_leaf[leaf] = squares[i];
    g->class->sum(g, s, by_leaf, by_leaf ? g->leaf_count : 0);
    for (int i = 0; by_leaf && squares && i < gw_list_count(params); i++)
        if (giver_of(params, i, &leaf) == g) squares[i] = by_leaf[leaf];
    mem_free(by_leaf);
}

// As clip_squares, but of all workers that keep a gradient; the bits are those of one that has all.
static double squares_of_all(gw_scope *s, const gw_list *params) {
    int count = gw_list_count(params), leaf;
    uint64_t visit = gates_begin_visit();
    double sum = 0, *squares = mem_calloc(((size_t)count + 1) * sizeof *squares);
    if (!squares) scope_fail(s, GW_NO_MEMORY, "gw_clip_grad_norm: no memory");
    for (int i = 0; squares && gw_ok(s) && i < count; i++) squares[i] = squares_of(s, params, i);
    for (int i = 0; i < count; i++) {
        gate *g = giver_of(params, i, &leaf);
        if (g && gate_visit(g, visit)) exchange(s, params, g, squares);
    }
    for (int i = 0; squares && i < count; i++) sum += squares[i];
    mem_free(squares);
    return sum;
}

// In a scope that has failed: others may wait for this worker's squares. If its list of parameters is empty, as one
// that was made in such a scope, they are of the gates that have answered a pass of the scope.
static void report_failure(gw_scope *s, const gw_list *params) {
    gate *g;
    if (params && gw_list_count(params)) {
        squares_of_all(s, params);
        return;
    }
    for (int i = 0; (g = grads_answered(s, i)); i++)
        if (g->gives_away) g->class->sum(g, s, NULL, 0);
}

// ---- Scaling ------------------------------------------------------------------------------------

// The tensor that |g| times |by| is written to: |g| itself if no other handle sees it. On another
// device than the CPU, the product. Counted.
static gw_tensor *room_for(gw_scope *s, gw_tensor *g, double by) {
    if (g->device != GW_CPU) {
        gw_tensor *product = gw_mul(s, g, by);
        return gw_ok(s) ? handle_retain(product) : NULL;
    }
    if (grad_is_own(g)) return handle_retain(g);
    const gw_tensor *numbers = numbers_of(g);
    gw_tensor *room = tensor_new(s, (gw_dtype)g->dtype, g->dims, numbers->sizes);
    if (!room || !tensor_is_rows(g)) return room;
    return tensor_of_rows(s, g->sizes[0], handle_retain(g->indices), room, g->coalesced);
}

// All or none: first memory for every result, then the arithmetic.
void clip_scale(gw_scope *s, const gw_list *params, double by) {
    int count = gw_list_count(params), done = 0;
    gw_tensor **rooms = mem_calloc((size_t)count * sizeof *rooms + 1);
    if (!rooms) {
        scope_fail(s, GW_NO_MEMORY, "gw_clip_grad_norm: no memory");
        return;
    }
    for (; done < count && gw_ok(s); done++) {
        gw_tensor *g = gradient_of(s, params, done);
        if (g) rooms[done] = room_for(s, g, by);
    }
    for (int i = 0; i < count && gw_ok(s); i++) {
        if (!rooms[i]) continue;
        gw_tensor *g = gradient_of(s, params, i);
        tensor_scale_into(numbers_of(rooms[i]), numbers_of(g), by);
        grads_replace(s, gate_kept_of(gw_list_get(s, params, i).as.tensor),
                      handle_retain(rooms[i]));
    }
    for (int i = 0; i < done; i++) handle_release(rooms[i]);
    mem_free(rooms);
}

// |params| with references to this worker replaced by their values, in |w|, and without
// references to other workers. If there are any of those, |*out_remote| is the table for
// their owners.
static gw_list *local_part(gw_scope *w, gw_list *params, const remote_part_class **out_remote) {
    int count = gw_list_count(params), here = 0;
    for (int i = 0; i < count; i++) here += gw_list_get(w, params, i).kind != GW_RREF;
    if (here == count) return params;
    const remote_part_class *c = remote_parts_of(w);
    gw_list *list = gw_list_open(w);
    for (int i = 0; i < count && gw_ok(w); i++) {
        gw_value v = gw_list_get(w, params, i);
        if (v.kind != GW_RREF || c->is_here(w, v.as.rref, &v))
            gw_list_add_with(w, list, v);
        else
            *out_remote = c;
    }
    return list;
}

// Whether |s| has a gradient of any parameter, or another worker may have one.
static bool has_gradient(gw_scope *s, const gw_list *params) {
    for (int i = 0; i < gw_list_count(params); i++)
        if (params->items[i].kind != GW_TENSOR || gradient_of(s, params, i)) return true;
    return false;
}

// Values that are no tensors, such as references, have no scope in which their gradients were left.
// Other workers that keep gradients get a failure.
static bool check_pass(gw_scope *s, const gw_list *params) {
    const char *function = "gw_clip_grad_norm";
    uint32_t left = 0;
    for (int i = 0; i < gw_list_count(params); i++) {
        gw_value v = params->items[i];
        if (v.kind == GW_TENSOR && v.as.tensor) left = left_latest(left, v.as.tensor);
    }
    if (grads_check_pass(s, function, left) &&
        (has_gradient(s, params) || grads_check_missed(s, function, left)))
        return true;
    squares_of_all(s, params);
    return false;
}

double gw_clip_grad_norm(gw_scope *s, gw_list *params, double max_norm) {
    if (gw_ok(s) && !params)
        scope_fail(s, GW_INVALID, "gw_clip_grad_norm: the list of parameters is NULL");
    else if (gw_ok(s) && !gw_list_count(params))
        scope_fail(s, GW_INVALID, "gw_clip_grad_norm: the list of parameters is empty");
    else if (gw_ok(s) && !(max_norm >= 0))
        scope_fail(s, GW_INVALID, "gw_clip_grad_norm: max_norm is %g, but must be 0 or more",
                   max_norm);
    if (!gw_ok(s)) {
        report_failure(s, params);
        return 0;
    }
    if (!check_pass(s, params)) return 0;
    const remote_part_class *remote = NULL;
    gw_scope *w = gw_scope_open(s);
    gw_list *here = local_part(w, params, &remote);
    double sum = gw_ok(w) ? squares_of_all(s, here) : 0;
    if (remote && gw_ok(w)) sum += remote->squares(s, params);
    double total = sqrt(sum), by = max_norm / (total + 1e-6);
    bool scales = gw_ok(s) && gw_ok(w) && !(by >= 1);
    if (scales && remote) remote->scale(s, params, by);
    if (scales && gw_ok(s)) clip_scale(s, here, by);
    gw_scope_close_up(w);
    return gw_ok(s) ? total : 0;
}
