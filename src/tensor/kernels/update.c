// The loops of the rules, in PyTorch's order of operations. They wait for memory; registers wider
// than the compiler's usual ones would not help much.
#include "tensor/kernels/update.h"

#include <gradwire/optim.h>

#include <math.h>

// The arrays are either apart, or the new and the old ones are the very same.
#if defined(__clang__)
#define EACH_ALONE _Pragma("clang loop vectorize(assume_safety)")
#else
#define EACH_ALONE _Pragma("GCC ivdep")
#endif

#define T float
#define ROOT sqrtf
#define ABS fabsf
#define NAME(rule) update_##rule##_f32
#include "tensor/kernels/update_body.h"

#define T double
#define ROOT sqrt
#define ABS fabs
#define NAME(rule) update_##rule##_f64
#include "tensor/kernels/update_body.h"

#define RULE(rule)                                                                                 \
    const update_rule update_##rule = { #rule, update_##rule##_f32, update_##rule##_f64 }
RULE(sgd);
RULE(adam);
RULE(adamw);
RULE(sparse_adam);
RULE(adamax);
RULE(adagrad);
RULE(adadelta);
RULE(rmsprop);
RULE(rprop);
#undef RULE
