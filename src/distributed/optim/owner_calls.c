// Calls from an optimizer to the owners of its parameters: their scope, and the options that they take.
#include "distributed/optim/optimizer.h"

gw_scope *calls_open(gw_scope *s) {
    uint64_t id = gw_scope_id(s);
    gw_scope *w = gw_scope_open(s);
    if (!gw_ok(w)) return w;
    w->id = id;
    gw_no_grad(w);
    return w;
}

bool calls_may_wait(gw_scope *s, const char *what) {
    gw_error error;
    if (!gw_ok(s) || !context_check_wait(s, &error)) return gw_ok(s);
    error_prefix(&error, what);
    return scope_fail_with(s, &error);
}

// ---- Options ------------------------------------------------------------------------------------
int options_count(const gw_optimizer *o) {
    return o->group_count * o->rule->option_count;
}

void options_write(const gw_optimizer *o, double *out) {
    for (int i = 0; i < o->group_count; i++)
        for (int k = 0; k < o->rule->option_count; k++)
            *out++ = option_get(&o->rule->options[k], &o->groups[i]);
}
