// The path to a worker: its connection and its lending together.
#include "agent/state/agent.h"
#include "lend/lend.h"
#include "session/peers.h"

#include <string.h>

// Of a connection by the transport of this name.
static const char *how_protected(const agent *a, const char *name) {
    for (const transport *const *t = a->env->transports; name && *t; t++) {
        if (strcmp((*t)->name, name) != 0 || (*t)->is_private) continue;
        return a->protection.secret ? ", encrypted" : a->protection.insecure ? ", insecure" : "";
    }
    return "";
}

const char *gw_rpc_path(gw_scope *s, gw_worker to) {
    agent *a = agent_of(s);
    if (!a) return "";
    if (to.rank < 0 || to.rank >= a->member_count) {
        scope_fail(s, GW_NOT_FOUND, "gw_rpc_path: no worker has rank %d", to.rank);
        return "";
    }
    if (to.rank == a->rank) return "this worker itself";
    env_enter(a->env);
    const char *transport = a->peers ? peers_transport(a->peers, to.rank) : NULL;
    char lending[LEND_DESCRIPTION_BYTES];
    lend_describe_on_loop(a, to.rank, lending);
    char reason[PEERS_REASON_BYTES] = "";
    if (a->peers) peers_why_not_better(a->peers, to.rank, reason);
    const char *text =
        gw_format(s, "%s%s; large tensors: %s%s%s", transport ? transport : "not connected now",
                  how_protected(a, transport), lending, reason[0] ? "; not " : "", reason);
    env_leave(a->env);
    return text;
}
