#include "optim/state.h"

#include "base/mem.h"
#include "optim/remote_part.h"
#include "tensor/ops/op.h"
#include <gradwire/ops.h>

#include <math.h>

// ---- Writing ------------------------------------------------------------------------------------
// The values of |b| as they are now: it is pinned, so that steps leave it alone.
static void put_state(gw_scope *s, gw_map *map, const char *key, const gw_tensor *like, block *b) {
    gw_tensor *t = tensor_over(s, (gw_dtype)like->dtype, like->dims, like->sizes, block_retain(b));
    if (!t) return;
    atomic_fetch_add_explicit(&b->pins, 1, memory_order_relaxed);
    t->storage->pins = true;
    gw_map_put(s, map, key, t);
    handle_release(t);
}

static void write_parameter(gw_scope *s, const gw_optimizer *o, int i, gw_map *map) {
    const parameter *p = &o->parameters[i];
    gw_map_put(s, map, gw_format(s, "%d.step", p->number), p->step_count);
    for (int k = 0; k < OPTIM_STATES_MAX && gw_ok(s); k++)
        if (p->state[k])
            put_state(s, map, gw_format(s, "%d.%s", p->number, o->rule->states[k]), p->x,
                      p->state[k]);
}

static void write_group(gw_scope *s, const gw_optimizer *o, int i, gw_map *map) {
    const optimizer_group *g = &o->groups[i];
    for (int k = 0; k < o->rule->option_count; k++) {
        const option *c = &o->rule->options[k];
        gw_map_put(s, map, gw_format(s, "group.%d.%s", i, c->name), option_get(c, g));
    }
    if (!isnan(g->initial_lr))
        gw_map_put(s, map, gw_format(s, "group.%d.initial_lr", i), g->initial_lr);
}

void state_write_groups(gw_scope *s, const gw_optimizer *o, gw_map *map) {
    gw_map_put(s, map, "rule", o->rule->name);
    gw_map_put(s, map, "steps", o->step_count);
    if (o->after) gw_map_put(s, map, o->after->key, *o->after->count);
    for (int i = 0; i < o->group_count && gw_ok(s); i++) write_group(s, o, i, map);
}

void state_write_parameters(gw_scope *s, const gw_optimizer *o, gw_map *map) {
    for (int i = 0; i < o->parameter_count && gw_ok(s); i++)
        if (!o->parameters[i].elsewhere) write_parameter(s, o, i, map);
}

// In a scope that has failed a remote part notifies those that wait for this worker.
static bool is_usable(gw_scope *s, const gw_optimizer *o, const char *function) {
    return optimizer_check(s, o, function) || (o && o->remote);
}

gw_map *gw_optimizer_state_dict(gw_scope *s, gw_optimizer *o) {
    gw_map *map = gw_map_open(s);
    if (!is_usable(s, o, "gw_optimizer_state_dict")) return map;
    gw_scope *work = gw_scope_open(s);
    state_write_groups(work, o, map);
    state_write_parameters(work, o, map);
    if (o->remote) o->remote->class->write(work, o, map);
    gw_scope_close_up(work);
    return map;
}

// ---- Reading ------------------------------------------------------------------------------------
static bool read_group(gw_scope *s, map_reading *r, const gw_optimizer *o, int i,
                       optimizer_group *g) {
    for (int k = 0; k < o->rule->option_count && gw_ok(s); k++) {
        const option *c = &o->rule->options[k];
        const char *key = gw_format(s, "group.%d.%s", i, c->name);
        double value = map_reading_number(s, r, key);
        if (gw_ok(s) && !(value >= c->low && value < c->below))
            scope_fail(s, GW_INVALID, "%s: \"%s\" is %g", r->what, key, value);
        option_set(c, g, value);
    }
    const char *key = gw_format(s, "group.%d.initial_lr", i);
    g->initial_lr = o->groups[i].initial_lr;  // the schedulers of |o| continue from it
    if (!gw_ok(s) || map_reading_find(r, key).kind == GW_NONE) return gw_ok(s);
    g->initial_lr = map_reading_number(s, r, key);
    if (gw_ok(s) && !(g->initial_lr >= 0 && isfinite(g->initial_lr)))
        scope_fail(s, GW_INVALID, "%s: \"%s\" is %g", r->what, key, g->initial_lr);
    return gw_ok(s);
}

static block *read_state(gw_scope *s, map_reading *r, const char *key, const gw_tensor *like) {
    gw_value v = map_reading_get(s, r, key);
    if (!gw_ok(s)) return NULL;
    gw_tensor *x = v.as.tensor;
    if (v.kind != GW_TENSOR || gw_layout_of(x) != GW_STRIDED) {
        scope_fail(s, GW_INVALID, "%s: \"%s\" must be a dense tensor", r->what, key);
        return NULL;
    }
    bool fits = x->dtype == like->dtype && x->dims == like->dims;
    for (int i = 0; i < x->dims && fits; i++) fits = x->sizes[i] == like->sizes[i];
    if (!fits) {
        scope_fail(s, GW_INVALID, "%s: \"%s\" has %s %s, but its parameter has %s %s", r->what, key,
                   gw_dtype_name((gw_dtype)x->dtype), shape_text_of(x->dims, x->sizes).text,
                   gw_dtype_name((gw_dtype)like->dtype),
                   shape_text_of(like->dims, like->sizes).text);
        return NULL;
    }
    gw_scope *work = scope_open_unrecorded(s);
    const gw_tensor *whole = gw_contiguous(work, x);
    block *b = gw_ok(work) ? block_take_on(like->device, tensor_size(like)) : NULL;
    if (b) block_set_kind(b, MEMORY_OPTIMIZERS);
    if (b) block_copy(b, 0, whole->storage->block, tensor_offset(whole), tensor_size(like));
    if (!b) scope_fail(work, GW_NO_MEMORY, "%s: no memory for \"%s\"", r->what, key);
    gw_scope_close_up(work);
    return b;
}

static bool read_parameter(gw_scope *s, map_reading *r, const gw_optimizer *o, int i,
                           const optimizer_group *g, parameter *p) {
    int number = o->parameters[i].number;
    p->step_count = map_reading_count(s, r, gw_format(s, "%d.step", number));
    if (p->step_count == 0) return gw_ok(s);
    unsigned used = rule_states(o->rule, g);
    for (int k = 0; k < OPTIM_STATES_MAX && gw_ok(s); k++) {
        if (!o->rule->states[k]) continue;
        const char *key = gw_format(s, "%d.%s", number, o->rule->states[k]);
        if (used >> k & 1 || map_reading_find(r, key).kind != GW_NONE)
            p->state[k] = read_state(s, r, key, o->parameters[i].x);
    }
    return gw_ok(s);
}

void state_forget(loaded *l) {
    for (int i = 0; i < l->parameter_count; i++)
        for (int k = 0; k < OPTIM_STATES_MAX; k++) block_release(l->parameters[i].state[k]);
    mem_free(l->parameters);
    mem_free(l->groups);
    *l = (loaded){ 0 };
}

// |what| is the function to which the map was given.
static bool read_map(gw_scope *s, const gw_optimizer *o, const char *what, const gw_map *map,
                     bool has_parameters, loaded *l) {
    map_reading r;
    *l = (loaded){ 0 };
    if (!map_reading_open(s, &r, what, map)) return false;
    l->groups = mem_calloc((size_t)o->group_count * sizeof *l->groups);
    l->parameters = mem_calloc((size_t)o->parameter_count * sizeof *l->parameters + 1);
    if (!l->groups || !l->parameters) scope_fail(s, GW_NO_MEMORY, "%s: no memory", what);
    if (l->parameters) l->parameter_count = o->parameter_count;
    map_reading_string(s, &r, "rule", o->rule->name);
    l->step_count = map_reading_count(s, &r, "steps");
    if (o->after && map_reading_find(&r, o->after->key).kind != GW_NONE)
        l->after_count = map_reading_count(s, &r, o->after->key);
    for (int i = 0; i < o->group_count && gw_ok(s); i++) read_group(s, &r, o, i, &l->groups[i]);
    for (int i = 0; has_parameters && i < o->parameter_count && gw_ok(s); i++)
        read_parameter(s, &r, o, i, &l->groups[o->parameters[i].group], &l->parameters[i]);
    map_reading_close(s, &r);
    if (gw_ok(s)) return true;
    state_forget(l);
    return false;
}

bool state_read(gw_scope *s, const gw_optimizer *o, const char *what, const gw_map *map,
                loaded *out) {
    return read_map(s, o, what, map, true, out);
}

bool state_read_groups(gw_scope *s, const gw_optimizer *o, const char *what, const gw_map *map,
                       loaded *out) {
    return read_map(s, o, what, map, false, out);
}

void state_take_over(gw_optimizer *o, loaded *l) {
    for (int i = 0; i < o->parameter_count; i++) {
        parameter *p = &o->parameters[i], *from = &l->parameters[i];
        p->step_count = from->step_count;
        for (int k = 0; k < OPTIM_STATES_MAX; k++) {
            block_release(p->state[k]);
            p->state[k] = p->elsewhere ? NULL : from->state[k];
            if (!p->elsewhere) from->state[k] = NULL;
        }
    }
    for (int i = 0; i < o->group_count; i++) {
        l->groups[i].concurrent = o->groups[i].concurrent;
        o->groups[i] = l->groups[i];
    }
    o->step_count = l->step_count;
    if (o->after) *o->after->count = l->after_count;
    state_forget(l);
}

void gw_optimizer_load_state_dict(gw_scope *s, gw_optimizer *o, gw_map *map) {
    if (!is_usable(s, o, "gw_optimizer_load_state_dict")) return;
    gw_scope *work = gw_scope_open(s);
    loaded l;
    if (o->remote)
        o->remote->class->load(work, o, map);
    else if (state_read(work, o, "gw_optimizer_load_state_dict", map, &l))
        state_take_over(o, &l);
    gw_scope_close_up(work);
}
