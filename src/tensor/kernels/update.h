// The arithmetic of optimizers' rules, on plain arrays: the CPU's kernels, and the types of those of other
// devices.
#ifndef TENSOR_KERNELS_UPDATE_H
#define TENSOR_KERNELS_UPDATE_H

#include <stdbool.h>
#include <stdint.h>

enum { UPDATE_STATES_MAX = 3 };

// One parameter's part of a step: arrays of |count| numbers on one device. New values may replace
// the old ones in the same array; otherwise the arrays are apart.
typedef struct update {
    const void *x, *grad;
    void *new_x;
    const void *state[UPDATE_STATES_MAX];  // NULL: not used
    void *new_state[UPDATE_STATES_MAX];
    int64_t count;
    int64_t step;    // 1 is the first
    unsigned first;  // bit k: state k has its first value, which no step has seen
    const struct update_rule *rule;
} update;

// |options| are the rule's of gradwire/optim.h, complete.
typedef void update_loop(const void *options, const update *u);

typedef struct update_rule {
    const char *name;
    update_loop *f32, *f64;
} update_rule;

extern const update_rule update_sgd, update_adam, update_adamw, update_sparse_adam, update_adamax;
extern const update_rule update_adagrad, update_adadelta, update_rmsprop, update_rprop;

#endif
