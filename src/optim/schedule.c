// The rates of the schedules, in PyTorch's recursive form, so that several multiply.
#include "optim/scheduler.h"

#include <math.h>

static double step_rate(const gw_scheduler *c, const optimizer_group *g) {
    double lr = g->options.lr;
    if (c->now.step == 0 || c->now.step % c->options.step.step_size != 0) return lr;
    return lr * c->options.step.gamma;
}

// How many of the milestones, which ascend, are below |step|.
static int milestones_below(const gw_multi_step_lr_options *o, int64_t step) {
    int low = 0, high = o->milestone_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (o->milestones[middle] < step)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static double multi_step_rate(const gw_scheduler *c, const optimizer_group *g) {
    const gw_multi_step_lr_options *o = &c->options.multi_step;
    int times = milestones_below(o, c->now.step + 1) - milestones_below(o, c->now.step);
    return times ? g->options.lr * pow(o->gamma, times) : g->options.lr;
}

static double exponential_rate(const gw_scheduler *c, const optimizer_group *g) {
    return c->now.step == 0 ? g->options.lr : g->options.lr * c->options.exponential.gamma;
}

static double cosine_rate(const gw_scheduler *c, const optimizer_group *g) {
    const gw_cosine_annealing_lr_options *o = &c->options.cosine;
    double lr = g->options.lr, most = (double)o->t_max, now = (double)c->now.step;
    if (c->now.step == 0) return lr;
    // From the lowest point up: the quotient below would divide by 0.
    if ((c->now.step - 1 - o->t_max) % (2 * o->t_max) == 0)
        return lr + (g->initial_lr - o->eta_min) * (1 - cos(M_PI / most)) / 2;
    return (1 + cos(M_PI * now / most)) / (1 + cos(M_PI * (now - 1) / most)) * (lr - o->eta_min) +
           o->eta_min;
}

static double linear_rate(const gw_scheduler *c, const optimizer_group *g) {
    const gw_linear_lr_options *o = &c->options.linear;
    double lr = g->options.lr, more = o->end_factor - o->start_factor;
    if (c->now.step == 0) return lr * o->start_factor;
    if (c->now.step > o->total_iters) return lr;
    // The quotient of two factors, where PyTorch adds to 1: this one is 0 exactly where it ends at 0.
    double first = (double)o->total_iters * o->start_factor;
    return lr * (first + (double)c->now.step * more) / (first + (double)(c->now.step - 1) * more);
}

// ---- One cycle ----------------------------------------------------------------------------------
typedef struct phase {
    double end;    // the step
    double lr[2];  // from, to
    double momentum[2];
} phase;

// Of the phase that the step is in: from |ends[0]| to |ends[1]|, |part| of it done.
static double anneal(bool linear, const double ends[2], double part) {
    if (linear) return (ends[1] - ends[0]) * part + ends[0];
    return ends[1] + (ends[0] - ends[1]) / 2 * (cos(M_PI * part) + 1);
}

static phase phase_now(const gw_scheduler *c, double *out_part) {
    const gw_one_cycle_lr_options *o = &c->options.one_cycle;
    double up = o->pct_start * (double)o->total_steps, last = (double)o->total_steps - 1;
    double high = o->max_lr, low = high / o->div_factor, least = low / o->final_div_factor;
    double slow = o->base_momentum, fast = o->max_momentum;
    const phase two[] = { { up - 1, { low, high }, { fast, slow } },
                          { last, { high, least }, { slow, fast } } };
    const phase three[] = { two[0],
                            { 2 * up - 2, { high, low }, { slow, fast } },
                            { last, { low, least }, { fast, fast } } };
    const phase *phases = o->three_phase ? three : two, *end = phases + 1 + o->three_phase;
    double now = (double)c->now.step, start = 0;
    while (phases < end && now > phases->end) start = phases++->end;
    *out_part = phases->end > start ? (now - start) / (phases->end - start) : 1;
    // After the last optimizer's step a loop moves on once more; PyTorch's rate is below 0 then.
    if (*out_part > 1) *out_part = 1;
    return *phases;
}

static double one_cycle_rate(const gw_scheduler *c, const optimizer_group *g) {
    (void)g;
    double part;
    phase p = phase_now(c, &part);
    return anneal(c->options.one_cycle.linear, p.lr, part);
}

double schedule_momentum_now(const gw_scheduler *c) {
    double part;
    phase p = phase_now(c, &part);
    return anneal(c->options.one_cycle.linear, p.momentum, part);
}

const option *schedule_momentum(const gw_optimizer *o) {
    const option *momentum = rule_option(o->rule, "momentum");
    return momentum ? momentum : rule_option(o->rule, "beta1");
}

// ---- On a plateau -------------------------------------------------------------------------------
static bool is_better(const gw_scheduler *c, double metric) {
    const gw_reduce_lr_on_plateau_options *o = &c->options.plateau;
    if (o->absolute)
        return o->max ? metric > c->now.best + o->threshold : metric < c->now.best - o->threshold;
    return o->max ? metric > c->now.best * (o->threshold + 1)
                  : metric < c->now.best * (1 - o->threshold);
}

bool schedule_plateau_meets(gw_scheduler *c, double metric) {
    if (is_better(c, metric)) {
        c->now.best = metric;
        c->now.bad_steps = 0;
    } else {
        c->now.bad_steps++;
    }
    if (c->now.cooldown_left > 0) {
        c->now.cooldown_left--;
        c->now.bad_steps = 0;
    }
    if (c->now.bad_steps <= c->options.plateau.patience) return false;
    c->now.cooldown_left = c->options.plateau.cooldown;
    c->now.bad_steps = 0;
    return true;
}

const schedule schedule_step = { "step_lr", step_rate };
const schedule schedule_multi_step = { "multi_step_lr", multi_step_rate };
const schedule schedule_exponential = { "exponential_lr", exponential_rate };
const schedule schedule_cosine = { "cosine_annealing_lr", cosine_rate };
const schedule schedule_linear = { "linear_lr", linear_rate };
const schedule schedule_one_cycle = { "one_cycle_lr", one_cycle_rate };
const schedule schedule_plateau = { "reduce_lr_on_plateau", NULL };
