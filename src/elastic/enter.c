// Joining the job, founding or joining the group of the members, and opening the replicas.
#include "elastic/elastic.h"

#include "agent/settings/error_file.h"
#include "base/log.h"
#include "parallel/ddp/ddp.h"
#include "runtime/runtime.h"
#include <gradwire/membership.h>

#undef GW_ORIGIN
#define GW_ORIGIN "gw_elastic_open"  // of the calls in this file, in errors

enum { ANSWER_MS = 10000 };

// ---- The job --------------------------------------------------------------------------------------

void enter_launched(gw_scope *root, const launched *at, const char *name, int64_t timeout_ms) {
    gw_job_kind kind = at->creates ? GW_JOB_CREATE : GW_JOB_JOIN;
    runtime_open_elastic(
        root, GW_OPTIONS(gw_rpc_options, .name = name, .job = kind, .join_timeout_ms = timeout_ms));
}

bool enter_joined(gw_scope *root, gw_elastic *j, const char *what, bool creates, const char *name) {
    j->lacks_state = true;
    if (gw_ok(root)) return true;
    // "WRONG_STATE if the job has ended": so has its work.
    if (!creates && scope_error(root)->status == GW_WRONG_STATE) {
        gw_scope_clear(root);
        error_file_withdraw();
        j->reason = GW_FINISHED;
        return false;
    }
    log_error("%s: %s", what, scope_error(root)->text);
    error_file_report(name ? name : "", scope_error(root));
    return false;
}

static bool join_launched(gw_scope *root, gw_elastic *j, const launched *at) {
    const char *name = launched_name(j->own, at);
    enter_launched(root, at, name, j->options.timeout_ms);
    return enter_joined(root, j, "gw_elastic_open", at->creates, name);
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

// Replies of the workers that are present: each arrives when that worker has finished, if it does (ELAS-11).
typedef struct answers {
    gw_future **futures;
    int count;
} answers;

static void other_has_finished(gw_scope *s, gw_future *f, void *context) {
    gw_elastic *j = context;
    gw_error why;
    (void)s;
    if (!gw_future_error(f)) {
        error_set(&why, GW_WRONG_STATE, "the job has finished its work");
        env_enter(j->agent->env);
        join_stop_on_loop(j->agent, &j->stop, &why);
        env_leave(j->agent->env);
    }
    handle_release(j);
}

// Not by gw_named, which ends when the other worker waits for this one.
static gw_future *ask(gw_scope *t, gw_elastic *j, gw_worker w, const char *name) {
    gw_value args[] = { gw_value_of(name) };
    gw_future *f = gw_rpc_async_with(t, gw_to_worker(w), "gw.named", (gw_values){ 1, args },
                                     GW_OPTIONS(gw_call_options, .timeout_ms = GW_NO_TIMEOUT));
    if (!gw_ok(t)) return NULL;
    handle_retain(j);
    gw_on_done(t, f, other_has_finished, j);
    if (!gw_ok(t)) handle_release(j);
    return f;
}

static answers ask_others(gw_scope *t, gw_elastic *j) {
    int count = 0;
    const gw_worker *all = gw_rpc_workers(t, &count);
    const char *name = elastic_finished_name(t, j->options.name);
    answers out = { .futures = gw_alloc(t, ((size_t)count + 1) * sizeof *out.futures) };
    for (int i = 0; gw_ok(t) && i < count; i++)
        if (all[i].rank != j->agent->rank) out.futures[out.count++] = ask(t, j, all[i], name);
    return out;
}

// Whether one of them has finished: its answer may arrive behind the report that it waits for this worker.
static bool has_one_finished(gw_scope *root, const answers *of) {
    gw_scope *s = scope_open_regardless(root);
    gw_scope_set_timeout(s, ANSWER_MS);
    bool is_so = false;
    for (int i = 0; i < of->count && !is_so; i++) {
        gw_scope *t = gw_scope_open(s);
        gw_wait(t, of->futures[i]);
        is_so = gw_ok(t);
        scope_close_unread(t);
    }
    scope_close_unread(s);
    return is_so;
}

// A group of its own, until gw_ddp_reform: no loss interrupts that it opens its replica.
static gw_group *open_replica(gw_scope *t, gw_elastic *j, bool founds) {
    gw_worker self = gw_rpc_self(t);
    gw_group *alone = gw_group_open(t, &self, 1, .name = founds ? j->options.name : NULL,
                                    .timeout_ms = j->options.timeout_ms);
    j->ddp = gw_keep(j->own, gw_ddp_open(t, j->model, .group = alone, .joining = true));
    if (gw_ok(t)) wishes_open(j->ddp);
    if (gw_ok(t) && j->options.hook)
        gw_ddp_set_hook(t, j->ddp, j->options.hook, j->options.hook_context);
    return alone;
}

// Founds it, or joins it.
static gw_group *find_group(gw_scope *t, gw_elastic *j, gw_group *alone) {
    const gw_elastic_options *o = &j->options;
    switch (j->agent->job) {
    case GW_JOB_NONE: return gw_group_world(t, .name = o->name, .timeout_ms = o->timeout_ms);
    case GW_JOB_CREATE:
        return gw_group_reform(t, alone, .min = o->size, .grow = true, .timeout_ms = o->timeout_ms);
    case GW_JOB_JOIN: break;
    }
    return join_until(t, o->name,
                      GW_OPTIONS(gw_group_join_options, .timeout_ms = o->timeout_ms,
                                 .collective_timeout_ms = o->timeout_ms),
                      &j->stop);
}

// Whether joining has failed because the others have finished.
static bool is_over(gw_scope *root, const gw_elastic *j, const answers *of, gw_status status) {
    if (!of->count || !status) return false;
    if (status == GW_DISCONNECTED) return has_one_finished(root, of);
    return status == j->stop.why.status;
}

bool enter_group(gw_scope *root, gw_elastic *j) {
    gw_scope *t = gw_scope_open(root);
    answers others = { 0 };
    gw_group *alone = open_replica(t, j, j->agent->job == GW_JOB_CREATE);
    if (gw_ok(t) && j->agent->job == GW_JOB_JOIN) others = ask_others(t, j);
    gw_group *g = gw_ok(t) ? find_group(t, j, alone) : NULL;
    if (gw_ok(t)) gw_set(j->own, &j->group, g);
    bool finished = is_over(root, j, &others, scope_error(t)->status);
    for (int i = 0; i < others.count; i++) gw_cancel(t, others.futures[i]);
    gw_error e = gw_scope_close(t);
    if (finished)
        j->reason = GW_FINISHED;
    else if (e.status)
        scope_fail_with(root, &e);
    return !e.status;
}
