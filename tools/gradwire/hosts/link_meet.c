#include "hosts/link_meet.h"

#include <stdlib.h>
#include <string.h>

#include "options/restart_options.h"

enum { PLAN_VERSION = 3 };

// Numbers that are the same on all hosts.
static const struct {
    const char *name, *option;
    const char *unit;
} numbers[] = {
    { "ranks", "-n", "" },
    { "max-restarts", "--max-restarts", "" },
    { "min-success", "--min-success", "" },
    { "restart-window", "--restart-window", " ms" },
    { "backoff", "--backoff", " ms" },
};

static void join(gw_scope *root, const link_options *o) {
    const run_options *run = o->run;
    // Launchers are another job than their ranks, of the same key.
    setenv("GW_JOB_ID", gw_format(root, "launchers/%s", run->rdzv_id), 1);
    unsetenv("GRADWIRE_JOB");
    gw_rpc_init(root, .name = gw_format(root, "host%d", run->node_rank), .rank = run->node_rank,
                .world_size = run->node_count,
                .init_method = gw_format(root, "tcp://%s", run->rdzv_endpoint),
                .join_timeout_ms = run->rdzv_timeout_ms, .key = run->key,
                .addresses = run->local_addr, .insecure = run->insecure);
}

static gw_map *make_plan(gw_scope *s, const link_options *o) {
    gw_map *m = gw_map_open(s);
    gw_map_put(s, m, "version", PLAN_VERSION);
    gw_map_put(s, m, "on-failure", restart_options_policy(o->run->on_failure));
    gw_map_put(s, m, "ranks", o->run->rank_count);
    gw_map_put(s, m, "max-restarts", o->run->max_restarts);
    gw_map_put(s, m, "min-success", o->run->min_success);
    gw_map_put(s, m, "restart-window", o->run->restart_window_ms);
    gw_map_put(s, m, "backoff", o->run->backoff_ms);
    gw_map_put(s, m, "port", o->port);
    gw_map_put(s, m, "job", o->job_id);
    return m;
}

static int64_t number_in(gw_scope *s, const gw_map *plan, const char *name) {
    return gw_int_of(s, gw_map_get(s, plan, name));
}

static const char *text_in(gw_scope *s, const gw_map *plan, const char *name) {
    return gw_string_of(s, gw_map_get(s, plan, name));
}

static void compare_versions(gw_scope *s, const gw_map *first, const gw_map *plan, int node) {
    int64_t version = number_in(s, first, "version"), other = number_in(s, plan, "version");
    if (version != other)
        gw_fail(s, GW_MISMATCH,
                "host 0 has version %lld of the protocol of gradwire run, host %d has version %lld",
                (long long)version, node, (long long)other);
}

static void compare(gw_scope *s, const gw_map *first, const gw_map *plan, int node) {
    compare_versions(s, first, plan, node);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && gw_ok(s); i++) {
        const char *option = numbers[i].option, *unit = numbers[i].unit;
        int64_t number = number_in(s, first, numbers[i].name),
                other = number_in(s, plan, numbers[i].name);
        if (number != other)
            gw_fail(s, GW_MISMATCH, "host 0 was started with %s %lld%s, but host %d with %s %lld%s",
                    option, (long long)number, unit, node, option, (long long)other, unit);
    }
    if (!gw_ok(s)) return;
    const char *policy = text_in(s, first, "on-failure"), *other = text_in(s, plan, "on-failure");
    if (gw_ok(s) && strcmp(policy, other) != 0)
        gw_fail(s, GW_MISMATCH,
                "host 0 was started with --on-failure %s, but host %d with --on-failure %s", policy,
                node, other);
}

// Each host sends its plan to all others, and takes the job's id and port from the plan of host 0.
static void agree(gw_scope *s, const link_options *o, link_plan *out) {
    int count;
    const gw_worker *all = gw_rpc_workers(s, &count);
    gw_list *plans = gw_rpc_all_gather(s, all, count, make_plan(s, o));
    if (!gw_ok(s)) return;
    const gw_map *first = gw_map_of(s, gw_list_get(s, plans, 0));
    for (int node = 1; node < count && gw_ok(s); node++)
        compare(s, first, gw_map_of(s, gw_list_get(s, plans, node)), node);
    out->job_id = text_in(s, first, "job");
    out->port = (int)number_in(s, first, "port");
}

// The watch is opened first: a host that is lost before it fails to agree.
void link_meet(gw_scope *root, const link_options *o, link_plan *out, link_watch *watch) {
    join(root, o);
    watch->scope = gw_scope_open(root);
    watch->watch = gw_watch_open(watch->scope);
    if (gw_ok(root)) agree(root, o, out);
}
