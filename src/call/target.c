// The target of a call, and lookups of workers.
#include "call/calls.h"

#include "agent/members/member_table.h"
#include "agent/state/traffic.h"

gw_target gw_to_name(const char *name) {
    return (gw_target){ .name = name, .rank = NO_RANK };
}

gw_target gw_to_rank(int64_t rank) {
    return (gw_target){ .rank = rank };
}

gw_target gw_to_worker(gw_worker worker) {
    return (gw_target){ .rank = worker.rank, .is_worker = true, .incarnation = worker.incarnation };
}

gw_target gw_to_rref(const gw_rref *rref) {
    return (gw_target){ .rref = (gw_rref *)rref, .rank = NO_RANK };
}

gw_status target_resolve(const agent *a, gw_target to, int *out_rank, gw_error *error) {
    const char *self = a->name;
    if (to.rref) {
        const target_class *target = calls_of(a)->target;
        if (target->agent_of(to.rref) != a)
            return error_set(
                error, GW_INVALID,
                "the reference belongs to another agent, or is the result of a call that failed");
        *out_rank = target->owner(to.rref);
        return GW_OK;
    }
    if (to.name) {
        *out_rank = member_table_find((agent *)a, to.name);
        if (*out_rank >= 0) return GW_OK;
        nearest n = nearest_to(to.name);
        member_table_offer((agent *)a, &n);
        return error_set(error, GW_NOT_FOUND, "%s has no worker named \"%.140s\"%s", self, to.name,
                         nearest_words(&n));
    }
    if (to.workers)
        return error_set(error, GW_INVALID,
                         "the target has several workers, but this function calls only one");
    if (to.rank == NO_RANK)
        return error_set(error, GW_INVALID, "the worker or reference given as the target is NULL");
    if (to.rank < 0 || to.rank >= a->member_count || !agent_member(a, (int)to.rank)->known)
        return error_set(error, GW_NOT_FOUND,
                         "%s knows no worker of rank %lld: the job has %d workers", self,
                         (long long)to.rank, a->member_count);
    if (to.is_worker && agent_member(a, (int)to.rank)->worker.incarnation != to.incarnation)
        return error_set(error, GW_NOT_FOUND,
                         "%s knows no such worker: rank %lld is another worker named %s", self,
                         (long long)to.rank, agent_member(a, (int)to.rank)->name);
    *out_rank = (int)to.rank;
    return GW_OK;
}

gw_worker gw_rpc_worker_with(gw_scope *s, gw_target to) {
    agent *a = agent_of(s);
    gw_error error;
    int rank;
    if (!a) return (gw_worker){ .name = "", .rank = -1 };
    if (target_resolve(a, to, &rank, &error)) {
        scope_fail_with(s, &error);
        return (gw_worker){ .name = "", .rank = -1 };
    }
    return agent_member(a, rank)->worker;
}

gw_worker gw_rpc_self(gw_scope *s) {
    agent *a = agent_of(s);
    return a ? agent_member(a, a->rank)->worker : (gw_worker){ .name = "", .rank = -1 };
}

int gw_rpc_world_size(gw_scope *s) {
    agent *a = agent_of(s);
    if (!a) return 1;
    return a->job ? a->present_count : a->world_size;
}

gw_rpc_stats gw_rpc_get_stats(gw_scope *s) {
    gw_rpc_stats out = { 0 };
    agent *a = agent_of(s);
    if (!a) return out;
    const calls *c = calls_of(a);
    env_enter(a->env);
    peers_stats p = a->peers ? peers_get_stats(a->peers) : a->final_stats;
    out = (gw_rpc_stats){
        .calls_made = c->made_count,
        .calls_served = c->served_count,
        .messages_sent = a->messages_sent,
        .messages_received = a->messages_received,
        .reconnects = p.reconnects,
        .replies_dropped = c->replies_dropped,
        .transport_count = p.transport_count,
        .protection = a->protection.secret
                          ? a->protection.secret->certificate ? "a certificate" : "a key"
                      : a->protection.insecure ? "nothing (insecure)"
                                               : "there are none",
    };
    for (int i = 0; i < p.transport_count; i++) {
        out.transports[i] = p.over[i];
        out.bytes_sent += p.over[i].bytes_sent;
        out.bytes_received += p.over[i].bytes_received;
    }
    env_leave(a->env);
    return out;
}

gw_peer_stats gw_rpc_get_peer_stats(gw_scope *s, gw_worker of) {
    gw_peer_stats out = { 0 };
    agent *a = agent_of(s);
    if (!a) return out;
    if (of.rank < 0 || of.rank >= a->member_count) {
        scope_fail(s, GW_NOT_FOUND, "gw_rpc_get_peer_stats: no worker has rank %d", of.rank);
        return out;
    }
    env_enter(a->env);
    out = traffic_with(a, of.rank);
    env_leave(a->env);
    return out;
}
