// The loops of the rules, in PyTorch's order of operations. They wait for memory; registers wider than
// the compiler's usual ones would not help much.
#include "optim/optimizer.h"

#include <math.h>

// The arrays are either apart or, a state of the first step and what it becomes, the very same.
#if defined(__clang__)
#define EACH_ALONE _Pragma("clang loop vectorize(assume_safety)")
#else
#define EACH_ALONE _Pragma("GCC ivdep")
#endif

// ---- SGD ----------------------------------------------------------------------------------------
static int sgd_state_count(const gw_optimizer *o) {
    return o->options.sgd.momentum != 0;
}

#define SGD(T)                                                                                     \
    static void sgd_##T(const gw_optimizer *o, const update *u) {                                  \
        const gw_sgd_options *c = &o->options.sgd;                                                 \
        const T *x = u->x, *grad = u->grad, *m = u->state[0];                                      \
        T *new_x = u->new_x, *new_m = u->new_state[0];                                             \
        const T lr = (T)o->lr, decay = (T)c->weight_decay, momentum = (T)c->momentum;              \
        /* The first step takes the gradient as it is. */                                          \
        const T keep = u->step == 1 ? 0 : momentum;                                                \
        const T add = u->step == 1 ? 1 : (T)(1 - c->dampening);                                    \
        if (!m) {                                                                                  \
            EACH_ALONE                                                                             \
            for (int64_t i = 0; i < u->count; i++)                                                 \
                new_x[i] = x[i] - lr * (grad[i] + decay * x[i]);                                   \
            return;                                                                                \
        }                                                                                          \
        EACH_ALONE                                                                                 \
        for (int64_t i = 0; i < u->count; i++) {                                                   \
            T g = grad[i] + decay * x[i];                                                          \
            T buffer = keep * m[i] + add * g;                                                      \
            new_m[i] = buffer;                                                                     \
            new_x[i] = x[i] - lr * (c->nesterov ? g + momentum * buffer : buffer);                 \
        }                                                                                          \
    }
SGD(float)
SGD(double)
#undef SGD

const rule rule_sgd = { "sgd", sgd_state_count, sgd_float, sgd_double };

// ---- Adam and AdamW -----------------------------------------------------------------------------
static int adam_state_count(const gw_optimizer *o) {
    (void)o;
    return 2;
}

// |coupled|: decay joins the gradient; |decoupled|: it shrinks the parameter first.
#define ADAM(T, root)                                                                              \
    static void adam_loop_##T(const gw_optimizer *o, const update *u, double coupled,              \
                              double decoupled) {                                                  \
        const gw_adam_options *c = &o->options.adam;                                               \
        const T *x = u->x, *grad = u->grad, *m = u->state[0], *v = u->state[1];                    \
        T *new_x = u->new_x, *new_m = u->new_state[0], *new_v = u->new_state[1];                   \
        const T beta1 = (T)c->beta1, beta2 = (T)c->beta2, eps = (T)c->eps;                         \
        const T add1 = (T)(1 - c->beta1), add2 = (T)(1 - c->beta2);                                \
        const T rate = (T)(o->lr / (1 - pow(c->beta1, (double)u->step)));                          \
        const T scale = (T)sqrt(1 - pow(c->beta2, (double)u->step));                               \
        const T decay = (T)coupled, shrink = (T)(1 - o->lr * decoupled);                           \
        EACH_ALONE                                                                                 \
        for (int64_t i = 0; i < u->count; i++) {                                                   \
            T g = grad[i] + decay * x[i];                                                          \
            T mean = beta1 * m[i] + add1 * g;                                                      \
            T square = beta2 * v[i] + add2 * g * g;                                                \
            new_m[i] = mean;                                                                       \
            new_v[i] = square;                                                                     \
            new_x[i] = shrink * x[i] - rate * mean / (root(square) / scale + eps);                 \
        }                                                                                          \
    }                                                                                              \
    static void adam_##T(const gw_optimizer *o, const update *u) {                                 \
        adam_loop_##T(o, u, o->options.adam.weight_decay, 0);                                      \
    }                                                                                              \
    static void adamw_##T(const gw_optimizer *o, const update *u) {                                \
        adam_loop_##T(o, u, 0, o->options.adam.weight_decay);                                      \
    }
ADAM(float, sqrtf)
ADAM(double, sqrt)
#undef ADAM

const rule rule_adam = { "adam", adam_state_count, adam_float, adam_double };
const rule rule_adamw = { "adamw", adam_state_count, adamw_float, adamw_double };
