// Aborts: a collective that cannot succeed ends with an error on all members. docs/protocol/groups.md is the
// specification, rules GRP-4 to GRP-7: a member reports to the leader, which queries all members and sends one abort
// to all.
//
// Threads: with the loop lock.
#ifndef COLLECTIVE_ABORT_H
#define COLLECTIVE_ABORT_H

#include "collective/group.h"

enum { ABORT_ABOUT_BYTES = 18 };  // the size of what abort_put_about writes

// GRP-6.
typedef struct collective_abort {
    uint64_t key, number,
        next;        // the abort ends the numbers from |number| to below |next|, which may be none
    uint64_t all;    // all members have entered the numbers below
    uint64_t ahead;  // no member has entered this number or a later one
    uint64_t
        failed;  // a member has left a scope of the call of this number; 0: the number itself has failed
    uint8_t level;  // the level of that scope in the path of the call
    gw_error error;
} collective_abort;

// Numbers that have ended before this member has called them.
typedef struct ended_ahead {
    struct ended_ahead *next;
    ended_numbers numbers;
    bool is_skipped;  // GRP-22: no call of this member is one of these
    gw_error error;
} ended_ahead;

// abort_message.c
gw_abort abort_identity(const gw_group *g, uint64_t key, uint64_t number);
message *abort_open_message(gw_group *g, uint8_t kind, uint64_t key, uint64_t number);
void abort_send_on_loop(gw_group *g, int rank, message *m);
// |ab| is set for an abort, |error| for all kinds but a query.
void abort_send_to_others_on_loop(gw_group *g, uint8_t kind, run_place about,
                                  const collective_abort *ab, const gw_error *error);
void abort_put_about(bytes *out, const report_about *x);

// GRP-5: a query of the member of index |from| that was answered before the group was opened here: this member waits for
// the abort. False for malformed fields.
bool abort_queried_before_on_loop(gw_group *g, int from, const group_header *h, reader *in);

// abort_member.c
void abort_apply_on_loop(gw_group *g, const collective_abort *ab);
// Whether |number| is one of those that the last aborts have ended.
bool abort_has_ended(const sequence *t, uint64_t number);
void abort_testify_on_loop(gw_group *g, const report_about *about, testimony *out);
// |to|: the index of the member that sent the query.
void abort_send_answer_on_loop(gw_group *g, int to, const report_about *about);

// call_place.c: a member calls nothing more in a scope.
void call_note_left_on_loop(gw_group *g, sequence *t, const collective_abort *ab);

// abort_report.c
// NULL if an abort has ended what |about| names, or if allocation failed and the group has broken.
report *abort_keep_report_on_loop(gw_group *g, const report_about *about, const gw_error *error);
void abort_send_report_on_loop(gw_group *g, const report *x);
// Drops reports about numbers that |ab| has ended.
void abort_drop_reports_on_loop(gw_group *g, const collective_abort *ab);
// GRP-6: this member calls nothing more in the scope at |level| of those in which a call has failed.
void abort_report_left_on_loop(gw_group *g, const sequence *t, int level);

// abort_leader.c
void abort_query_next_on_loop(gw_group *g);  // about the first report, if this member leads
void abort_take_report_on_loop(gw_group *g, const report_about *about, const gw_error *error);
bool abort_take_answer_on_loop(gw_group *g, int from, const group_header *h, reader *in);

#endif
