#include "agent/state/traffic.h"

gw_peer_stats traffic_with(const agent *a, int rank) {
    const member_traffic *t = &agent_member(a, rank)->traffic;
    peer_traffic p = a->peers ? peers_get_traffic(a->peers, rank) : t->session;
    return (gw_peer_stats){
        .calls_made = t->calls_made,
        .calls_served = t->calls_served,
        .messages_sent = t->messages_sent,
        .messages_received = t->messages_received,
        .bytes_sent = p.bytes_sent,
        .bytes_received = p.bytes_received,
        .shared_sent = t->shared_sent,
        .shared_received = t->shared_received,
        .reconnects = p.reconnects,
        .queued_bytes = p.queued_bytes,
        .queued_bytes_max = p.queued_bytes_max,
        .lent_bytes = t->lent_bytes,
        .waited_us = (uint64_t)t->waited_ns / 1000,
        .transport = a->peers ? peers_transport(a->peers, rank) : NULL,
    };
}

void traffic_keep_on_loop(agent *a) {
    for (int rank = 0; rank < a->member_count; rank++) {
        peer_traffic *kept = &agent_member(a, rank)->traffic.session;
        *kept = peers_get_traffic(a->peers, rank);
        kept->queued_bytes = 0;
    }
}
