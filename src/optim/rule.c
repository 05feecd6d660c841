// The rules, in PyTorch's order of operations, and their options.
#include "optim/optimizer.h"

#include <math.h>

// These loops wait for memory; wider registers than the compiler's default would not help.
#if defined(__clang__)
#define STREAMED _Pragma("clang loop vectorize(enable)")
#elif defined(__GNUC__)
#pragma GCC optimize("O3")
#define STREAMED _Pragma("GCC ivdep")
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
            STREAMED                                                                               \
            for (int64_t i = 0; i < u->count; i++)                                                 \
                new_x[i] = x[i] - lr * (grad[i] + decay * x[i]);                                   \
            return;                                                                                \
        }                                                                                          \
        STREAMED                                                                                   \
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
        STREAMED                                                                                   \
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

// ---- Options ------------------------------------------------------------------------------------
// 0 is the default, -1 is 0. False, with |s| failed, if the number is outside [0, below).
static bool set(gw_scope *s, const rule *r, const char *name, double *value, double otherwise,
                double below) {
    if (*value == 0)
        *value = otherwise;
    else if (*value == -1)
        *value = 0;
    if (*value >= 0 && *value < below) return true;
    scope_fail(s, GW_INVALID, "gw_%s: %s is %g", r->name, name, *value);
    return false;
}

static gw_optimizer *give(gw_scope *s, gw_optimizer *o) {
    if (o && !gw_ok(s)) {
        handle_release(o);
        o = NULL;
    }
    o = o ? scope_own(s, o) : NULL;
    return o ? o : &optimizer_poison;
}

gw_optimizer *gw_sgd(gw_scope *s, gw_list *params, gw_sgd_options c) {
    gw_optimizer *o = optimizer_open(s, &rule_sgd, params);
    if (!o) return &optimizer_poison;
    bool ok = set(s, &rule_sgd, "lr", &c.lr, 1e-3, INFINITY) &&
              set(s, &rule_sgd, "momentum", &c.momentum, 0, INFINITY) &&
              set(s, &rule_sgd, "weight_decay", &c.weight_decay, 0, INFINITY);
    if (ok && !isfinite(c.dampening))
        scope_fail(s, GW_INVALID, "gw_sgd: dampening is %g", c.dampening);
    if (ok && c.nesterov && (c.momentum == 0 || c.dampening != 0))
        scope_fail(s, GW_INVALID, "gw_sgd: nesterov needs momentum, and no dampening");
    o->options.sgd = c;
    o->lr = c.lr;
    return give(s, o);
}

static gw_optimizer *open_adam(gw_scope *s, const rule *r, gw_list *params, gw_adam_options c,
                               double weight_decay) {
    gw_optimizer *o = optimizer_open(s, r, params);
    if (!o) return &optimizer_poison;
    bool ok = set(s, r, "lr", &c.lr, 1e-3, INFINITY) && set(s, r, "beta1", &c.beta1, 0.9, 1) &&
              set(s, r, "beta2", &c.beta2, 0.999, 1) && set(s, r, "eps", &c.eps, 1e-8, INFINITY) &&
              set(s, r, "weight_decay", &c.weight_decay, weight_decay, INFINITY);
    (void)ok;
    o->options.adam = c;
    o->lr = c.lr;
    return give(s, o);
}

gw_optimizer *gw_adam(gw_scope *s, gw_list *params, gw_adam_options options) {
    return open_adam(s, &rule_adam, params, options, 0);
}
gw_optimizer *gw_adamw(gw_scope *s, gw_list *params, gw_adam_options options) {
    return open_adam(s, &rule_adamw, params, options, 0.01);
}
