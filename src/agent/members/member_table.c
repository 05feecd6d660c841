#include "agent/members/member_table.h"

#include "agent/members/members.h"

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
    pthread_mutex_lock(&a->names);
    for (map_cursor e = { 0 }; map_next(&a->ranks, &e);) nearest_offer(n, e.name);
    pthread_mutex_unlock(&a->names);
}

bool member_table_is_known(const agent *a, uint32_t rank) {
    return rank < (uint32_t)a->member_count && a->members[rank]->known;
}

int member_table_coordinator(const agent *a) {
    return membership_coordinator(a->membership->machine);
}

void member_table_await_on_loop(agent *a, int rank, bool awaits) {
    if (a->membership && rank != a->rank) membership_await(a->membership->machine, rank, awaits);
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

gw_status member_table_add_peer_on_loop(agent *a, const gw_worker *w, const char *addresses,
                                        gw_error *error) {
    gw_status status = introduce(a, w, addresses, error);
    return status ? status
                  : peers_add(a->peers, w->rank, w->incarnation, w->name, addresses, error);
}

gw_status member_table_add_on_loop(agent *a, const gw_worker *w, const char *addresses,
                                   gw_error *error) {
    if (member_table_is_known(a, (uint32_t)w->rank)) return GW_OK;
    gw_status status = member_table_add_peer_on_loop(a, w, addresses, error);
    return status ? status
                  : membership_add(a->membership->machine, w->rank, w->incarnation, w->name,
                                   addresses, error);
}

// ---- Ends ---------------------------------------------------------------------------------------

void member_table_peer_lost(void *user, int rank, const gw_error *why) {
    agent *a = user;
    if (a->membership) members_lost(a->membership, rank, why);
}

void member_table_process_ended_on_loop(agent *a, int rank, const gw_error *why) {
    if (a->phase == AGENT_LEFT || agent_member(a, rank)->lost) return;
    // MEM-12: its sent messages are read first, if it has sent any.
    if (!peers_received_count(a->peers, rank)) peers_lose(a->peers, rank, why);
}

void member_table_close_on_loop(agent *a) {
    if (a->membership) members_close(a->membership);
    a->membership = NULL;
}
