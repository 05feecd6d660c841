// Shared by the files of this room: schedulers.
#ifndef OPTIM_SCHEDULER_H
#define OPTIM_SCHEDULER_H

#include "optim/optimizer.h"

typedef struct schedule {
    const char *name;
    // The rate of |g| now that |c| is at its step, which is 0 when it is being made. NULL: a
    // schedule that wants a metric.
    double (*rate)(const gw_scheduler *c, const optimizer_group *g);
} schedule;

typedef struct schedule_state {
    int64_t step;
    double best;  // this and the others: of reduce_lr_on_plateau
    int64_t bad_steps, cooldown_left;
} schedule_state;

struct gw_scheduler {
    gw_handle handle;

    // arguments
    const schedule *schedule;
    gw_optimizer *optimizer;  // counted
    union {
        gw_step_lr_options step;
        gw_multi_step_lr_options multi_step;  // |milestones| is owned
        gw_exponential_lr_options exponential;
        gw_cosine_annealing_lr_options cosine;
        gw_linear_lr_options linear;
        gw_one_cycle_lr_options one_cycle;
        gw_reduce_lr_on_plateau_options plateau;
    } options;

    schedule_state now;
};

extern const schedule schedule_step, schedule_multi_step, schedule_exponential, schedule_cosine,
    schedule_linear, schedule_one_cycle, schedule_plateau;
// Whether there is something to do for |function|; fails |s| if there is no scheduler at all.
bool scheduler_check(gw_scope *s, const gw_scheduler *c, const char *function);

// The part of the momentum that goes the other way in a cycle: an option of the rule, NULL if it has none.
const option *schedule_momentum(const gw_optimizer *o);
double schedule_momentum_now(const gw_scheduler *c);

// Takes a metric in: whether the rate is to be reduced now.
bool schedule_plateau_meets(gw_scheduler *c, double metric);

#endif
