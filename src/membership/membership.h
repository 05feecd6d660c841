// Membership: each worker decides from the messages that it receives which members exist, and all workers get the same
// view. docs/protocol/membership.md is the specification.
//
// A pure machine: its caller passes the time, received messages and certain losses; it calls
// the functions of its options, and does no I/O. agent/members/members.c drives it.
//
//     membership_open(options, &ms, &error);
//     membership_add(ms, 1, incarnation, "w1", addresses, &error);  // each member known from the start
//     membership_start(ms, now_ns);
//     membership_note_receive(ms, rank, now_ns);          // bytes have been received from |rank|
//     due_ns = membership_tick(ms, now_ns);               // call again by then
//
// Ownership: texts are borrowed for the call. Threads: with the loop lock held. The functions below call the functions
// of the options at their end; these may call all functions below except membership_close.
#ifndef MEMBERSHIP_MEMBERSHIP_H
#define MEMBERSHIP_MEMBERSHIP_H

#include "membership/membership_wire.h"

typedef struct membership membership;

// T_close and T_dead of docs/protocol/membership.md follow from these.
#define MEMBERSHIP_TICK_NS INT64_C(500000000)
#define MEMBERSHIP_QUICK_TICK_NS INT64_C(100000000)  // while a member is suspected
#define MEMBERSHIP_HEARTBEAT_NS                                                                    \
    INT64_C(500000000)  // silence until a heartbeat is sent: one a second
#define MEMBERSHIP_TO_COORDINATOR_NS INT64_C(2000000000)  // the same, to the coordinator
#define MEMBERSHIP_SUSPECT_NS INT64_C(4000000000)
#define MEMBERSHIP_DEAD_NS INT64_C(6200000000)
#define MEMBERSHIP_CUT_OFF_NS INT64_C(3500000000)  // more without contact: fenced
#define MEMBERSHIP_GRACE_NS INT64_C(24000000000)   // more for a member that has sent nothing yet
#define MEMBERSHIP_FRESH_NS                                                                        \
    INT64_C(2000000000)  // a probe is answered yes for a member that was received from so long ago
#define MEMBERSHIP_PROBE_NS INT64_C(1500000000)  // or within this time after the probe
#define MEMBERSHIP_ROUND_NS INT64_C(2000000000)  // until a probe is repeated
#define MEMBERSHIP_LATE_NS INT64_C(1000000000)   // if a tick is later: this worker was stopped

typedef struct membership_options {
    int rank;
    uint64_t incarnation;
    const char *name, *addresses;
    bool joins;  // a group that is running: it has only itself and its coordinator when it starts

    void *user;
    void (*send)(void *user, int rank, message *m);  // takes |m|
    // Another member, before any other callback for it.
    void (*joined)(void *user, const member_fact *member);
    // Once per member, when it has left or failed. Nothing is received from it any more.
    void (*gone)(void *user, int rank, bool left, const gw_error *why);
    // Only for the program's information.
    void (*suspected)(void *user, int rank, bool is_suspected);
    void (*coordinator_changed)(void *user, int coordinator);
    // The others continue without this worker: it has been declared dead, or is cut off from most of
    // them. The last call.
    void (*fenced)(void *user, const gw_error *why);
} membership_options;

gw_status membership_open(membership_options options, membership **out, gw_error *error);
void membership_close(membership *ms);

// Adds a member that is known from the start; |joined| is not called. A worker that |joins| adds its coordinator so, and
// gets all others, also those that are gone, by |joined|, all before membership_has_joined returns true; then this worker
// is a voter, too.
gw_status membership_add(membership *ms, int rank, uint64_t incarnation, const char *name,
                         const char *addresses, gw_error *error);
void membership_start(membership *ms, int64_t now_ns);
// Coordinator only (else WRONG_STATE): assigns a rank to a new member and notifies all. WRONG_STATE as well while this
// worker is not in contact with a quorum, or has become coordinator a moment ago: try again; DUPLICATE if a present
// member has the name; LIMIT. The same incarnation gets the same rank. |joined| is called for it, as for any other, once
// all are notified.
gw_status membership_admit(membership *ms, uint64_t incarnation, const char *name,
                           const char *addresses, int64_t now_ns, int *out_rank, gw_error *error);

// ---- Evidence -----------------------------------------------------------------------------------
void membership_note_receive(membership *ms, int rank, int64_t now_ns);
gw_status membership_received(membership *ms, int from, const message *m, int64_t now_ns,
                              gw_error *error);
// |rank| has certainly ended. With GW_FENCED: this worker is fenced.
void membership_lost(membership *ms, int rank, bool left, const gw_error *why, int64_t now_ns);
// This worker awaits a reply from |rank| (or no longer): its link is watched meanwhile. Counted, so that each call may
// use it independently.
void membership_await(membership *ms, int rank, bool awaits);
int64_t membership_tick(membership *ms, int64_t now_ns);  // returns when to call it next

// ---- Queries ------------------------------------------------------------------------------------
int membership_limit(const membership *ms);  // all ranks are below
int membership_coordinator(
    const membership *ms);  // the lowest present rank, this worker's included
uint64_t membership_incarnation(const membership *ms, int rank);  // 0: unknown
bool membership_is_gone(const membership *ms, int rank);
bool membership_has_declared(const membership *ms, int rank);  // it dead, for its silence
// The error text of a member that is *failed*: it has ended while this worker was in doubt (MEM-20). NULL: it is not.
const char *membership_failed(const membership *ms, int rank);
// Whether it was present when this worker first received it in a view.
bool membership_was_present(const membership *ms, int rank);
bool membership_is_fenced(const membership *ms);
// Whether the others may have continued without this worker (MEM-20).
bool membership_is_in_doubt(const membership *ms);
bool membership_has_joined(const membership *ms);  // it has all members, and is active (MEM-22)
uint64_t membership_epoch(
    const membership *ms);  // joins and ends so far: grows, and is the same for equal views
uint64_t membership_digest(const membership *ms);

#endif
