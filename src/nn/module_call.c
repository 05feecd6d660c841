// Calls of modules: with one tensor, and with values (several inputs, several outputs).
#include "nn/module.h"

#include "base/value.h"
#include "tensor/tensor.h"
#include "trace/record.h"

#include <stdio.h>
#include <string.h>

// ---- Inputs -------------------------------------------------------------------------------------
typedef struct site {
    char text[64];  // the function that the caller called
} site;

static site site_of(const typed_call *c) {
    site p = { "gw_module_call_value" };
    if (c) snprintf(p.text, sizeof p.text, "gw_nn_%s_call", c->name);
    return p;
}

static bool is_callable(gw_scope *s, const typed_call *c, const gw_module *m) {
    site where = site_of(c);
    if (!module_is_usable(s, where.text, m)) return false;
    // The owner of a remote module checks which calls it has.
    if (!c || m->remote || m->typed == c) return true;
    return scope_fail(s, GW_INVALID, "%s: the module is \"%s\"", where.text, m->name);
}

static bool check_inputs(gw_scope *s, const typed_call *c, const gw_module *m, gw_values in) {
    const typed_call *layer = c ? c : m->typed;
    if (gw_ok(s) && layer && in.count > layer->inputs)
        scope_fail(s, GW_INVALID, "%s: \"%s\" takes at most %d values, not %d", site_of(c).text,
                   m->name, layer->inputs, in.count);
    if (gw_ok(s) && layer && (!in.count || in.items[0].kind == GW_NONE))
        scope_fail(s, GW_INVALID, "%s: the first input is NULL", site_of(c).text);
    for (int i = 0; gw_ok(s) && i < in.count; i++)
        if (in.items[i].kind == GW_TENSOR) tensor_check(s, site_of(c).text, in.items[i].as.tensor);
    return gw_ok(s);
}

// ---- Records ------------------------------------------------------------------------------------
static uint64_t record_begin(const gw_module *m) {
    if (!trace_is_on(TRACE_OPS)) return 0;
    uint64_t id = trace_unique_id();
    trace_record_text(TRACE_MODULE_BEGUN, -1, id, 0, m->name);
    return id;
}

static void record_end(uint64_t id, const gw_module *m, gw_scope *s) {
    if (id) trace_record_text(TRACE_MODULE_ENDED, -1, id, scope_error(s)->status, m->name);
}

// ---- Outputs ------------------------------------------------------------------------------------
// The first tensor that |v| is or holds; NULL if it is something else.
static gw_tensor *first_tensor(gw_value v) {
    if (v.kind == GW_LIST && gw_list_count(v.as.list)) v = v.as.list->items[0];
    return v.kind == GW_TENSOR ? v.as.tensor : NULL;
}

static gw_tensor *values_first(gw_scope *s, const gw_module *m, gw_value v) {
    gw_tensor *y = first_tensor(v);
    if (gw_ok(s) && !y && v.kind != GW_NONE)
        scope_fail(s, GW_INVALID, "%s: its forward returned %s, not a tensor", m->name,
                   v.kind == GW_LIST ? "a list that begins with none" : gw_kind_name(v.kind));
    return y;
}

// |v| with |y| as its first output.
static gw_value with_first(gw_scope *s, gw_value v, gw_tensor *y) {
    if (v.kind != GW_LIST) return gw_value_of(y);
    gw_list *list = gw_list_open(s);
    gw_list_add(s, list, y);
    for (int i = 1; i < gw_list_count(v.as.list); i++)
        gw_list_add(s, list, gw_list_get(s, v.as.list, i));
    return gw_value_of(list);
}

// ---- With one tensor ----------------------------------------------------------------------------
static gw_value values_forward(gw_scope *s, gw_module *m, gw_values in) {
    gw_args args = { m->name, in.count, in.items, { .name = "", .rank = -1 } };
    return m->forward_values(s, m, &args);
}

static gw_tensor *check_output(gw_scope *s, const gw_module *m, gw_tensor *y) {
    if (!tensor_check(s, m->name, y)) return tensor_poison_of(s);
    if (y) return y;
    scope_fail(s, GW_INVALID, "%s: its forward returned no output", m->name);
    return tensor_poison_of(s);
}

static gw_tensor *forward_tensor_or_values(gw_scope *s, gw_module *m, gw_tensor *x) {
    if (m->forward) return check_output(s, m, m->forward(s, m, x));
    gw_value in = gw_value_of_tensor(x);
    return check_output(s, m, values_first(s, m, values_forward(s, m, (gw_values){ 1, &in })));
}

static gw_tensor *forward_one(gw_scope *s, gw_module *m, gw_tensor *x) {
    uint64_t id = record_begin(m);
    gw_tensor *y = forward_tensor_or_values(s, m, x);
    record_end(id, m, s);
    return y;
}

gw_tensor *gw_module_call(gw_scope *s, gw_module *m, gw_tensor *x) {
    if (!module_is_usable(s, "gw_module_call", m) || !tensor_check(s, m->name, x)) {
        module_refuse_call(s, m);
        return tensor_poison_of(s);
    }
    if (!hooks_any(&m->hooks)) return forward_one(s, m, x);
    x = module_hooks_before(s, m, x);
    if (!gw_ok(s)) module_refuse_forward(s, m);
    gw_tensor *y = gw_ok(s) ? forward_one(s, m, x) : tensor_poison_of(s);
    return module_hooks_after(s, m, x, y);
}

// ---- With values --------------------------------------------------------------------------------
static gw_value forward_tensor(gw_scope *s, gw_module *m, gw_values in) {
    if (in.count == 1 && in.items[0].kind == GW_TENSOR)
        return gw_value_of(m->forward(s, m, in.items[0].as.tensor));
    if (in.count == 1)
        scope_fail(s, GW_INVALID, "%s takes one tensor, not %s", m->name,
                   gw_kind_name(in.items[0].kind));
    else
        scope_fail(s, GW_INVALID, "%s takes one tensor, not %d values", m->name, in.count);
    return gw_none();
}

static gw_value forward(gw_scope *s, gw_module *m, const typed_call *c, gw_values in) {
    if (m->remote) return m->remote->call(s, m, c, in);
    gw_value v = m->forward_values ? values_forward(s, m, in) : forward_tensor(s, m, in);
    if (tensor_check(s, m->name, first_tensor(v)) && v.kind == GW_NONE)
        scope_fail(s, GW_INVALID, "%s: its forward returned no output", m->name);
    return v;
}

// Fails |s| unless |x|, which hooks of |m| need, is a tensor.
static bool check_hooked(gw_scope *s, const gw_module *m, const gw_tensor *x, const char *what) {
    if (gw_ok(s) && !x)
        scope_fail(s, GW_INVALID, "%s has hooks, but its first %s is not a tensor", m->name, what);
    return gw_ok(s);
}

gw_tensor *values_hooks_before(gw_scope *s, gw_module *m, gw_values *in) {
    gw_tensor *x = in->count ? first_tensor(in->items[0]) : NULL;
    gw_value *own = gw_alloc(s, (size_t)(in->count + 1) * sizeof *own);
    if (!check_hooked(s, m, x, "input")) return module_hooks_before(s, m, tensor_poison_of(s));
    memcpy(own, in->items, (size_t)in->count * sizeof *own);
    x = module_hooks_before(s, m, x);
    own[0] = gw_value_of(x);
    in->items = own;
    return x;
}

gw_value values_hooks_after(gw_scope *s, gw_module *m, gw_tensor *x, gw_value v) {
    gw_tensor *y = first_tensor(v);
    if (!check_hooked(s, m, y, "output")) return gw_value_of(tensor_poison_of(s));
    gw_tensor *hooked = module_hooks_after(s, m, x, y);
    return hooked == y ? v : with_first(s, v, hooked);
}

gw_value module_call_values(gw_scope *s, gw_module *m, const typed_call *c, gw_values in) {
    if (!is_callable(s, c, m) || !check_inputs(s, c, m, in)) {
        module_refuse_call(s, m);
        return gw_none();
    }
    gw_tensor *x = hooks_any(&m->hooks) ? values_hooks_before(s, m, &in) : NULL;
    if (!gw_ok(s)) module_refuse_forward(s, m);
    uint64_t id = gw_ok(s) ? record_begin(m) : 0;
    gw_value v = gw_ok(s) ? forward(s, m, c, in) : gw_none();
    record_end(id, m, s);
    if (x) v = values_hooks_after(s, m, x, v);
    return gw_ok(s) ? v : gw_none();
}

gw_value gw_module_call_value_with(gw_scope *s, gw_module *m, gw_values in) {
    bool ok = scope_check_array(s, "gw_module_call_value", in.items, in.count);
    if (!ok) module_refuse_call(s, m);
    gw_value v = ok ? module_call_values(s, m, NULL, in) : gw_none();
    return gw_ok(s) ? v : gw_value_of(tensor_poison_of(s));
}

void module_call_typed(gw_scope *s, gw_module *m, const typed_call *c, const gw_value *in,
                       gw_tensor **out) {
    gw_value v = module_call_values(s, m, c, (gw_values){ c->inputs, in });
    for (int i = 0; gw_ok(s) && i < c->outputs; i++) {
        bool is_list = v.kind == GW_LIST;
        gw_value y = is_list ? gw_list_get(s, v.as.list, i) : i ? gw_none() : v;
        out[i] = i && y.kind == GW_NONE ? NULL : gw_tensor_of(s, y);
    }
    for (int i = 0; !gw_ok(s) && i < c->outputs; i++) out[i] = tensor_poison_of(s);
}
