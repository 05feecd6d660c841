// The inside of optimizers: a rule, its state, and a step in two halves.
//
// optimizer_stage computes the new values of all parameters into blocks of their own; after it,
// optimizer_commit puts them in place and cannot fail, or optimizer_discard drops them. A step over
// several workers will stage on every owner before any of them commits.
#ifndef OPTIM_OPTIMIZER_H
#define OPTIM_OPTIMIZER_H

#include "tensor/tensor.h"
#include <gradwire/optim.h>

enum { OPTIM_STATES_MAX = 2 };

// One parameter's part of a step, as plain arrays of |count| elements.
typedef struct update {
    const void *x, *grad;
    void *new_x;
    const void *state[OPTIM_STATES_MAX];  // zeros before the first step; may be new_state itself
    void *new_state[OPTIM_STATES_MAX];
    int64_t count;
    int64_t step;  // 1 is the first
} update;

typedef struct rule {
    const char *name;
    int (*state_count)(const gw_optimizer *o);
    void (*run_f32)(const gw_optimizer *o, const update *u);
    void (*run_f64)(const gw_optimizer *o, const update *u);
} rule;

extern const rule rule_sgd, rule_adam, rule_adamw;

typedef struct parameter {
    gw_tensor *x;  // counted
    int64_t step_count;
    block *state[OPTIM_STATES_MAX];  // arrays like x; NULL before the first step

    // staged
    block *new_x;  // NULL: no gradient, so nothing happens to it
    block *new_state[OPTIM_STATES_MAX];
} parameter;

struct gw_optimizer {
    gw_handle handle;

    // arguments
    const rule *rule;
    double lr;
    union {
        gw_sgd_options sgd;
        gw_adam_options adam;
    } options;

    // state
    parameter *parameters;
    int parameter_count;
    int64_t step_count;
};

bool optimizer_stage(gw_scope *s, gw_optimizer *o);  // false with |s| failed and nothing staged
void optimizer_commit(gw_optimizer *o);
void optimizer_discard(gw_optimizer *o);

// An optimizer without options, or NULL with |s| failed.
gw_optimizer *optimizer_open(gw_scope *s, const rule *rule, gw_list *params);

extern gw_optimizer optimizer_poison;  // what failed constructors return; steps of it do nothing

#endif
