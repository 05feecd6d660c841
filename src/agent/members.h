// The one view of the members. docs/protocol/membership.md is the specification; src/membership decides, as a pure
// machine, and this file drives it over the sessions with peers.
//
// A member is one incarnation of a worker and has its rank for ever: ranks are assigned one after the other and never
// again, and a member that is gone never returns. So views only grow, and two that differ are merged by adding missing
// facts. The *coordinator* is the lowest present rank. It declares silent members dead and admits new members; others
// report to it.
//
// Ownership: texts are borrowed for the call. Threads: everything with the loop lock held. The callbacks are called
// inside turns of streams and timers, or from members_lost; they may call all of these functions but members_close.
#ifndef AGENT_MEMBERS_H
#define AGENT_MEMBERS_H

#include "session/peers.h"

typedef struct members members;

// Kinds of messages from MEMBERS_KIND_FIRST to MEMBERS_KIND_LAST are given to members_received.
enum { MEMBERS_KIND_FIRST = 32, MEMBERS_KIND_LAST = 39 };

typedef struct members_options {
    env *env;
    peers *peers;
    int rank;  // of this worker
    uint64_t incarnation;
    const char *name, *addresses;
    bool joins;  // a group that is running: it has only itself and its coordinator when it starts

    void *user;
    // Another member, before any other callback for it.
    void (*joined)(void *user, int rank, uint64_t incarnation, const char *name,
                   const char *addresses);
    // Once per member, when it has left or failed. Nothing is received from it any more.
    void (*gone)(void *user, int rank, bool left, const gw_error *why);
    void (*suspected)(void *user, int rank,
                      bool is_suspected);  // only for the program's information
    void (*coordinator_changed)(void *user, int coordinator);
    // The others continue without this worker: it has been declared dead, or is cut off from most of
    // them. |gone| is not called any more.
    void (*fenced)(void *user, const gw_error *why);
} members_options;

gw_status members_open(members_options options, members **out, gw_error *error);
void members_close(members *m);

// Adds a member that is known from the start; |joined| is not called. A worker that |joins| adds its coordinator so, and
// gets all others, also those that are gone, by |joined|, all before members_has_joined returns true; then this worker is
// a voter, too.
gw_status members_add(members *m, int rank, uint64_t incarnation, const char *name,
                      const char *addresses, gw_error *error);
void members_start(members *m);  // watches members and sends heartbeats from now on
bool members_has_joined(const members *m);

// Coordinator only (else WRONG_STATE): assigns a rank to a new member and notifies all. WRONG_STATE as well while this
// worker is not in contact with a quorum, or has become coordinator a moment ago: try again; DUPLICATE if a present
// member has the name; LIMIT. The same incarnation gets the same rank. |joined| is called for it, as for any other, once
// all are notified.
gw_status members_admit(members *m, uint64_t incarnation, const char *name, const char *addresses,
                        int *out_rank, gw_error *error);

// Events of the sessions: a message of the kinds above (an error: it is malformed), and the loss of a peer. If the peer is
// lost with GW_FENCED, this worker is fenced.
gw_status members_received(members *m, int from, message *msg, gw_error *error);  // takes |msg|
void members_lost(members *m, int rank, const gw_error *why);

// This worker awaits a reply from |rank| (or no longer): its link is watched meanwhile. Counted, so that each call may
// use it independently.
void members_await(members *m, int rank, bool awaits);

// Whether this worker has declared |rank| dead, since it was silent.
bool members_has_declared(const members *m, int rank);

// Whether the others may have continued without this worker (MEM-20).
bool members_is_in_doubt(const members *m);

int members_limit(const members *m);        // all ranks are below
int members_coordinator(const members *m);  // the lowest present rank, this worker's included
uint64_t
members_epoch(const members *m);  // joins and ends so far: grows, and is the same for equal views

#endif
