// Who is who.
#include "call/calls.h"

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
    if (!a) return 0;
    return a->group ? a->there_count : a->world_size;
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
