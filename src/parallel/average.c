// Averages of weights over the members of a group.
#include "base/mem.h"
#include "base/value.h"
#include "collective/opening/opening.h"
#include "optim/optimizer.h"
#include "tensor/tensor.h"

#include <gradwire/autograd.h>
#include <gradwire/ops.h>
#include <gradwire/parallel.h>

#undef GW_ORIGIN
#define GW_ORIGIN "gw_average_parameters"  // of the calls in this file, in errors

// A member whose list is wrong enters the collective as failed.
static void average(gw_scope *s, const char *function, gw_group *g, gw_list *params) {
    int count = params ? gw_list_count(params) : 0;
    gw_scope *t = gw_scope_open(s);
    if (!count)
        scope_fail(t, GW_INVALID, "%s: %s", function,
                   params ? "an empty list" : "the list is NULL");
    gw_no_grad(t);
    gw_tensor **xs = gw_alloc(t, (size_t)(count + 1) * sizeof *xs);
    for (int i = 0; i < count && gw_ok(t); i++) xs[i] = gw_tensor_of(t, gw_list_get(t, params, i));
    gw_list *means = gw_all_reduce_coalesced(t, g, xs, count, GW_AVG);
    for (int i = 0; i < count && gw_ok(t); i++)
        gw_copy_(t, xs[i], gw_tensor_of(t, gw_list_get(t, means, i)));
    gw_scope_close_up(t);
}

void gw_average_parameters(gw_scope *s, gw_group *g, gw_list *params) {
    average(s, "gw_average_parameters", g, params);
}

// The level with the largest period that divides the step, counted from the warmup's end if there is one
// level only; -1 without one.
static int find_level(const gw_averager *a, int64_t step) {
    int found = -1, levels = 0;
    for (int i = 0; i < GW_AVERAGER_LEVELS_MAX; i++) levels += a->levels[i].period > 0;
    if (levels == 1) step -= a->warmup;
    for (int i = 0; i < GW_AVERAGER_LEVELS_MAX; i++) {
        int64_t period = a->levels[i].period;
        if (period > 0 && step % period == 0 && (found < 0 || period > a->levels[found].period))
            found = i;
    }
    return found;
}

bool gw_averager_step(gw_scope *s, gw_averager *a, gw_list *params) {
    if (!a) return scope_fail(s, GW_INVALID, "gw_averager_step: the averager is NULL");
    int64_t step = a->step++;
    int level = step < a->warmup ? -1 : find_level(a, step);
    if (level < 0) return false;
    gw_group *of = a->levels[level].group, *world = of ? NULL : group_take_world(s);
    if (world != &group_poison) average(s, "gw_averager_step", of ? of : world, params);
    handle_release(world);
    return gw_ok(s);
}

// ---- Behind the steps of an optimizer -----------------------------------------------------------

typedef struct average_after {
    after_step after;
    gw_averager *averager;
} average_after;

static void step(after_step *a, gw_scope *s, gw_optimizer *o) {
    gw_averager *averager = ((average_after *)a)->averager;
    gw_list *params = gw_list_open(s);
    for (int i = 0; i < o->parameter_count; i++) gw_list_add(s, params, o->parameters[i].x);
    gw_averager_step(s, averager, params);
}

static void close(after_step *a) {
    mem_free(a);
}

// A group for each level, so that a member whose scope has failed can enter it as failed.
static bool check(gw_scope *s, const gw_optimizer *o, gw_averager *a) {
    if (!optimizer_check(s, o, "gw_optimizer_average")) return false;
    int levels = 0;
    for (int i = 0; a && i < GW_AVERAGER_LEVELS_MAX; i++) {
        levels += a->levels[i].period > 0;
        if (a->levels[i].period < 0) levels = -GW_AVERAGER_LEVELS_MAX;
        if (a->levels[i].period > 0 && !a->levels[i].group) a->levels[i].group = gw_group_world(s);
    }
    if (o->after)
        scope_fail(s, GW_WRONG_STATE, "gw_optimizer_average: the optimizer has an averager");
    else if (o->parameter_count != o->number_count)
        scope_fail(s, GW_INVALID,
                   "gw_optimizer_average: the optimizer has parameters of other workers");
    else if (levels < 1 || a->warmup < 0)
        scope_fail(s, GW_INVALID,
                   "gw_optimizer_average: the averager must have a positive period, and no "
                   "negative warmup");
    return gw_ok(s);
}

void gw_optimizer_average(gw_scope *s, gw_optimizer *o, gw_averager *a) {
    if (!check(s, o, a)) return;
    average_after *x = mem_calloc(sizeof *x);
    if (!x) {
        scope_fail(s, GW_NO_MEMORY, "gw_optimizer_average: no memory");
        return;
    }
    *x = (average_after){ { step, close, "averager.step", &a->step }, a };
    o->after = &x->after;
}
