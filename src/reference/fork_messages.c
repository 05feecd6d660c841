// The messages by which owner, parent and child agree on forks.
#include "reference/references.h"

#include "base/failpoint.h"

gw_status fork_request_on_loop(gw_rref *r) {
    if (!map_put(&references_of(r->agent)->pending, r->fork, r)) return GW_NO_MEMORY;
    failpoint("fork_request");
    message *m = agent_message_on_loop(r->agent, KIND_FORK_REQUEST);
    if (!m) return GW_OK;
    bytes_put_u64(&m->head, r->id);
    bytes_put_u64(&m->head, r->fork);
    agent_send_on_loop(r->agent, r->owner, m, false, NULL);
    return GW_OK;
}

void fork_accept_on_loop(agent *a, int parent, uint64_t fork) {
    message *m = agent_message_on_loop(a, KIND_CHILD_ACCEPT);
    if (!m) return;
    bytes_put_u64(&m->head, fork);
    agent_send_on_loop(a, parent, m, false, NULL);
}

void fork_acknowledge_on_loop(agent *a, int to, uint64_t fork, gw_status status) {
    message *m = agent_message_on_loop(a, KIND_FORK_ACK);
    if (!m) return;
    bytes_put_u64(&m->head, fork);
    bytes_put_u8(&m->head, (uint8_t)status);
    agent_send_on_loop(a, to, m, false, NULL);
}
