// Members: who is alive, as one truth. docs/protocol/membership.md is the specification;
// src/membership decides, as a pure machine, and this drives it over the sessions with peers.
//
// A member is one incarnation of a worker and has its rank for ever: ranks are given out one after
// the other and never again, and who is gone stays gone. So views only grow, and two that differ
// are merged by adding what is missing. The *coordinator* is the lowest rank that is there. It
// declares the silent dead and admits new members; others report to it.
//
// Ownership: texts are borrowed for the call. Threads: everything with the env's role held. The
// callbacks are called inside turns of streams and timers, or from members_lost; they may call all
// of these but members_close.
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
    bool joins;  // a group that is running: knows itself and its coordinator alone when it starts

    void *user;
    // Another member, before anything else is heard of it.
    void (*joined)(void *user, int rank, uint64_t incarnation, const char *name,
                   const char *addresses);
    // Once per member, when it has left or failed. Nothing is received from it any more.
    void (*gone)(void *user, int rank, bool left, const gw_error *why);
    void (*suspected)(void *user, int rank, bool is_suspected);  // for the program's eyes only
    void (*coordinator_changed)(void *user, int coordinator);
    // The others go on without this worker: it has been declared dead, or is cut off from most of
    // them. |gone| is not called any more.
    void (*fenced)(void *user, const gw_error *why);
} members_options;

gw_status members_open(members_options options, members **out, gw_error *error);
void members_close(members *m);

// A member that is known from the start; |joined| is not called. A worker that |joins| knows its
// coordinator, and learns of all others, also of those who are gone, by |joined|, the last of them
// before members_has_joined says so, which also says that this worker is a voter.
gw_status members_add(members *m, int rank, uint64_t incarnation, const char *name,
                      const char *addresses, gw_error *error);
void members_start(members *m);  // watches and beats from now on
bool members_has_joined(const members *m);

// Coordinator only (else WRONG_STATE): gives a new member its rank and tells all. WRONG_STATE as
// well while this worker does not hear most of the others, or has become coordinator a moment ago:
// try again; DUPLICATE if a member that is there has the name;
// LIMIT. The same incarnation gets the same rank. |joined| is called for it, as for any other, once
// all are told.
gw_status members_admit(members *m, uint64_t incarnation, const char *name, const char *addresses,
                        int *out_rank, gw_error *error);

// What peers say: a message of the kinds above (an error: the peer cannot be understood), and that
// a peer is lost. If it is lost with GW_FENCED, it is this worker that is out.
gw_status members_received(members *m, int from, message *msg, gw_error *error);  // takes |msg|
void members_lost(members *m, int rank, const gw_error *why);

// This worker awaits something from |rank| (or no more): its link is watched meanwhile. Counted, so
// that each call may say so for itself.
void members_await(members *m, int rank, bool awaits);

// Whether it is this worker that has declared |rank| dead, since it was silent.
bool members_has_declared(const members *m, int rank);

// Whether the others may have gone on without this worker (MEM-20).
bool members_is_in_doubt(const members *m);

int members_limit(const members *m);        // all ranks are below
int members_coordinator(const members *m);  // the lowest rank that is there, this worker's included
uint64_t
members_epoch(const members *m);  // joins and ends so far: grows, and is the same for equal views

#endif
