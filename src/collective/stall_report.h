// Members that wait for others in a collective ask them where they are (GRP-19), and those that these wait for in
// other groups: for the line in the log after 10 s, and for the sentence of a deadline that has passed.
//
// Ownership: the service of groups has the inquiries that are under way. Threads: with the loop lock.
#ifndef COLLECTIVE_STALL_REPORT_H
#define COLLECTIVE_STALL_REPORT_H

#include "collective/run.h"

// For whom it waits: who has not entered, else whose values have not come.
void stall_name_missing(const run *r, char *out, size_t size);
// It has waited for long: asks, and writes a line.
void stall_log_on_loop(run *r);
// Its deadline has passed: asks, and reports that, unless it has ended by then.
void stall_report_late_on_loop(run *r);
// An abort of |key| has arrived: so do those whose deadlines had passed, and which it has not ended.
void stall_report_others_on_loop(gw_group *g, uint64_t key);

bool stall_received_on_loop(agent *a, int from, uint8_t kind, reader *in);
void stall_stop_on_loop(agent *a);  // all inquiries end without a word

#endif
