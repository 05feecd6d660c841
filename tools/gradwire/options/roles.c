#include "options/roles.h"

#include <stdio.h>
#include <string.h>

#include "options/parse.h"
#include "options/restart_options.h"

static bool is_role_name(const char *text) {
    return *text && strlen(text) <= ROLE_MAX && is_plain_name(text);
}

static bool take_name(const char *name, const char *text, run_options *out) {
    if (!is_role_name(text))
        return parse_complain("%s takes a name of at most %d of A-Z a-z 0-9 _ . -, not \"%.80s\"",
                              name, ROLE_MAX, text);
    out->role = text;
    return true;
}

static bool is_taken(const run_options *o, const char *name) {
    for (int i = 0; i < o->role_count; i++)
        if (strcmp(o->roles[i].name, name) == 0) return true;
    return false;
}

static bool take_role(const char *name, char *text, run_options *out) {
    run_role r = { .policy = FAILURE_UNSET };
    char *rest = text, shown[ROLE_MAX + 32];
    const char *role = strsep(&rest, ":"), *count = strsep(&rest, ":");
    if (!is_role_name(role)) return take_name(name, role, out);
    if (is_taken(out, role)) return parse_complain("%s: there are two roles %s", name, role);
    snprintf(r.name, sizeof r.name, "%s", role);
    snprintf(shown, sizeof shown, "%s: the count of %s", name, role);
    if (!parse_int(shown, count, 1, RANK_COUNT_MAX, &r.count)) return false;
    if (rest && !restart_options_parse_policy(name, rest, &r.policy)) return false;
    if (out->role_count == ROLES_MAX)
        return parse_complain("%s: there are more than %d roles", name, ROLES_MAX);
    out->roles[out->role_count++] = r;
    return true;
}

bool roles_take(const char *name, const char *text, run_options *out) {
    char copy[2 * ROLE_MAX];
    if (!strchr(text, ':')) return take_name(name, text, out);
    if (strlen(text) >= sizeof copy) return parse_complain("%s is too long", name);
    snprintf(copy, sizeof copy, "%s", text);
    return take_role(name, copy, out);
}

bool roles_check(run_options *o) {
    int count = 0;
    if (!o->role_count) return true;
    for (int i = 0; i < o->role_count; i++) count += o->roles[i].count;
    if (count > RANK_COUNT_MAX)
        return parse_complain("the roles have %d processes, more than %d", count, RANK_COUNT_MAX);
    if (o->rank_count && o->rank_count != count)
        return parse_complain("-n is %d, but the roles have %d processes", o->rank_count, count);
    o->rank_count = count;
    return true;
}

bool roles_check_policies(run_options *o) {
    if (o->role_count && run_has_hosts(o))
        return parse_complain("--role=NAME:COUNT is for jobs on one host");
    for (int i = 0; i < o->role_count; i++) {
        run_role *r = &o->roles[i];
        if (r->policy == FAILURE_UNSET) r->policy = o->on_failure;
        if (r->policy >= FAILURE_RESTART && !o->max_restarts)
            return parse_complain("--role=%s:%d:%s needs --max-restarts=N: without it nothing is "
                                  "started again",
                                  r->name, r->count, restart_options_policy(r->policy));
    }
    return true;
}

const run_role *roles_find(const run_options *o, int index, int *out_number) {
    int first = 0;
    for (int i = 0; i < o->role_count; i++) {
        *out_number = index - first;
        if (index < first + o->roles[i].count) return &o->roles[i];
        first += o->roles[i].count;
    }
    *out_number = index;
    return NULL;
}

failure_policy roles_policy(const run_options *o, int index) {
    int number;
    const run_role *r = roles_find(o, index, &number);
    return r ? r->policy : o->on_failure;
}
