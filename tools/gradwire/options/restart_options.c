#include "options/restart_options.h"

#include <string.h>

#include "base/limits.h"
#include "options/parse.h"
#include "options/roles.h"
#include "options/streams.h"

static const char *const policies[] = { [FAILURE_STOP] = "stop",
                                        [FAILURE_KEEP] = "keep",
                                        [FAILURE_RESTART] = "restart",
                                        [FAILURE_RESTART_ALL] = "restart-all",
                                        [FAILURE_AUTO] = "auto" };
enum { POLICY_COUNT = sizeof policies / sizeof policies[0] };

const char *restart_options_policy(failure_policy p) {
    return policies[p];
}

// "restart_all" is taken for "restart-all", as in names of options.
static bool is_policy(const char *text, const char *policy) {
    for (; *text && *policy; text++, policy++)
        if (*text != *policy && !(*text == '_' && *policy == '-')) return false;
    return !*text && !*policy;
}

bool restart_options_parse_policy(const char *name, const char *text, failure_policy *out) {
    for (int i = FAILURE_STOP; i < POLICY_COUNT; i++) {
        if (!is_policy(text, policies[i])) continue;
        *out = (failure_policy)i;
        return true;
    }
    return parse_complain("%s is stop, keep, restart, restart-all or auto, not \"%s\"", name, text);
}

static bool parse_straggler(const char *name, const char *text, run_options *out) {
    static const char *const actions[] = { [STRAGGLER_REPORT] = "report",
                                           [STRAGGLER_REPLACE] = "replace",
                                           [STRAGGLER_IGNORE] = "ignore" };
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, actions[i]) != 0) continue;
        out->on_straggler = (straggler_action)i;
        return true;
    }
    return parse_complain("%s is report, replace or ignore, not \"%s\"", name, text);
}

bool restart_options_take(run_option option, const char *name, const char *text, run_options *out) {
    switch ((int)option) {
    case OPTION_ON_FAILURE: return restart_options_parse_policy(name, text, &out->on_failure);
    case OPTION_MAX_RESTARTS: return parse_int(name, text, 0, RESTARTS_MAX, &out->max_restarts);
    case OPTION_MIN_SUCCESS: return parse_int(name, text, 1, LIMIT_WORKERS, &out->min_success);
    case OPTION_RESTART_WINDOW: return parse_seconds(name, text, &out->restart_window_ms);
    case OPTION_BACKOFF: return parse_seconds(name, text, &out->backoff_ms);
    case OPTION_PROGRESS_TIMEOUT: return parse_seconds(name, text, &out->progress_ms);
    case OPTION_HEALTH_CHECK:
        out->health_check = text;
        return *text || parse_complain("%s is empty, but must be a command", name);
    case OPTION_STRAGGLER: return parse_straggler(name, text, out);
    case OPTION_HOST_COOLDOWN: return parse_seconds(name, text, &out->host_cooldown_ms);
    case OPTION_REDIRECTS: out->redirects = text; return true;
    case OPTION_TEE: out->tee = text; return true;
    case OPTION_CHECKPOINT_DIR:
        out->checkpoint_dir = text;
        return *text || parse_complain("%s is empty, but must be the path of a folder", name);
    case OPTION_LOCAL_RANKS_FILTER: out->shown_ranks = text; return true;
    default: out->log_dir = text; return true;
    }
}

static bool check_streams(const run_options *o) {
    if (o->shown_ranks && !ranks_check("--local-ranks-filter", o->shown_ranks, o->rank_count))
        return false;
    if (o->redirects && !streams_check("-r", o->redirects, run_world_max(o))) return false;
    if (o->tee && !streams_check("-t", o->tee, run_world_max(o))) return false;
    return o->log_dir || !(o->redirects || o->tee) ||
           parse_complain("%s needs --log-dir=FOLDER, where the files are made",
                          o->redirects ? "-r" : "-t");
}

static bool check_min_success(const run_options *o) {
    if (!o->min_success) return true;
    if (o->on_failure != FAILURE_KEEP)
        return parse_complain("--min-success=%d needs --on-failure=keep, with which the other "
                              "ranks continue after a failure",
                              o->min_success);
    return o->min_success <= run_world_max(o) ||
           parse_complain("--min-success=%d is more than the %d ranks", o->min_success,
                          run_world_max(o));
}

static bool check_straggler(const run_options *o) {
    if (o->on_straggler != STRAGGLER_REPLACE) return true;
    if (run_has_hosts(o))
        return parse_complain("--straggler=replace is for jobs on one host: the rank would start "
                              "again on the same host");
    return o->on_failure == FAILURE_RESTART || o->on_failure == FAILURE_AUTO ||
           parse_complain("--straggler=replace needs --max-restarts=N, with which a rank can start "
                          "again alone");
}

bool restart_options_check(run_options *o) {
    if (o->on_failure == FAILURE_UNSET)
        o->on_failure = o->max_restarts || o->node_min < o->node_max ? FAILURE_AUTO : FAILURE_STOP;
    if (!roles_check_policies(o)) return false;
    if (o->on_failure >= FAILURE_RESTART && !o->max_restarts && !o->is_dynamic)
        return parse_complain("--on-failure=%s needs --max-restarts=N: without it nothing is "
                              "started again",
                              policies[o->on_failure]);
    if (o->max_restarts && !run_restarts(o))
        return parse_complain("--max-restarts=%d contradicts --on-failure=%s, with which nothing "
                              "is started again",
                              o->max_restarts, policies[o->on_failure]);
    return check_straggler(o) && check_min_success(o) && check_streams(o);
}
