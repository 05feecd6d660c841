// Remote modules: a gw_module of this worker that stands for a module object on another one.
#include "base/mem.h"
#include "base/scope.h"
#include "base/value.h"
#include "nn/module.h"
#include "future/future.h"
#include "tensor/tensor.h"
#include <gradwire/module_remote.h>

#include <string.h>

typedef struct remote {
    gw_rref *rref;       // one count
    gw_map *parameters;  // one count; NULL until requested
} remote;

static gw_value call_object(gw_scope *s, const gw_module *m, const char *method, int count,
                            const gw_value *args) {
    const remote *r = m->state;
    return gw_rpc_sync_with(s, gw_to_rref(r->rref), method, (gw_values){ count, args },
                            GW_OPTIONS(gw_call_options));
}

// ---- Calls --------------------------------------------------------------------------------------
// Fails |s| unless the method gave a tensor: an object of another class than GW_MODULE may give
// anything.
static gw_tensor *output_of(gw_scope *s, const gw_module *m, const char *method, gw_value v) {
    if (gw_ok(s) && v.kind != GW_TENSOR)
        scope_fail(s, GW_INVALID, "%s: %s.%s returned %s, not a tensor",
                   gw_rref_owner_name(s, ((const remote *)m->state)->rref), m->name, method,
                   gw_kind_name(v.kind));
    return gw_ok(s) ? v.as.tensor : tensor_poison_of(s);
}

static gw_tensor *forward(gw_scope *s, gw_module *m, gw_tensor *x) {
    gw_value y = call_object(s, m, "forward", 1, (gw_value[]){ gw_value_of(x) });
    return output_of(s, m, "forward", y);
}

// A tensor that is several inputs is sent once, so that the owner computes with one tensor and sums
// its gradients there: |indices| has for each input its index in |values|. False if every
// input is its own.
static bool list_inputs(gw_scope *s, gw_values in, gw_list *values, gw_list *indices) {
    bool any_again = false;
    for (int i = 0; i < in.count; i++) {
        int first = 0, index = 0;
        while (first < i && (in.items[i].kind != GW_TENSOR || in.items[first].kind != GW_TENSOR ||
                             in.items[first].as.tensor != in.items[i].as.tensor))
            first++;
        if (first == i) {
            index = gw_list_count(values);
            gw_list_add(s, values, in.items[i]);
        } else {
            index = (int)gw_int_of(s, gw_list_get(s, indices, first));
            any_again = true;
        }
        gw_list_add(s, indices, index);
    }
    return any_again;
}

// Fails |s| if an object of another class than GW_MODULE returned other outputs than those of |c|.
static gw_value check_outputs(gw_scope *s, const gw_module *m, const typed_call *c, gw_value v) {
    bool is_fine = !c || c->outputs == 1
                       ? v.kind != GW_NONE
                       : v.kind == GW_LIST && gw_list_count(v.as.list) == c->outputs;
    if (!gw_ok(s) || is_fine) return v;
    const char *owner = gw_rref_owner_name(s, ((const remote *)m->state)->rref);
    if (c)
        scope_fail(s, GW_INVALID, "%s: %s.call did not return a list of %d outputs", owner, m->name,
                   c->outputs);
    else
        scope_fail(s, GW_INVALID, "%s: %s.call returned no output", owner, m->name);
    return v;
}

// The arguments of the method "call".
static void list_call(gw_scope *s, const typed_call *c, gw_values in, gw_value out[3]) {
    gw_list *values = gw_list_open(s), *indices = gw_list_open(s);
    bool any_again = list_inputs(s, in, values, indices);
    out[0] = gw_value_of(c ? c->name : "");
    out[1] = gw_value_of(values);
    out[2] = any_again ? gw_value_of(indices) : gw_none();
}

static gw_value call(gw_scope *s, gw_module *m, const typed_call *c, gw_values in) {
    gw_value args[3];
    list_call(s, c, in, args);
    return check_outputs(s, m, c, call_object(s, m, "call", 3, args));
}

// ---- Parameters, state, training ----------------------------------------------------------------

static void train(gw_scope *s, gw_module *m, bool training) {
    call_object(s, m, "train", 1, (gw_value[]){ gw_value_of(training) });
}

// The owner gives one reference for each parameter, also if the parameter has several names.
static gw_map *fetch_parameters(gw_scope *s, gw_module *m) {
    gw_list *both = gw_list_of(s, call_object(s, m, "parameters", 0, NULL));
    gw_map *names = gw_map_of(s, gw_list_get(s, both, 0)), *out = gw_map_open(s);
    gw_list *references = gw_list_of(s, gw_list_get(s, both, 1));
    for (int i = 0; gw_ok(s) && i < gw_map_count(names); i++) {
        const char *name = gw_map_key(s, names, i);
        int index = (int)gw_int_of(s, gw_map_find(names, name));
        gw_map_put(s, out, name, gw_list_get(s, references, index));
    }
    return out;
}

static gw_map *parameters(gw_scope *s, gw_module *m) {
    remote *r = m->state;
    if (r->parameters) return r->parameters;
    gw_scope *t = gw_scope_open(s);
    gw_map *found = fetch_parameters(t, m);
    if (gw_ok(t)) r->parameters = handle_retain(found);
    gw_scope_close_up(t);
    return r->parameters;
}

static gw_map *shapes(gw_scope *s, gw_module *m) {
    return gw_map_of(s, call_object(s, m, "shapes", 0, NULL));
}

static gw_map *state(gw_scope *s, gw_module *m) {
    return gw_map_of(s, call_object(s, m, "state_dict", 0, NULL));
}

static void load(gw_scope *s, gw_module *m, gw_map *values) {
    call_object(s, m, "load", 2, (gw_value[]){ gw_value_of(values), gw_value_of((bool)true) });
}

static void destroy(gw_module *m) {
    remote *r = m->state;
    handle_release(r->parameters);
    handle_release(r->rref);
    mem_give(r, sizeof *r);
}

static const module_remote table = { destroy, train, parameters, shapes, state, load, call };

// ---- Making -------------------------------------------------------------------------------------
static gw_module *open_remote(gw_scope *s, const char *name, gw_rref *rref) {
    gw_module *m = module_new(s, name, forward);
    if (!gw_ok(s)) return &module_poison;
    remote *r = mem_take(sizeof *r);
    if (!r) {
        scope_fail(s, GW_NO_MEMORY, "no memory for the module %s", name);
        return &module_poison;
    }
    *r = (remote){ .rref = handle_retain(rref) };
    m->state = r;
    m->remote = &table;
    return m;
}

gw_module *gw_module_remote_with(gw_scope *s, gw_target to, const char *class_name, gw_values args,
                                 gw_call_options options) {
    if (gw_ok(s) && !class_name) scope_fail(s, GW_INVALID, "the class of the module is NULL");
    if (!gw_ok(s)) return &module_poison;
    gw_scope *t = gw_scope_open(s);  // the module holds the reference
    gw_rref *rref =
        gw_remote_with(t, to, class_name, (gw_values){ args.count, args.items }, options);
    gw_module *m = gw_ok(t) ? gw_keep(s, open_remote(t, class_name, rref)) : &module_poison;
    gw_scope_close_up(t);
    return gw_ok(s) ? m : &module_poison;
}

gw_module *gw_module_from_rref(gw_scope *s, gw_rref *rref) {
    // gw_rref_owner fails |s| if the reference is unusable.
    gw_rref_owner(s, rref);
    return gw_ok(s) ? open_remote(s, "remote module", rref) : &module_poison;
}

gw_rref *gw_module_rref(gw_scope *s, const gw_module *m) {
    if (module_is_usable(s, "gw_module_rref", m) && !m->remote)
        scope_fail(s, GW_INVALID,
                   "the module %s is on this worker: gw_module_rref is for remote modules",
                   m->name);
    if (gw_ok(s) && m->remote) return ((const remote *)m->state)->rref;
    return gw_rref_of(s, gw_none());
}

// ---- Without waiting ----------------------------------------------------------------------------
// An asynchronous call whose output goes through hooks. One count on each handle.
typedef struct pending_call {
    gw_module *m;
    gw_tensor *x;
    gw_future *out;
} pending_call;

static void free_pending(pending_call *p) {
    handle_release(p->m);
    handle_release(p->x);
    handle_release(p->out);
    mem_give(p, sizeof *p);
}

static void output_arrived(gw_scope *s, gw_future *f, void *context) {
    pending_call *p = context;
    gw_value v = values_hooks_after(s, p->m, gw_keep(s, p->x), gw_future_value(s, f));
    gw_future_set(s, p->out, v);
    gw_scope_clear(s);  // |out| has the error
    free_pending(p);
}

static gw_future *call_hooked(gw_scope *s, gw_module *m, gw_tensor *x, gw_future *f) {
    gw_future *out = gw_future_open(s);
    pending_call *p = gw_ok(s) ? mem_take(sizeof *p) : NULL;
    if (!p) {
        scope_fail(s, GW_NO_MEMORY, "no memory for a call of %s", m->name);
        return out;
    }
    *p = (pending_call){ handle_retain(m), handle_retain(x), handle_retain(out) };
    gw_on_done(s, f, output_arrived, p);
    if (!gw_ok(s)) free_pending(p);
    return out;
}

static gw_future *call_object_async(gw_scope *s, gw_module *m, const char *method, gw_values args,
                                    gw_tensor *x) {
    const remote *r = m->state;
    gw_future *f =
        gw_rpc_async_with(s, gw_to_rref(r->rref), method, args, GW_OPTIONS(gw_call_options));
    return gw_ok(s) && module_hooks_any_after(m) ? call_hooked(s, m, x, f) : f;
}

static gw_future *future_of(gw_scope *s, gw_value v) {
    gw_future *out = gw_future_open(s);
    gw_future_set(s, out, v);
    return out;
}

gw_future *gw_module_call_async(gw_scope *s, gw_module *m, gw_tensor *x) {
    if (!module_is_usable(s, "gw_module_call_async", m)) {
        module_refuse_call(s, m);
        return &future_poison;
    }
    if (!m->remote) return future_of(s, gw_value_of(gw_module_call(s, m, x)));
    x = module_hooks_before(s, m, x);
    gw_value in = gw_value_of(x);
    return call_object_async(s, m, "forward", (gw_values){ 1, &in }, x);
}

gw_future *gw_module_call_value_async_with(gw_scope *s, gw_module *m, gw_values in) {
    if (!scope_check_array(s, "gw_module_call_value_async", in.items, in.count) ||
        !module_is_usable(s, "gw_module_call_value_async", m)) {
        module_refuse_call(s, m);
        return &future_poison;
    }
    if (!m->remote) return future_of(s, gw_module_call_value_with(s, m, in));
    gw_tensor *x = hooks_any(&m->hooks) ? values_hooks_before(s, m, &in) : NULL;
    gw_value args[3];
    list_call(s, NULL, in, args);
    return call_object_async(s, m, "call", (gw_values){ 3, args }, x);
}
