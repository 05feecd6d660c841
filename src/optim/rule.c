// The rules' options, and the optimizers that follow them.
#include "optim/optimizer.h"

#include <math.h>

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
