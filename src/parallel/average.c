// Averages of weights over the members of a group.
#include "base/value.h"
#include "tensor/tensor.h"

#include <gradwire/autograd.h>
#include <gradwire/ops.h>
#include <gradwire/parallel.h>

void gw_average_parameters(gw_scope *s, gw_group *g, gw_list *params) {
    int count = params ? gw_list_count(params) : 0;
    gw_scope *t = gw_scope_open(s);
    gw_no_grad(t);
    gw_tensor **xs = gw_alloc(t, (size_t)(count + 1) * sizeof *xs);
    for (int i = 0; i < count && gw_ok(t); i++) xs[i] = gw_tensor_of(t, gw_list_get(t, params, i));
    gw_list *means = gw_all_reduce_all(t, g, xs, count, GW_AVG);
    for (int i = 0; i < count && gw_ok(t); i++)
        gw_copy_(t, xs[i], gw_tensor_of(t, gw_list_get(t, means, i)));
    gw_scope_close_up(t);
}

// The level with the largest period that divides |step|; -1 without one.
static int find_level(const gw_averager *a, int64_t step) {
    int found = -1;
    for (int i = 0; i < GW_AVERAGER_LEVELS_MAX; i++) {
        int64_t period = a->levels[i].period;
        if (period > 0 && step % period == 0 && (found < 0 || period > a->levels[found].period))
            found = i;
    }
    return found;
}

bool gw_averager_step(gw_scope *s, gw_averager *a, gw_list *params) {
    if (!a) {
        scope_fail(s, GW_INVALID, "gw_averager_step: the averager is NULL");
        return false;
    }
    int64_t step = a->step++;
    int level = step < a->warmup ? -1 : find_level(a, step - a->warmup);
    if (level < 0) return false;
    if (!a->levels[level].group && gw_ok(s)) {
        gw_scope *t = gw_scope_open(s);
        gw_average_parameters(t, gw_group_world(t), params);
        gw_scope_close_up(t);
    } else {
        gw_average_parameters(s, a->levels[level].group, params);
    }
    return gw_ok(s);
}
