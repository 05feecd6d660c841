// The messages by which owner, parent and child agree on forks.
#include "reference/references.h"

#include "base/failpoint.h"

static void send_two(agent *a, int to, reference_kind kind, uint64_t x, uint64_t y) {
    message *m = agent_message_on_loop(a, kind);
    if (!m) return;
    bytes_put_u64(&m->head, x);
    bytes_put_u64(&m->head, y);
    agent_send_on_loop(a, to, m, false, NULL);
}

gw_status fork_request_on_loop(gw_rref *r) {
    if (!map_put(&references_of(r->agent)->pending, r->fork, r)) return GW_NO_MEMORY;
    failpoint("fork_request");
    send_two(r->agent, r->owner, KIND_FORK_REQUEST, r->id, r->fork);
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
