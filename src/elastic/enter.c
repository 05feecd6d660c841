// Joining the job, founding or joining the group of the members, and opening the replicas.
#include "elastic/elastic.h"

#include "agent/error_file.h"
#include "base/log.h"
#include "parallel/ddp/ddp.h"
#include "runtime/runtime.h"
#include <gradwire/membership.h>
#include <gradwire/ref.h>

#undef GW_ORIGIN
#define GW_ORIGIN "gw_elastic_open"  // of the calls in this file, in errors

enum { ANSWER_MS = 10000 };

// ---- The job --------------------------------------------------------------------------------------

static bool join_launched(gw_scope *root, gw_elastic *j, const launched *at) {
    gw_scope *own = j->own;
    const char *name = launched_name(own, at);
    gw_job_kind kind = at->creates ? GW_JOB_CREATE : GW_JOB_JOIN;
    runtime_open_elastic(root, GW_OPTIONS(gw_rpc_options, .name = name, .job = kind,
                                          .join_timeout_ms = j->options.timeout_ms));
    j->lacks_state = true;
    if (gw_ok(root)) return true;
    // "WRONG_STATE if the job has ended": so has its work.
    if (!at->creates && scope_error(root)->status == GW_WRONG_STATE) {
        gw_scope_clear(root);
        j->reason = GW_FINISHED;
        return false;
    }
    log_error("gw_elastic_open: %s", scope_error(root)->text);
    error_file_report(name ? name : "", scope_error(root));
    return false;
}

bool enter_job(gw_scope *root, gw_elastic *j, const launched *at) {
    if (!root->agent) {
        j->has_joined = true;
        if (at->is_elastic && !join_launched(root, j, at)) return false;
        if (!at->is_elastic) gw_rpc_init(root);
    }
    agent *a = gw_ok(root) ? agent_of(root) : NULL;
    j->agent = a ? agent_retain(a) : NULL;
    return a && launched_settle(root, at, a->job ? 0 : gw_rpc_world_size(root), &j->options);
}

// ---- The group ------------------------------------------------------------------------------------

// A member that has finished gives this name to a value before it waits for the others.
static bool have_finished(gw_scope *root, const char *name) {
    gw_scope *s = scope_open_regardless(root);
    int count = 0;
    bool is_found = false;
    const gw_worker *all = gw_rpc_workers(s, &count);
    for (int i = 0; i < count && !is_found; i++) {
        if (all[i].rank == gw_rpc_self(s).rank) continue;
        gw_scope *t = gw_scope_open(s);
        gw_scope_set_timeout(t, ANSWER_MS);
        gw_named(t, all[i], elastic_finished_name(t, name));
        is_found = gw_ok(t);
        scope_close_unread(t);
    }
    scope_close_unread(s);
    return is_found;
}

// A group of its own, until gw_ddp_reform: no loss interrupts that it opens its replica.
static gw_group *open_replica(gw_scope *t, gw_elastic *j, bool founds) {
    gw_worker self = gw_rpc_self(t);
    gw_group *alone = gw_group_open(t, &self, 1, .name = founds ? j->options.name : NULL,
                                    .timeout_ms = j->options.timeout_ms);
    j->ddp = gw_keep(j->own, gw_ddp_open(t, j->model, .group = alone, .joining = true));
    if (gw_ok(t)) wishes_open(j->ddp);
    return alone;
}

static gw_group *find_group(gw_scope *t, const gw_elastic *j, gw_group *alone, bool founds) {
    const gw_elastic_options *o = &j->options;
    if (!j->agent->job) return gw_group_world(t, .name = o->name, .timeout_ms = o->timeout_ms);
    if (founds)
        return gw_group_reform(t, alone, .min = o->size, .grow = true, .timeout_ms = o->timeout_ms);
    return gw_group_join(t, o->name, .timeout_ms = o->timeout_ms,
                         .collective_timeout_ms = o->timeout_ms);
}

bool enter_group(gw_scope *root, gw_elastic *j) {
    gw_scope *t = gw_scope_open(root);
    bool founds = j->agent->job == GW_JOB_CREATE;
    gw_group *alone = open_replica(t, j, founds);
    gw_group *g = gw_ok(t) ? find_group(t, j, alone, founds) : NULL;
    if (gw_ok(t)) gw_set(j->own, &j->group, g);
    gw_error e = gw_scope_close(t);
    bool is_left_alone = e.status == GW_DISCONNECTED && j->agent->job == GW_JOB_JOIN;
    if (is_left_alone && have_finished(root, j->options.name))
        j->reason = GW_FINISHED;
    else if (e.status)
        scope_fail_with(root, &e);
    return !e.status;
}
