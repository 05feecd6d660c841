#include "agent/dispatch/dispatch.h"

#include "agent/leaving/awaits.h"
#include "agent/leaving/leave.h"
#include "agent/messages/kinds.h"

static gw_status dispatch(agent *a, int from, message *m, gw_error *error) {
    if (leaving_is_kind(m->kind)) return leaving_received_on_loop(a, from, m, error);
    if (await_is_kind(m->kind)) return awaits_received_on_loop(a, from, m, error);
    const service *s = agent_service_of_kind(a, m->kind);
    if (s) return s->received(a, from, m, error);
    gw_status status = error_set(error, GW_PROTOCOL, "a message has the unknown kind %d", m->kind);
    message_release(m);
    return status;
}

// A peer that sends a malformed message is lost, since the meaning of its messages is unknown.
void dispatch_protocol_error_on_loop(agent *a, int rank, const gw_error *why) {
    gw_error error;
    error_set(&error, GW_PROTOCOL, "%s (rank %d) broke the protocol: %s",
              agent_member(a, rank)->name, rank, why->text);
    if (rank != a->rank && a->peers) peers_lose(a->peers, rank, &error);
}

void dispatch_on_loop(agent *a, int from, message *m) {
    gw_error error;
    if (dispatch(a, from, m, &error)) dispatch_protocol_error_on_loop(a, from, &error);
}
