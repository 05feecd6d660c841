// What a rule says about the options and the state of a group.
#include "optim/optimizer.h"

#include <string.h>

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

bool rule_check(gw_scope *s, const rule *r, const optimizer_group *g) {
    for (int i = 0; i < r->option_count; i++) {
        const option *o = &r->options[i];
        double value = option_get(o, g);
        if (value >= o->low && value < o->below) continue;
        return scope_fail(s, GW_INVALID, "gw_%s: %s is %g, which is out of range", r->name, o->name,
                          value);
    }
    const char *problem = r->check ? r->check(g) : NULL;
    if (problem) scope_fail(s, GW_INVALID, "gw_%s: %s", r->name, problem);
    return !problem;
}

unsigned rule_states(const rule *r, const optimizer_group *g) {
    if (r->uses) return r->uses(g);
    unsigned used = 0;
    for (int k = 0; k < OPTIM_STATES_MAX; k++)
        if (r->states[k]) used |= 1u << k;
    return used;
}
