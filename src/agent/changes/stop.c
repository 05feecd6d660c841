#include "agent/changes/stop.h"

#include "agent/admission/admission.h"
#include "agent/changes/member_events.h"
#include "agent/dispatch/deferred.h"
#include "agent/leaving/awaits.h"
#include "agent/leaving/leave.h"
#include "agent/members/member_table.h"
#include "agent/state/traffic.h"
#include "base/logged_losses.h"

void agent_stop_member_on_loop(agent *a, int rank, bool left, const gw_error *why) {
    member *m = agent_member(a, rank);
    agent_member_lost(m, why);
    m->left = left;
    a->present_count--;
    deferred_drop_on_loop(a, rank);
    awaits_lost_on_loop(a, rank);
    for (int i = 0; i < a->service_count; i++)
        if (a->services[i].service->lost) a->services[i].service->lost(a, rank);
}

static void stop_on_loop(agent *a, const gw_error *why) {
    if (a->phase == AGENT_LEFT) return;
    a->phase = AGENT_LEFT;
    for (int i = 0; i < a->service_count; i++)
        if (a->services[i].service->stop) a->services[i].service->stop(a, why);
    watches_close_on_loop(a);
    awaits_stop_on_loop(a);
    admission_end_on_loop(a);
    pool_end_on_loop(&a->pool);
}

static void close_store_on_loop(agent *a) {
    if (a->peers) peers_serve_store(a->peers, NULL, NULL);  // no more connections for it
    store_close(a->store);
    a->store = NULL;
}

static void close_peers_on_loop(agent *a) {
    if (!a->peers) return;
    a->final_stats = peers_get_stats(a->peers);
    traffic_keep_on_loop(a);
    deferred_close_on_loop(a);
    member_table_close_on_loop(a);
    // A thread of this worker may wait for a store in a file, never for the one that it hosts.
    if (a->hosts_store) close_store_on_loop(a);
    peers_close(a->peers);
    a->peers = NULL;
}

static void cut(task *t) {
    agent *a = list_entry(t, agent, cutting);
    env_enter(a->env);
    close_peers_on_loop(a);
    env_leave(a->env);
}

void agent_fence_on_loop(agent *a, const gw_error *why) {
    if (a->fence.status || a->phase == AGENT_LEFT || a->leaving.says_goodbye) return;
    bool was_in = why->status != GW_DISCONNECTED;  // else it has lost the member that admitted it
    error_set(&a->fence, was_in ? GW_FENCED : GW_DISCONNECTED, "%s", why->text);
    a->fence.lost = why->lost;
    logged_losses_forget(a->env);
    for (int rank = 0; rank < a->member_count; rank++)
        if (rank != a->rank && !agent_member(a, rank)->lost)
            agent_stop_member_on_loop(a, rank, false, &a->fence);
    stop_on_loop(a, &a->fence);
    leaving_finish_on_loop(a, &a->fence);
    if (a->joining) env_wake(a->env, a->joining);
    a->cutting.run = cut;
    env_defer(a->env, &a->cutting);
}

void agent_leave_on_loop(agent *a) {
    gw_error error;
    // All have given theirs back by now.
    if (a->phase == AGENT_DRAINING && !a->leaving.error.status && !a->leaving.alone)
        for (int i = 0; i < a->service_count; i++)
            if (a->services[i].service->report) a->services[i].service->report(a);
    error_set(&error, GW_DISCONNECTED, "%s has left the job", a->name);
    error_set_lost(&error, GW_LOSS_LEFT, a->rank, a->incarnation, a->name);
    stop_on_loop(a, &error);
    admission_join_on_loop(a);
    close_peers_on_loop(a);
    close_store_on_loop(a);
}
