// The one view of the members. docs/protocol/membership.md is the specification; src/membership decides, as a pure
// machine, and this file drives it over the sessions with peers.
//
// A member is one incarnation of a worker and keeps its rank for ever: ranks are assigned one after the other and never
// twice, and a member that is gone never returns. So views only grow, and two views that differ are merged by adding
// missing facts. The *coordinator* is the lowest present rank. The coordinator declares silent members dead and admits
// new members; other workers report to it.
//
// Ownership: texts are borrowed for the call. Threads: everything with the loop lock held. The callbacks are called
// inside turns of streams and timers, or from members_lost; they may call all of these functions except members_close.
#ifndef AGENT_MEMBERS_MEMBERS_H
#define AGENT_MEMBERS_MEMBERS_H

#include "membership/membership.h"
#include "session/peers.h"

// Kinds of messages from MEMBERS_KIND_FIRST to MEMBERS_KIND_LAST are given to members_received.
enum { MEMBERS_KIND_FIRST = MEMBERSHIP_HEARTBEAT, MEMBERS_KIND_LAST = 39 };

typedef struct members_options {
    env *env;
    peers *peers;
    membership_options machine;  // with its own |send|
} members_options;

typedef struct members {
    membership *machine;  // for its queries, and membership_add before the start

    // the file's own
    members_options options;
    timer tick;
    uint64_t *received_counts;  // the messages received from each peer until the last tick
    int count_limit;
} members;

gw_status members_open(members_options options, members **out, gw_error *error);
void members_close(members *m);
void members_start(members *m);  // watches members and sends heartbeats from now on
// See membership_admit.
gw_status members_admit(members *m, uint64_t incarnation, const char *name, const char *addresses,
                        int *out_rank, gw_error *error);

// Events of the sessions: a message of the kinds above (an error: it is malformed), and the loss of a peer. If the peer is
// lost with GW_FENCED, this worker is fenced.
gw_status members_received(members *m, int from, message *msg, gw_error *error);  // takes |msg|
void members_lost(members *m, int rank, const gw_error *why);

#endif
