// Rules of programs: found by name, and run over pieces of a parameter as doubles.
#include "optim/optimizer.h"

#include "base/nearest.h"
#include "base/scope.h"
#include "base/value.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// The library's side of a registered rule.
typedef struct own_rule {
    update_rule update;  // first: the argument of the loops points here
    rule rule;
    option options[GW_RULE_OPTIONS_MAX];
    const gw_rule *given;
    bool is_twice;  // another has its name
} own_rule;

enum { OWN_RULES_MAX = 32 };
_Static_assert((int)GW_RULE_STATES_MAX == (int)OPTIM_STATES_MAX,
               "a rule of a program has as many states");

// Filled by constructors, before there are threads.
static own_rule rules[OWN_RULES_MAX];
static int rule_count;

// ---- Running ------------------------------------------------------------------------------------
enum { PIECE = 256 };

static void load(double *out, const void *from, int64_t at, int count, bool is_f32) {
    for (int i = 0; i < count; i++)
        out[i] = is_f32 ? (double)((const float *)from)[at + i] : ((const double *)from)[at + i];
}

static void store(void *to, const double *in, int64_t at, int count, bool is_f32) {
    for (int i = 0; i < count; i++)
        if (is_f32)
            ((float *)to)[at + i] = (float)in[i];
        else
            ((double *)to)[at + i] = in[i];
}

static void run_piece(const double *options, const update *u, int64_t at, int count, bool is_f32) {
    const own_rule *r = (const own_rule *)u->rule;
    double x[PIECE], grad[PIECE], state[GW_RULE_STATES_MAX][PIECE];
    gw_rule_step piece = {
        .options = options, .step = u->step, .count = count, .x = x, .grad = grad
    };
    load(x, u->x, at, count, is_f32);
    load(grad, u->grad, at, count, is_f32);
    for (int k = 0; k < GW_RULE_STATES_MAX && u->state[k]; k++) {
        load(state[k], u->state[k], at, count, is_f32);
        piece.state[k] = state[k];
    }
    r->given->step(&piece);
    store(u->new_x, x, at, count, is_f32);
    for (int k = 0; k < GW_RULE_STATES_MAX && u->state[k]; k++)
        store(u->new_state[k], state[k], at, count, is_f32);
}

static void run(const void *options, const update *u, bool is_f32) {
    for (int64_t at = 0; at < u->count; at += PIECE) {
        int64_t left = u->count - at;
        run_piece(options, u, at, left < PIECE ? (int)left : PIECE, is_f32);
    }
}

static void run_f32(const void *options, const update *u) {
    run(options, u, true);
}
static void run_f64(const void *options, const update *u) {
    run(options, u, false);
}

// ---- Registering --------------------------------------------------------------------------------
static int option_count_of(const gw_rule *g) {
    int count = 0;
    while (count < GW_RULE_OPTIONS_MAX && g->options[count].name) count++;
    return count;
}

// The error in |r|; NULL: none.
static const char *problem_of(const own_rule *r) {
    const gw_rule *g = r->given;
    if (r->is_twice) return "it is registered twice";
    if (!g->step) return "it has no step";
    if (!g->options[0].name || strcmp(g->options[0].name, "lr"))
        return "its first option is not lr";
    int states = 0;
    while (states < GW_RULE_STATES_MAX && g->states[states]) states++;
    for (int k = states; k < GW_RULE_STATES_MAX; k++)
        if (g->states[k]) return "a state has no name";
    return NULL;
}

static own_rule *find(const char *name) {
    for (int i = 0; i < rule_count; i++)
        if (!strcmp(rules[i].rule.name, name)) return &rules[i];
    return NULL;
}

void gw_rule_register(gw_rule *g) {
    if (rule_count == OWN_RULES_MAX) {
        fprintf(stderr, "gradwire: GW_RULE: %s cannot be registered: at most %d rules\n", g->name,
                OWN_RULES_MAX);
        return;
    }
    own_rule *before = find(g->name);
    if (before) {
        before->is_twice = true;
        return;
    }
    own_rule *r = &rules[rule_count++];
    int count = option_count_of(g);
    for (int k = 0; k < count; k++)
        r->options[k] = (option){ g->options[k].name, (size_t)k * sizeof(double), false,
                                  k ? -INFINITY : 0, INFINITY };
    r->given = g;
    r->update = (update_rule){ g->name, run_f32, run_f64 };
    r->rule = (rule){ .name = g->name,
                      .options = r->options,
                      .option_count = count,
                      .takes_dense = true,
                      .update = &r->update };
    for (int k = 0; k < GW_RULE_STATES_MAX; k++) r->rule.states[k] = g->states[k];
}

const rule *rule_find(const char *name) {
    const rule *listed = rule_find_listed(name);
    if (listed) return listed;
    const own_rule *r = find(name);
    return r && !problem_of(r) ? &r->rule : NULL;
}

// ---- Making -------------------------------------------------------------------------------------
static bool read_options(gw_scope *s, const own_rule *r, const gw_map *options,
                         optimizer_group *g) {
    for (int k = 0; k < r->rule.option_count; k++) g->options.own[k] = r->given->options[k].value;
    for (int i = 0; gw_ok(s) && i < (options ? gw_map_count(options) : 0); i++) {
        const char *name = gw_map_key(s, options, i);
        const option *o = rule_option(&r->rule, name);
        nearest n = nearest_to(name);
        for (int k = 0; !o && k < r->rule.option_count; k++)
            nearest_offer(&n, r->rule.options[k].name);
        if (!o)
            scope_fail(s, GW_INVALID, "gw_%s has no option \"%.64s\"%s", r->rule.name, name,
                       nearest_words(&n));
        if (o) option_set(o, g, gw_float_of(s, gw_map_find(options, name)));
    }
    return gw_ok(s);
}

static const own_rule *find_good(gw_scope *s, const char *name) {
    const own_rule *r = name ? find(name) : NULL;
    const char *problem = r ? problem_of(r) : NULL;
    if (problem)
        scope_fail(s, GW_INVALID, "the rule %s: %s", name, problem);
    else if (name && !r && rule_find_listed(name))
        scope_fail(s, GW_INVALID,
                   "gw_optimizer_open: this rule is the library's: call gw_%s instead", name);
    else if (!r) {
        nearest n = nearest_to(name);
        for (int i = 0; i < rule_count; i++) nearest_offer(&n, rules[i].given->name);
        scope_fail(s, GW_INVALID, "gw_optimizer_open: no rule is registered as \"%.64s\"%s",
                   name ? name : "", nearest_words(&n));
    }
    return gw_ok(s) ? r : NULL;
}

gw_optimizer *gw_optimizer_open(gw_scope *s, const char *name, gw_list *params, gw_map *options) {
    if (!gw_ok(s)) return &optimizer_poison;
    const own_rule *r = find_good(s, name);
    optimizer_group g = { 0 };
    return r && read_options(s, r, options, &g) ? optimizer_make(s, &r->rule, params, &g)
                                                : &optimizer_poison;
}
