// Stall reports: a member that waits in a collective queries the members that have not entered (GRP-19), and the
// members that these wait for in other groups. The member sends these queries for a log line after 10 s, and for the
// error of a deadline that has passed.
//
// Ownership: the service of groups owns the inquiries under way. Threads: with the loop lock.
#ifndef COLLECTIVE_RUN_STALL_REPORT_H
#define COLLECTIVE_RUN_STALL_REPORT_H

#include "collective/run/run.h"

// The run has waited for long: queries, and logs a line.
void stall_log_on_loop(run *r);
// Its deadline has passed: queries, and reports the deadline, unless the run has ended by then.
void stall_report_late_on_loop(run *r);
// An abort of |key| has arrived: runs whose deadlines have passed, and which it has not ended, query next.
void stall_report_others_on_loop(gw_group *g, uint64_t key);

bool stall_received_on_loop(agent *a, int from, uint8_t kind, reader *in);
void stall_stop_on_loop(agent *a);  // all inquiries end without output

#endif
