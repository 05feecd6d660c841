#include "agent/member_table.h"

#include "agent/admission.h"
#include "agent/awaits.h"
#include "agent/deferred.h"
#include "agent/member_events.h"
#include "base/log.h"
#include "base/mem.h"

#include <stdio.h>

// ---- The members --------------------------------------------------------------------------------

static bool put_name(agent *a, int rank) {
    pthread_mutex_lock(&a->names);
    bool put = map_put_name(&a->ranks, agent_member(a, rank)->name, (void *)(intptr_t)(rank + 1));
    pthread_mutex_unlock(&a->names);
    return put;
}

int member_table_find(agent *a, const char *name) {
    pthread_mutex_lock(&a->names);
    int found = (int)(intptr_t)map_find_name(&a->ranks, name);
    pthread_mutex_unlock(&a->names);
    return found - 1;
}

void member_table_offer(agent *a, nearest *n) {
    map_entry *e;
    pthread_mutex_lock(&a->names);
    for (size_t i = 0; (e = map_next(&a->ranks, &i));) nearest_offer(n, e->name);
    pthread_mutex_unlock(&a->names);
}

bool member_table_is_known(const agent *a, uint32_t rank) {
    return rank < (uint32_t)a->member_count && a->members[rank]->known;
}

int member_table_coordinator(const agent *a) {
    return members_coordinator(a->membership);
}

void member_table_await_on_loop(agent *a, int rank, bool awaits) {
    if (a->membership && rank != a->rank) members_await(a->membership, rank, awaits);
}

// A name may be used again, with a larger rank: then it means the new member.
static bool is_newest(agent *a, int rank) {
    return member_table_find(a, agent_member(a, rank)->name) < rank;
}

static gw_status introduce(agent *a, const gw_worker *w, const char *addresses, gw_error *error) {
    if (!agent_add_member(a, w->rank))
        return error_set(error, GW_NO_MEMORY, "no memory for %s", w->name);
    member *m = agent_member(a, w->rank);
    snprintf(m->name, sizeof m->name, "%s", w->name);
    if (!m->addresses && !(m->addresses = mem_strdup(addresses)))
        return error_set(error, GW_NO_MEMORY, "no memory for %s", w->name);
    m->worker.incarnation = w->incarnation;
    if (is_newest(a, w->rank) && !put_name(a, w->rank))
        return error_set(error, GW_NO_MEMORY, "no memory for %s", w->name);
    m->lost = false;
    atomic_store_explicit(&m->known, true, memory_order_release);
    a->present_count++;
    return GW_OK;
}

gw_status member_table_add_self_on_loop(agent *a, const char *addresses, gw_error *error) {
    const gw_worker self = { .name = a->name, .rank = a->rank, .incarnation = a->incarnation };
    return introduce(a, &self, addresses, error);
}

static gw_status add_peer(agent *a, const gw_worker *w, const char *addresses, gw_error *error) {
    gw_status status = introduce(a, w, addresses, error);
    return status ? status
                  : peers_add(a->peers, w->rank, w->incarnation, w->name, addresses, error);
}

gw_status member_table_add_on_loop(agent *a, const gw_worker *w, const char *addresses,
                                   gw_error *error) {
    if (member_table_is_known(a, (uint32_t)w->rank)) return GW_OK;
    gw_status status = add_peer(a, w, addresses, error);
    return status ? status
                  : members_add(a->membership, w->rank, w->incarnation, w->name, addresses, error);
}

// ---- Events of members --------------------------------------------------------------------------

static void joined(void *user, int rank, uint64_t incarnation, const char *name,
                   const char *addresses) {
    agent *a = user;
    gw_error error;
    const gw_worker w = { .name = name, .rank = rank, .incarnation = incarnation };
    if (a->fence.status || member_table_is_known(a, (uint32_t)rank)) return;
    // A worker without an entry for a member could not handle messages about it.
    if (add_peer(a, &w, addresses, &error)) {
        log_line("%s leaves, since it cannot add another member: %s", a->name, error.text);
        agent_fence_on_loop(a, &error);
        return;
    }
    for (int i = 0; i < a->service_count; i++)
        if (a->services[i].service->joined) a->services[i].service->joined(a, rank);
    deferred_retry_on_loop(a);
    watches_notify_on_loop(a, GW_MEMBER_JOINED, rank);
}

void member_table_lose_on_loop(agent *a, int rank, bool left, const gw_error *why) {
    member *m = agent_member(a, rank);
    agent_member_lost(m, why);
    m->left = left;
    a->present_count--;
    deferred_drop_on_loop(a, rank);
    awaits_lost_on_loop(a, rank);
    for (int i = 0; i < a->service_count; i++)
        if (a->services[i].service->lost) a->services[i].service->lost(a, rank);
}

static void gone(void *user, int rank, bool left, const gw_error *why) {
    agent *a = user;
    if (a->fence.status || !member_table_is_known(a, (uint32_t)rank)) return;
    if (agent_member(a, rank)->lost) return;
    member_table_lose_on_loop(a, rank, left, why);
    if (!left)
        agent_notify_launcher(a, members_has_declared(a->membership, rank) ? "dead" : "lost",
                              agent_member(a, rank)->worker.incarnation, why->text);
    leaving_lost_on_loop(a, rank);
    watches_notify_on_loop(a, left ? GW_MEMBER_LEFT : GW_MEMBER_DIED, rank);
    if (a->joining) env_wake(a->env, a->joining);
}

static void suspected(void *user, int rank, bool is_suspected) {
    agent *a = user;
    if (a->fence.status || !member_table_is_known(a, (uint32_t)rank)) return;
    watches_notify_on_loop(a, is_suspected ? GW_MEMBER_SUSPECTED : GW_MEMBER_RECOVERED, rank);
}

static void coordinator_changed(void *user, int coordinator) {
    agent *a = user;
    (void)coordinator;
    if (a->fence.status || a->phase == AGENT_LEFT) return;
    leaving_coordinator_changed_on_loop(a);
    admission_check_on_loop(a);
}

static void fenced(void *user, const gw_error *why) {
    agent_fence_on_loop(user, why);
}

void member_table_peer_lost(void *user, int rank, const gw_error *why) {
    agent *a = user;
    if (a->membership) members_lost(a->membership, rank, why);
}

void member_table_process_ended_on_loop(agent *a, int rank, const gw_error *why) {
    if (a->phase == AGENT_LEFT || agent_member(a, rank)->lost) return;
    // MEM-12: its sent messages are read first, if it has sent any.
    if (!peers_received_count(a->peers, rank)) peers_lose(a->peers, rank, why);
}

// ---- Life ---------------------------------------------------------------------------------------

gw_status member_table_open_on_loop(agent *a, bool joins, gw_error *error) {
    members_options options = { .env = a->env,
                                .peers = a->peers,
                                .rank = a->rank,
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
    return members_open(options, &a->membership, error);
}

void member_table_close_on_loop(agent *a) {
    if (a->membership) members_close(a->membership);
    a->membership = NULL;
}
