// Each schedule beside thirty steps that PyTorch recorded, over two groups.
#include "testing/recording.h"
#include "testing/testing.h"

#include "optim/optimizer.h"
#include <gradwire/ops.h>

#include <math.h>
#include <string.h>

enum { SCHEDULES_MAX = 2, MILESTONES_MAX = 8 };

typedef struct options {
    double step_size, gamma, t_max, eta_min, start_factor, end_factor, total_iters, max_lr,
        total_steps, pct_start, linear, keep_momentum, base_momentum, max_momentum, div_factor,
        final_div_factor, three_phase, max, factor, patience, threshold, absolute, cooldown, min_lr,
        eps;
    int64_t milestones[MILESTONES_MAX];
    int milestone_count;
} options;

static double *member(options *o, const char *name) {
#define MEMBER(member)                                                                             \
    if (strcmp(name, #member) == 0) return &o->member
    MEMBER(step_size);
    MEMBER(gamma);
    MEMBER(t_max);
    MEMBER(eta_min);
    MEMBER(start_factor);
    MEMBER(end_factor);
    MEMBER(total_iters);
    MEMBER(max_lr);
    MEMBER(total_steps);
    MEMBER(pct_start);
    MEMBER(linear);
    MEMBER(keep_momentum);
    MEMBER(base_momentum);
    MEMBER(max_momentum);
    MEMBER(div_factor);
    MEMBER(final_div_factor);
    MEMBER(three_phase);
    MEMBER(max);
    MEMBER(factor);
    MEMBER(patience);
    MEMBER(threshold);
    MEMBER(absolute);
    MEMBER(cooldown);
    MEMBER(min_lr);
    MEMBER(eps);
#undef MEMBER
    fail_msg("no option %s", name);
    return NULL;
}

static void read_option(recording *r, options *o) {
    if (!recording_takes(r, "milestones")) {
        double *value = member(o, recording_word(r));
        *value = recording_number(r);
        return;
    }
    o->milestone_count = (int)recording_number(r);
    for (int i = 0; i < o->milestone_count; i++) o->milestones[i] = (int64_t)recording_number(r);
}

static gw_scheduler *open_cycle(gw_scope *s, gw_optimizer *opt, const options *o) {
    return gw_one_cycle_lr(s, opt,
                           (gw_one_cycle_lr_options){ .max_lr = o->max_lr,
                                                      .total_steps = (int64_t)o->total_steps,
                                                      .pct_start = o->pct_start,
                                                      .linear = o->linear != 0,
                                                      .keep_momentum = o->keep_momentum != 0,
                                                      .base_momentum = o->base_momentum,
                                                      .max_momentum = o->max_momentum,
                                                      .div_factor = o->div_factor,
                                                      .final_div_factor = o->final_div_factor,
                                                      .three_phase = o->three_phase != 0 });
}

static gw_scheduler *open_plateau(gw_scope *s, gw_optimizer *opt, const options *o) {
    return gw_reduce_lr_on_plateau(
        s, opt,
        (gw_reduce_lr_on_plateau_options){ .max = o->max != 0,
                                           .factor = o->factor,
                                           .patience = (int64_t)o->patience,
                                           .threshold = o->threshold,
                                           .absolute = o->absolute != 0,
                                           .cooldown = (int64_t)o->cooldown,
                                           .min_lr = o->min_lr,
                                           .eps = o->eps });
}

static gw_scheduler *open_scheduler(gw_scope *s, gw_optimizer *opt, const char *name,
                                    const options *o) {
    if (strcmp(name, "step_lr") == 0)
        return gw_step_lr(s, opt, (gw_step_lr_options){ (int64_t)o->step_size, o->gamma });
    if (strcmp(name, "multi_step_lr") == 0)
        return gw_multi_step_lr(
            s, opt, (gw_multi_step_lr_options){ o->milestones, o->milestone_count, o->gamma });
    if (strcmp(name, "exponential_lr") == 0)
        return gw_exponential_lr(s, opt, (gw_exponential_lr_options){ o->gamma });
    if (strcmp(name, "cosine_annealing_lr") == 0)
        return gw_cosine_annealing_lr(
            s, opt, (gw_cosine_annealing_lr_options){ (int64_t)o->t_max, o->eta_min });
    if (strcmp(name, "linear_lr") == 0)
        return gw_linear_lr(
            s, opt,
            (gw_linear_lr_options){ o->start_factor, o->end_factor, (int64_t)o->total_iters });
    if (strcmp(name, "one_cycle_lr") == 0) return open_cycle(s, opt, o);
    assert_string_equal(name, "reduce_lr_on_plateau");
    return open_plateau(s, opt, o);
}

static gw_list *one_parameter(gw_scope *s) {
    gw_list *params = gw_list_open(s);
    gw_list_add(s, params, gw_requires_grad(s, gw_ones(s, GW_F32, 1)));
    return params;
}

static void compare(recording *r, const gw_optimizer *opt, int step) {
    assert_true(recording_takes(r, "rates"));
    for (int i = 0; i < 2; i++) {
        double lr = recording_number(r), momentum = recording_number(r);
        const gw_sgd_options *now = &opt->groups[i].options.sgd;
        if (fabs(now->lr - lr) > 1e-13 * lr || fabs(now->momentum - momentum) > 1e-13)
            fail_msg("step %d, group %d: %.17g %.17g instead of %.17g %.17g", step, i, now->lr,
                     now->momentum, lr, momentum);
    }
}

static void run_case(recording *r, int number) {
    gw_scope *s = gw_scope_open(NULL);
    gw_optimizer *opt =
        gw_sgd(s, one_parameter(s), (gw_sgd_options){ .lr = 0.5, .momentum = 0.75 });
    gw_sgd_add_group(s, opt, one_parameter(s), (gw_sgd_options){ .lr = 0.125 });
    gw_scheduler *schedulers[SCHEDULES_MAX];
    int count = 0;
    while (recording_takes(r, "schedule")) {
        const char *name = recording_word(r);
        testing_note("case %d, gw_%s", number, name);
        options o = { 0 };
        while (recording_takes(r, "option")) read_option(r, &o);
        schedulers[count++] = open_scheduler(s, opt, name, &o);
    }
    compare(r, opt, 0);
    for (int step = 1; !recording_takes(r, "end"); step++) {
        for (int i = 0; i < count; i++)
            if (recording_takes(r, "metric"))
                gw_plateau_step(s, schedulers[i], recording_number(r));
            else
                gw_scheduler_step(s, schedulers[i]);
        compare(r, opt, step);
    }
    assert_int_equal(gw_scope_close(s).status, GW_OK);
}

static void rates_change_as_in_pytorch(void **state) {
    (void)state;
    recording r = recording_open(RECORDINGS "schedules.txt");
    int number = 0;
    while (recording_takes(&r, "case")) run_case(&r, ++number);
    assert_null(recording_word(&r));
    assert_true(number >= 17);
    recording_close(&r);
}

GW_TESTS(optim_schedule, rates_change_as_in_pytorch);
