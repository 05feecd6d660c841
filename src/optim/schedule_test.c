// Each schedule gives the rates of thirty steps that PyTorch recorded, over two groups.
#include "testing/recording.h"
#include "testing/testing.h"

#include "optim/optimizer.h"
#include <gradwire/ops.h>

#include <math.h>
#include <string.h>

enum { SCHEDULES_MAX = 2, MILESTONES_MAX = 8 };

typedef struct options {
    double step_size, gamma, t_max, eta_min, start_factor, end_factor, total_iters, max_lr,
        total_steps, pct_start, linear, cycle_momentum, base_momentum, max_momentum, div_factor,
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
    MEMBER(cycle_momentum);
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

// Members that were not recorded have their defaults.
#define TAKE(c, o, member, type)                                                                   \
    if (!isnan((o)->member)) (c).member = (type)(o)->member

static gw_scheduler *open_cycle(gw_scope *s, gw_optimizer *opt, const options *o) {
    gw_one_cycle_lr_options c = GW_OPTIONS(gw_one_cycle_lr_options);
    TAKE(c, o, max_lr, double);
    TAKE(c, o, total_steps, int64_t);
    TAKE(c, o, pct_start, double);
    TAKE(c, o, linear, bool);
    TAKE(c, o, cycle_momentum, bool);
    TAKE(c, o, base_momentum, double);
    TAKE(c, o, max_momentum, double);
    TAKE(c, o, div_factor, double);
    TAKE(c, o, final_div_factor, double);
    TAKE(c, o, three_phase, bool);
    return gw_one_cycle_lr_with(s, opt, c);
}

static gw_scheduler *open_plateau(gw_scope *s, gw_optimizer *opt, const options *o) {
    gw_reduce_lr_on_plateau_options c = GW_OPTIONS(gw_reduce_lr_on_plateau_options);
    TAKE(c, o, max, bool);
    TAKE(c, o, factor, double);
    TAKE(c, o, patience, int64_t);
    TAKE(c, o, threshold, double);
    TAKE(c, o, absolute, bool);
    TAKE(c, o, cooldown, int64_t);
    TAKE(c, o, min_lr, double);
    TAKE(c, o, eps, double);
    return gw_reduce_lr_on_plateau_with(s, opt, c);
}

static gw_scheduler *open_steps(gw_scope *s, gw_optimizer *opt, const options *o) {
    gw_step_lr_options c = GW_OPTIONS(gw_step_lr_options);
    TAKE(c, o, step_size, int64_t);
    TAKE(c, o, gamma, double);
    return gw_step_lr_with(s, opt, c);
}

static gw_scheduler *open_milestones(gw_scope *s, gw_optimizer *opt, const options *o) {
    gw_multi_step_lr_options c = GW_OPTIONS(gw_multi_step_lr_options, .milestones = o->milestones,
                                            .milestone_count = o->milestone_count);
    TAKE(c, o, gamma, double);
    return gw_multi_step_lr_with(s, opt, c);
}

static gw_scheduler *open_cosine(gw_scope *s, gw_optimizer *opt, const options *o) {
    gw_cosine_annealing_lr_options c = GW_OPTIONS(gw_cosine_annealing_lr_options);
    TAKE(c, o, t_max, int64_t);
    TAKE(c, o, eta_min, double);
    return gw_cosine_annealing_lr_with(s, opt, c);
}

static gw_scheduler *open_linear(gw_scope *s, gw_optimizer *opt, const options *o) {
    gw_linear_lr_options c = GW_OPTIONS(gw_linear_lr_options);
    TAKE(c, o, start_factor, double);
    TAKE(c, o, end_factor, double);
    TAKE(c, o, total_iters, int64_t);
    return gw_linear_lr_with(s, opt, c);
}

static gw_scheduler *open_scheduler(gw_scope *s, gw_optimizer *opt, const char *name,
                                    const options *o) {
    if (strcmp(name, "step_lr") == 0) return open_steps(s, opt, o);
    if (strcmp(name, "multi_step_lr") == 0) return open_milestones(s, opt, o);
    if (strcmp(name, "exponential_lr") == 0) return gw_exponential_lr(s, opt, .gamma = o->gamma);
    if (strcmp(name, "cosine_annealing_lr") == 0) return open_cosine(s, opt, o);
    if (strcmp(name, "linear_lr") == 0) return open_linear(s, opt, o);
    if (strcmp(name, "one_cycle_lr") == 0) return open_cycle(s, opt, o);
    assert_string_equal(name, "reduce_lr_on_plateau");
    return open_plateau(s, opt, o);
}

static options no_options(void) {
    options o = { .milestone_count = 0 };
    for (double *at = &o.step_size; at <= &o.eps; at++) *at = NAN;
    return o;
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
    gw_optimizer *opt = gw_sgd(s, one_parameter(s), .lr = 0.5, .momentum = 0.75);
    gw_optimizer_add_parameter_group(s, opt, one_parameter(s), .lr = 0.125);
    gw_scheduler *schedulers[SCHEDULES_MAX];
    int count = 0;
    while (recording_takes(r, "schedule")) {
        const char *name = recording_word(r);
        testing_note("case %d, gw_%s", number, name);
        options o = no_options();
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
