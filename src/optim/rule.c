// The rules: their options, what they keep, and the optimizers that follow them.
#include "optim/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- Options ------------------------------------------------------------------------------------
#define NUMBER(type, member, otherwise, below)                                                     \
    { #member, offsetof(type, member), false, otherwise, 0, below }
#define FLAG(type, member)                                                                         \
    { #member, offsetof(type, member), true, 0, 0, INFINITY }
#define LIST(list) list, (int)(sizeof list / sizeof *list)

static const option sgd_options[] = {
    NUMBER(gw_sgd_options, lr, 1e-3, INFINITY),
    NUMBER(gw_sgd_options, momentum, 0, INFINITY),
    { "dampening", offsetof(gw_sgd_options, dampening), false, 0, -INFINITY, INFINITY },
    NUMBER(gw_sgd_options, weight_decay, 0, INFINITY),
    FLAG(gw_sgd_options, nesterov),
    FLAG(gw_sgd_options, maximize),
};

#define ADAM_OPTIONS(decay)                                                                        \
    NUMBER(gw_adam_options, lr, 1e-3, INFINITY), NUMBER(gw_adam_options, beta1, 0.9, 1),           \
        NUMBER(gw_adam_options, beta2, 0.999, 1), NUMBER(gw_adam_options, eps, 1e-8, INFINITY),    \
        NUMBER(gw_adam_options, weight_decay, decay, INFINITY), FLAG(gw_adam_options, amsgrad),    \
        FLAG(gw_adam_options, maximize),
static const option adam_options[] = { ADAM_OPTIONS(0) };
static const option adamw_options[] = { ADAM_OPTIONS(0.01) };

static const option sparse_adam_options[] = {
    NUMBER(gw_sparse_adam_options, lr, 1e-3, INFINITY),
    NUMBER(gw_sparse_adam_options, beta1, 0.9, 1),
    NUMBER(gw_sparse_adam_options, beta2, 0.999, 1),
    NUMBER(gw_sparse_adam_options, eps, 1e-8, INFINITY),
    FLAG(gw_sparse_adam_options, maximize),
};

static const option adamax_options[] = {
    NUMBER(gw_adamax_options, lr, 2e-3, INFINITY),
    NUMBER(gw_adamax_options, beta1, 0.9, 1),
    NUMBER(gw_adamax_options, beta2, 0.999, 1),
    NUMBER(gw_adamax_options, eps, 1e-8, INFINITY),
    NUMBER(gw_adamax_options, weight_decay, 0, INFINITY),
    FLAG(gw_adamax_options, maximize),
};

static const option adagrad_options[] = {
    NUMBER(gw_adagrad_options, lr, 1e-2, INFINITY),
    NUMBER(gw_adagrad_options, lr_decay, 0, INFINITY),
    NUMBER(gw_adagrad_options, weight_decay, 0, INFINITY),
    NUMBER(gw_adagrad_options, initial_accumulator_value, 0, INFINITY),
    NUMBER(gw_adagrad_options, eps, 1e-10, INFINITY),
    FLAG(gw_adagrad_options, maximize),
};

static const option adadelta_options[] = {
    NUMBER(gw_adadelta_options, lr, 1, INFINITY),
    NUMBER(gw_adadelta_options, rho, 0.9, INFINITY),
    NUMBER(gw_adadelta_options, eps, 1e-6, INFINITY),
    NUMBER(gw_adadelta_options, weight_decay, 0, INFINITY),
    FLAG(gw_adadelta_options, maximize),
};

static const option rmsprop_options[] = {
    NUMBER(gw_rmsprop_options, lr, 1e-2, INFINITY),
    NUMBER(gw_rmsprop_options, alpha, 0.99, INFINITY),
    NUMBER(gw_rmsprop_options, eps, 1e-8, INFINITY),
    NUMBER(gw_rmsprop_options, weight_decay, 0, INFINITY),
    NUMBER(gw_rmsprop_options, momentum, 0, INFINITY),
    FLAG(gw_rmsprop_options, centered),
    FLAG(gw_rmsprop_options, maximize),
};

static const option rprop_options[] = {
    NUMBER(gw_rprop_options, lr, 1e-2, INFINITY),
    NUMBER(gw_rprop_options, eta_minus, 0.5, 1),
    NUMBER(gw_rprop_options, eta_plus, 1.2, INFINITY),
    NUMBER(gw_rprop_options, step_size_min, 1e-6, INFINITY),
    NUMBER(gw_rprop_options, step_size_max, 50, INFINITY),
    FLAG(gw_rprop_options, maximize),
};

double option_get(const option *o, const optimizer_group *g) {
    const char *at = (const char *)&g->options + o->offset;
    if (o->is_flag) return *(const bool *)at;
    return *(const double *)(const void *)at;
}

void option_set(const option *o, optimizer_group *g, double value) {
    char *at = (char *)&g->options + o->offset;
    if (o->is_flag)
        *(bool *)at = value != 0;
    else
        *(double *)(void *)at = value;
}

const option *rule_option(const rule *r, const char *name) {
    for (int i = 0; i < r->option_count; i++)
        if (strcmp(r->options[i].name, name) == 0) return &r->options[i];
    return NULL;
}

void rule_complete(const rule *r, optimizer_group *g, const optimizer_group *first) {
    for (int i = 0; i < r->option_count; i++) {
        const option *o = &r->options[i];
        double value = option_get(o, g);
        if (value == 0)
            option_set(o, g, first ? option_get(o, first) : o->otherwise);
        else if (value == -1)
            option_set(o, g, 0);
    }
}

bool rule_check(gw_scope *s, const rule *r, const optimizer_group *g) {
    for (int i = 0; i < r->option_count; i++) {
        const option *o = &r->options[i];
        double value = option_get(o, g);
        if (value >= o->low && value < o->below) continue;
        scope_fail(s, GW_INVALID, "gw_%s: %s is %g", r->name, o->name, value);
        return false;
    }
    const char *problem = r->check ? r->check(g) : NULL;
    if (problem) scope_fail(s, GW_INVALID, "gw_%s: %s", r->name, problem);
    return !problem;
}

// ---- What is wrong with options -----------------------------------------------------------------
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

// ---- What they keep -----------------------------------------------------------------------------
static unsigned momentum_of_sgd(const optimizer_group *g) {
    return g->options.sgd.momentum != 0;
}
static unsigned one(const optimizer_group *g) {
    (void)g;
    return 1;
}
static unsigned two(const optimizer_group *g) {
    (void)g;
    return 3;
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

#define LOOPS(rule) .run_f32 = update_##rule##_f32, .run_f64 = update_##rule##_f64
static const rule rules[RULE_COUNT] = {
    [SGD] = { "sgd",
              LIST(sgd_options),
              check_sgd,
              { "momentum_buffer" },
              momentum_of_sgd,
              .takes_rows = true,
              .takes_dense = true,
              LOOPS(sgd) },
    [ADAM] = { "adam",
               LIST(adam_options),
               NULL,
               { "exp_avg", "exp_avg_sq", "max_exp_avg_sq" },
               moments,
               .takes_dense = true,
               LOOPS(adam) },
    [ADAMW] = { "adamw",
                LIST(adamw_options),
                NULL,
                { "exp_avg", "exp_avg_sq", "max_exp_avg_sq" },
                moments,
                .takes_dense = true,
                LOOPS(adamw) },
    [SPARSE_ADAM] = { "sparse_adam",
                      LIST(sparse_adam_options),
                      NULL,
                      { "exp_avg", "exp_avg_sq" },
                      two,
                      .takes_rows = true,
                      LOOPS(sparse_adam) },
    [ADAMAX] = { "adamax",
                 LIST(adamax_options),
                 NULL,
                 { "exp_avg", "exp_inf" },
                 two,
                 .takes_dense = true,
                 LOOPS(adamax) },
    [ADAGRAD] = { "adagrad",
                  LIST(adagrad_options),
                  NULL,
                  { "sum" },
                  one,
                  first_sum,
                  .takes_rows = true,
                  .takes_dense = true,
                  LOOPS(adagrad) },
    [ADADELTA] = { "adadelta",
                   LIST(adadelta_options),
                   check_adadelta,
                   { "square_avg", "acc_delta" },
                   two,
                   .takes_dense = true,
                   LOOPS(adadelta) },
    [RMSPROP] = { "rmsprop",
                  LIST(rmsprop_options),
                  NULL,
                  { "square_avg", "grad_avg", "momentum_buffer" },
                  means,
                  .takes_dense = true,
                  LOOPS(rmsprop) },
    [RPROP] = { "rprop",
                LIST(rprop_options),
                check_rprop,
                { "prev", "step_size" },
                two,
                first_size,
                .takes_dense = true,
                LOOPS(rprop) },
};

const rule *rule_find(const char *name) {
    for (int i = 0; i < RULE_COUNT; i++)
        if (strcmp(rules[i].name, name) == 0) return &rules[i];
    return NULL;
}

// ---- Optimizers that follow them ----------------------------------------------------------------
static gw_optimizer *make(gw_scope *s, int number, gw_list *params,
                          const optimizer_group *options) {
    gw_optimizer *o = optimizer_open(s, &rules[number]);
    if (o && !optimizer_add_group(s, o, params, options)) {
        handle_release(o);
        o = NULL;
    }
    o = o ? scope_own(s, o) : NULL;
    return o ? o : &optimizer_poison;
}

static void add(gw_scope *s, int number, gw_optimizer *o, gw_list *params,
                const optimizer_group *options) {
    char function[64];
    snprintf(function, sizeof function, "gw_%s_add_group", rules[number].name);
    if (!optimizer_check(s, o, function)) return;
    if (o->rule != &rules[number]) {
        scope_fail(s, GW_INVALID, "gw_%s_add_group: the optimizer is one of gw_%s",
                   rules[number].name, o->rule->name);
        return;
    }
    optimizer_add_group(s, o, params, options);
}

#define RULE(name, NAME, struct_name, member)                                                      \
    gw_optimizer *gw_##name(gw_scope *s, gw_list *params, struct_name options) {                   \
        return make(                                                                               \
            s, NAME, params,                                                                       \
            &(optimizer_group){ .options.member = options, .concurrent = options.concurrent });    \
    }                                                                                              \
    void gw_##name##_add_group(gw_scope *s, gw_optimizer *opt, gw_list *params,                    \
                               struct_name options) {                                              \
        add(s, NAME, opt, params, &(optimizer_group){ .options.member = options });                \
    }
RULE(sgd, SGD, gw_sgd_options, sgd)
RULE(adam, ADAM, gw_adam_options, adam)
RULE(adamw, ADAMW, gw_adam_options, adam)
RULE(sparse_adam, SPARSE_ADAM, gw_sparse_adam_options, sparse_adam)
RULE(adamax, ADAMAX, gw_adamax_options, adamax)
RULE(adagrad, ADAGRAD, gw_adagrad_options, adagrad)
RULE(adadelta, ADADELTA, gw_adadelta_options, adadelta)
RULE(rmsprop, RMSPROP, gw_rmsprop_options, rmsprop)
RULE(rprop, RPROP, gw_rprop_options, rprop)
