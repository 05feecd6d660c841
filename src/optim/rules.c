// The rules of this library: their options, their state, and the constructors of optimizers.
#include "optim/optimizer.h"

#include <math.h>
#include <string.h>

// ---- Options ------------------------------------------------------------------------------------
#define NUMBER(type, member, below)                                                                \
    { #member, offsetof(type, member), false, 0, below }
#define FLAG(type, member)                                                                         \
    { #member, offsetof(type, member), true, 0, INFINITY }
#define LIST(list) list, (int)(sizeof list / sizeof *list)

static const option sgd_options[] = {
    NUMBER(gw_sgd_options, lr, INFINITY),
    NUMBER(gw_sgd_options, momentum, INFINITY),
    { "dampening", offsetof(gw_sgd_options, dampening), false, -INFINITY, INFINITY },
    NUMBER(gw_sgd_options, weight_decay, INFINITY),
    FLAG(gw_sgd_options, nesterov),
    FLAG(gw_sgd_options, maximize),
};

static const option adam_options[] = {
    NUMBER(gw_adam_options, lr, INFINITY),
    NUMBER(gw_adam_options, beta1, 1),
    NUMBER(gw_adam_options, beta2, 1),
    NUMBER(gw_adam_options, eps, INFINITY),
    NUMBER(gw_adam_options, weight_decay, INFINITY),
    FLAG(gw_adam_options, amsgrad),
    FLAG(gw_adam_options, maximize),
};
// The same members, at the same offsets.
_Static_assert(sizeof(gw_adamw_options) == sizeof(gw_adam_options) &&
                   offsetof(gw_adamw_options, maximize) == offsetof(gw_adam_options, maximize),
               "gw_adamw and gw_adam have the same options");

static const option sparse_adam_options[] = {
    NUMBER(gw_sparse_adam_options, lr, INFINITY), NUMBER(gw_sparse_adam_options, beta1, 1),
    NUMBER(gw_sparse_adam_options, beta2, 1),     NUMBER(gw_sparse_adam_options, eps, INFINITY),
    FLAG(gw_sparse_adam_options, maximize),
};

static const option adamax_options[] = {
    NUMBER(gw_adamax_options, lr, INFINITY),
    NUMBER(gw_adamax_options, beta1, 1),
    NUMBER(gw_adamax_options, beta2, 1),
    NUMBER(gw_adamax_options, eps, INFINITY),
    NUMBER(gw_adamax_options, weight_decay, INFINITY),
    FLAG(gw_adamax_options, maximize),
};

static const option adagrad_options[] = {
    NUMBER(gw_adagrad_options, lr, INFINITY),
    NUMBER(gw_adagrad_options, lr_decay, INFINITY),
    NUMBER(gw_adagrad_options, weight_decay, INFINITY),
    NUMBER(gw_adagrad_options, initial_accumulator_value, INFINITY),
    NUMBER(gw_adagrad_options, eps, INFINITY),
    FLAG(gw_adagrad_options, maximize),
};

static const option adadelta_options[] = {
    NUMBER(gw_adadelta_options, lr, INFINITY),  NUMBER(gw_adadelta_options, rho, INFINITY),
    NUMBER(gw_adadelta_options, eps, INFINITY), NUMBER(gw_adadelta_options, weight_decay, INFINITY),
    FLAG(gw_adadelta_options, maximize),
};

static const option rmsprop_options[] = {
    NUMBER(gw_rmsprop_options, lr, INFINITY),
    NUMBER(gw_rmsprop_options, alpha, INFINITY),
    NUMBER(gw_rmsprop_options, eps, INFINITY),
    NUMBER(gw_rmsprop_options, weight_decay, INFINITY),
    NUMBER(gw_rmsprop_options, momentum, INFINITY),
    FLAG(gw_rmsprop_options, centered),
    FLAG(gw_rmsprop_options, maximize),
};

static const option rprop_options[] = {
    NUMBER(gw_rprop_options, lr, INFINITY),
    NUMBER(gw_rprop_options, eta_minus, 1),
    NUMBER(gw_rprop_options, eta_plus, INFINITY),
    NUMBER(gw_rprop_options, step_size_min, INFINITY),
    NUMBER(gw_rprop_options, step_size_max, INFINITY),
    FLAG(gw_rprop_options, maximize),
};

// ---- Checks of options -----------------------------------------------------------------
static const char *check_sgd(const optimizer_group *g) {
    const gw_sgd_options *c = &g->options.sgd;
    if (!isfinite(c->dampening)) return "dampening is infinite";
    bool wrong = c->nesterov && (c->momentum == 0 || c->dampening != 0);
    return wrong ? "nesterov needs momentum, and no dampening" : NULL;
}

static const char *check_adadelta(const optimizer_group *g) {
    return g->options.adadelta.rho > 1 ? "rho is above 1" : NULL;
}

static const char *check_rprop(const optimizer_group *g) {
    const gw_rprop_options *c = &g->options.rprop;
    return c->eta_minus > 0 && c->eta_plus > 1 ? NULL : "0 < eta_minus < 1 < eta_plus must hold";
}

// ---- State -----------------------------------------------------------------------------
static unsigned momentum_of_sgd(const optimizer_group *g) {
    return g->options.sgd.momentum != 0;
}
static unsigned moments(const optimizer_group *g) {
    return g->options.adam.amsgrad ? 7 : 3;
}
static unsigned means(const optimizer_group *g) {
    const gw_rmsprop_options *c = &g->options.rmsprop;
    return 1 | (c->centered ? 2 : 0) | (c->momentum > 0 ? 4 : 0);
}

static double first_sum(const optimizer_group *g, int k) {
    (void)k;
    return g->options.adagrad.initial_accumulator_value;
}
static double first_size(const optimizer_group *g, int k) {
    return k == 1 ? g->options.lr : 0;
}

// ---- The table ----------------------------------------------------------------------------------
enum { SGD, ADAM, ADAMW, SPARSE_ADAM, ADAMAX, ADAGRAD, ADADELTA, RMSPROP, RPROP, RULE_COUNT };

static const rule rules[RULE_COUNT] = {
    [SGD] = { "sgd",
              LIST(sgd_options),
              check_sgd,
              { "momentum_buffer" },
              momentum_of_sgd,
              .takes_rows = true,
              .takes_dense = true,
              .update = &update_sgd },
    [ADAM] = { "adam",
               LIST(adam_options),
               NULL,
               { "exp_avg", "exp_avg_sq", "max_exp_avg_sq" },
               moments,
               .takes_dense = true,
               .update = &update_adam },
    [ADAMW] = { "adamw",
                LIST(adam_options),
                NULL,
                { "exp_avg", "exp_avg_sq", "max_exp_avg_sq" },
                moments,
                .takes_dense = true,
                .update = &update_adamw },
    [SPARSE_ADAM] = { "sparse_adam",
                      LIST(sparse_adam_options),
                      NULL,
                      { "exp_avg", "exp_avg_sq" },
                      .takes_rows = true,
                      .update = &update_sparse_adam },
    [ADAMAX] = { "adamax",
                 LIST(adamax_options),
                 NULL,
                 { "exp_avg", "exp_inf" },
                 .takes_dense = true,
                 .update = &update_adamax },
    [ADAGRAD] = { "adagrad",
                  LIST(adagrad_options),
                  NULL,
                  { "sum" },
                  .start = first_sum,
                  .takes_rows = true,
                  .takes_dense = true,
                  .update = &update_adagrad },
    [ADADELTA] = { "adadelta",
                   LIST(adadelta_options),
                   check_adadelta,
                   { "square_avg", "acc_delta" },
                   .takes_dense = true,
                   .update = &update_adadelta },
    [RMSPROP] = { "rmsprop",
                  LIST(rmsprop_options),
                  NULL,
                  { "square_avg", "grad_avg", "momentum_buffer" },
                  means,
                  .takes_dense = true,
                  .update = &update_rmsprop },
    [RPROP] = { "rprop",
                LIST(rprop_options),
                check_rprop,
                { "prev", "step_size" },
                .start = first_size,
                .takes_dense = true,
                .update = &update_rprop },
};

const rule *rule_find_listed(const char *name) {
    for (int i = 0; i < RULE_COUNT; i++)
        if (strcmp(rules[i].name, name) == 0) return &rules[i];
    return NULL;
}

// ---- Optimizers that follow them ----------------------------------------------------------------
#define RULE(name, NAME)                                                                           \
    gw_optimizer *gw_##name##_with(gw_scope *s, gw_list *params, gw_##name##_options options) {    \
        return optimizer_make(                                                                     \
            s, &rules[NAME], params,                                                               \
            &(optimizer_group){ .options.name = options, .concurrent = options.concurrent });      \
    }
RULE(sgd, SGD)
RULE(adam, ADAM)
RULE(adamw, ADAMW)
RULE(sparse_adam, SPARSE_ADAM)
RULE(adamax, ADAMAX)
RULE(adagrad, ADAGRAD)
RULE(adadelta, ADADELTA)
RULE(rmsprop, RMSPROP)
RULE(rprop, RPROP)

// ---- Groups with options of their own -----------------------------------------------------------
#define OVERRIDE(member)                                                                           \
    { #member, offsetof(gw_parameter_group_options, member) }
static const struct override {
    const char *name;
    size_t offset;
} overrides[] = {
    OVERRIDE(lr),
    OVERRIDE(weight_decay),
    OVERRIDE(momentum),
    OVERRIDE(dampening),
    OVERRIDE(nesterov),
    OVERRIDE(beta1),
    OVERRIDE(beta2),
    OVERRIDE(eps),
    OVERRIDE(amsgrad),
    OVERRIDE(lr_decay),
    OVERRIDE(initial_accumulator_value),
    OVERRIDE(rho),
    OVERRIDE(alpha),
    OVERRIDE(centered),
    OVERRIDE(eta_minus),
    OVERRIDE(eta_plus),
    OVERRIDE(step_size_min),
    OVERRIDE(step_size_max),
    OVERRIDE(maximize),
};
_Static_assert(sizeof overrides / sizeof *overrides ==
                   sizeof(gw_parameter_group_options) / sizeof(double),
               "every option of a group can be given");

static bool override_options(gw_scope *s, const rule *r, const gw_parameter_group_options *given,
                             optimizer_group *g) {
    for (size_t i = 0; i < sizeof overrides / sizeof *overrides; i++) {
        double value = *(const double *)(const void *)((const char *)given + overrides[i].offset);
        if (value == GW_AS_FIRST) continue;
        const option *o = rule_option(r, overrides[i].name);
        if (!o)
            return scope_fail(s, GW_INVALID, "gw_optimizer_add_parameter_group: gw_%s has no %s",
                              r->name, overrides[i].name);
        option_set(o, g, value);
    }
    return true;
}

void gw_optimizer_add_parameter_group_with(gw_scope *s, gw_optimizer *o, gw_list *params,
                                           gw_parameter_group_options options) {
    if (!optimizer_check(s, o, "gw_optimizer_add_parameter_group")) return;
    optimizer_group g = o->groups[0];
    if (override_options(s, o->rule, &options, &g)) optimizer_add_group(s, o, params, &g);
}
