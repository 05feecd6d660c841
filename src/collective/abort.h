// Aborts: how a collective that cannot end well ends with an error for all members. docs/protocol/groups.md is the
// specification, rules GRP-4 to GRP-7: a member reports to the leader, which asks all members, and sends one abort to all.
//
// Threads: with the loop lock.
#ifndef COLLECTIVE_ABORT_H
#define COLLECTIVE_ABORT_H

#include "collective/group.h"

enum { LEADER = 0 };  // the index of the member that leads

// GRP-6.
typedef struct collective_abort {
    uint64_t key, number, next;
    uint64_t all;    // all members have entered what is below it
    uint64_t ahead;  // no member has entered this number
    bool ends_few;   // what is from |next| on goes on at members that have entered it
    gw_error error;
} collective_abort;

// abort_message.c
gw_abort abort_identity(const gw_group *g, uint64_t key, uint64_t number);
message *abort_open_message(gw_group *g, uint8_t kind, uint64_t key, uint64_t number);
void abort_send_on_loop(gw_group *g, int rank, message *m);
// |ab|: of an abort; |error|: of all but a query.
void abort_send_to_others_on_loop(gw_group *g, uint8_t kind, run_place about,
                                  const collective_abort *ab, const gw_error *error);

// abort_member.c
void abort_apply_on_loop(gw_group *g, const collective_abort *ab);
// Whether a report of |number| is about what the last abort has ended, or one that is kept for later ends.
bool abort_has_ended(const sequence *t, uint64_t number);
// Of a key that is not final: a report of |number| is answered by an abort of its own.
bool abort_leaves(const collective_abort *ab, uint64_t number);
void abort_testify_on_loop(gw_group *g, uint64_t key, uint64_t number, testimony *out);
void abort_send_answer_on_loop(gw_group *g, uint64_t key, uint64_t number);

// abort_leader.c
void abort_take_report_on_loop(gw_group *g, uint64_t key, uint64_t number, report_cause cause,
                               const gw_error *error);
bool abort_take_answer_on_loop(gw_group *g, int from, const group_header *h, reader *in);

#endif
