#include "hosts/link_meet.h"

#include <stdlib.h>
#include <string.h>

#include "options/restart_options.h"
#include "system/port.h"

enum { PLAN_VERSION = 4 };

// Numbers that are the same on all hosts.
static const struct {
    const char *name, *option;
    const char *unit;
} numbers[] = {
    { "ranks", "-n", "" },
    { "least", "the MIN of --nnodes", "" },
    { "most", "the MAX of --nnodes", "" },
    { "max-restarts", "--max-restarts", "" },
    { "min-success", "--min-success", "" },
    { "restart-window", "--restart-window", " ms" },
    { "backoff", "--backoff", " ms" },
};

// ---- The job of links ---------------------------------------------------------------------------

static gw_rpc_options options_of(gw_scope *root, const run_options *run) {
    return GW_OPTIONS(gw_rpc_options,
                      .init_method = gw_format(root, "tcp://%s", run->rdzv_endpoint),
                      .join_timeout_ms = run->rdzv_timeout_ms, .key = run->key,
                      .addresses = run->local_addr, .insecure = run->insecure);
}

static void join_given(gw_scope *root, const run_options *run) {
    gw_rpc_options o = options_of(root, run);
    o.name = gw_format(root, "host%d", run->node_rank);
    o.rank = run->node_rank;
    o.world_size = run->node_count;
    gw_rpc_init_with(root, o);
}

// The launcher whose host has the address of the rendezvous creates the job, and the others join it. If two launchers of that host
// start together, one of them finds that it cannot listen any more.
static void join_dynamic(gw_scope *root, const run_options *run) {
    gw_rpc_options o = options_of(root, run);
    o.name = "launcher%d";
    o.job = GW_JOB_CREATE;
    bool may_create = port_is_free(run->rdzv_endpoint);
    if (may_create) gw_rpc_init_with(root, o);
    if (may_create && (gw_ok(root) || port_is_free(run->rdzv_endpoint))) return;
    gw_scope_clear(root);
    o.job = GW_JOB_JOIN;
    gw_rpc_init_with(root, o);
}

// The watch is opened first: a host that is lost before it fails to agree.
void link_meet_join(gw_scope *root, const link_options *o, link_watch *watch) {
    // Launchers are another job than their ranks, of the same key.
    setenv("GW_JOB_ID", gw_format(root, "launchers/%s", o->run->rdzv_id), 1);
    unsetenv("GRADWIRE_JOB");
    if (o->run->is_dynamic)
        join_dynamic(root, o->run);
    else
        join_given(root, o->run);
    watch->scope = gw_scope_open(root);
    watch->watch = gw_watch_open(watch->scope);
}

// ---- The plan -----------------------------------------------------------------------------------

static gw_map *make_plan(gw_scope *s, const link_options *o) {
    gw_map *m = gw_map_open(s);
    gw_map_put(s, m, "version", PLAN_VERSION);
    gw_map_put(s, m, "on-failure", restart_options_policy(o->run->on_failure));
    gw_map_put(s, m, "ranks", o->run->rank_count);
    gw_map_put(s, m, "least", o->run->node_min);
    gw_map_put(s, m, "most", o->run->node_max);
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

static void compare_versions(gw_scope *s, const gw_map *first, const gw_map *plan,
                             const char *host) {
    int64_t version = number_in(s, first, "version"), other = number_in(s, plan, "version");
    if (version != other)
        gw_fail(s, GW_MISMATCH,
                "host 0 has version %lld of the protocol of gradwire run, %s has version %lld",
                (long long)version, host, (long long)other);
}

// |host|: that of |plan|, for errors.
static void compare(gw_scope *s, const gw_map *first, const gw_map *plan, const char *host) {
    compare_versions(s, first, plan, host);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && gw_ok(s); i++) {
        const char *option = numbers[i].option, *unit = numbers[i].unit;
        int64_t number = number_in(s, first, numbers[i].name),
                other = number_in(s, plan, numbers[i].name);
        if (number != other)
            gw_fail(s, GW_MISMATCH, "host 0 was started with %s %lld%s, but %s with %s %lld%s",
                    option, (long long)number, unit, host, option, (long long)other, unit);
    }
    if (!gw_ok(s)) return;
    const char *policy = text_in(s, first, "on-failure"), *other = text_in(s, plan, "on-failure");
    if (gw_ok(s) && strcmp(policy, other) != 0)
        gw_fail(s, GW_MISMATCH,
                "host 0 was started with --on-failure %s, but %s with --on-failure %s", policy,
                host, other);
}

static void take(gw_scope *s, const gw_map *first, link_plan *out) {
    out->job_id = text_in(s, first, "job");
    out->port = (int)number_in(s, first, "port");
}

// Each host sends its plan to all others, and takes the job's id and port from the plan of host 0.
static void agree(gw_scope *s, const link_options *o, link_plan *out) {
    int count;
    const gw_worker *all = gw_rpc_workers(s, &count);
    gw_list *plans = gw_rpc_all_gather(s, all, count, make_plan(s, o));
    if (!gw_ok(s)) return;
    const gw_map *first = gw_map_of(s, gw_list_get(s, plans, 0));
    for (int node = 1; node < count && gw_ok(s); node++)
        compare(s, first, gw_map_of(s, gw_list_get(s, plans, node)), gw_format(s, "host %d", node));
    take(s, first, out);
}

// ---- A dynamic job ------------------------------------------------------------------------------

gw_map *link_meet_compare(gw_scope *s, const link_options *o, const gw_map *plan) {
    gw_map *first = make_plan(s, o);
    if (gw_ok(s)) compare(s, first, plan, "the host that joins");
    return first;
}

static void ask_to_join(gw_scope *s, const link_options *o, link_plan *out) {
    gw_value reply =
        gw_rpc_sync_with(s, gw_to(0), "launcher_join", GW_ARGS(make_plan(s, o)),
                         GW_OPTIONS(gw_call_options, .timeout_ms = o->run->rdzv_timeout_ms));
    if (!gw_ok(s)) return;
    const gw_map *plan = gw_map_of(s, reply);
    take(s, plan, out);
    out->has_started = gw_bool_of(s, gw_map_get(s, plan, "started"));
}

void link_meet_agree(gw_scope *root, const link_options *o, link_plan *out) {
    if (o->run->is_dynamic)
        ask_to_join(root, o, out);
    else
        agree(root, o, out);
}
