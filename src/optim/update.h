// The arithmetic of the rules, on plain arrays.
#ifndef OPTIM_UPDATE_H
#define OPTIM_UPDATE_H

#include <stdbool.h>
#include <stdint.h>

enum { OPTIM_STATES_MAX = 3 };

struct optimizer_group;

// One parameter's part of a step: arrays of |count| numbers. What is new may be written over what
// was; otherwise the arrays are apart.
typedef struct update {
    const void *x, *grad;
    void *new_x;
    const void *state[OPTIM_STATES_MAX];  // NULL: not used
    void *new_state[OPTIM_STATES_MAX];
    int64_t count;
    int64_t step;    // 1 is the first
    unsigned first;  // bit k: state k has its first value, which no step has seen
} update;

typedef void update_loop(const struct optimizer_group *g, const update *u);

#define UPDATE(rule) update_loop update_##rule##_f32, update_##rule##_f64
UPDATE(sgd);
UPDATE(adam);
UPDATE(adamw);
UPDATE(sparse_adam);
UPDATE(adamax);
UPDATE(adagrad);
UPDATE(adadelta);
UPDATE(rmsprop);
UPDATE(rprop);
#undef UPDATE

#endif
