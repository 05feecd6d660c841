// Clipping of gradients on other workers, and unscaling: their owners sum up squares, and scale.
#include "distributed/autograd/gradients.h"
#include "distributed/optim/optimizer_owner.h"

#include "optim/scaler.h"
#include "reference/references.h"

typedef struct remote_owner {
    int rank;
    gw_list *references;
    gw_future *reply;
} remote_owner;

// The references in |params| to values of other workers, grouped by owner, owners in order of first
// appearance.
static remote_owner *remote_owners(gw_scope *w, const gw_list *params, int *out_count) {
    int count = gw_list_count(params);
    remote_owner *owners = gw_alloc(w, ((size_t)count + 1) * sizeof *owners);
    *out_count = 0;
    for (int i = 0; i < count && gw_ok(w); i++) {
        gw_value v = gw_list_get(w, params, i);
        if (v.kind != GW_RREF || gw_rref_is_owner(v.as.rref)) continue;
        int rank = reference_owner(v.as.rref), k = 0;
        while (k < *out_count && owners[k].rank != rank) k++;
        if (k == *out_count) owners[(*out_count)++] = (remote_owner){ rank, gw_list_open(w), NULL };
        gw_list_add_with(w, owners[k].references, v);
    }
    return owners;
}

double owners_squares(gw_scope *s, const gw_list *params) {
    gw_scope *w = calls_open(s);
    int count;
    double sum = 0;
    remote_owner *owners = remote_owners(w, params, &count);
    if (count && calls_may_wait(w, "gw_clip_grad_norm")) {
        for (int i = 0; i < count; i++)
            owners[i].reply =
                gw_rpc_async(w, owners[i].rank, "gw.grad_squares", owners[i].references);
        for (int i = 0; i < count && gw_ok(w); i++)
            sum += gw_float_of(w, gw_wait(w, owners[i].reply));
    }
    gw_scope_close_up(w);
    return sum;
}

void owners_scale(gw_scope *s, const gw_list *params, double by) {
    gw_scope *w = calls_open(s);
    int count;
    remote_owner *owners = remote_owners(w, params, &count);
    for (int i = 0; i < count && gw_ok(w); i++)
        owners[i].reply =
            gw_rpc_async(w, owners[i].rank, "gw.grad_scale", owners[i].references, by);
    for (int i = 0; i < count && gw_ok(w); i++) gw_wait(w, owners[i].reply);
    gw_scope_close_up(w);
}

// OPT-7. Every owner unscales, also if another has found out that the step is skipped.
bool owners_unscale(gw_scope *s, const gw_optimizer *o, double by, bool not_finite) {
    const owners *e = owners_of(o);
    gw_scope *w = calls_open(s);
    gw_future **replies = gw_alloc(w, (size_t)e->count * sizeof(gw_future *));
    if (replies && calls_may_wait(w, "gw_scaler_unscale")) {
        for (int i = 0; i < e->count; i++)
            replies[i] = gw_rpc_async(w, e->items[i].object, "unscale", by);
        for (int i = 0; i < e->count && gw_ok(w); i++)
            not_finite |= gw_bool_of(w, gw_wait(w, replies[i]));
    }
    gw_scope_close_up(w);
    return not_finite;
}

gw_value serve_unscale(gw_scope *s, void *object, const gw_args *a) {
    const owned_optimizer *self = object;
    (void)gw_grads_count(s);  // fetches the gradients
    bool not_finite = scaler_unscale_part(s, self->optimizer, gw_arg_float(s, a, 0));
    gradients_keep(s);
    return gw_value_of(not_finite);
}

static gw_list *tensors_of(gw_scope *s, const gw_list *references) {
    gw_list *tensors = gw_list_open(s);
    for (int i = 0; i < gw_list_count(references) && gw_ok(s); i++) {
        gw_rref *r = gw_rref_of(s, gw_list_get(s, references, i));
        if (gw_ok(s)) gw_list_add(s, tensors, gw_tensor_of(s, gw_rref_local_value(s, r)));
    }
    return tensors;
}

static gw_value serve_squares(gw_scope *s, const gw_args *a) {
    return gw_value_of(clip_squares(s, tensors_of(s, gw_arg_list(s, a, 0))));
}

static gw_value serve_scale(gw_scope *s, const gw_args *a) {
    const gw_list *tensors = tensors_of(s, gw_arg_list(s, a, 0));
    if (gw_ok(s)) clip_scale(s, tensors, gw_arg_float(s, a, 1));
    gradients_keep(s);
    return gw_none();
}

const function clipping_functions[] = {
    { .name = (char *)"gw.grad_squares",
      .where = GW_POOL,
      .signature = TAKES(1 << GW_LIST),
      .body = serve_squares },
    { .name = (char *)"gw.grad_scale",
      .where = GW_POOL,
      .signature = TAKES(1 << GW_LIST, 1 << GW_FLOAT | 1 << GW_INT),
      .body = serve_scale },
    { 0 },
};
