#include "agent/changes/member_changes.h"

#include "agent/admission/admission.h"
#include "agent/changes/member_events.h"
#include "agent/changes/stop.h"
#include "agent/dispatch/deferred.h"
#include "agent/leaving/leave.h"
#include "agent/members/member_table.h"
#include "agent/members/members.h"
#include "base/log.h"
#include "trace/record.h"

static void record(const agent *a, trace_kind kind, int rank) {
    const gw_worker *w = &agent_member(a, rank)->worker;
    trace_record_text(kind, a->observer.row, w->incarnation, (uint64_t)rank, w->name);
}

static void joined(void *user, const member_fact *member) {
    agent *a = user;
    gw_error error;
    int rank = member->rank;
    const gw_worker w = { .name = member->name, .rank = rank, .incarnation = member->incarnation };
    if (a->fence.status || member_table_is_known(a, (uint32_t)rank)) return;
    // A worker without an entry for a member could not handle messages about it.
    if (member_table_add_peer_on_loop(a, &w, member->addresses, &error)) {
        log_line("%s leaves the job, because it cannot add another member: %s", a->name,
                 error.text);
        agent_fence_on_loop(a, &error);
        return;
    }
    for (int i = 0; i < a->service_count; i++)
        if (a->services[i].service->joined) a->services[i].service->joined(a, rank);
    deferred_retry_on_loop(a);
    record(a, TRACE_MEMBER_JOINED, rank);
    watches_notify_on_loop(a, GW_MEMBER_JOINED, rank);
}

static void gone(void *user, int rank, bool left, const gw_error *why) {
    agent *a = user;
    if (a->fence.status || !member_table_is_known(a, (uint32_t)rank)) return;
    if (agent_member(a, rank)->lost) return;
    agent_stop_member_on_loop(a, rank, left, why);
    if (!left)
        agent_notify_launcher(
            a, membership_has_declared(a->membership->machine, rank) ? "dead" : "lost",
            agent_member(a, rank)->worker.incarnation, why->text);
    record(a, left ? TRACE_MEMBER_LEFT : TRACE_MEMBER_DIED, rank);
    leaving_lost_on_loop(a, rank);
    watches_notify_on_loop(a, left ? GW_MEMBER_LEFT : GW_MEMBER_DIED, rank);
    if (a->joining) env_wake(a->env, a->joining);
}

static void suspected(void *user, int rank, bool is_suspected) {
    agent *a = user;
    if (a->fence.status || !member_table_is_known(a, (uint32_t)rank)) return;
    record(a, is_suspected ? TRACE_MEMBER_SUSPECTED : TRACE_MEMBER_RECOVERED, rank);
    watches_notify_on_loop(a, is_suspected ? GW_MEMBER_SUSPECTED : GW_MEMBER_RECOVERED, rank);
}

static void coordinator_changed(void *user, int coordinator) {
    agent *a = user;
    (void)coordinator;
    if (a->fence.status || a->phase == AGENT_LEFT) return;
    leaving_coordinator_changed_on_loop(a);
    admission_check_on_loop(a);
}

// Of members whose end this worker could not decide: the likely cause of what fails here (LAUN-10).
static void report_failed_members(agent *a) {
    for (int rank = 0; rank < a->member_count; rank++) {
        if (!member_table_is_known(a, (uint32_t)rank)) continue;
        const char *why = membership_failed(a->membership->machine, rank);
        if (why) agent_notify_launcher(a, "lost", agent_member(a, rank)->worker.incarnation, why);
    }
}

static void fenced(void *user, const gw_error *why) {
    agent *a = user;
    report_failed_members(a);
    trace_record_text(TRACE_FENCED, a->observer.row, a->incarnation, why->status, why->text);
    agent_fence_on_loop(a, why);
}

gw_status member_changes_open_on_loop(agent *a, bool joins, gw_error *error) {
    membership_options machine = { .rank = a->rank,
                                   .incarnation = a->incarnation,
                                   .name = a->name,
                                   .addresses = agent_member(a, a->rank)->addresses,
                                   .joins = joins,
                                   .user = a,
                                   .joined = joined,
                                   .gone = gone,
                                   .suspected = suspected,
                                   .coordinator_changed = coordinator_changed,
                                   .fenced = fenced };
    const members_options options = { a->env, a->peers, machine };
    return members_open(options, &a->membership, error);
}
