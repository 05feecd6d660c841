// Scaling of losses (Micikevicius et al. 2018): torch.cuda.amp.GradScaler.
#include "optim/scaler.h"

#include "autograd/gate.h"
#include "base/mem.h"
#include "optim/remote_part.h"
#include "optim/state.h"
#include <gradwire/ops.h>

#include <float.h>
#include <math.h>
#include <string.h>

// The last call for an optimizer since the last update.
typedef enum scaling_stage { SCALED, UNSCALED, STEPPED } scaling_stage;

typedef struct scaling {
    struct scaling *next;
    gw_optimizer *optimizer;  // counted
    scaling_stage stage;
    bool not_finite;  // a gradient
} scaling;

struct gw_scaler {
    gw_handle handle;
    gw_scaler_options options;  // init_scale is of no use any more
    double scale;
    int64_t good_updates;  // since the scale changed
    scaling *first;        // since the last update
};

static void forget_all(gw_scaler *c) {
    while (c->first) {
        scaling *k = c->first;
        c->first = k->next;
        handle_release(k->optimizer);
        mem_give(k, sizeof *k);
    }
}

static void destroy(gw_handle *h) {
    gw_scaler *c = (gw_scaler *)h;
    forget_all(c);
    mem_give(c, sizeof *c);
}

static const handle_class scaler_class = { .name = "scaler", .destroy = destroy };

static gw_scaler scaler_poison = { .handle = { &scaler_class, HANDLE_IMMORTAL } };

static bool check(gw_scope *s, const gw_scaler *c, const char *function) {
    if (gw_ok(s) && !c) scope_fail(s, GW_INVALID, "%s: no scaler", function);
    if (gw_ok(s) && c == &scaler_poison)
        scope_fail(s, GW_INVALID, "%s: the scaler could not be made", function);
    return gw_ok(s);
}

// ---- Making -------------------------------------------------------------------------------------
static bool is_scale(double x) {
    return x > 0 && x <= (double)FLT_MAX;
}

static const char *problem_of(const gw_scaler_options *o) {
    if (!is_scale(o->init_scale))
        return "init_scale must be above 0, and not exceed the range of f32";
    if (!(o->growth_factor > 1 && isfinite(o->growth_factor)))
        return "growth_factor must be above 1";
    if (!(o->backoff_factor > 0 && o->backoff_factor < 1))
        return "backoff_factor must be between 0 and 1";
    if (o->growth_interval < 1) return "growth_interval is below 1";
    return NULL;
}

gw_scaler *gw_scaler_open_with(gw_scope *s, gw_scaler_options o) {
    if (!gw_ok(s)) return &scaler_poison;
    const char *problem = problem_of(&o);
    gw_scaler *c = problem ? NULL : mem_take(sizeof *c);
    if (!c) {
        scope_fail(s, problem ? GW_INVALID : GW_NO_MEMORY, "gw_scaler_open: %s",
                   problem ? problem : "no memory");
        return &scaler_poison;
    }
    *c = (gw_scaler){ .options = o, .scale = o.init_scale };
    handle_init(&c->handle, &scaler_class);
    return scope_own(s, c) ? c : &scaler_poison;
}

double gw_scaler_get_scale(const gw_scaler *c) {
    return !c || c == &scaler_poison ? 0 : c->options.enabled ? c->scale : 1;
}

gw_tensor *gw_scaler_scale(gw_scope *s, gw_scaler *c, gw_tensor *x) {
    if (!check(s, c, "gw_scaler_scale")) return tensor_poison_of(s);
    return c->options.enabled ? gw_mul(s, x, c->scale) : x;
}

// ---- Unscaling ----------------------------------------------------------------------------------
bool scaler_unscale_part(gw_scope *s, const gw_optimizer *o, double by) {
    gw_scope *w = gw_scope_open(s);
    gw_list *params = gw_list_open(w);
    for (int i = 0; i < o->parameter_count; i++) gw_list_add(w, params, o->parameters[i].x);
    // The sum of squares is computed in f64, and is finite if all numbers are.
    double squares = gw_ok(w) ? clip_squares(s, params) : 0;
    if (gw_ok(w) && gw_ok(s)) clip_scale(s, params, by);
    gw_scope_close_up(w);
    return !isfinite(squares);
}

// The record of |o|; made if it does not exist. NULL with |s| failed.
static scaling *scaling_of(gw_scope *s, gw_scaler *c, gw_optimizer *o) {
    for (scaling *k = c->first; k; k = k->next)
        if (k->optimizer == o) return k;
    scaling *k = mem_take(sizeof *k);
    if (!k) {
        scope_fail(s, GW_NO_MEMORY, "gw_scaler: no memory");
        return NULL;
    }
    *k = (scaling){ .next = c->first, .optimizer = handle_retain(o), .stage = SCALED };
    c->first = k;
    return k;
}

// Whether parameters of other workers are among them. Then gradients may be finite for one replica of
// the local ones, and not for another.
static bool has_elsewhere(const gw_optimizer *o) {
    return o->parameter_count < o->number_count;
}

// |not_finite|, of any worker that has a replica of the local parameters.
static bool of_any_replica(gw_scope *s, const gw_optimizer *o, bool not_finite) {
    uint64_t visit = gates_begin_visit();
    double count = not_finite;
    for (int i = 0, leaf; i < o->parameter_count; i++) {
        gate *g = gate_of(o->parameters[i].x, &leaf);
        if (g && g->class->sum && gate_visit(g, visit)) g->class->sum(g, s, &count, 1);
    }
    return count != 0;
}

static bool unscale(gw_scope *s, gw_scaler *c, scaling *k) {
    const gw_optimizer *o = k->optimizer;
    double by = 1 / c->scale;
    bool not_finite = scaler_unscale_part(s, o, by);
    if (o->remote) not_finite = o->remote->class->unscale(s, o, by, not_finite);
    if (has_elsewhere(o)) not_finite = of_any_replica(s, o, not_finite);
    if (!gw_ok(s)) return false;
    k->not_finite = not_finite;
    k->stage = UNSCALED;
    return true;
}

// Other members may wait for the report whether a gradient is finite here.
static void report_failure(gw_scope *s, gw_optimizer *o) {
    if (!o || o == &optimizer_poison) return;
    if (has_elsewhere(o))
        of_any_replica(s, o, false);
    else if (o->remote && o->remote->class->refused)
        o->remote->class->refused(s, o);
}

static bool is_off(const gw_scaler *c) {
    return c && c != &scaler_poison && !c->options.enabled;
}

static bool check_stage(gw_scope *s, const scaling *k, scaling_stage before, const char *function) {
    if (k->stage >= before)
        scope_fail(s, GW_WRONG_STATE,
                   "%s: the optimizer was already %s after the last gw_scaler_update", function,
                   k->stage == STEPPED ? "stepped" : "unscaled");
    return gw_ok(s);
}

// The record of |o|, at a stage before |before|. NULL with |s| failed: then other members are notified, too.
static scaling *begin(gw_scope *s, gw_scaler *c, gw_optimizer *o, scaling_stage before,
                      const char *function) {
    bool ok = check(s, c, function) && optimizer_check(s, o, function) &&
              optimizer_check_pass(s, o, function);
    scaling *k = ok ? scaling_of(s, c, o) : NULL;
    if (k && check_stage(s, k, before, function)) return k;
    report_failure(s, o);
    return NULL;
}

void gw_scaler_unscale(gw_scope *s, gw_scaler *c, gw_optimizer *o) {
    const char *function = "gw_scaler_unscale";
    if (is_off(c)) {
        optimizer_check(s, o, function);
        return;
    }
    scaling *k = begin(s, c, o, UNSCALED, function);
    if (k) unscale(s, c, k);
}

// ---- Steps --------------------------------------------------------------------------------------
// A step that is left out counts as one for an averager, on all members alike.
static void leave_out(gw_scope *s, gw_optimizer *o) {
    if (o && o->after) o->after->run(o->after, s, o);
}

bool gw_scaler_step(gw_scope *s, gw_scaler *c, gw_optimizer *o) {
    const char *function = "gw_scaler_step";
    if (is_off(c)) {
        gw_optimizer_step(s, o);
        return gw_ok(s);
    }
    scaling *k = begin(s, c, o, STEPPED, function);
    if (!k || (k->stage == SCALED && !unscale(s, c, k))) {
        leave_out(s, o);
        return false;
    }
    if (k->not_finite)
        leave_out(s, o);
    else
        gw_optimizer_step(s, o);
    if (gw_ok(s)) k->stage = STEPPED;
    return gw_ok(s) && !k->not_finite;
}

static void grow(gw_scaler *c) {
    if (++c->good_updates < c->options.growth_interval) return;
    c->good_updates = 0;
    if (is_scale(c->scale * c->options.growth_factor)) c->scale *= c->options.growth_factor;
}

static void back_off(gw_scaler *c) {
    c->good_updates = 0;
    if (is_scale(c->scale * c->options.backoff_factor)) c->scale *= c->options.backoff_factor;
}

void gw_scaler_update(gw_scope *s, gw_scaler *c) {
    bool not_finite = false;
    if (!check(s, c, "gw_scaler_update") || !c->options.enabled) return;
    bool any = false;
    for (const scaling *k = c->first; k; k = k->next) {
        any |= k->stage != SCALED;
        not_finite |= k->not_finite;
    }
    if (!any) {
        scope_fail(
            s, GW_WRONG_STATE,
            "gw_scaler_update: neither gw_scaler_step nor gw_scaler_unscale was called before");
        return;
    }
    if (not_finite)
        back_off(c);
    else
        grow(c);
    forget_all(c);
}

// ---- Saving -------------------------------------------------------------------------------------
gw_map *gw_scaler_state_dict(gw_scope *s, gw_scaler *c) {
    gw_map *map = gw_map_open(s);
    if (!check(s, c, "gw_scaler_state_dict")) return map;
    gw_map_put(s, map, "scale", c->scale);
    gw_map_put(s, map, "growth_factor", c->options.growth_factor);
    gw_map_put(s, map, "backoff_factor", c->options.backoff_factor);
    gw_map_put(s, map, "growth_interval", c->options.growth_interval);
    gw_map_put(s, map, "_growth_tracker", c->good_updates);
    return map;
}

void gw_scaler_load_state_dict(gw_scope *s, gw_scaler *c, gw_map *map) {
    const char *function = "gw_scaler_load_state_dict";
    map_reading r;
    if (!check(s, c, function) || !map_reading_open(s, &r, function, map)) return;
    gw_scaler_options o = c->options;
    o.init_scale = map_reading_number(s, &r, "scale");
    o.growth_factor = map_reading_number(s, &r, "growth_factor");
    o.backoff_factor = map_reading_number(s, &r, "backoff_factor");
    o.growth_interval = map_reading_count(s, &r, "growth_interval");
    int64_t good_updates = map_reading_count(s, &r, "_growth_tracker");
    map_reading_close(s, &r);
    const char *problem = gw_ok(s) ? problem_of(&o) : NULL;
    if (problem) scope_fail(s, GW_INVALID, "%s: %s", function, problem);
    if (!gw_ok(s)) return;
    c->options = o;
    c->scale = o.init_scale;
    c->good_updates = good_updates;
}
