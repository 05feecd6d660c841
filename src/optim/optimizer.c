#include "optim/optimizer.h"

#include "base/mem.h"

#include <string.h>

static void destroy(gw_handle *h) {
    gw_optimizer *o = (gw_optimizer *)h;
    for (int i = 0; i < o->parameter_count; i++) {
        parameter *p = &o->parameters[i];
        handle_release(p->x);
        for (int k = 0; k < OPTIM_STATES_MAX; k++) block_release(p->state[k]);
    }
    mem_free(o->parameters);
    mem_give(o, sizeof *o);
}

static const handle_class optimizer_class = { "optimizer", destroy };

gw_optimizer optimizer_poison = { .handle = { &optimizer_class, HANDLE_IMMORTAL } };

// ---- Opening ------------------------------------------------------------------------------------
static bool check_parameter(gw_scope *s, const rule *rule, const parameter *before, int i,
                            gw_value v) {
    const char *problem = NULL;
    const gw_tensor *x = v.as.tensor;
    if (v.kind != GW_TENSOR)
        problem = "is no tensor";
    else if (x->node)
        problem = "is no leaf, but the result of an operator";
    else if (x->dtype != GW_F32 && x->dtype != GW_F64)
        problem = "has a dtype other than f32 and f64";
    else if (!x->contiguous)
        problem = "is not contiguous";
    for (int k = 0; k < i && !problem; k++)
        if (before[k].x == x) problem = "is in the list twice";
    if (problem) scope_fail(s, GW_INVALID, "gw_%s: parameter %d %s", rule->name, i, problem);
    return !problem;
}

gw_optimizer *optimizer_open(gw_scope *s, const rule *rule, gw_list *params) {
    if (!gw_ok(s)) return NULL;
    int count = params ? gw_list_count(params) : 0;
    if (!count) {
        scope_fail(s, GW_INVALID, "gw_%s: no parameters", rule->name);
        return NULL;
    }
    gw_optimizer *o = mem_take(sizeof *o);
    if (!o) goto no_memory;
    memset(o, 0, sizeof *o);
    handle_init(&o->handle, &optimizer_class);
    o->rule = rule;
    o->parameters = mem_calloc((size_t)count * sizeof(parameter));
    if (!o->parameters) goto destroy;
    for (int i = 0; i < count; i++) {
        gw_value v = gw_list_get(s, params, i);
        if (!check_parameter(s, rule, o->parameters, i, v)) goto destroy;
        o->parameters[o->parameter_count++].x = handle_retain(v.as.tensor);
    }
    return o;

destroy:
    destroy(&o->handle);
no_memory:
    scope_fail(s, GW_NO_MEMORY, "gw_%s: no memory", rule->name);
    return NULL;
}
