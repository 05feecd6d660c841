// Aborts: a collective that cannot succeed ends with an error on all members. docs/protocol/groups.md is the
// specification, rules GRP-4 to GRP-7: a member reports to the leader, which queries all members and sends one abort
// to all.
//
// Threads: with the loop lock.
#ifndef COLLECTIVE_ABORT_ABORT_H
#define COLLECTIVE_ABORT_ABORT_H

#include "collective/group/group.h"

enum { ABORT_ABOUT_BYTES = 18 };  // the size of what abort_put_about writes

// abort_message.c
void abort_send_on_loop(gw_group *g, int rank, message *m);
// |ab| is set for an abort, |error| for all kinds but a query.
void abort_send_to_others_on_loop(gw_group *g, uint8_t kind, run_place about,
                                  const collective_abort *ab, const gw_error *error);
void abort_put_about(bytes *out, const report_about *x);
bool abort_read_about(reader *in, const group_header *h, report_about *out);
void abort_send_break_on_loop(gw_group *g, int rank, const gw_error *error);

// GRP-5: a query of the member of index |from| that was answered before the group was opened here: this member waits for
// the abort. False for malformed fields.
bool abort_queried_before_on_loop(gw_group *g, int from, const group_header *h, reader *in);

// abort_member.c
void abort_apply_on_loop(gw_group *g, const collective_abort *ab);
void abort_testify_on_loop(gw_group *g, const report_about *about, testimony *out);
// |to|: the index of the member that sent the query.
void abort_send_answer_on_loop(gw_group *g, int to, const report_about *about);

// abort_report.c
// NULL if an abort has ended what |about| names, or if allocation failed and the group has broken.
report *abort_keep_report_on_loop(gw_group *g, const report_about *about, const gw_error *error);
void abort_send_report_on_loop(gw_group *g, const report *x);
// Drops reports about numbers that |ab| has ended.
void abort_drop_reports_on_loop(gw_group *g, const collective_abort *ab);

// abort_leader.c
void abort_query_next_on_loop(gw_group *g);  // about the first report, if this member leads
void abort_take_report_on_loop(gw_group *g, const report_about *about, const gw_error *error);
bool abort_take_answer_on_loop(gw_group *g, int from, const group_header *h, reader *in);
// GRP-7: a member has left in order; |g->left_count| counts the leading members that have.
void group_member_left_on_loop(gw_group *g, int rank);

// abort_refuse.c
// Replies to |from|, which has entered a collective of a group that was closed here.
void group_refuse_closed_on_loop(agent *a, int from, int leader, const group_header *h);
void group_refuse_list_on_loop(gw_group *g, int from);  // |from| has another list of members: GRP-9

// abort_faults.c
extern const group_faults abort_faults;

// abort_receive.c
bool abort_received_on_loop(gw_group *g, int from, uint8_t kind, const group_header *h, reader *in);
// Replies that this worker has not opened the group.
void abort_answer_unknown_on_loop(agent *a, int to, const group_header *h);

#endif
