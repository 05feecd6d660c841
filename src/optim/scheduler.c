// Schedulers: making them, and moving on.
#include "optim/scheduler.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void destroy(gw_handle *h) {
    gw_scheduler *c = (gw_scheduler *)h;
    if (c->schedule == &schedule_multi_step) mem_free((void *)c->options.multi_step.milestones);
    handle_release(c->optimizer);
    mem_give(c, sizeof *c);
}

static const handle_class scheduler_class = { .name = "scheduler", .destroy = destroy };

static gw_scheduler poison = { .handle = { &scheduler_class, HANDLE_IMMORTAL } };

// ---- Moving on ----------------------------------------------------------------------------------
static void apply(gw_scheduler *c) {
    gw_optimizer *o = c->optimizer;
    const option *momentum = NULL;
    if (c->schedule == &schedule_one_cycle && c->options.one_cycle.cycle_momentum)
        momentum = schedule_momentum(o);
    for (int i = 0; i < o->group_count; i++) {
        optimizer_group *g = &o->groups[i];
        // Several schedules together can round, or lead, to less than 0, which is no rate.
        double rate = c->schedule->rate(c, g);
        g->options.lr = rate < 0 ? 0 : rate;
        if (momentum) option_set(momentum, g, schedule_momentum_now(c));
    }
}

bool scheduler_check(gw_scope *s, const gw_scheduler *c, const char *function) {
    if (gw_ok(s) && !c) scope_fail(s, GW_INVALID, "%s: no scheduler", function);
    if (gw_ok(s) && c == &poison)
        scope_fail(s, GW_INVALID, "%s: the scheduler could not be made", function);
    return gw_ok(s);
}

void gw_scheduler_step(gw_scope *s, gw_scheduler *c) {
    if (!scheduler_check(s, c, "gw_scheduler_step")) return;
    if (!c->schedule->rate) {
        scope_fail(s, GW_INVALID, "gw_scheduler_step: gw_%s needs a metric: call gw_plateau_step",
                   c->schedule->name);
    } else if (c->schedule == &schedule_one_cycle &&
               c->now.step >= c->options.one_cycle.total_steps) {
        scope_fail(s, GW_WRONG_STATE,
                   "gw_scheduler_step: all %lld steps of gw_one_cycle_lr are over",
                   (long long)c->options.one_cycle.total_steps);
    } else {
        c->now.step++;
        apply(c);
    }
}

void gw_plateau_step(gw_scope *s, gw_scheduler *c, double metric) {
    if (!scheduler_check(s, c, "gw_plateau_step")) return;
    if (c->schedule != &schedule_plateau) {
        scope_fail(s, GW_INVALID, "gw_plateau_step: gw_%s takes no metric: call gw_scheduler_step",
                   c->schedule->name);
        return;
    }
    c->now.step++;
    if (!schedule_plateau_meets(c, metric)) return;
    const gw_reduce_lr_on_plateau_options *p = &c->options.plateau;
    for (int i = 0; i < c->optimizer->group_count; i++) {
        double *lr = &c->optimizer->groups[i].options.lr;
        double reduced = fmax(*lr * p->factor, p->min_lr);
        if (*lr - reduced > p->eps) *lr = reduced;
    }
}

// ---- Making -------------------------------------------------------------------------------------
// A scheduler without options, or NULL if |s| or |o| has failed.
static gw_scheduler *open_scheduler(gw_scope *s, gw_optimizer *o, const schedule *kind) {
    char function[64];
    snprintf(function, sizeof function, "gw_%s", kind->name);
    if (!optimizer_check(s, o, function)) return NULL;
    gw_scheduler *c = mem_take(sizeof *c);
    if (!c) {
        scope_fail(s, GW_NO_MEMORY, "gw_%s: no memory", kind->name);
        return NULL;
    }
    memset(c, 0, sizeof *c);
    handle_init(&c->handle, &scheduler_class);
    c->schedule = kind;
    c->optimizer = handle_retain(o);
    return c;
}

// Gives |c| to |s| and lets it begin, unless its options have failed |s|.
static gw_scheduler *begin(gw_scope *s, gw_scheduler *c) {
    if (!c) return &poison;
    if (!gw_ok(s)) {
        handle_release(c);
        return &poison;
    }
    if (!scope_own(s, c)) return &poison;
    for (int i = 0; i < c->optimizer->group_count; i++) {
        optimizer_group *g = &c->optimizer->groups[i];
        if (isnan(g->initial_lr)) g->initial_lr = g->options.lr;
    }
    if (c->schedule->rate) apply(c);
    return c;
}

static void check(gw_scope *s, const gw_scheduler *c, const char *name, double value, double low,
                  double high) {
    if (value >= low && value <= high) return;
    scope_fail(s, GW_INVALID, "gw_%s: %s is %g, which is out of range", c->schedule->name, name,
               value);
}

static void check_count(gw_scope *s, const gw_scheduler *c, const char *name, int64_t value,
                        int64_t low) {
    if (value >= low) return;
    scope_fail(s, GW_INVALID, "gw_%s: %s is %lld, which is out of range", c->schedule->name, name,
               (long long)value);
}

static const double ANY = 1.7976931348623157e308, ABOVE_0 = 2.2250738585072014e-308;

gw_scheduler *gw_step_lr_with(gw_scope *s, gw_optimizer *opt, gw_step_lr_options o) {
    gw_scheduler *c = open_scheduler(s, opt, &schedule_step);
    if (!c) return &poison;
    check_count(s, c, "step_size", o.step_size, 1);
    check(s, c, "gamma", o.gamma, 0, ANY);
    c->options.step = o;
    return begin(s, c);
}

static int in_order(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

gw_scheduler *gw_multi_step_lr_with(gw_scope *s, gw_optimizer *opt, gw_multi_step_lr_options o) {
    gw_scheduler *c = open_scheduler(s, opt, &schedule_multi_step);
    if (!c) return &poison;
    check(s, c, "gamma", o.gamma, 0, ANY);
    const int64_t *theirs = o.milestones;
    if (o.milestone_count < 0 || (o.milestone_count > 0 && !theirs)) {
        scope_fail(s, GW_INVALID,
                   "gw_multi_step_lr: %d milestones were given, but this number is negative or "
                   "their array is NULL",
                   o.milestone_count);
        o.milestone_count = 0;
    }
    size_t size = (size_t)o.milestone_count * sizeof *theirs;
    int64_t *own = mem_alloc(size + 1);
    if (own && size) {
        memcpy(own, theirs, size);
        qsort(own, (size_t)o.milestone_count, sizeof *own, in_order);
    }
    if (!own) scope_fail(s, GW_NO_MEMORY, "gw_multi_step_lr: no memory");
    o.milestones = own;
    c->options.multi_step = o;
    return begin(s, c);
}

gw_scheduler *gw_exponential_lr_with(gw_scope *s, gw_optimizer *opt, gw_exponential_lr_options o) {
    gw_scheduler *c = open_scheduler(s, opt, &schedule_exponential);
    if (!c) return &poison;
    check(s, c, "gamma", o.gamma, ABOVE_0, ANY);
    c->options.exponential = o;
    return begin(s, c);
}

gw_scheduler *gw_cosine_annealing_lr_with(gw_scope *s, gw_optimizer *opt,
                                          gw_cosine_annealing_lr_options o) {
    gw_scheduler *c = open_scheduler(s, opt, &schedule_cosine);
    if (!c) return &poison;
    check_count(s, c, "t_max", o.t_max, 1);
    if (gw_ok(s) && o.t_max > INT64_MAX / 2)
        scope_fail(s, GW_INVALID, "gw_cosine_annealing_lr: t_max is %lld, which is out of range",
                   (long long)o.t_max);
    check(s, c, "eta_min", o.eta_min, 0, ANY);
    c->options.cosine = o;
    return begin(s, c);
}

gw_scheduler *gw_linear_lr_with(gw_scope *s, gw_optimizer *opt, gw_linear_lr_options o) {
    gw_scheduler *c = open_scheduler(s, opt, &schedule_linear);
    if (!c) return &poison;
    check(s, c, "start_factor", o.start_factor, ABOVE_0, 1);
    check(s, c, "end_factor", o.end_factor, 0, 1);
    check_count(s, c, "total_iters", o.total_iters, 1);
    c->options.linear = o;
    return begin(s, c);
}

gw_scheduler *gw_one_cycle_lr_with(gw_scope *s, gw_optimizer *opt, gw_one_cycle_lr_options o) {
    gw_scheduler *c = open_scheduler(s, opt, &schedule_one_cycle);
    if (!c) return &poison;
    check(s, c, "max_lr", o.max_lr, ABOVE_0, ANY);
    check_count(s, c, "total_steps", o.total_steps, 1);
    check(s, c, "pct_start", o.pct_start, 0, 1);
    check(s, c, "base_momentum", o.base_momentum, 0, 1);
    check(s, c, "max_momentum", o.max_momentum, 0, 1);
    check(s, c, "div_factor", o.div_factor, ABOVE_0, ANY);
    check(s, c, "final_div_factor", o.final_div_factor, ABOVE_0, ANY);
    bool cycles = schedule_momentum(opt) != NULL;
    if (gw_ok(s) && o.cycle_momentum && !cycles)
        scope_fail(s, GW_INVALID,
                   "gw_one_cycle_lr: gw_%s has no momentum: set .cycle_momentum = false",
                   opt->rule->name);
    if (gw_ok(s))
        for (int i = 0; i < opt->group_count; i++)
            opt->groups[i].initial_lr = o.max_lr / o.div_factor;
    c->options.one_cycle = o;
    return begin(s, c);
}

gw_scheduler *gw_reduce_lr_on_plateau_with(gw_scope *s, gw_optimizer *opt,
                                           gw_reduce_lr_on_plateau_options o) {
    gw_scheduler *c = open_scheduler(s, opt, &schedule_plateau);
    if (!c) return &poison;
    check(s, c, "factor", o.factor, 0, 0.9999999999999999);
    check_count(s, c, "patience", o.patience, 0);
    check(s, c, "threshold", o.threshold, 0, ANY);
    check_count(s, c, "cooldown", o.cooldown, 0);
    check(s, c, "min_lr", o.min_lr, 0, ANY);
    check(s, c, "eps", o.eps, 0, ANY);
    c->options.plateau = o;
    c->now.best = o.max ? -INFINITY : INFINITY;
    return begin(s, c);
}
