#include "optim/optimizer.h"

#include "autograd/gate.h"
#include "autograd/grads.h"
#include "autograd/left.h"
#include "base/mem.h"
#include "optim/remote_part.h"
#include "trace/record.h"

#include <math.h>
#include <string.h>

static void free_parameter(parameter *p) {
    handle_release(p->x);
    for (int k = 0; k < OPTIM_STATES_MAX; k++) block_release(p->state[k]);
}

static void destroy(gw_handle *h) {
    gw_optimizer *o = (gw_optimizer *)h;
    optimizer_abort(o);
    if (o->remote) o->remote->class->close(o->remote);
    if (o->after) o->after->close(o->after);
    for (int i = 0; i < o->parameter_count; i++) free_parameter(&o->parameters[i]);
    index_fini(&o->indices);
    mem_free(o->parameters);
    mem_free(o->groups);
    mem_give(o, sizeof *o);
}

static const handle_class optimizer_class = { .name = "optimizer", .destroy = destroy };

gw_optimizer optimizer_poison = { .handle = { &optimizer_class, HANDLE_IMMORTAL } };

// ---- Groups -------------------------------------------------------------------------------------
bool optimizer_has(const gw_optimizer *o, int count, const gw_tensor *x) {
    uint32_t index = index_find(&o->indices, x);
    return index < (uint32_t)count && o->parameters[index].x == x;
}

static bool check_parameter(gw_scope *s, const gw_optimizer *o, int count, int number, gw_value v) {
    const char *problem = NULL;
    const gw_tensor *x = v.as.tensor;
    if (v.kind != GW_TENSOR)
        problem = "is no tensor";
    else if (x->node)
        problem = "is not a leaf, but the result of an operator";
    else if (x->dtype != GW_F32 && x->dtype != GW_F64)
        problem = "has a dtype other than f32 and f64";
    else if (!x->contiguous)
        problem = "is not contiguous";
    else if (!tensor_needs_grad(x))
        problem = "does not require a gradient";
    if (!problem && optimizer_has(o, count, x)) problem = "is listed twice";
    if (problem)
        scope_fail(s, GW_INVALID, "gw_%s: parameter %d %s", o->rule->name, number, problem);
    return !problem;
}

static bool reserve(gw_scope *s, gw_optimizer *o, int more) {
    bool ok =
        mem_grow(&o->groups, &o->group_capacity, (uint32_t)o->group_count + 1, sizeof *o->groups) &&
        mem_grow(&o->parameters, &o->parameter_capacity, (uint32_t)(o->parameter_count + more + 1),
                 sizeof *o->parameters) &&
        index_reserve(&o->indices, (uint32_t)more);
    if (!ok) scope_fail(s, GW_NO_MEMORY, "gw_%s: no memory", o->rule->name);
    return ok;
}

// Stores parameters behind the last one, without counting them in yet.
static bool put_parameter(gw_scope *s, gw_optimizer *o, int *count, int number, gw_value v) {
    if (!check_parameter(s, o, *count, number, v)) return false;
    index_put(&o->indices, v.as.tensor, (uint32_t)*count);
    o->parameters[(*count)++] =
        (parameter){ .x = v.as.tensor, .number = number, .group = o->group_count };
    return true;
}

static void finish_group(gw_optimizer *o, int count, optimizer_group g) {
    for (int i = o->parameter_count; i < count; i++) handle_retain(o->parameters[i].x);
    o->parameter_count = count;
    o->groups[o->group_count++] = g;
}

bool optimizer_add_part(gw_scope *s, gw_optimizer *o, gw_list *params, const int *numbers,
                        const optimizer_group *options) {
    int more = gw_list_count(params), count = o->parameter_count;
    if (!gw_ok(s) || !rule_check(s, o->rule, options) || !reserve(s, o, more)) return false;
    for (int i = 0; i < more; i++)
        if (!put_parameter(s, o, &count, numbers[i], gw_list_get(s, params, i))) return false;
    finish_group(o, count, *options);
    return true;
}

const remote_part_class *remote_parts_of(gw_scope *s) {
    if (s->remote && s->remote->optim) return s->remote->optim;
    scope_fail(s, GW_WRONG_STATE, "the scope has no agent: call gw_rpc_init first");
    return NULL;
}

// Whether |v| is a reference to a parameter of another worker. A reference to a value of this
// worker is replaced by that value.
static bool is_remote(gw_scope *s, gw_value *v) {
    if (v->kind != GW_RREF) return false;
    const remote_part_class *c = remote_parts_of(s);
    return c && !c->is_here(s, v->as.rref, v);
}

static bool add_remote_group(gw_scope *s, gw_optimizer *o, const optimizer_group *g,
                             const gw_value *refs, const int *numbers, int count) {
    const remote_part_class *c = o->remote ? o->remote->class : remote_parts_of(s);
    return c && c->add_group(s, o, g, refs, numbers, count);
}

bool optimizer_add_group(gw_scope *s, gw_optimizer *o, gw_list *params,
                         const optimizer_group *options) {
    if (!gw_ok(s)) return false;
    int more = params ? gw_list_count(params) : 0, count = o->parameter_count, ref_count = 0;
    if (!more) scope_fail(s, GW_INVALID, "gw_%s: no parameters", o->rule->name);
    optimizer_group g = *options;
    bool is_scheduled = o->group_count && !isnan(o->groups[0].initial_lr);
    g.initial_lr = is_scheduled ? g.options.lr : NAN;
    if (!more || !rule_check(s, o->rule, &g) || !reserve(s, o, more)) return false;

    gw_value *refs = gw_alloc(s, (size_t)more * sizeof *refs);
    int *numbers = gw_alloc(s, (size_t)more * sizeof *numbers);
    for (int i = 0; i < more && gw_ok(s); i++) {
        gw_value v = gw_list_get(s, params, i);
        int number = o->number_count + i;
        if (is_remote(s, &v)) {
            refs[ref_count] = v;
            numbers[ref_count++] = number;
            continue;
        }
        if (!gw_ok(s) || !put_parameter(s, o, &count, number, v)) return false;
    }
    if (!gw_ok(s)) return false;
    if ((ref_count || o->remote) && !add_remote_group(s, o, &g, refs, numbers, ref_count))
        return false;
    o->number_count += more;
    finish_group(o, count, g);
    return true;
}

void optimizer_remove_group(gw_optimizer *o) {
    o->group_count--;
    while (o->parameter_count && o->parameters[o->parameter_count - 1].group == o->group_count)
        free_parameter(&o->parameters[--o->parameter_count]);
}

gw_optimizer *optimizer_open(gw_scope *s, const rule *r) {
    if (!gw_ok(s)) return NULL;
    gw_optimizer *o = mem_take(sizeof *o);
    if (!o) {
        scope_fail(s, GW_NO_MEMORY, "gw_%s: no memory", r->name);
        return NULL;
    }
    memset(o, 0, sizeof *o);
    index_init(&o->indices);
    handle_init(&o->handle, &optimizer_class);
    o->rule = r;
    return o;
}

gw_optimizer *optimizer_make(gw_scope *s, const rule *r, gw_list *params,
                             const optimizer_group *options) {
    gw_optimizer *o = optimizer_open(s, r);
    if (o && !optimizer_add_group(s, o, params, options)) {
        handle_release(o);
        o = NULL;
    }
    o = o ? scope_own(s, o) : NULL;
    return o ? o : &optimizer_poison;
}

bool optimizer_check(gw_scope *s, const gw_optimizer *o, const char *function) {
    if (gw_ok(s) && !o) scope_fail(s, GW_INVALID, "%s: no optimizer", function);
    if (gw_ok(s) && o == &optimizer_poison)
        scope_fail(s, GW_INVALID, "%s: the optimizer could not be made", function);
    return gw_ok(s);
}

// ---- Looking ------------------------------------------------------------------------------------
int gw_optimizer_parameter_group_count(const gw_optimizer *o) {
    return o ? o->group_count : 0;
}

double gw_optimizer_parameter_group_lr(const gw_optimizer *o, int group) {
    return group >= 0 && group < gw_optimizer_parameter_group_count(o) ? o->groups[group].options.lr
                                                                       : NAN;
}

double gw_optimizer_lr(const gw_optimizer *o) {
    return gw_optimizer_parameter_group_lr(o, 0);
}

int64_t gw_optimizer_steps(const gw_optimizer *o) {
    return o ? o->step_count : 0;
}

static bool is_rate(gw_scope *s, const char *function, double lr) {
    if (lr >= 0 && isfinite(lr)) return true;
    return scope_fail(s, GW_INVALID,
                      "%s: the learning rate is %g, but must be finite and 0 or more", function,
                      lr);
}

void gw_optimizer_set_lr(gw_scope *s, gw_optimizer *o, double lr) {
    if (!optimizer_check(s, o, "gw_optimizer_set_lr")) return;
    if (!is_rate(s, "gw_optimizer_set_lr", lr)) return;
    for (int i = 0; i < o->group_count; i++) o->groups[i].options.lr = lr;
}

void gw_optimizer_set_parameter_group_lr(gw_scope *s, gw_optimizer *o, int group, double lr) {
    if (!optimizer_check(s, o, "gw_optimizer_set_parameter_group_lr")) return;
    if (!is_rate(s, "gw_optimizer_set_parameter_group_lr", lr)) return;
    if (group >= 0 && group < o->group_count)
        o->groups[group].options.lr = lr;
    else
        scope_fail(
            s, GW_INVALID,
            "gw_optimizer_set_parameter_group_lr: group %d is out of range for %d parameter groups",
            group, o->group_count);
}

// ---- Steps --------------------------------------------------------------------------------------
// Whether |s| has a gradient of any parameter, or another worker may have one.
static bool has_gradient(const gw_scope *s, const gw_optimizer *o) {
    if (o->parameter_count < o->number_count) return true;
    for (int i = 0; i < o->parameter_count; i++)
        if (o->parameters[i].is_early || grads_find(s, gate_kept_of(o->parameters[i].x)))
            return true;
    return false;
}

bool optimizer_check_pass(gw_scope *s, const gw_optimizer *o, const char *function) {
    uint32_t left = 0;
    if (!gw_ok(s) || !o->number_count) return gw_ok(s);
    for (int i = 0; i < o->parameter_count; i++) left = left_latest(left, o->parameters[i].x);
    return grads_check_pass(s, function, left) &&
           (has_gradient(s, o) || grads_check_missed(s, function, left));
}

void gw_optimizer_step(gw_scope *s, gw_optimizer *o) {
    const char *function = "gw_optimizer_step";
    bool is_recorded = trace_is_on(TRACE_STEP);
    uint64_t id = is_recorded ? gw_scope_id(s) : 0;
    if (is_recorded) trace_record(TRACE_STEP_BEGUN, -1, id, 0, 0);
    if (optimizer_check(s, o, function) && optimizer_check_pass(s, o, function)) {
        if (o->remote)
            o->remote->class->step(s, o);
        else
            optimizer_step(s, o);
        for (int i = 0; i < o->parameter_count && gw_ok(s); i++)
            grads_note_used(s, o->parameters[i].x);
    } else if (o && o->remote && o->remote->class->refused) {
        o->remote->class->refused(s, o);
    }
    if (o && o->after) o->after->run(o->after, s, o);
    if (is_recorded) trace_record(TRACE_STEP_ENDED, -1, id, s->error ? s->error->status : GW_OK, 0);
}
