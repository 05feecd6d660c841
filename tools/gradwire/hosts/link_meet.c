#include "hosts/link_meet.h"

#include <stdlib.h>

enum { PLAN_VERSION = 2 };

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
    gw_map_put(s, m, "ranks", o->run->rank_count);
    gw_map_put(s, m, "keep", (int)(o->run->on_failure == FAILURE_KEEP));
    gw_map_put(s, m, "port", o->port);
    gw_map_put(s, m, "job", o->job_id);
    return m;
}

static int number_in(gw_scope *s, const gw_map *plan, const char *name) {
    return (int)gw_int_of(s, gw_map_get(s, plan, name));
}

static void compare(gw_scope *s, const gw_map *first, const gw_map *plan, int node) {
    int version = number_in(s, first, "version"), other_version = number_in(s, plan, "version");
    int ranks = number_in(s, first, "ranks"), other_ranks = number_in(s, plan, "ranks");
    if (version != other_version)
        gw_fail(s, GW_MISMATCH,
                "host 0 has version %d of the protocol of gradwire run, host %d has version %d",
                version, node, other_version);
    if (ranks != other_ranks)
        gw_fail(s, GW_MISMATCH, "host 0 was started with -n %d, but host %d with -n %d", ranks,
                node, other_ranks);
    if (number_in(s, first, "keep") != number_in(s, plan, "keep"))
        gw_fail(s, GW_MISMATCH, "host 0 and host %d were started with different --on-failure",
                node);
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
    out->job_id = gw_string_of(s, gw_map_get(s, first, "job"));
    out->port = number_in(s, first, "port");
}

// The watch is opened first: a host that is lost before it fails to agree.
void link_meet(gw_scope *root, const link_options *o, link_plan *out, link_watch *watch) {
    join(root, o);
    watch->scope = gw_scope_open(root);
    watch->watch = gw_watch_open(watch->scope);
    if (gw_ok(root)) agree(root, o, out);
}
